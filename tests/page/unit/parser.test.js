// Markdown that is hard to read: it is read in bounds, nothing nests without an end, and no word is lost.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { completeMarkdown } from "../../../src/penstock/chat/page/markdown/complete-markdown.js";
import { scan, toHtml } from "../../../src/penstock/chat/page/markdown/parser.js";
import { harmless } from "../../../src/penstock/chat/page/text/format.js";

const DEEPEST = 90; // elements in each other: each level of a list has two
/** What `chatpage/fuzz.py` makes: {name: {text, words}}. */
const REPLIES = JSON.parse(readFileSync(process.env.PENSTOCK_FUZZ, "utf-8"));

const isShown = ({ type }) => type !== "space" && type !== "def";
const wordsOf = (html) => html.replace(/<[^>]*>/g, "").replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));

/** How deep elements stand in each other. */
function depthOf(html) {
  let [depth, deepest] = [0, 0];
  for (const [, end, name] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)[^>]*>/g)) {
    if (name === "br" || name === "hr") continue;
    depth += end ? -1 : 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

for (const [name, { text, words }] of Object.entries(REPLIES)) {
  test(`a reply of ${name}`, () => {
    const source = harmless(text);
    const blocks = scan(source);
    assert.equal(blocks.map(({ raw }) => raw).join(""), source);
    const html = blocks
      .filter(isShown)
      .map(({ raw }) => toHtml(raw))
      .join("\n");
    assert.ok(depthOf(html) <= DEEPEST, `${depthOf(html)} levels`);
    for (const word of words) assert.ok(wordsOf(html).includes(word), word);
    for (const { raw } of blocks) assert.equal(typeof completeMarkdown(raw), "string");
  });
}

test("what is not hostile is read as it was", () => {
  const cases = {
    "a **b *c* d** `e`": "<p>a <strong>b <em>c</em> d</strong> <code>e</code></p>",
    "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
    "- a\n  1. b\n     > c": "<ul><li>a<ol><li>b<blockquote><p>c</p></blockquote></li></ol></li></ul>",
    "x <b>y</b> <i>z": "<p>x <b>y</b> <i>z</i></p>",
    "<code>a<b &lt; c</code>": "<p><code>a&#60;b &lt; c</code></p>",
    "a <!-- hidden --> b": "<p>a  b</p>",
    "a <!-- open": "<p>a &#60;!-- open</p>",
    "</b> <div> <br>": "<p>&#60;/b&#62; &#60;div&#62; <br></p>",
  };
  for (const [text, html] of Object.entries(cases)) assert.equal(toHtml(text).replace(/\n(?=<|$)/g, ""), html, text);
  assert.equal(toHtml("[a][b]", { b: { href: "http://c", title: null } }), '<p><a href="http://c">a</a></p>\n');
});
