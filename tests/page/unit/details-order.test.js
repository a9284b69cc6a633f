// The order of the items of a turn's details.

import assert from "node:assert/strict";
import { test } from "node:test";

import { depthsOf, orderOf, roundsOf } from "../../../src/penstock/chat/page/text/details-order.js";

test("what a sub-agent did comes below its call, whatever came between", () => {
  //             0               1               2             3               4             5
  const items = [{ round: 1 }, { round: 1 }, { parent: 0 }, { round: 2 }, { parent: 2 }, { parent: 0 }];
  assert.deepEqual(orderOf(items), [0, 2, 4, 5, 1, 3]);
  assert.deepEqual(depthsOf(items), [0, 0, 1, 0, 2, 1]);
});

test("an item whose call does not come before it stands alone", () => {
  assert.deepEqual(orderOf([{ parent: 1 }, { parent: 1 }, { parent: null }]), [0, 1, 2]);
});

test("agents that start agents without end are in order, and not moved in without end", () => {
  const items = Array.from({ length: 20_000 }, (_, i) => (i ? { parent: i - 1 } : {}));
  assert.deepEqual(orderOf(items), [...items.keys()]);
  assert.equal(Math.max(...depthsOf(items).slice(0, 100)), 6);
});

test("a thought belongs to the round of what comes after it", () => {
  assert.deepEqual(roundsOf([{}, { round: 1 }, {}, { round: 2 }, {}]), [1, 1, 2, 2, 2]);
});
