// The QR code of a link: its path has each dark module once, and none in the margin.

import assert from "node:assert/strict";
import { test } from "node:test";

import { encode } from "uqr";
import { pathOf } from "../../../src/penstock/chat/page/text/qr-path.js";

test("the path of a link has the modules of its code, and a white margin", () => {
  const link = `https://chat.example.org/#code=${"a".repeat(22)}`;
  const { path, size } = pathOf(link);
  const drawn = new Set([...path.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x},${y}`));
  const { data } = encode(link, { border: 3 });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`${x},${y}`] : [])));
  assert.deepEqual([...drawn].sort(), dark.sort());
  assert.equal(size, data.length);
  for (const at of drawn) for (const it of at.split(",")) assert.ok(Number(it) >= 3 && Number(it) < size - 3, at);
  // The three corners by which a camera finds it.
  for (const [x, y] of [
    [3, 3],
    [size - 10, 3],
    [3, size - 10],
  ]) {
    for (let i = 0; i < 7; i++) assert.ok(drawn.has(`${x + i},${y}`) && drawn.has(`${x},${y + i}`));
  }
});
