// What Markdown has beside CommonMark: formulas, footnotes, notes in boxes, folded parts, and files that a reply names.

import assert from "node:assert/strict";
import { test } from "node:test";

import { completeMarkdown } from "../../../src/penstock/chat/page/markdown/complete-markdown.js";
import { scan, toHtml } from "../../../src/penstock/chat/page/markdown/parser.js";
import { placeOf, placesIn, targetOf } from "../../../src/penstock/chat/page/markdown/places.js";

const html = (/** @type {string} */ source) => toHtml(source).trim();
const types = (/** @type {string} */ source) => scan(source).map(({ type }) => type);

test("formulas are kept as their text until they are drawn, and money is no formula", () => {
  assert.equal(html("a $x^2$ b"), '<p>a <span data-tex="x^2">$x^2$</span> b</p>');
  assert.equal(html("\\(a_1*b\\)"), '<p><span data-tex="a_1*b">\\(a_1*b\\)</span></p>');
  assert.deepEqual(types("text\n$$\na\n- b\n$$\nmore"), ["paragraph", "formula_block", "paragraph"]);
  assert.match(html("```math\n\\frac{1}{2}\n```"), /^<p data-tex="\\frac\{1\}\{2\}" data-display="">/);
  for (const money of ["$5 and $6", "US$5, A$6", "($5)/($6)", "$HOME and $PATH:$HOME/x", "`$x$`", "$ x $", "$$open"])
    assert.doesNotMatch(html(money), /data-tex/, money);
});

