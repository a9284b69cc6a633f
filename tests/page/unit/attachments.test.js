// Which files a message takes, when a pasted text becomes one, and that they go with their message.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../../../src/penstock/chat/page/net/outbox.js";
import { chosen, isLong } from "../../../src/penstock/chat/page/state/attachments.js";
import { EMPTY, reduce } from "../../../src/penstock/chat/page/state/reducer.js";

const FILE = { id: "f1", name: "a.png", media_type: "image/png", size: 7 };
const many = (/** @type {number} */ count) => Array.from({ length: count }, (_, i) => ({ name: `${i}`, size: 1 }));

test("a pasted text is long by its lines or by its characters", () => {
  assert.equal(isLong("a\n".repeat(59)), false);
  assert.equal(isLong("a\n".repeat(60)), true);
  assert.equal(isLong("a".repeat(6000)), false);
  assert.equal(isLong("a".repeat(6001)), true);
});

test("a message takes ten files, none that is empty or too large, and says why", () => {
  assert.deepEqual(chosen(many(3), 0, 100), [many(3), ""]);
  assert.deepEqual(chosen(many(3), 8, 100), [many(2), "A message has at most 10 files."]);
  assert.deepEqual(chosen(many(3), 10, 100), [[], "A message has at most 10 files."]);
  const [taken, why] = chosen([{ name: "big", size: 101 }, { name: "none", size: 0 }, ...many(1)], 0, 100);
  assert.deepEqual(taken, many(1));
  assert.match(why, /^big has 101 bytes: 100 bytes is the most\. none is empty\.$/);
});

test("files go with their message: when it is sent, after a reload, and when it is tried again", async () => {
  /** @type {any[]} */
  const sent = [];
  /** @type {Record<string, string>} */
  const kept = {};
  const parts = {
    prompt: async (/** @type {any[]} */ ...given) => {
      sent.push(given);
      return new Promise(() => {});
    },
    read: (/** @type {string} */ name) => kept[name] ?? "",
    write: (/** @type {string} */ name, /** @type {string} */ text) => {
      kept[name] = text;
    },
  };
  new Outbox(/** @type {any} */ (parts)).send("c", "k", "", undefined, [FILE]);
  const again = new Outbox(/** @type {any} */ (parts));
  assert.deepEqual(again.of("c"), [{ key: "k", text: "", state: "sending", why: undefined, attachments: [FILE] }]);
  again.wake();
  assert.deepEqual(sent, [
    ["c", "", "k", undefined, [FILE]],
    ["c", "", "k", undefined, [FILE]],
  ]);
});

test("a message on its way, and then its turn, have the files", () => {
  let chat = reduce(EMPTY, { type: "local_sending", key: "k", text: "", attachments: [FILE] });
  assert.deepEqual(chat.unsent[0].attachments, [FILE]);
  const frame = { type: /** @type {const} */ ("prompted"), turn: 1, prompt: "", key: "k", attachments: [FILE] };
  chat = reduce(chat, { ...frame, by: "person", asked_at: 1, person: "owner" });
  assert.deepEqual([chat.unsent, chat.turns[0].attachments], [[], [FILE]]);
});
