// What an agent may do, and what has to be allowed for it to go on.

import assert from "node:assert/strict";
import { test } from "node:test";

import { chosenLevel, levelFor, levelOf } from "../../../src/penstock/chat/page/text/permissions.js";

const level = (allow) => ({ allow, label: allow, text: "" });
const FULL = { allows: ["read", "ask", "edits", "all", "own"].map(level), default_allow: "ask" };
const NO_EDITS = { allows: ["ask", "all"].map(level), default_allow: "ask" };
const ONE = { allows: [level("own")], default_allow: "own" };
const ALL = { allows: ["read", "all"].map(level), default_allow: "all" };

test("a level that an agent does not have is the one below it", () => {
  assert.equal(levelOf(FULL, "edits").allow, "edits");
  assert.equal(levelOf(NO_EDITS, "edits").allow, "ask");
  assert.equal(levelOf(ONE, "all").allow, "own");
  assert.equal(levelOf(undefined, "all"), undefined);
  assert.equal(levelOf(FULL, "own").allow, "own");
  for (const [agent, found] of [
    [FULL, "ask"],
    [ONE, "own"],
    [ALL, "all"],
  ]) {
    assert.equal(levelOf(agent, "default").allow, found, "what holds if nothing was chosen");
  }
  assert.equal(levelOf(ALL, "own").allow, "all", "it does the same");
});

test("the level to go on at covers what was refused, and is above that of the chat", () => {
  const next = (turn, allow, agent = FULL) => levelFor(turn, allow, agent)?.allow;
  assert.equal(next({ refused: 1, needs_allow: "edits" }, "default"), "edits");
  assert.equal(next({ refused: 1, needs_allow: "all" }, "default"), "all");
  assert.equal(next({ refused: 1, needs_allow: "edits" }, "edits"), "all");
  assert.equal(next({ refused: 1, needs_allow: "edits" }, "default", NO_EDITS), "all");
  assert.equal(next({ refused: 2 }, "default"), "edits");
  assert.equal(next({ refused: 2 }, "edits"), "all");
  assert.equal(next({ refused: 2 }, "own"), "edits");
  assert.equal(next({ refused: 2 }, "read"), "edits");
});

test("there is nothing to allow if nothing was refused, or no level is left", () => {
  assert.equal(levelFor({ refused: 0 }, "default", FULL), undefined);
  assert.equal(levelFor({ refused: 2, rejected: 2 }, "default", FULL), undefined);
  assert.equal(levelFor({ refused: 2, rejected: 1 }, "default", FULL)?.allow, "edits");
  assert.equal(levelFor({}, "default", FULL), undefined);
  assert.equal(levelFor({ refused: 1 }, "all", FULL), undefined);
  assert.equal(levelFor({ refused: 1 }, "default", ONE), undefined);
  assert.equal(levelFor({ refused: 1 }, "default", undefined), undefined);
});

const ALLOWS = { answers: "all", reads: "read", asks: "ask", edits: "edits", own: "own", all: "all" };
const of = (...kinds) => ({
  allows: kinds.map((kind) => ({ allow: ALLOWS[kind], kind, label: kind, text: "" })),
});
const CLAUDE = of("asks", "edits", "all");
const OPENCODE = of("own", "edits", "all");
const GEMINI = of("reads", "edits", "all");
const PI = of("all");

test("the level of a person is the same for whatever agent, and not kept in silence", () => {
  const comesTo = (agent, chosen) => {
    const { level, isKept } = chosenLevel(agent, chosen);
    return [level?.kind, isKept];
  };
  for (const chosen of [undefined, "asks", "nonsense", "constructor"]) {
    assert.deepEqual(comesTo(CLAUDE, chosen), ["asks", true]);
    assert.deepEqual(comesTo(OPENCODE, chosen), ["own", false]);
    assert.deepEqual(comesTo(GEMINI, chosen), ["reads", false]);
    assert.deepEqual(comesTo(PI, chosen), ["all", false]);
    assert.deepEqual(comesTo(of("answers"), chosen), ["answers", true]);
  }
  assert.deepEqual(comesTo(PI, "edits"), ["all", false]);
  assert.deepEqual(comesTo(of("own"), "edits"), ["own", false]);
  for (const agent of [CLAUDE, OPENCODE, GEMINI]) {
    assert.deepEqual(comesTo(agent, "edits"), ["edits", true]);
    assert.deepEqual(comesTo(agent, "all"), ["all", true]);
  }
  assert.deepEqual(comesTo(CLAUDE, "reads"), ["asks", true], "nothing is done unasked");
  assert.deepEqual(comesTo(OPENCODE, "reads"), ["own", false]);
  assert.deepEqual(comesTo(OPENCODE, "own"), ["own", true], "chosen as such");
  assert.deepEqual(comesTo(CLAUDE, "own"), ["asks", true], "one agent's settings are none of another's");
  assert.deepEqual(comesTo(of("own"), "all"), ["own", true], "it does less than was allowed");
  assert.deepEqual(comesTo({ allows: [] }, "asks"), [undefined, true]);
});
