// What waits for a person: the title, and whom a notification calls, with a browser that notes what it was told to show.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { reset, settle } from "./browser.mjs";
import {
  groupByDirectory,
  groupsOf,
  inListOrder,
  isByDirectory,
  windowTitle,
} from "../../../src/penstock/chat/page/state/attention.js";
import {
  beginNotifications,
  callFor,
  isUndecided,
  newsOf,
  notifying,
  setNotifying,
} from "../../../src/penstock/chat/page/state/notifications.js";
import { state } from "../../../src/penstock/chat/page/state/store.js";

const chat = (id, more = {}) => ({
  ...{ id, agent: "codex", title: `about ${id}`, turns: 1, state: "idle", asks: false, held: 0, used_at: 1 },
  ...{ cwd: "/srv", pinned: false, archived: false },
  ...more,
});
const run = (id, state) => ({ id, kind: "loop", title: id, path: "/x", state, note: "", used_at: 1 });

/** Notifications that are on the screen. */
let screen = [];
let answer = "granted";
let held = [];

class Notified extends EventTarget {
  static permission = "default";
  static async requestPermission() {
    return (Notified.permission = answer);
  }

  constructor(title, options) {
    super();
    Object.assign(this, options, { title });
    screen = [...screen.filter((it) => it.tag !== this.tag), this];
  }

  close() {
    screen = screen.filter((it) => it !== this);
  }
}

const locks = {
  request(name, options, use) {
    const lock = { name };
    held.push(lock);
    return Promise.resolve(use(lock)).then(() => held.splice(held.indexOf(lock), 1));
  },
  query: async () => ({ held: [...held] }),
};

const titles = () => screen.map(({ title, body }) => `${title}: ${body}`);
const opened = [];
let isFocused = false;

beforeEach(() => {
  reset();
  Object.assign(state, { chats: [], runs: [], route: { page: "home" } });
  Object.assign(Notified, { permission: "granted" });
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  globalThis.Notification = window.Notification = Notified;
  window.focus = () => {};
  document.hasFocus = () => isFocused;
  [screen, answer, held, isFocused] = [[], "granted", [], false];
  opened.length = 0;
  beginNotifications((it) => opened.push(it.id));
});

const look = (isHere) => {
  isFocused = isHere;
  window.dispatchEvent(new Event(isHere ? "focus" : "blur"));
  return settle();
};

test("the number in the title is of those that ask, and of no others", () => {
  state.chats = [chat("a", { asks: true, state: "running" }), chat("b")];
  state.runs = [run("loop-a", "asks"), run("loop-b", "running")];
  assert.equal(windowTitle(), "(2) Penstock");
  state.route = { page: "chat", id: "a" };
  assert.equal(windowTitle(), "(2) about a – Penstock");
});

test("the list has what asks first, then what works, then by the days of the calendar", () => {
  const now = new Date(2026, 10, 26, 0, 30).getTime();
  const before = (hours) => now - hours * 3600 * 1000;
  const list = [
    chat("older", { used_at: before(24 * 40) }),
    chat("yesterday", { used_at: before(1) }),
    chat("today", { used_at: before(0.4) }),
    chat("works", { state: "running", used_at: before(30) }),
    chat("asks", { state: "running", asks: true, used_at: before(24 * 9) }),
    chat("held", { state: "queued", held: 2, used_at: before(24 * 5) }),
    chat("waits", { state: "queued", used_at: before(2) }),
    chat("away", { state: "queued", is_away: true, used_at: before(24 * 20) }),
    { ...run("loop", "asks"), used_at: before(3) },
  ];
  assert.deepEqual(
    groupsOf(list, { now }).map(({ name, items }) => [name, items.map(({ id }) => id)]),
    [
      ["Asks you", ["loop", "asks"]],
      ["Working", ["waits", "works"]],
      ["Today", ["today"]],
      ["Yesterday", ["yesterday"]],
      ["Last 7 days", ["held"]],
      ["Last 30 days", ["away"]],
      ["Older", ["older"]],
    ],
  );
});

const named = (groups) => groups.map(({ name, items }) => [name, items.map(({ id }) => id)]);

test("what is pinned stands before the rest, and what is archived after it, unless it asks or works", () => {
  const list = [
    chat("old", { pinned: true, used_at: 1 }),
    chat("works", { pinned: true, state: "running", used_at: 2 }),
    chat("asks", { pinned: true, asks: true, state: "running" }),
    chat("gone", { pinned: true, archived: true }),
    chat("busy", { archived: true, state: "running" }),
    chat("asked", { archived: true, asks: true }),
    chat("now", { used_at: Date.now() }),
  ];
  assert.deepEqual(named(groupsOf(list)), [
    ["Asks you", ["asks", "asked"]],
    ["Pinned", ["works", "old"]],
    ["Working", ["busy"]],
    ["Today", ["now"]],
    ["Archived", ["gone"]],
  ]);
  Object.assign(state, { chats: list });
  assert.equal(
    inListOrder().some(({ id }) => id === "gone"),
    false,
    "keys do not go where the list is folded",
  );
});

