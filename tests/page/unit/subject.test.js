// What a question is about is shown once: node --test tests/page/unit

import assert from "node:assert/strict";
import { test } from "node:test";

import { changeTitle } from "../../../src/penstock/chat/page/text/diff.js";
import { below } from "../../../src/penstock/chat/page/text/format.js";
import { labelOf, remarkOf, subjectOf } from "../../../src/penstock/chat/page/text/subject.js";

const SCRIPT = "rm -rf build/ && \\\n  find . -name '*.pyc' -delete && \\\n  git push --force origin main";
const change = (path, diff, more = {}) => ({ path, kind: "update", added: 1, removed: 1, diff, ...more });
const command = (text, more = {}) => ({ id: "1", ask: "command", text, title: text, ...more });
const edit = (text, changes, more = {}) => ({ id: "1", ask: "edit", text, changes, ...more });

test("a command of several lines is no text as well, whatever shortened its title", () => {
  for (const title of [SCRIPT, "rm -rf build/ && \\ …", undefined]) {
    const question = command(SCRIPT, { title, command: SCRIPT });
    assert.equal(remarkOf(question), "");
    assert.equal(subjectOf(question), SCRIPT);
  }
  const wrapped = command("echo 1\necho 2", { command: "/bin/bash -lc 'echo 1\necho 2'" });
  assert.equal(remarkOf(wrapped), "");
  assert.equal(remarkOf(command("npm test")), "");
});

test("a command without data is what its question is about", () => {
  const question = command("echo hi && ls", { title: undefined });
  assert.deepEqual([subjectOf(question), remarkOf(question)], ["echo hi && ls", ""]);
});

test("the name of a tool and the reason of the agent stay", () => {
  assert.equal(remarkOf(command("run_commands: npm test", { title: "npm test" })), "run_commands");
  assert.equal(remarkOf(command("the sandbox denied it\nnpm test", { title: "npm test" })), "the sandbox denied it");
  assert.equal(remarkOf(command(`${SCRIPT}\nIt leaves the directory`, { command: SCRIPT })), "It leaves the directory");
  const tool = { id: "1", ask: "tool", text: "WebFetch: https://a.example", title: "https://a.example" };
  assert.deepEqual([remarkOf(tool), subjectOf(tool)], ["WebFetch", "https://a.example"]);
  assert.equal(remarkOf({ id: "1", ask: "choice", text: "Which colour?", options: [] }), "Which colour?");
});

test("the name of a tool that the heading tells is no text", () => {
  assert.equal(remarkOf(command("bash: echo hi && ls", { title: "echo hi && ls" })), "");
  assert.equal(remarkOf(command("bash it\nnpm test", { title: "npm test" })), "bash it");
  const tool = { id: "1", ask: "tool", text: "bash: x", title: "x" };
  assert.equal(remarkOf(tool), "bash");
});

test("an answer that allows more than what is asked for says so", () => {
  const label = "Allow for this session";
  assert.equal(labelOf({ id: "1", label, kind: "allow_always", wide: true }), `${label} (more than this)`);
  assert.equal(labelOf({ id: "1", label, kind: "allow_always" }), label);
  assert.equal(
    labelOf({ id: "1", label: "Allow always: ls *", kind: "allow_always", wide: true }),
    "Allow always: ls *",
  );
});

test("a long command, of which the text has the beginning only, is no text", () => {
  const long = "echo " + "word ".repeat(500);
  assert.equal(remarkOf(command(`${long.slice(0, 900)}…`, { title: "echo", command: long })), "");
});

test("a raw patch is no text: it is shown as a diff", () => {
  const patch = "@@ -1,3 +1,3 @@\n def total(prices):\n-    return 0\n+    return sum(prices)\n\n     # the end";
  const text = `The tests need it\nupdate /shop/prices.py\n${patch}`;
  const question = edit(text, [change("/shop/prices.py", `${patch}\n`)]);
  assert.equal(remarkOf(question, "/shop"), "The tests need it");
  const made = "add /shop/a.txt\nline one\nline two — ünï";
  const lines = "@@ -0,0 +1,2 @@\n+line one\n+line two — ünï\n";
  assert.equal(remarkOf(edit(made, [change("/shop/a.txt", lines, { kind: "add" })])), "");
  const cut = edit(`${made}\nline three`, [change("/shop/a.txt", lines, { truncated: true })]);
  assert.equal(remarkOf(cut), "");
});

test("a line that only names the changed file is no text, and a reason is", () => {
  const changes = [change("/shop/notes.txt", "@@\n-a\n+b\n")];
  for (const text of ["/shop/notes.txt", "Writing to notes.txt: /shop/notes.txt", "Write notes.txt: /shop/notes.txt"]) {
    assert.equal(remarkOf(edit(text, changes, { title: "/shop/notes.txt" })), "", text);
  }
  const why = "/shop/notes.txt\nThe rule of this project does not allow changes of notes.txt";
  assert.equal(remarkOf(edit(why, changes)), "The rule of this project does not allow changes of notes.txt");
  assert.equal(remarkOf(edit("/shop/notes.txt\nwrite below /shop/out", changes), "/shop"), "write below out");
});

test("paths are relative to the directory of the chat, unless they lead out of it", () => {
  assert.equal(below("/home/ann/shop/src/a.py", "/home/ann/shop"), "src/a.py");
  assert.equal(below("/home/ann/shop/a b.py", "/home/ann/shop/"), "a b.py");
  const whole = ["/home/ann/shop/../key", "/home/ann/shopping/a", "/etc/passwd", "/home/ann/shop", "a.py"];
  for (const path of whole) assert.equal(below(path, "/home/ann/shop"), path);
  assert.equal(below("/etc/passwd", "/"), "/etc/passwd");
  assert.equal(below("/etc/passwd", ""), "/etc/passwd");
  const moved = { path: "/shop/a", kind: "move", to: "/other/b" };
  assert.equal(changeTitle(moved, "/shop"), "move a → /other/b");
});

test("words of a pattern in a command are only words", () => {
  for (const text of ["grep -E '(a|b)+$' x.*", "a ".repeat(30_000), "[", "\\"])
    assert.equal(remarkOf(command(text)), "");
});
