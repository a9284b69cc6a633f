// Texts of others made harmless, and numbers for people.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ago,
  agoInShort,
  base,
  bytes,
  count,
  duration,
  harmless,
  monograms,
  oneLine,
  elapsed,
  money,
} from "../../../src/penstock/chat/page/text/format.js";

test("escape sequences, controls and marks of direction are taken out, words and oneLine ends stay", () => {
  assert.equal(harmless("a\u001b[31mred\u001b[0m b"), "ared b");
  assert.equal(harmless("t\u001b]0;title\u0007u \u001b]8;;https://x\u001b\\click\u001b]8;;\u001b\\"), "tu click");
  assert.equal(harmless("\u202eabc\u202c \u2066d\u2069 \u200fe\u061c"), "abc d e");
  assert.equal(harmless("a\u0000b\u0008c\u009bd\u2028e"), "abcde");
  assert.equal(harmless("one\r\ntwo\rthree\tfour\n"), "one\ntwo\nthree\tfour\n");
  assert.equal(harmless("Grüße 🌍 שלום مرحبا"), "Grüße 🌍 שלום مرحبا");
  assert.equal(harmless(null), "");
});

test("a title is one oneLine", () => {
  assert.equal(oneLine("  a\n\n b\t c "), "a b c");
});

test("numbers are short", () => {
  assert.deepEqual([0, 420, 9_940, 9_960, 99_000, 100_000, 180_000, 5_940_000, 7_260_000].map(duration), [
    "0.0 s",
    "0.4 s",
    "9.9 s",
    "10 s",
    "99 s",
    "2 min",
    "3 min",
    "99 min",
    "2 h 1 min",
  ]);
  assert.deepEqual([0, 3_140, 61_000, 3_661_000].map(elapsed), ["0:00.0", "0:03.1", "1:01.0", "1:01:01.0"]);
  assert.deepEqual([0, 999, 1_000, 12_400, 150_000, 1_250_000].map(count), ["0", "999", "1k", "12.4k", "150k", "1.3M"]);
  assert.deepEqual([0, 0.004, 0.04, 1.5].map(money), ["", "under $0.01", "$0.04", "$1.50"]);
  assert.deepEqual([1, 400, 2048].map(bytes), ["1 byte", "400 bytes", "2 KB"]);
  assert.deepEqual(["/home/ann/shop/", "/", "shop"].map(base), ["shop", "/", "shop"]);
});

test("two letters stand for an agent, and for no other", () => {
  const marks = monograms(["codex", "claude", "copilot", "claude", "pi", "ccs/glm", "ccs/kimi", "x", "\u202e"]);
  assert.deepEqual(Object.fromEntries(marks), {
    ...{ "ccs/glm": "cc", "ccs/kimi": "cs", claude: "cl", codex: "co", copilot: "cp", pi: "pi", x: "x", "\u202e": "" },
  });
});

test("when, where there is little room", () => {
  const now = new Date(2026, 10, 27, 14, 0).getTime();
  assert.deepEqual([agoInShort(now - 1000, now), agoInShort(now - 300_000, now)], ["now", "5 min"]);
  assert.equal(ago(now - 300_000, now), "5 min ago");
});
