// The colours of code in diffs: tokens of lines, the sides of hunks, and the languages of files.

import assert from "node:assert/strict";
import { test } from "node:test";

import { piecesOf, tokensOf, tokensOfParts } from "../../../src/penstock/chat/page/text/code-tokens.js";
import { fileOfPath } from "../../../src/penstock/chat/page/markdown/languages.js";
import { linesOf } from "../../../src/penstock/chat/page/text/diff.js";

const textOf = (tokens) => tokens.map(({ text }) => text).join("");

test("a span over several lines colours each of them, and characters are as they were written", () => {
  const coloured =
    'x = <span class="hljs-string">&quot;&lt;b&gt;\n{<span class="hljs-subst">&amp;y</span>}&#x27;</span>\nz > 1 & </i>';
  assert.deepEqual(tokensOf(coloured), [
    [
      { kind: "", text: "x = " },
      { kind: "hljs-string", text: '"<b>' },
    ],
    [
      { kind: "hljs-string", text: "{" },
      { kind: "hljs-string hljs-subst", text: "&y" },
      { kind: "hljs-string", text: "}'" },
    ],
    [{ kind: "", text: "z > 1 & </i>" }],
  ]);
  assert.deepEqual(tokensOf(""), [[]]);
});

test("the parts of a line keep their colours, wherever they begin", () => {
  const tokens = [
    { kind: "a", text: "one " },
    { kind: "", text: "two" },
    { kind: "b", text: "three" },
  ];
  const parts = [
    { isChanged: false, text: "one" },
    { isChanged: true, text: " twoth" },
    { isChanged: false, text: "ree" },
  ];
  const found = tokensOfParts(tokens, parts);
  assert.deepEqual(
    found.map(({ isChanged, tokens: own }) => [isChanged, textOf(own)]),
    parts.map(({ isChanged, text }) => [isChanged, text]),
  );
  assert.deepEqual(found[1].tokens, [
    { kind: "a", text: " " },
    { kind: "", text: "two" },
    { kind: "b", text: "th" },
  ]);
  assert.deepEqual(tokensOfParts([], parts)[0], { isChanged: false, tokens: [] });
});

test("each side of a hunk is read for itself, in pieces, and what is too long not at all", () => {
  const lines = linesOf("@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9 +9 @@ f\n+d\n\\ No newline at end of file\n");
  const side = (piece) => piece.places.map((at) => lines[at].text).join("");
  assert.deepEqual(piecesOf(lines).map(side), ["ac", "ab", "d"]);
  const long = Array.from({ length: 900 }, () => ({ kind: "added", text: "x".repeat(100) }));
  const pieces = piecesOf(long);
  assert.ok(pieces.length > 5);
  assert.ok(pieces.every(({ places }) => places.length <= 42));
  assert.equal(pieces.flatMap(({ places }) => places).length, 300);
  assert.deepEqual(piecesOf([{ kind: "added", text: "x".repeat(1e6) }]), []);
  assert.deepEqual(piecesOf([]), []);
});

test("the name of a file decides its language", () => {
  const names = [
    "src/app.TS",
    "a/Dockerfile",
    "x.pyi",
    "notes.md",
    "Makefile",
    "a.unknown",
    "py/.hidden",
    "constructor",
    "",
  ];
  assert.deepEqual(names.map(fileOfPath), [
    "typescript",
    "dockerfile",
    "python",
    "markdown",
    ...Array(5).fill(undefined),
  ]);
});
