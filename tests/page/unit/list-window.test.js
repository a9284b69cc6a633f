// The rows of a long list that are drawn: few, the right ones, and in their places.

import assert from "node:assert/strict";
import { test } from "node:test";

import { around, partsOf, rowsBetween } from "../../../src/penstock/chat/page/state/list-window.js";

const HEIGHTS = { heading: 30, row: 36 };
const group = (name, count, first = 0) => ({
  name,
  items: Array.from({ length: count }, (_, i) => ({ id: `c${first + i}` })),
});
/** 10,000 rows: two groups of a few, one without end, and many of one row. */
const LONG = [group("Asks you", 3), group("Today", 7, 3), group("Older", 9000, 10)];
for (let i = 0; i < 990; i++) LONG.push(group(`dir ${i}`, 1, 9010 + i));
const ALL = LONG.reduce((sum, { items }) => sum + items.length, 0);

/** The height of all parts. */
const heightOf = (parts) =>
  parts.reduce((sum, part) => {
    if ("gap" in part) return sum + part.gap;
    return sum + HEIGHTS.heading + part.rows.reduce((rows, it) => rows + (it.gap ?? HEIGHTS.row), 0);
  }, 0);
const WHOLE = LONG.length * HEIGHTS.heading + ALL * HEIGHTS.row;

/** What is drawn while these rows are: ids with their heights from the top. */
function placesOf(parts) {
  const places = new Map();
  let y = 0;
  for (const part of parts) {
    if ("gap" in part) {
      y += part.gap;
      continue;
    }
    y += HEIGHTS.heading;
    for (const row of part.rows) {
      if (row.it) places.set(row.it.id, y);
      y += row.gap ?? HEIGHTS.row;
    }
  }
  return places;
}

test("wherever one scrolls, what is seen is drawn where it stands in the whole list, and little else", () => {
  const whole = placesOf(partsOf(LONG, () => true, HEIGHTS));
  assert.equal(whole.size, ALL);
  let drawn = { from: 0, to: 100 };
  for (let top = 0; top < WHOLE; top += 997) {
    const bottom = top + 900;
    drawn = around(drawn, rowsBetween(LONG, HEIGHTS, top, bottom), ALL);
    const parts = partsOf(LONG, (row) => row >= drawn.from && row < drawn.to, HEIGHTS);
    const places = placesOf(parts);
    assert.equal(heightOf(parts), WHOLE);
    assert.ok(places.size <= 160, `${places.size} rows at ${top}`);
    for (const [id, y] of places) assert.equal(y, whole.get(id));
    for (const [id, y] of whole) if (y + HEIGHTS.row > top && y < bottom) assert.ok(places.has(id), `${id} at ${top}`);
    if (parts.length > 400) assert.fail(`${parts.length} parts`);
  }
});

test("a row that is kept is drawn far from the others, between gaps", () => {
  const parts = partsOf(LONG, (row, it) => row < 2 || it.id === "c5000", HEIGHTS);
  assert.equal(heightOf(parts), WHOLE);
  assert.deepEqual([...placesOf(parts).keys()], ["c0", "c1", "c5000"]);
  assert.deepEqual(
    parts.map((part) => ("gap" in part ? "gap" : part.group.name)),
    ["Asks you", "gap", "Older", "gap"],
  );
  assert.equal(parts[2].rows[1].place, 4990);
});

test("what is drawn stays while it is enough, and ends with the list", () => {
  const drawn = { from: 0, to: 100 };
  assert.equal(around(drawn, { from: 10, to: 40 }, ALL), drawn);
  assert.equal(around(drawn, { from: 0, to: 30 }, 50), drawn);
  assert.deepEqual(around(drawn, { from: 60, to: 90 }, ALL), { from: 10, to: 140 });
  assert.deepEqual(around({ from: 40, to: 140 }, { from: 20, to: 50 }, ALL), { from: 0, to: 100 });
  assert.deepEqual(rowsBetween(LONG, HEIGHTS, WHOLE + 500, WHOLE + 900), { from: ALL, to: ALL }); // it became shorter
  assert.deepEqual(around(drawn, { from: ALL, to: ALL }, ALL), { from: ALL - 50, to: ALL });
  assert.deepEqual(rowsBetween([], HEIGHTS, 0, 900), { from: 0, to: 0 });
});
