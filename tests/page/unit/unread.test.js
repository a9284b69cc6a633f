// What is unread: by the marks that the server keeps, and by those that it does not have yet.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, requests, reset, settle } from "./browser.mjs";
import { state } from "../../../src/penstock/chat/page/state/store.js";

const NAME = "penstock.read.ana";
const OLD_NAME = "penstock.seen";
const chat = (number, more = {}) => ({
  id: `c${number}`,
  turns: 1,
  read: 1,
  state: "idle",
  used_at: 100 - number,
  ...more,
});
const kept = (name = NAME) => JSON.parse(window.localStorage.getItem(name) ?? "{}");
const sent = () => requests.filter(({ path }) => path === "/api/read").map(({ body }) => body.chats);
const completed = (...turns) => ({ turns: turns.map((turn) => ({ turn, state: "completed" })) });

/** The module as a page has it that was just loaded. */
let unread;
let loads = 0;
async function load() {
  unread = await import(`../../../src/penstock/chat/page/state/unread.js?${(loads += 1)}`);
}

const unreadOnes = () => state.chats.filter(unread.isUnread).map(({ id }) => id);
const show = (...chats) => {
  Object.assign(state, { chats, isWhole: true });
  unread.markSeen();
};

beforeEach(async () => {
  reset();
  state.about = { person: { name: "ana", role: "member" } };
  answers.set("POST /api/read", () => 204);
  state.route = { page: "home" };
  state.chats = [];
  await load();
});

test("a chat is unread that ended a turn after the one that was read, on whichever device", async () => {
  show(chat(1, { turns: 2 }), chat(2), chat(3, { turns: 3, state: "running" }), chat(4, { turns: 0, read: 0 }));
  assert.deepEqual(unreadOnes(), ["c1"]);
  show(chat(1, { turns: 2, read: 2 }), chat(2, { turns: 2 }));
  assert.deepEqual(unreadOnes(), ["c2"]);
  show(chat(2, { turns: 2, read: undefined })); // of a machine with an older version
  assert.deepEqual(unreadOnes(), []);
  await settle();
  assert.deepEqual(sent(), []);
});

test("what is open is read, up to the last turn that has ended, and each mark is sent once", async () => {
  state.route = { page: "chat", id: "c1" };
  show(chat(1, { turns: 4, read: 1, state: "running" }));
  unread.markThreadSeen("c1", { turns: [...completed(1, 2, 4).turns, { turn: 3, state: "running" }] });
  await settle();
  assert.deepEqual(sent(), [{ c1: 2 }]);
  unread.markThreadSeen("c1", completed(1, 2, 3, 4));
  show(chat(1, { turns: 4, read: 2 }));
  await settle();
  assert.deepEqual(sent().slice(1), [{ c1: 4 }]);
  assert.deepEqual(kept(), {});
  state.route = { page: "home" };
  assert.deepEqual(unreadOnes(), [], "the list does not have it yet");
  show(chat(1, { turns: 4, read: 4 }));
  show(chat(1, { turns: 5, read: 4 }));
  assert.deepEqual(unreadOnes(), ["c1"]);
});

test("a page that nobody looks at marks nothing", async () => {
  document.hidden = true;
  state.route = { page: "chat", id: "c1" };
  show(chat(1, { turns: 2 }));
  unread.markThreadSeen("c1", completed(1, 2));
  await settle();
  assert.deepEqual([sent(), unreadOnes()], [[], ["c1"]]);
});

test("a mark without a connection is kept by the browser, and sent by the next page", async () => {
  answers.set("POST /api/read", () => new Error("offline"));
  state.route = { page: "chat", id: "c1" };
  show(chat(1, { turns: 2 }));
  await settle();
  assert.deepEqual(kept(), { c1: 2 });
  await load();
  answers.set("POST /api/read", () => 204);
  state.route = { page: "home" };
  show(chat(1, { turns: 2 }));
  assert.deepEqual(unreadOnes(), []);
  await settle();
  assert.deepEqual([sent().at(-1), kept()], [{ c1: 2 }, {}]);
});

test("what one person could not send is never sent for another who signs in after them", async () => {
  answers.set("POST /api/read", () => new Error("offline"));
  state.route = { page: "chat", id: "c1" };
  show(chat(1, { turns: 2 }));
  await settle();
  const [before, ana] = [sent().length, state.about];
  state.about = { person: { name: "ben", role: "member" } };
  state.route = { page: "home" };
  answers.set("POST /api/read", () => 204);
  show(chat(1, { turns: 2 }), chat(2, { turns: 2 }));
  unread.markThreadSeen("c2", completed(2));
  await settle();
  assert.deepEqual([sent().slice(before), unreadOnes()], [[{ c2: 2 }], ["c1"]]);
  assert.deepEqual(kept(), { c1: 2 });
  state.about = ana;
  show(chat(1, { turns: 2 }));
  await settle();
  assert.deepEqual([sent().at(-1), kept()], [{ c1: 2 }, {}]);
});

test("marks that are being sent when another person signs in stay with the one who has read", async () => {
  let answer;
  answers.set("POST /api/read", () => new Promise((resolve) => (answer = resolve)));
  state.route = { page: "chat", id: "c1" };
  show(chat(1, { turns: 2 }));
  await settle();
  state.about = { person: { name: "ben", role: "member" } };
  state.route = { page: "home" };
  show(chat(1, { turns: 2 }));
  answer(new Response(null, { status: 204 }));
  await settle();
  assert.deepEqual([unreadOnes(), sent().length], [["c1"], 1]);
});

test("what another tab has read counts here at once, and is never taken back by it", async () => {
  answers.set("POST /api/read", () => new Error("offline"));
  unread.listenForSeen();
  const tell = (text) => {
    window.localStorage.setItem(NAME, text);
    window.dispatchEvent(Object.assign(new Event("storage"), { key: NAME }));
  };
  show(chat(1, { turns: 4 }), chat(2, { turns: 4 }));
  tell('{"c1":4}');
  assert.deepEqual(unreadOnes(), ["c2"]);
  unread.markThreadSeen("c2", completed(4));
  tell('{"c1":3}');
  for (const text of ["of no page", "null", "7", '{"c1":"x","c2":-1,"c3":1.5}']) tell(text);
  assert.deepEqual(unreadOnes(), []);
});

test("what an older page has noted is handed over, and then removed", async () => {
  const chats = { c1: { turns: 3, idle: true }, c2: { turns: 3, idle: false }, c3: null };
  window.localStorage.setItem(OLD_NAME, JSON.stringify({ since: 5, chats }));
  answers.set("POST /api/read", () => new Error("offline"));
  show(chat(1));
  await settle();
  assert.deepEqual(kept(OLD_NAME).since, 5, "nothing is lost without a connection");
  answers.set("POST /api/read", () => 204);
  show(chat(1));
  await settle();
  assert.deepEqual([sent().at(-1), kept(OLD_NAME)], [{ c1: 3, c2: 2 }, {}]);

  // A page before that kept the chats alone, and any number of them.
  const many = Array.from({ length: 1200 }, (_, number) => [`c${number}`, { turns: 1, idle: true }]);
  window.localStorage.setItem(OLD_NAME, JSON.stringify(Object.fromEntries(many)));
  const before = sent().length;
  show(chat(1));
  await settle();
  const sizes = sent().map((marks) => Object.keys(marks).length);
  assert.deepEqual(sizes.slice(before), [500, 500, 200]);
});
