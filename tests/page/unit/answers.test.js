// What words mean as an answer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { answerOf, optionOf } from "../../../src/penstock/chat/page/text/answers.js";

const PERMISSION = {
  ask: "command",
  options: [
    { id: "once", label: "Yes, once", kind: "allow_once" },
    { id: "always", label: "Always allow `npm test`", kind: "allow_always" },
    { id: "never", label: "No, and say what to do", kind: "reject_once" },
  ],
};
const CHOICE = {
  ask: "choice",
  options: ["3", "2", "Café au lait"].map((label) => ({ id: `id-${label}`, label, kind: "choice" })),
};

test("a short word never means an option that allows more than what is asked for", () => {
  const [once, always, never] = PERMISSION.options;
  const edits = { id: "all", label: "Allow all edits", kind: "allow_always", wide: true };
  assert.equal(optionOf({ ask: "edit", options: [once, edits, never] }, "a"), undefined);
  assert.equal(optionOf({ ask: "edit", options: [once, edits, never] }, "2"), edits);
  assert.equal(optionOf({ ask: "edit", options: [once, edits, never] }, "allow all edits"), edits);
  assert.equal(optionOf({ ask: "command", options: [once, edits, always, never] }, "a"), always);
});

test("a short word is no id and no label of an option that allows more", () => {
  const [once, , never] = PERMISSION.options;
  const wide = { id: "always", label: "Always", kind: "allow_always", wide: true };
  const question = { ask: "command", options: [once, wide, never], free_text: true };
  for (const word of ["a", "always", " Always. "]) assert.match(answerOf(question, word).why, /press one/, word);
  const same = { id: "same-command", label: "Allow this command for the session", kind: "allow_always" };
  assert.equal(optionOf({ ...question, options: [once, same, wide, never] }, "always"), same);
  assert.deepEqual(answerOf(question, "2"), { answer: "always" });
});

test("an option is named by its words, its number, or by yes, always and no", () => {
  const words = {
    once: ["1", " 1. ", "y", "Y", "yes", "Yes!", "yes, once", "YES ONCE", "once"],
    always: ["2", "a", "always", "always allow npm test"],
    never: ["3", "n", "No", "no, and say what to do", "never"],
  };
  for (const [id, texts] of Object.entries(words)) {
    for (const text of texts) assert.deepEqual(answerOf(PERMISSION, text), { answer: id }, text);
  }
});

test("a label goes before a number, and a choice has no yes", () => {
  assert.equal(optionOf(CHOICE, "2").id, "id-2");
  assert.equal(optionOf(CHOICE, "1").id, "id-3");
  assert.equal(optionOf(CHOICE, "café  au lait").id, "id-Café au lait");
  for (const text of ["yes", "n", "a", "0", "4", "", "toString", "constructor"])
    assert.equal(optionOf(CHOICE, text), undefined, text);
});

test("yes never means more than this once, and no finds whatever rejects", () => {
  const { options } = PERMISSION;
  assert.equal(optionOf({ options: [options[1]] }, "yes"), undefined);
  assert.equal(optionOf({ options: [{ id: "x", label: "Never", kind: "reject_always" }] }, "no").id, "x");
});

test("other words are the answer where the question takes them; else the page says why not", () => {
  assert.deepEqual(answerOf({ ...PERMISSION, free_text: true }, " use pnpm "), { answer: "use pnpm" });
  assert.deepEqual(answerOf({ ask: "text" }, "forty-two"), { answer: "forty-two" });
  assert.match(answerOf(PERMISSION, "use pnpm").why, /only the answers above.*1 to 3/);
});
