// At which machine a new chat works, and what is offered for it there.

import assert from "node:assert/strict";
import { test } from "node:test";

import { machineFor, machinesOf, offerOf } from "../../../src/penstock/chat/page/state/machines.js";

const ROOTS = ["/srv"];
const node = (name, about = {}, more = {}) => ({
  name,
  is_here: false,
  is_live: true,
  seen_seconds: 1,
  about: { version: "1", roots: ROOTS, agents: ["x"], slots: 4, busy: 0, ...about },
  chats: [],
  ...more,
});
const nameOf = (...given) => machineFor(...given)?.name;

test("by default a chat works at the machine of the page, or at the freest one", () => {
  const a = node("a", { busy: 3 });
  const b = node("b", { busy: 1 });
  const web = node("web", { roots: [], agents: [], slots: 0 }, { is_here: true });
  assert.equal(nameOf([a, b, web]), "b");
  assert.equal(nameOf([{ ...a, is_here: true }, b]), "a");
  assert.equal(nameOf([a, b, web], "a"), "a");
  assert.equal(nameOf([web]), undefined);
});

test("a machine that is away or has no agents is not chosen, and one that is shown already stays", () => {
  const away = node("a", {}, { is_live: false });
  const empty = node("b", { agents: [] });
  const free = node("c");
  assert.equal(nameOf([away, empty, free], "a"), "c");
  assert.equal(nameOf([away, empty]), undefined);
  assert.equal(nameOf([away, empty, free], "c", "a"), "a");
});

test("machines that only serve the page, or have been away for long, are not listed", () => {
  const long = node("long", {}, { is_live: false, seen_seconds: 2 * 24 * 60 * 60 });
  const away = node("away", {}, { is_live: false });
  const found = machinesOf([long, away, node("web", { roots: [] }), node("a")]);
  assert.deepEqual(
    found.map((it) => it.name),
    ["away", "a"],
  );
});

test("another machine offers its own agents, models and directories", () => {
  const level = { allow: "ask", label: "Asks first", text: "" };
  const agents = [
    { name: "here", installed: true, available: true, allows: [level], models: ["local"] },
    { name: "both", installed: false, available: false, allows: [level], install: "npm install both", reason: "none" },
  ];
  const chats = [
    { home: "b", cwd: "/srv/used" },
    { home: "b", cwd: "/gone" },
    { home: "a", cwd: "/srv/of-a" },
  ];
  const about = { agents: ["both", "own"], models: { both: ["m1", "m2"] }, trusted: ["/srv", "/srv/trusted"] };
  const offer = offerOf({ agents, chats, workspaces: null }, node("b", about));
  const facts = offer.agents.map((it) => [it.name, it.available, it.allows.length, it.models, it.reason]);
  assert.deepEqual(facts, [
    ["both", true, 1, ["m1", "m2"], null],
    ["own", true, 3, [], null],
    ["here", false, 1, ["local"], null],
  ]);
  assert.deepEqual(offer.workspaces.roots, [{ path: "/srv", trusted: true }]);
  assert.deepEqual(offer.workspaces.recent, [
    { path: "/srv/used", trusted: false },
    { path: "/srv/trusted", trusted: true },
  ]);
});

test("one machine offers what the lists have; if it is one of several, they only explain what it lacks", () => {
  const workspaces = { roots: [{ path: "/elsewhere", trusted: true }], recent: [] };
  const blocked = { name: "y", installed: false, available: false, reason: "its file is not trusted" };
  const app = {
    agents: [{ name: "x", available: true }, blocked, { name: "z", available: true }],
    chats: [],
    workspaces,
  };
  assert.deepEqual(offerOf(app, undefined), { machine: undefined, agents: app.agents, workspaces });
  const { agents, workspaces: own } = offerOf(app, node("a", {}, { is_here: true }));
  const facts = agents.map((it) => [it.name, it.available, it.reason]);
  assert.deepEqual(facts, [
    ["x", true, null],
    ["y", false, blocked.reason],
    ["z", false, null],
  ]);
  assert.deepEqual(own.roots, [{ path: "/srv", trusted: false }]);
});
