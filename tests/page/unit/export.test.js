// A chat as a Markdown file: judged by marked, the reader that the page has.

import assert from "node:assert/strict";
import { test } from "node:test";

import { marked } from "marked";
import { fileName, markdownOf } from "../../../src/penstock/chat/page/text/export.js";

const CHAT = { title: "Fix *the* [build]", agent: "codex", cwd: "/shop" };
const done = (more) => ({ turn: 1, prompt: "go", state: "completed", outcome: "ok", message: "done", ...more });
const blocks = (markdown) => marked.lexer(markdown).filter(({ type }) => type !== "space");
const headings = (markdown) => blocks(markdown).flatMap((it) => (it.type === "heading" ? [[it.depth, it.text]] : []));
const plain = (text) => marked.parseInline(text).replace(/<[^>]*>/g, "");

test("the file has the title, then each prompt as a quotation and each reply as it was written", () => {
  const reply = "# A reply\n\n- one\n- *two*\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
  const file = markdownOf(CHAT, [done({ prompt: "# not a heading\n\ntext", message: reply })]);
  assert.deepEqual(
    headings(file).map(([depth, text]) => [depth, plain(text)]),
    [
      [1, "Fix *the* [build]"],
      [2, "You"],
      [3, "codex"],
      [1, "A reply"],
    ],
  );
  const quote = blocks(file).find(({ type }) => type === "blockquote");
  assert.equal(quote.text.trim(), "# not a heading\n\ntext");
  assert.ok(file.includes(reply.trim()));
});

test("a fence that a reply or a prompt leaves open swallows nothing of what follows", () => {
  for (const open of ["```js\nlet a", "~~~\n```\nx", "text\n````\n```\nstill code", "```\na\n```\n```"]) {
    const file = markdownOf(CHAT, [done({ prompt: open, message: open }), done({ turn: 2, prompt: "second" })]);
    assert.deepEqual(
      headings(file).map(([depth]) => depth),
      [1, 2, 3, 2, 3],
      open,
    );
  }
  const inline = "```not a fence```\ntext";
  assert.ok(markdownOf(CHAT, [done({ message: inline })]).includes(`${inline}\n`));
});

test("what an agent did is quoted or in fences that it cannot end", () => {
  const output = "```\n# out\n````\n</details><img src=x>";
  const items = [
    { kind: "thinking", at: 0, text: "# a thought" },
    { kind: "call", at: 1, title: "cat `x`", input: '{"a":1}', output, exit_code: 2, is_error: true, duration_ms: 50 },
    { kind: "text", at: 2, parent: 1, text: "of a sub-agent" },
    { kind: "plan", at: 3, items: [{ text: "<b>one</b>", status: "completed" }] },
    { kind: "question", at: 4, text: "May I?", answer: "No" },
    { kind: "notice", at: 5, text: "a notice" },
  ];
  const file = markdownOf(CHAT, [done({ items })]);
  assert.deepEqual(
    headings(file).map(([, text]) => plain(text)),
    ["Fix *the* [build]", "You", "Steps", "codex"],
  );
  assert.deepEqual(
    blocks(file).flatMap((it) => (it.type === "code" ? [it.text] : [])),
    ['{"a":1}', output],
  );
  assert.match(file, /\*\*Call\*\* `` cat `x` `` \(failed, exit 2, 0\.1 s\)/);
  assert.match(file, /> \*\*Text\*\*\n>\n> > of a sub-agent/);
  assert.doesNotMatch(marked.parse(file), /<b>|<img/);
});

test("a turn that did not end well says so, and one that runs has what there is", () => {
  const file = markdownOf(CHAT, [
    done({ outcome: "error", reason: "it *broke*", message: "" }),
    { turn: 2, prompt: "more", state: "running", reply: "half a" },
    { turn: 3, prompt: "later", state: "queued" },
    done({ turn: 4, why: "the first events of this turn are no longer kept." }),
  ]);
  for (const words of ["it \\*broke\\*", "half a", "It is still running.", "It waits for its turn.", "no longer kept"])
    assert.ok(file.includes(words), words);
});

test("a file is named by the words of the title, in any script", () => {
  assert.equal(fileName("Fix ../the: build!"), "fix-the-build.md");
  assert.equal(fileName("修正 ビルド"), "修正-ビルド.md");
  for (const title of [null, "", "…/…"]) assert.equal(fileName(title), "chat.md");
  assert.ok(fileName("x".repeat(500)).length < 70);
});
