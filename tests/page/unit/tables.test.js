// A table in slices: its rows are those of the table as a whole.

import assert from "node:assert/strict";
import test from "node:test";
import { scan, toHtml } from "../../../src/penstock/chat/page/markdown/parser.js";
import { slicesOf } from "../../../src/penstock/chat/page/markdown/tables.js";

const bodyOf = (/** @type {string} */ html) => /<tbody>(.*)<\/tbody>/s.exec(html)?.[1] ?? "";

/** The rows of a table that is read slice by slice. */
function inSlices(/** @type {string} */ source) {
  const { head, slices } = slicesOf(source);
  return slices.map((slice) => bodyOf(toHtml(`${head}\n${slice}`))).join("");
}

const wide = (/** @type {number} */ columns, /** @type {number} */ rows) =>
  [
    `| ${Array.from({ length: columns }, (_, i) => `c${i}`).join(" | ")} |`,
    `|${"---|".repeat(columns)}`,
    ...Array.from(
      { length: rows },
      (_, r) => `| ${Array.from({ length: columns }, (_, i) => `${r} ${i}`).join(" | ")} |`,
    ),
  ].join("\n");

const TABLES = {
  "many columns": wide(300, 7),
  "many rows": wide(3, 900),
  "one row": wide(2, 1),
  "no row": wide(2, 0),
  "line ends behind it": `${wide(120, 30)}\n\n`,
  "without bars at the sides": `a | b\n--- | :-:\n${"1 | 2\n".repeat(700)}`,
  "rows that are too short and too long": `|a|b|\n|-|-|\n${"|1|\n|1|2|3|\n|\n".repeat(300)}`,
  "bars that are text": `|a|b|\n|-|-|\n${"|x \\| y|`p \\| q`|\n  |*z*|[l](https://a.example)|\n".repeat(300)}`,
  "marks that are open": `|a|b|\n|-|-|\n${"|**x|<b>y|\n|`z|[w|\n".repeat(300)}`,
};

for (const [name, source] of Object.entries(TABLES)) {
  test(`the slices of a table with ${name} have its rows`, () => {
    assert.equal(scan(source)[0].type, "table");
    assert.equal(inSlices(source), bodyOf(toHtml(source)));
  });
}

test("a slice has a bounded number of cells, and at least one row", () => {
  assert.equal(slicesOf(wide(2, 100)).slices.length, 1);
  const { slices, size } = slicesOf(wide(300, 60));
  assert.ok(size >= 1 && size * 300 <= 1200);
  assert.equal(slices.length, Math.ceil(60 / size));
  assert.equal(slicesOf(wide(5000, 2)).size, 1);
});

test("rows that are added leave the slices before them as they were", () => {
  const [short, long] = [slicesOf(wide(60, 100)), slicesOf(wide(60, 200))];
  assert.deepEqual(long.slices.slice(0, short.slices.length - 1), short.slices.slice(0, -1));
});
