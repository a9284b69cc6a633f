// What the page says.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  atLimit,
  canGoOn,
  connectionText,
  isLocal,
  outcomeText,
  refusedTexts,
  sentence,
} from "../../../src/penstock/chat/page/text/copy.js";
import { day, dayAndClock, fullTime } from "../../../src/penstock/chat/page/text/format.js";

test("this machine has many names", () => {
  for (const host of ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "chat.localhost"]) assert.ok(isLocal(host), host);
  for (const host of ["localhost.example.org", "10.0.0.1", "127.0.0.1.nip.io", "laptop", "[::2]"])
    assert.ok(!isLocal(host), host);
});

test("this machine is never offline: its server does not run, once that is sure", () => {
  const local = { host: "127.0.0.1", online: false };
  assert.match(connectionText({ ...local, attempts: 1 }), /^The connection is cut/);
  assert.match(connectionText({ ...local, attempts: 3, reason: "no database" }), /^Penstock answers: no database\./);
  assert.match(connectionText({ ...local, attempts: 3 }), /^Penstock is not running.*`penstock serve`/);
  const far = { host: "chat.example.org", attempts: 9 };
  assert.match(connectionText({ ...far, online: false }), /^You are offline/);
  assert.match(connectionText({ ...far, online: true }), /^The connection is cut/);
});

test("a reply that met the model's limit can be gone on with", () => {
  const turn = { outcome: "error", cause: "length", reason: "the model stopped at its output limit" };
  assert.ok(atLimit(turn));
  assert.equal(outcomeText(turn), "It stopped at the model's output limit.");
  assert.ok(!atLimit({ ...turn, outcome: "ok" }));
  assert.ok(canGoOn({ ...turn, steps: 0 }, false));
  assert.ok(canGoOn({ outcome: "cut_off", steps: 1 }, true));
  assert.ok(!canGoOn({ outcome: "cut_off", steps: 1 }, false), "the agent does not know what it did");
  assert.ok(!canGoOn({ outcome: "cut_off", steps: 0 }, true), "there is nothing to go on from");
  assert.ok(!canGoOn({ outcome: "cancelled", steps: 1 }, true));
  assert.ok(!atLimit({ outcome: "error", reason: "the disk is full" }));
  assert.equal(outcomeText({ outcome: "error", reason: "the disk is full" }), "It failed: the disk is full");
});

test("a turn that failed says the cause, and until when a limit lasts", () => {
  const failed = { outcome: "error", reason: "429 quota" };
  assert.equal(outcomeText({ ...failed, cause: "auth" }), "The agent is not signed in: 429 quota");
  const today = new Date().setHours(23, 59, 0, 0);
  const text = outcomeText({ ...failed, cause: "usage_limit", resets_at: today });
  assert.match(text, /^The usage limit is reached until (23:59|11:59).*: 429 quota$/);
  assert.equal(outcomeText({ outcome: "error", cause: "agent" }), "It failed.");
  assert.equal(outcomeText({ outcome: "error", reason: "exit status 1: no" }), "It failed: exit status 1: no");
});

test("a time to come has its day, unless that is today", () => {
  const now = new Date(2026, 10, 22, 12, 0).getTime();
  assert.doesNotMatch(dayAndClock(new Date(2026, 10, 22, 14, 5).getTime(), now), /22/);
  assert.match(dayAndClock(new Date(2026, 10, 24, 14, 5).getTime(), now), /24.*05/);
});

test("actions that were not allowed are counted", () => {
  assert.deepEqual(refusedTexts({ refused: 1 }), ["1 action was not allowed."]);
  assert.deepEqual(refusedTexts({ refused: 2 }), ["2 actions were not allowed."]);
  for (const none of [0, undefined]) assert.deepEqual(refusedTexts({ refused: none }), []);
});

test("what a person rejected is said as such, and named", () => {
  const denied = [
    { name: "rm -rf `x`\n build", by: "person" },
    { name: "/shop/a.txt", by: "policy" },
  ];
  assert.deepEqual(refusedTexts({ refused: 3, rejected: 1, denied }, "/shop"), [
    "You rejected `rm -rf ˋxˋ build`.",
    "2 actions were not allowed: `a.txt` and 1 more.",
  ]);
  assert.deepEqual(refusedTexts({ refused: 1, rejected: 1 }), ["You rejected 1 action."]);
  const [long] = refusedTexts({ refused: 1, denied: [{ name: "y".repeat(200), by: "policy" }] });
  assert.equal(long, `1 action was not allowed: \`${"y".repeat(80)}…\`.`);
});

test("days are named as people name them", () => {
  const now = new Date(2026, 10, 22, 0, 5).getTime();
  const at = (...parts) => day(new Date(...parts).getTime(), now);
  assert.equal(at(2026, 10, 22, 0, 0), "Today");
  assert.equal(at(2026, 10, 21, 23, 59), "Yesterday");
  assert.ok(!/2026|day$/.test(at(2026, 10, 17)) && /17/.test(at(2026, 10, 17)));
  assert.match(at(2025, 10, 17), /2025/);
  assert.match(fullTime(new Date(2026, 10, 17, 9, 8, 7).getTime()), /2026.*08:07/);
});

test("a command at the beginning of a sentence stays as it is typed", () => {
  assert.equal(sentence("the disk is full"), "The disk is full.");
  assert.equal(sentence("git config --global user.name NAME"), "git config --global user.name NAME.");
  assert.equal(sentence("penstock serve"), "penstock serve.");
});