test("the text of a formula cannot leave its attribute", () => {
  for (const source of [
    '$x" onclick="hurt()$',
    "$$<img src=x onerror=hurt()>$$",
    "\\(</span><script>hurt()</script>\\)",
  ]) {
    assert.match(html(source), /data-tex="[^"<>]*"/, source);
    assert.doesNotMatch(html(source), /<img|<script|" onclick/, source);
  }
});

test("a footnote has its text where it is defined, and a reference only if it is defined", () => {
  const links = { "^1": { href: "", title: null } };
  const source = "see[^1] and [^2]";
  assert.equal(toHtml(source, links).trim(), '<p>see<sup data-reference="1">1</sup> and [^2]</p>');
  const notes = "[^1]: One *x*\n    more\n\n    part\n[^n]: two\n\nafter";
  assert.deepEqual(
    types(notes).filter((type) => type !== "space"),
    ["footnote", "footnote", "paragraph"],
  );
  assert.match(html(notes), /<div data-note="1"><p>One <em>x<\/em>\nmore<\/p>\n<p>part<\/p>/);
  assert.doesNotMatch(html('[^"><img]: x'), /<img/);
});

test("a quote with a kind is a note in a box; another kind is a quote", () => {
  assert.match(html("> [!WARNING]\n> x"), /^<blockquote data-alert="warning"><p><b>Warning<\/b><\/p><p>x<\/p>/);
  for (const source of ["> [!EVIL]\n> x", "> [!NOTE] x", "> [!constructor]\n> x"])
    assert.doesNotMatch(html(source), /data-alert/, source);
});

test("a folded part has its blocks inside, and keeps no attribute of its tag but open", () => {
  const source =
    "<details open>\n<summary>Sum <b>m</b> <img src=x></summary>\n\n- a\n\n```\n</x>\n```\n</details>\nafter";
  assert.deepEqual(types(source), ["folded", "paragraph"]);
  assert.match(html(source), /^<details open=""><summary>Sum <b>m<\/b> &#60;img src=x&#62;<\/summary><ul>/);
  assert.match(html("<details>\n<details>\na\n</details>\nb\n</details>"), /<details>.*<details>.*a.*b/s);
  assert.doesNotMatch(html('<details open ontoggle="hurt()">\nx\n</details>'), /<details/);
  assert.match(html("<details>\nnot ended"), /<summary>Details<\/summary><p>not ended/);
});

test("what is written is never lost, and its blocks joined are the text", () => {
  const pieces = [
    "$$",
    "$",
    "\\[",
    "\\]",
    "[^a]",
    "[^a]: ",
    "<details>",
    "</details>",
    "<summary>",
    "> [!NOTE]\n",
    "\n",
  ];
  let seed = 7;
  const next = () => (seed = (seed * 1103515245 + 12345) % 2147483648);
  for (let i = 0; i < 3000; i++) {
    const source = Array.from({ length: 12 }, (_, at) => pieces[next() % pieces.length] + `w${at} `).join("");
    assert.equal(
      scan(source)
        .map(({ raw }) => raw)
        .join(""),
      source,
    );
    const shown = toHtml(source);
    for (let at = 0; at < 12; at++) assert.ok(shown.includes(`w${at}`), `${JSON.stringify(source)}: w${at}`);
    completeMarkdown(source);
  }
});

test("what is not ended is read to its end all the same", () => {
  for (const piece of ["<details>\n\n", "$$a\n\n", "$a ", "\\(a ", "[^1]: a\n", "> [!NOTE]\n", "a/b.c:1 "]) {
    const source = piece.repeat(16_000 / piece.length);
    assert.equal(
      scan(source)
        .map(({ raw }) => raw)
        .join(""),
      source,
    );
    assert.ok(toHtml(source));
  }
  const deep = "<details>\n".repeat(300);
  assert.ok((toHtml(deep).match(/<details>/g) ?? []).length < 30);
});

test("while a text grows, half of a formula, a footnote or a kind is not shown", () => {
  const cases = [
    ["a[^", "a"],
    ["a[^1", "a"],
    ["a[^1]", "a[^1]"],
    ["[^1]: some", "[^1]: some"],
    ["> [!NO", ""],
    ["a $$x", "a"],
    ["a \\(x", "a"],
    ["$$\nab", ""],
    ["```math\nx", ""],
    ["```math\nx\n```", "```math\nx\n```"],
    ["$a_b$ and *c", "$a_b$ and *c*"],
    ["costs $5 and *b", "costs $5 and *b*"],
  ];
  for (const [source, shown] of cases) assert.equal(completeMarkdown(source), shown, source);
});

test("code in a line is a place in a file if it has a path, and no place if it has none", () => {
  const places = [
    ["src/app.ts:12", "src/app.ts", 12],
    ["src/app.ts:12:5", "src/app.ts", 12],
    ["./a-b/c_d.py:3-9", "./a-b/c_d.py", 3],
    ["docs/index.md", "docs/index.md", 0],
    ["app.ts:7", "app.ts", 7],
    ["/home/me/shop/a.py:1", "/home/me/shop/a.py", 1],
    [".github/workflows/ci.yml", ".github/workflows/ci.yml", 0],
  ];
  for (const [text, path, line] of places) assert.deepEqual(placeOf(String(text)), { path, line }, String(text));
  for (const text of ["app.ts", "a/b", "example.com:443", "git push", "https://x.y/a.js:1", "a/b.c:0", "x".repeat(500)])
    assert.equal(placeOf(text), null, text);
});

test("words name a place only with a folder and a line; an address is none", () => {
  const [place] = placesIn("See src/app.ts:12, and https://x.y/src/a.ts:3 or a.b@c.d/x.y:1.");
  assert.deepEqual(place, { path: "src/app.ts", line: 12, from: 4, to: 17 });
  assert.equal(placesIn("See https://x.y/src/a.ts:3 and src/app.ts.").length, 0);
});

test("a link or a picture leads to a file only if it leads nowhere else", () => {
  assert.deepEqual(targetOf("src/a%20b.ts#L4-L9"), { path: "src/a b.ts", line: 4 });
  assert.deepEqual(targetOf("src/a.ts:4"), { path: "src/a.ts", line: 4 });
  for (const href of ["", "#top", "//evil.invalid/x", "javascript:alert(1)", "data:image/png,x", "file:///etc/passwd"])
    assert.equal(targetOf(href), null, href);
  for (const href of [
    "JaVaScRiPt:alert(1)",
    "JaVaScRiPt&colon;alert(1)",
    "a?b",
    "a%00b",
    "%",
    "vbscript:x",
    "\\\\evil\\x",
  ])
    assert.equal(targetOf(href), null, href);
  assert.equal(html("![p](docs/p.png)"), '<p><span data-picture="docs/p.png">p</span></p>');
});
