// What the page says.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  allowLabel,
  allowText,
  atLimit,
  connectionText,
  isLocal,
  outcomeText,
} from "../../../src/penstock/chat/page/text/copy.js";
import { day, fullTime } from "../../../src/penstock/chat/page/text/format.js";

test("this machine has many names", () => {
  for (const host of ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "chat.localhost"]) assert.ok(isLocal(host), host);
  for (const host of ["localhost.example.org", "10.0.0.1", "127.0.0.1.nip.io", "laptop", "[::2]"])
    assert.ok(!isLocal(host), host);
});

test("this machine is never offline: its server does not run, once that is sure", () => {
  const local = { host: "127.0.0.1", online: false };
  assert.match(connectionText({ ...local, attempts: 1 }), /^The connection is cut/);
  assert.match(connectionText({ ...local, attempts: 3 }), /^Penstock is not running.*`penstock serve`/);
  const far = { host: "chat.example.org", attempts: 9 };
  assert.match(connectionText({ ...far, online: false }), /^You are offline/);
  assert.match(connectionText({ ...far, online: true }), /^The connection is cut/);
});

test("a reply that met the model's limit can be gone on with", () => {
  const turn = { outcome: "error", reason: "the model stopped at its output limit" };
  assert.ok(atLimit(turn));
  assert.equal(outcomeText(turn), "It stopped at the model's output limit.");
  assert.ok(!atLimit({ ...turn, outcome: "ok" }));
  assert.ok(!atLimit({ outcome: "error", reason: "the disk is full" }));
  assert.equal(outcomeText({ outcome: "error", reason: "the disk is full" }), "It failed: the disk is full");
});

test("an agent that cannot ask is not said to ask", () => {
  const mute = { name: "claude", asks: false };
  assert.equal(allowLabel("default", mute), "Only reads");
  assert.match(allowText("default", mute), /^claude cannot ask/);
  assert.equal(allowLabel("default", { name: "codex", asks: true }), "Asks first");
  assert.equal(allowLabel("all", mute), "Does everything");
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
