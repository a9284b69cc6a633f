// Commands after a / at the beginning of a message, and the variables of a prompt.

import assert from "node:assert/strict";
import { test } from "node:test";
import { filled, leftOf, meantBy, slashAt } from "../../../src/penstock/chat/page/text/slash-commands.js";

const command = (name) => ({ name, description: "", argument: "", prompt: null });
const names = (commands, typed) => meantBy(commands.map(command), typed).map((it) => it.name);

test("a name after a / is one at the beginning of the message, up to the caret", () => {
  assert.deepEqual(slashAt("/", 1), { end: 1, typed: "" });
  assert.deepEqual(slashAt("/review the rest", 4), { end: 4, typed: "rev" });
  for (const [text, caret] of [
    ["", 0],
    ["/", 0],
    ["a /b", 4],
    [" /b", 3],
    ["/a b", 4],
    ["/a\n", 3],
    [`/${"x".repeat(300)}`, 301],
  ])
    assert.equal(slashAt(text, caret), null, text);
});

test("a command is meant by the beginning of its name or of a word in it, and by no other part", () => {
  const all = ["pr-review", "review", "git:Review", "preview", "x/rev"];
  assert.deepEqual(names(all, "rev"), ["review", "pr-review", "git:Review", "x/rev"]);
  assert.deepEqual(names(all, "REVIEW"), ["review", "pr-review", "git:Review"]);
  assert.deepEqual(names(["draw", "$review"], "rev"), ["$review"]);
  assert.deepEqual(names(all, ""), all);
  assert.deepEqual(names(all, "usr/bin"), []);
  assert.deepEqual(names(all, "(["), []);
  assert.equal(names(Array(500).fill("a"), "").length, 100);
});

test("a prompt has the values of its profile, and every variable its place", () => {
  const prompt = {
    text: "{{a}} since {{base}}: {{ a }} {{a}} {{unknown}}",
    variables: [
      { name: "a", value: "" },
      { name: "base", value: "main $& {{a}}" },
    ],
  };
  const { text, variables } = filled(prompt);
  assert.equal(text, "{{a}} since main $& {{a}}: {{ a }} {{a}} {{unknown}}");
  assert.deepEqual(
    variables.map(({ start, end }) => text.slice(start, end)),
    ["{{a}}", "main $& {{a}}", "{{a}}", "{{unknown}}"],
  );
});

test("a change moves the variables behind it, and ends those that it touches", () => {
  const { text, variables } = filled({ text: "see {{a}}, {{b}} and {{c}}", variables: [] });
  for (const [now, left] of [
    [text, ["{{a}}", "{{b}}", "{{c}}"]],
    ["see parser, {{b}} and {{c}}", ["{{b}}", "{{c}}"]],
    ["see {{a}}, and {{c}}", ["{{a}}", "{{c}}"]],
    ["please see {{a}}, {{b}} and {{c}}", ["{{a}}", "{{b}}", "{{c}}"]],
    ["see {{a}}, {{b}} and {{c}} twice", ["{{a}}", "{{b}}", "{{c}}"]],
    ["see {{a}}, {{bc}} and {{c}}", ["{{a}}", "{{c}}"]],
    ["", []],
    ["other", []],
  ]) {
    const places = leftOf(variables, text, now);
    assert.deepEqual(
      places.map(({ start, end }) => now.slice(start, end)),
      left,
    );
  }
});
