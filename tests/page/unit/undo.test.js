// What is done to the files of a turn that is taken back, in words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { undoneMark } from "../../../src/penstock/chat/page/text/diff.js";
import { isDone, undoneText, whatHappens } from "../../../src/penstock/chat/page/text/undo.js";

/** @type {Api.FileUndo[]} */
const FILES = [
  { path: "a", does: "restore" },
  { path: "b", does: "remove" },
  { path: "c\u202e", does: "stay", reason: "changed", text: "was changed since" },
  { path: "d", does: "nothing" },
];

test("each file has its words, for both ways", () => {
  assert.deepEqual(
    FILES.map((it) => whatHappens(it, false)),
    ["gets its text from before", "is removed", "was changed since, and stays", "is as before already"],
  );
  assert.equal(whatHappens(FILES[0], true), "is changed again");
  assert.equal(whatHappens({ path: "x", does: "stay" }, false), "cannot be taken back, and stays");
  assert.deepEqual(FILES.map(isDone), [true, true, false, false]);
});

test("what was done is one sentence, and one for each file that stays", () => {
  const text = undoneText(FILES, false);
  assert.match(text, /^3 files are as before this turn\. c.* was changed since, and stays\.$/u);
  assert.doesNotMatch(text, /\u202e/u);
  assert.equal(undoneText([FILES[0]], true), "1 file is changed again.");
  assert.match(undoneText([FILES[2]], false), /^No file was changed\. /u);
});

test("a turn that was taken back has a mark", () => {
  assert.equal(undoneMark(null), "");
  assert.equal(undoneMark({ files: 2, person: "owner" }), "undone");
  assert.equal(undoneMark({ files: 1, stayed: 2, person: "owner" }), "1 of 3 undone");
});