test("by directory each has its group, named by the end of its path that no other has", () => {
  const list = [
    chat("a", { cwd: "/srv/shop", used_at: 5 }),
    chat("b", { cwd: "/old/shop", used_at: 4, state: "running" }),
    chat("c", { cwd: "/srv/site", used_at: 3 }),
    chat("d", { cwd: "/srv/shop", used_at: 2 }),
    chat("e", { cwd: "/", used_at: 1 }),
    { ...run("doc", "idle"), kind: "document", path: "/srv/site/notes.md" },
    chat("f", { cwd: "/srv/shop", asks: true }),
    chat("g", { cwd: "/srv/shop", archived: true }),
  ];
  assert.deepEqual(named(groupsOf(list, { byDirectory: true })), [
    ["Asks you", ["f"]],
    ["srv/shop", ["a", "d"]],
    ["old/shop", ["b"]],
    ["site", ["c", "doc"]],
    ["/", ["e"]],
    ["Archived", ["g"]],
  ]);
});

test("many directories are named as few are, and one whose path is the end of another by all of its path", () => {
  const paths = ["/shop", "/srv/shop", "/srv/a/shop", ...Array.from({ length: 3000 }, (_, i) => `/home/${i}/app`)];
  const list = paths.map((cwd, i) => chat(`c${i}`, { cwd, used_at: 5000 - i }));
  const names = groupsOf(list, { byDirectory: true }).map(({ name }) => name);
  assert.deepEqual(names.slice(0, 5), ["/shop", "srv/shop", "a/shop", "0/app", "1/app"]);
  assert.equal(new Set(names).size, paths.length);
});

test("how the list is grouped is kept", () => {
  groupByDirectory(true);
  assert.equal(isByDirectory(), true);
  groupByDirectory(false);
  assert.equal(isByDirectory(), false);
});

test("what is news: a question, and an end that leaves nothing at work", () => {
  const working = { state: "running" };
  const cases = [
    [undefined, chat("a", { asks: true, ...working }), "asks"],
    [chat("a", working), chat("a", { asks: true, ...working }), "asks"],
    [chat("a", { asks: true, ...working }), chat("a", { asks: true, ...working }), null],
    [chat("a", working), chat("a"), "ended"],
    [chat("a"), chat("a", { turns: 2 }), "ended"],
    [chat("a"), chat("a"), null],
    [undefined, chat("a"), null],
    [chat("a", working), chat("a", { state: "queued" }), null],
    [chat("a", working), chat("a", { state: "queued", held: 1 }), "ended"],
    [chat("a", { state: "queued", held: 1 }), chat("a", { state: "queued", held: 1 }), null],
    [run("l", "running"), run("l", "asks"), "asks"],
    [run("l", "asks"), run("l", "running"), null],
    [run("l", "running"), run("l", "idle"), "ended"],
  ];
  for (const [before, now, news] of cases) assert.equal(newsOf(before, now), news, JSON.stringify([before, now]));
});

test("nobody is called before somebody decided, and the decision is asked for once", async () => {
  Notified.permission = "default";
  assert.deepEqual([notifying(), isUndecided()], ["off", true]);
  await callFor([chat("a")], [chat("a", { asks: true })]);
  assert.deepEqual(screen, []);
  await setNotifying(false);
  assert.deepEqual([notifying(), isUndecided(), Notified.permission], ["off", false, "default"]);
  await setNotifying(true);
  assert.deepEqual([notifying(), titles().length], ["on", 1]); // what it looks like
  answer = "denied";
  await setNotifying(true);
  assert.equal(notifying(), "blocked");
});

test("a person who looks elsewhere is called by agent and title, and once however many tabs there are", async () => {
  await setNotifying(true);
  screen = [];
  const now = [chat("a", { asks: true, state: "running", title: "a\u202e\nb" }), run("loop-a", "idle")];
  for (let tab = 0; tab < 3; tab++) await callFor([chat("a"), run("loop-a", "running")], now);
  assert.deepEqual(titles(), ["codex asks you: a b", "A loop has ended its turn: loop-a"]);
  screen[0].dispatchEvent(new Event("click"));
  assert.deepEqual([opened, titles()], [["a"], ["A loop has ended its turn: loop-a"]]);
});

test("a person at any tab is not called", async () => {
  await setNotifying(true);
  screen = [];
  await look(true);
  await callFor([chat("a")], [chat("a", { asks: true })]);
  assert.deepEqual(screen, []);
  await look(false);
  await callFor([chat("b")], [chat("b", { asks: true })]);
  assert.deepEqual(titles(), ["codex asks you: about b"]);
});

test("a call is withdrawn once it was answered elsewhere, the chat is gone, or a person looks at it", async () => {
  await setNotifying(true);
  screen = [];
  const asking = [chat("a", { asks: true }), chat("b", { asks: true }), chat("c", { asks: true })];
  await callFor([], asking);
  assert.equal(screen.length, 3);
  await callFor(asking, [chat("a", { state: "running" }), asking[2]]);
  assert.deepEqual(titles(), ["codex asks you: about c"]);
  state.route = { page: "chat", id: "c" };
  await look(true);
  assert.deepEqual(screen, []);
});

test("a browser that refuses to notify says so, and fails nothing", async () => {
  globalThis.Notification = window.Notification = class {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor() {
      throw new TypeError("Illegal constructor");
    }
  };
  await setNotifying(true);
  assert.equal(notifying(), "unsupported");
});
