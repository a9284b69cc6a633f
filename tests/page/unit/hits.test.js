// Hits of a search: their marked parts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hasWords, partsOf } from "../../../src/penstock/chat/page/text/hits.js";

const marked = (text, marks) =>
  partsOf(text, marks)
    .map((it) => (it.isMarked ? `[${it.text}]` : it.text))
    .join("");

test("marks count characters of Unicode", () => {
  assert.equal(marked("😀 a needle", [{ start: 4, end: 10 }]), "😀 a [needle]");
});

test("nothing is lost or doubled, whatever the marks are", () => {
  const wrong = [
    { start: 2, end: 4 },
    { start: 3, end: 5 },
    { start: 4, end: 4 },
    { start: 5, end: 99 },
    { start: 50, end: 60 },
  ];
  assert.equal(
    partsOf("abcdefgh", wrong)
      .map((it) => it.text)
      .join(""),
    "abcdefgh",
  );
  assert.equal(marked("", []), "");
});

test("all words are in a text", () => {
  assert.ok(hasWords("The Pelican of /src", "src pel"));
  assert.ok(!hasWords("The Pelican", "pelican x"));
});
