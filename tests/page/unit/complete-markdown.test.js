// The end of a text that still grows: what is shown of it now is what stands there later.

import assert from "node:assert/strict";
import { test } from "node:test";

import { completeMarkdown } from "../../../src/penstock/chat/page/markdown/complete-markdown.js";

const CASES = [
  ["plain words", "plain words"],
  ["some **bold", "some **bold**"],
  ["some **bold*", "some **bold**"],
  ["some **", "some"],
  ["an _em", "an _em_"],
  ["snake_case_na", "snake_case_na"],
  ["2 * 3", "2 * 3"],
  ["~~gone", "~~gone~~"],
  ["***both", "***both***"],
  ["code `x = [1", "code `x = [1`"],
  ["code `", "code"],
  ["code ``a`b", "code ``a`b``"],
  ["see [the docs](https://exa", "see the docs"],
  ["see [the do", "see the do"],
  ["an ![image](htt", "an image"],
  ["array[0", "array[0"],
  ["whole [link](x) **and", "whole [link](x) **and**"],
  ["a\n- b **c", "a\n- b **c**"],
  ["**never closed\n\n- item", "**never closed\n\n- item"],
  ["text\n-", "text"],
  ["text\n==", "text"],
  ["text\n## ", "text"],
  ["- one\n- ", "- one"],
  ["- [ ", ""],
  ["| a | b", ""],
  ["| a | b |\n|--|", ""],
  ["| a | b |\n|--|--|", "| a | b |\n|--|--|"],
  ["| a | b |\n|--|--|\n| **x", "| a | b |\n|--|--|\n| **x**"],
  ["a <spa", "a"],
  ["a &am", "a"],
  ["\\*not", "\\*not"],
  ["[ref]: https://e", ""],
  ["```py", ""],
  ["```py\nx = **1", "```py\nx = **1"],
  ["```py\nx\n``", "```py\nx"],
  ["```py\nx\n```", "```py\nx\n```"],
  ["~~~\n```\n~~", "~~~\n```"],
];

test("half written Markdown is made whole, or kept back until it is", () => {
  for (const [raw, shown] of CASES) assert.equal(completeMarkdown(raw), shown, JSON.stringify(raw));
});

test("what is healed is whole: healing it again changes nothing", () => {
  for (const [raw] of CASES)
    assert.equal(completeMarkdown(completeMarkdown(raw)), completeMarkdown(raw), JSON.stringify(raw));
});

test("no text is so odd that it cannot be healed, or takes long", () => {
  for (const mark of ["*", "_", "~", "`", "[", "![", "](", "<", "&", "|", ">", "\\", "- ", "**a ", "[a](", "`a "]) {
    assert.equal(typeof completeMarkdown(mark.repeat(5000)), "string");
  }
});
