// What this browser notes of the chats that were seen: right, and bounded.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./browser.mjs";
import { state } from "../../../src/penstock/chat/page/state/store.js";
import { isUnread, listenForSeen, markSeen, markThreadSeen } from "../../../src/penstock/chat/page/state/unread.js";

const NAME = "penstock.seen";
const chat = (number, more = {}) => ({ id: `c${number}`, turns: 1, state: "idle", used_at: 100_000 - number, ...more });
const text = () => window.localStorage.getItem(NAME) ?? "";
const show = (chats, isWhole = true) => {
  Object.assign(state, { chats: chats.sort((a, b) => b.used_at - a.used_at), isWhole });
  markSeen();
};

test("of 10,000 chats few are noted, and each that goes on is unread until it is opened", () => {
  // What an older page kept is taken over: all but c7 were seen.
  const chats = Array.from({ length: 10_000 }, (_, number) => chat(number));
  const seen = chats.filter(({ id }) => id !== "c7").map(({ id }) => [id, { turns: 1, idle: true }]);
  window.localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(seen)));
  show(chats.slice(0, 200), false);
  show([...chats]);
  assert.ok(text().length < 40_000, `${text().length} characters`);
  assert.deepEqual(
    chats.filter(isUnread).map(({ id }) => id),
    ["c7"],
  );

  // An old one and a new one go on.
  chats[9000] = chat(9000, { turns: 2, used_at: 200_000 });
  chats[3] = chat(3, { turns: 2, used_at: 200_001 });
  show([...chats]);
  assert.deepEqual(
    chats.filter(isUnread).map(({ id }) => id),
    ["c3", "c7", "c9000"],
  );
  state.route = { page: "chat", id: "c9000" };
  markSeen();
  state.route = { page: "chat", id: "c3" };
  markThreadSeen("c3", { turns: [{ turn: 2, state: "completed" }] });
  state.route = { page: "home" };
  markSeen();
  assert.deepEqual(
    chats.filter(isUnread).map(({ id }) => id),
    ["c7"],
  );

  // Those before them are deleted: what is no longer noted stays seen.
  const left = chats.filter(({ id }) => Number(id.slice(1)) > 450);
  show([...left]);
  assert.deepEqual(left.filter(isUnread), []);
  assert.ok(text().length < 40_000);
});

test("what another tab has noted counts here at once, and is kept; what is noted here is never taken back by it", () => {
  state.route = { page: "home" };
  const chats = [chat(1, { turns: 3 }), chat(2, { turns: 3 })];
  window.localStorage.clear();
  show(chats, true);
  show([chat(1, { turns: 4, used_at: 400_000 }), chat(2, { turns: 4, used_at: 400_001 })]);
  assert.deepEqual(state.chats.map(isUnread), [true, true]);
  listenForSeen();
  const seen = (turns) => JSON.stringify({ since: 0, chats: { c1: { turns, idle: true } } });
  const tell = (newText) => {
    window.localStorage.setItem(NAME, newText);
    window.dispatchEvent(Object.assign(new Event("storage"), { key: NAME }));
  };
  tell(seen(4)); // c2 is the first in the list
  assert.deepEqual(state.chats.map(isUnread), [true, false]);
  state.route = { page: "chat", id: "c2" };
  markThreadSeen("c2", { turns: [{ turn: 4, state: "completed" }] });
  state.route = { page: "home" };
  tell(seen(3)); // of a tab that lags behind
  assert.deepEqual(state.chats.map(isUnread), [false, false]);
  markSeen();
  assert.deepEqual(JSON.parse(text()).chats.c1, { turns: 4, idle: true });
  tell("of no page");
  assert.deepEqual(state.chats.map(isUnread), [false, false]);
});

test("nothing is written while nothing changes: another tab may have noted more", () => {
  window.localStorage.setItem(NAME, "of another tab");
  markSeen();
  assert.equal(text(), "of another tab");
  state.route = { page: "chat", id: "c9999" };
  show([chat(9999, { turns: 5, used_at: 300_000 })]);
  assert.notEqual(text(), "of another tab");
});
