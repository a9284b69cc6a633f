// The versions of a message, in the chats that begin before it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { versionsOf } from "../../../src/penstock/chat/page/text/versions.js";

const chat = (id, created_at, origin, turns = 2) => ({
  id,
  created_at,
  turns,
  origin: origin ? { chat: origin[0], turn: origin[1], conversation: null } : null,
});
const names = (chats, ...of) => versionsOf(chats, ...of).map((it) => `${it.chat}${it.turn}`);

test("a message has the versions of all chats that begin before it, the oldest first", () => {
  const chats = [chat("c", 3, ["a", 2]), chat("b", 2, ["a", 2]), chat("a", 1), chat("d", 4, ["a", 1])];
  for (const of of [
    ["a", 2],
    ["b", 1],
    ["c", 1],
  ])
    assert.deepEqual(names(chats, ...of), ["a2", "b1", "c1"]);
  assert.deepEqual(names(chats, "d", 1), ["a1", "d1"]);
  for (const of of [
    ["b", 2],
    ["a", 3],
    ["x", 1],
  ])
    assert.deepEqual(names(chats, ...of), []);
  assert.deepEqual(versionsOf(null, "a", 1), []);
});

test("a version of a version is one of the first message, also if a chat between is gone", () => {
  const chats = [chat("a", 1), chat("b", 2, ["a", 2]), chat("c", 3, ["b", 1])];
  assert.deepEqual(names(chats, "c", 1), ["a2", "b1", "c1"]);
  assert.deepEqual(names([chat("c", 3, ["b", 1]), chat("e", 4, ["b", 1])], "e", 1), ["c1", "e1"]);
  assert.deepEqual(names([chat("c", 3, ["b", 1])], "c", 1), []);
});

test("what has no message yet is no version, and origins in a circle end", () => {
  assert.deepEqual(names([chat("a", 1), chat("b", 2, ["a", 1], 0)], "a", 1), []);
  assert.deepEqual(names([chat("a", 1), chat("b", 2, ["a", 3])], "b", 1), []); // a summary: the other has no such message
  const circle = [chat("a", 1, ["b", 1]), chat("b", 2, ["a", 1]), chat("s", 3, ["s", 1])];
  for (const { id } of circle) assert.ok(names(circle, id, 1).length <= 3);
});
