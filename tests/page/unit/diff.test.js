// The lines of diffs, and what is said beside them.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  changeTitle,
  countsOf,
  filesChanged,
  foundMeanwhile,
  linesOf,
  notCompared,
} from "../../../src/penstock/chat/page/text/diff.js";
import { exact } from "../../../src/penstock/chat/page/text/format.js";

const DIFF = "@@ -3,3 +3,4 @@ def f():\n same\n-old\n+new\n+more\n\n\\ No newline at end of file\n";

test("each line has its kind, its text and its number", () => {
  assert.deepEqual(linesOf(DIFF), [
    { kind: "hunk", text: "⋯ def f():" },
    { kind: "same", text: "same", number: 3 },
    { kind: "removed", text: "old", number: 4 },
    { kind: "added", text: "new", number: 4 },
    { kind: "added", text: "more", number: 5 },
    { kind: "same", text: "", number: 6 },
    { kind: "note", text: "No newline at end of file" },
  ]);
});

test("a hunk without numbers has lines without numbers, and is a gap behind another one", () => {
  const lines = linesOf("@@ -1 +1 @@\n-a\n+b\n@@\n-c\n+d\n");
  assert.deepEqual(
    lines.map(({ number }) => number),
    [1, 1, undefined, undefined, undefined],
  );
  assert.deepEqual(lines[2], { kind: "hunk", text: "⋯" });
  assert.deepEqual(linesOf("@@\n-c\n"), [{ kind: "removed", text: "c" }]);
});

test("what is no line of a diff is a note, and nothing is no line", () => {
  assert.deepEqual(linesOf("\u2026 [9 characters are not kept]"), [
    { kind: "note", text: "\u2026 [9 characters are not kept]" },
  ]);
  for (const nothing of ["", null, undefined]) assert.deepEqual(linesOf(nothing), []);
});

test("a change is named by its kind and paths, with the counts that are known", () => {
  assert.equal(changeTitle({ path: "a.txt", kind: "move", to: "b.txt" }), "move a.txt \u2192 b.txt");
  assert.equal(changeTitle({ path: "new\nline", kind: "add" }), "new file new line");
  assert.equal(countsOf({ path: "a", kind: "update", added: 2, removed: 0 }), "+2 \u22120");
  assert.equal(countsOf({ path: "a", kind: "update", added: 1, removed: null }), "+1");
  assert.equal(countsOf({ path: "a", kind: "delete" }), "");
});

test("what moves, hides or reverses text is shown by its number", () => {
  assert.equal(exact("rm \u202egpj.txt"), "rm \u27e8U+202E\u27e9gpj.txt");
  assert.equal(exact("a\u200bb\u001b[2Kc\ufeff"), "a\u27e8U+200B\u27e9b\u27e8U+001B\u27e9[2Kc\u27e8U+FEFF\u27e9");
  assert.equal(exact("one\r\n\ttwo\rthree\r"), "one\n\ttwo\u27e8U+000D\u27e9three");
});

test("the row of a turn has the number of files, and the lines that are known", () => {
  assert.equal(filesChanged(1), "1 file changed");
  assert.equal(filesChanged(10_000), "10000 files changed");
  assert.equal(countsOf({ files: 3, added: 12, removed: 4 }), "+12 \u22124");
  assert.equal(countsOf({ files: 3, added: 12 }), "+12");
  assert.equal(countsOf({ files: 3 }), "");
});

test("what git found is counted apart, and a problem that a newer server reports is still one", () => {
  assert.equal(foundMeanwhile(undefined, null), "");
  assert.equal(foundMeanwhile(0, { files: 1 }), "");
  assert.equal(foundMeanwhile(1, null), "1 file changed meanwhile");
  assert.equal(foundMeanwhile(2, { files: 1 }), " \u00b7 2 more changed meanwhile");
  assert.match(notCompared("slow"), /git needed too long\.$/);
  assert.match(notCompared(/** @type {any} */ ("new")), /git cannot compare it\.$/);
});
