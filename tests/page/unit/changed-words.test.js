// Words that changed within the lines of a diff: the cases of the terminal, and the ends of a long diff.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { changedWords } from "../../../src/penstock/chat/page/text/changed-words.js";
import { linesOf } from "../../../src/penstock/chat/page/text/diff.js";

const CASES = JSON.parse(readFileSync(new URL("changed_words.json", import.meta.url), "utf-8"));
const SIGNS = { removed: "-", added: "+", same: " " };

/** Lines of a diff with their changed words in brackets. */
function marked(lines, end) {
  const all = linesOf(lines.join("\n"));
  const found = changedWords(all, end);
  const textOf = (it, i) =>
    found
      .get(i)
      ?.map((part) => (part.isChanged ? `[${part.text}]` : part.text))
      .join("");
  return all.map((it, i) => (SIGNS[it.kind] ?? "") + (textOf(it, i) ?? it.text));
}

const plain = (text) => text.replace(/[[\]]/g, "");

test("changed words are marked in both lines, and only they, as in a terminal", () => {
  for (const [old, now] of CASES.changed) {
    assert.deepEqual(marked([`-${plain(old)}`, `+${plain(now)}`]), [`-${old}`, `+${now}`]);
  }
});

test("other lines have no marks, as in a terminal", () => {
  const long = "word ".repeat(400);
  for (const lines of [...CASES.unchanged, [`-${long}`, `+${long}more`]]) {
    assert.equal(changedWords(linesOf(lines.join("\n"))).size, 0, lines.join("\n"));
  }
});

test("the lines of a block are compared in order, also if the last one has no line break at its end", () => {
  assert.deepEqual(marked(["-first of two", "-second of two", "\\ No newline", "+first of 2", "+second of 2"]), [
    "-first of [two]",
    "-second of [two]",
    "No newline",
    "+first of [2]",
    "+second of [2]",
  ]);
});

test("a block that the fold divides is compared as a whole, and none behind it is", () => {
  const block = ["-a first line", "-a second line", "+the first line", "+the second line"];
  const found = marked([...block, " same", ...block], 1);
  assert.deepEqual(found.slice(0, 4), [
    "-[a] first line",
    "-[a] second line",
    "+[the] first line",
    "+[the] second line",
  ]);
  assert.deepEqual(found.slice(5), block);
});

test("an agent cannot make the comparison slow: of lines with very many words the ends are compared", () => {
  const [old, now] = [`${"same ".repeat(60)}${"(".repeat(80)}`, `${"same ".repeat(60)}${")(".repeat(40)}`];
  const [removed] = marked([`-${old}`, `+${now}`]);
  assert.equal(removed, `-${"same ".repeat(60)}[${"(".repeat(79)}](`);
});
