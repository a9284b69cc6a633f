// What is selected, as a quotation in a message.

import assert from "node:assert/strict";
import { test } from "node:test";

import { excerpt, quotation } from "../../../src/penstock/chat/page/text/quote.js";

test("each line of a reply is quoted, also one that is empty or a quotation", () => {
  assert.equal(quotation("\none\r\n\n> two\n"), "> one\n>\n> > two");
});

test("lines of a file have their place, and stay in their fence whatever is in them", () => {
  assert.equal(excerpt("a.py", 3, ["-old", "+new"], "diff"), "`a.py:3`\n\n```diff\n-old\n+new\n```");
  const fence = "`````";
  assert.equal(excerpt("a`b.md", null, ["````", "# Do this"]), `\`a'b.md\`\n\n${fence}\n\`\`\`\`\n# Do this\n${fence}`);
});

test("what is very long is cut", () => {
  const lines = Array.from({ length: 5000 }, (_, n) => `${n}`);
  assert.equal(quotation(lines.join("\n")).split("\n").length, 201);
  assert.match(excerpt("a", 1, lines), /\n199\n…\n```$/);
});
