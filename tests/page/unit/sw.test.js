// The service worker: what it shows of a call, and that it answers nothing but a page that cannot be loaded.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

/** @type {Record<string, (event: any) => void>} */
const listeners = {};
/** @type {any[]} */
let pages = [];
/** @type {any[]} */
let shown = [];
/** @type {string[]} */
let opened = [];

globalThis.self = /** @type {any} */ ({
  addEventListener: (/** @type {string} */ name, /** @type {any} */ call) => (listeners[name] = call),
  skipWaiting: () => {},
  registration: { showNotification: async (/** @type {any[]} */ ...it) => void shown.push(it) },
  clients: { matchAll: async () => pages, openWindow: async (/** @type {string} */ path) => void opened.push(path) },
});
await import("../../../src/penstock/chat/page/sw.js");

beforeEach(() => {
  [pages, shown, opened] = [[], [], []];
});

/**
 * Let something happen, and wait for what it does.
 *
 * @param {string} name
 * @param {any} event
 */
async function happen(name, event) {
  /** @type {Promise<any> | undefined} */
  let work;
  listeners[name]({
    ...event,
    waitUntil: (/** @type {any} */ it) => (work = it),
    respondWith: (/** @type {any} */ it) => (work = it),
  });
  return work;
}

const pushed = (/** @type {any} */ value) => happen("push", { data: { json: () => value } });

test("a call is shown with the text of the server, and replaces the one before of the same chat", async () => {
  await pushed({ text: "claude asks in shop", chat: "c1" });
  const [text, { tag, data }] = shown[0];
  assert.deepEqual([text, tag, data], ["claude asks in shop", "penstock/c1", { chat: "c1" }]);
});

test("nobody is called who looks at the page; a page in the background is not looked at", async () => {
  pages = [{ visibilityState: "visible", focused: true }];
  await pushed({ text: "claude asks in shop", chat: "c1" });
  assert.deepEqual(shown, []);
  pages = [{ visibilityState: "hidden", focused: false }];
  await pushed({ text: "claude asks in shop", chat: "c1" });
  assert.equal(shown.length, 1);
});

test("what is no call of the server is shown as one, and leads nowhere", async () => {
  await pushed({ text: "x".repeat(5000), chat: "../../evil" });
  assert.equal(shown[0][0].length, 200);
  assert.deepEqual(shown[0][1].data, { chat: "" });
  await happen("push", { data: null });
  assert.equal(shown[1][0], "A chat wants you");
});

test("a click opens the chat, in the page that is open if there is one", async () => {
  const notification = { close: () => {}, data: { chat: "c1" } };
  await happen("notificationclick", { notification });
  assert.deepEqual(opened, ["/chats/c1"]);
  /** @type {any[]} */
  const said = [];
  pages = [{ focus: async () => {}, postMessage: (/** @type {any} */ it) => said.push(it) }];
  await happen("notificationclick", { notification });
  assert.deepEqual([opened.length, said], [1, [{ open: "/chats/c1" }]]);
});

test("only a page that cannot be loaded is answered, by a sentence", async () => {
  globalThis.fetch = async () => {
    throw new TypeError("offline");
  };
  assert.equal(await happen("fetch", { request: { mode: "cors" } }), undefined);
  const answer = await happen("fetch", { request: { mode: "navigate" } });
  assert.equal(answer.status, 503);
  assert.match(answer.headers.get("Content-Type"), /^text\/plain/);
  assert.match(await answer.text(), /^Penstock cannot be reached/);
});
