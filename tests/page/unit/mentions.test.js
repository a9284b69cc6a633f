// Names of files in a message.

import assert from "node:assert/strict";
import { test } from "node:test";
import { mentionAt, mentioned } from "../../../src/penstock/chat/page/text/mentions.js";

const typedIn = (text, caret = text.length) => mentionAt(text, caret)?.typed ?? null;

test("a path after an @ is one that is being written", () => {
  for (const [text, typed] of [
    ["@", ""],
    ["see @src/ma", "src/ma"],
    ["first\n@a", "a"],
    ['see @"part tw', "part tw"],
    ['@"', ""],
  ])
    assert.equal(typedIn(text), typed, text);
});

test("an @ elsewhere is not", () => {
  for (const text of ["", "ann@example.org", "see @a b", 'see @"a b" ', '@a"', "@@a/@", `@${"x".repeat(300)}`])
    assert.equal(typedIn(text), null, text);
  assert.equal(typedIn("see @src later", 3), null);
  assert.equal(typedIn("see @src later", 7), "sr");
});

test("the chosen path is put in the place of what was written", () => {
  for (const [text, path, expected] of [
    ["see @ma", "src/main.ts", "see @src/main.ts "],
    ["see @sr", "src/", "see @src/"],
    ['see @"par', "part two.md", 'see @"part two.md" '],
    ["@par", "part two/", '@"part two/'],
  ]) {
    const { start, end } = mentionAt(text, text.length);
    const made = text.slice(0, start) + mentioned(path) + text.slice(end);
    assert.equal(made, expected);
    assert.equal(typedIn(made), path.endsWith("/") ? path : null);
  }
});
