// What turns have cost, as a table shows it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { figuresOf, HEADS, totalOf } from "../../../src/penstock/chat/page/text/costs.js";

const sum = (turns, cost_usd, turns_without_cost, input_tokens = 0, output_tokens = 0) => ({
  turns,
  cost_usd,
  turns_without_cost,
  input_tokens,
  output_tokens,
});

test("figures have the rounding of the command line", () => {
  assert.equal(figuresOf(sum(1, 1, 0)).length, HEADS.length);
  assert.deepEqual(figuresOf(sum(1234, 1234.56789, 0, 1_234_567, 89)), ["1,234", "$1,234.5679", "1,234,567", "89", ""]);
  assert.deepEqual(figuresOf(sum(2, null, 2)), ["2", "–", "–", "–", "2"]);
  assert.deepEqual(figuresOf(sum(2, 0, 1)), ["2", "$0.0000", "–", "–", "1"]);
});

test("the total has a cost if one of the sums has one", () => {
  assert.deepEqual(totalOf([sum(2, 0.5, 1, 10, 1), sum(1, null, 1), sum(1, 0.25, 0, 5, 2)]), sum(4, 0.75, 2, 15, 3));
  assert.equal(totalOf([sum(1, null, 1)]).cost_usd, null);
});
