// Markdown to HTML: what is kept, what is shown as it was written, and the names of languages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { languageName } from "../../../src/penstock/chat/page/markdown/languages.js";
import { scan, toHtml } from "../../../src/penstock/chat/page/markdown/parser.js";

const CASES = [
  ["**b** and `c < d`", "<p><strong>b</strong> and <code>c &lt; d</code></p>"],
  ["[a](https://x.y/?q=1)", '<p><a href="https://x.y/?q=1">a</a></p>'],
  ["[a](javascript:alert(1))", "<p>a</p>"],
  ["[a](data:text/html,x)", "<p>a</p>"],
  ["![alt](https://x.y/p.png)", '<p><a href="https://x.y/p.png">alt</a></p>'],
  ["H<sub>2</sub>O <script>alert(1)</script>", "<p>H<sub>2</sub>O &#60;script&#62;alert(1)&#60;/script&#62;</p>"],
  ["- [x] a", '<ul>\n<li><span data-task="">☑</span> a</li>\n</ul>'],
  ["<b>not closed", "<p><b>not closed</b></p>"],
  ["</i>never opened", "<p>&#60;/i&#62;never opened</p>"],
  ["```js\nlet a;\n```", '<pre data-lang="js"><code>let a;\n</code></pre>'],
  ['```js" onclick="x\na\n```', '<pre data-lang="js"><code>a\n</code></pre>'],
];

test("what people write in Markdown is HTML, and all other HTML is text", () => {
  for (const [source, html] of CASES) assert.equal(toHtml(source).trim(), html, source);
});

test("a reference link has its target from the definitions that are given", () => {
  const links = { x: { href: "https://x.y", title: null } };
  assert.match(toHtml("[a][x]", links), /<a href="https:\/\/x\.y">a<\/a>/);
  assert.doesNotMatch(toHtml("[a][x]"), /<a /);
});

test("the cells of a table's head say what they are the head of, and empty ones of nothing", () => {
  const html = toHtml("| a | |\n|:-:|-|\n| 1 | 2 |");
  assert.match(html, /<th scope="col" align="center">a<\/th><td><\/td>/);
});

test("the blocks of a text, joined, are the text", () => {
  const source = "# a\n\n- b\n- c\n\n> d\n\n[x]: https://x.y\n\n```\ne\n";
  const blocks = scan(source);
  assert.equal(blocks.map(({ raw }) => raw).join(""), source);
  assert.deepEqual(
    blocks.map(({ type }) => type).filter((type) => type !== "space"),
    ["heading", "list", "blockquote", "def", "code"],
  );
});

test("what nests deeper than anyone reads is shown as it was written, and nothing of it is lost", () => {
  const html = toHtml(`${">".repeat(300)} deep`);
  assert.ok((html.match(/<blockquote>/g) ?? []).length < 30);
  assert.match(html, /deep/);
});

test("a language has the name that people know it by", () => {
  const names = {
    js: "JavaScript",
    "C++": "C++",
    c: "C",
    toml: "TOML",
    "": "",
    brainfuck: "brainfuck",
    SH: "Shell",
    constructor: "constructor",
  };
  for (const [written, name] of Object.entries(names)) assert.equal(languageName(written), name);
});
