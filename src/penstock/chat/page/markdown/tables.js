// A table in slices of rows: a large one takes many tasks, and of one that grows only the last rows are drawn again.

import { build, drawBlock, drawPlain, patchChild } from "./blocks.js";
import { drawFormulas } from "./formulas.js";
import { toHtml } from "./parser.js";

const SLICE_CELLS = 600; // read and made in a few milliseconds
const PLACED_CELLS = 3600; // put into the page at a time: each time the browser looks at all cells

/**
 * @typedef {object} Rows  What of a table is drawn.
 * @property {string} head  Its first two lines.
 * @property {string[]} slices  The lines of the rows of each slice.
 * @property {number} links  How many targets of reference links there were.
 */

/**
 * The head of a table, and its rows in slices. A row is a line, so a slice behind the head is a table too.
 *
 * @param {string} source
 * @returns {{ head: string, slices: string[], size: number }}  `size`: how many rows a slice has; the last one may have fewer.
 */
export function slicesOf(source) {
  const lines = source.replace(/\s+$/, "").split("\n");
  const columns = (lines[1] ?? "").split("|").length;
  const size = Math.max(1, Math.floor(SLICE_CELLS / columns));
  const slices = [];
  for (let at = 2; at < lines.length; at += size) slices.push(lines.slice(at, at + size).join("\n"));
  return { head: lines.slice(0, 2).join("\n"), slices, size };
}

/**
 * Let a block's element show a table: what differs from `drawn`, which is kept up to date. It stops after each slice.
 *
 * @param {HTMLElement} node
 * @param {string} source
 * @param {Rows | undefined} drawn
 * @param {(rows: Rows) => void} keep  Called with what is drawn, before anything is drawn.
 * @param {{ links: import("./parser.js").Links, linkCount: number, pictureUrl: import("./blocks.js").PictureUrl | null }} how
 * @returns {Generator<"large">}
 */
export function* drawTable(node, source, drawn, keep, { links, linkCount, pictureUrl }) {
  const { head, slices, size } = slicesOf(source);
  let rows = drawn;
  if (!rows || rows.head !== head || !node.querySelector("tbody")) {
    drawBlock(node, [head, ...slices.slice(0, 1)].join("\n"), links, pictureUrl);
    rows = { head, slices: slices.slice(0, 1), links: linkCount };
  } else if (rows.links !== linkCount) rows = { head, slices: [], links: linkCount };
  keep(rows);
  const body = node.querySelector("tbody");
  if (!body) return;
  /** @type {{ i: number, made: HTMLTableRowElement[] }[]} Slices that are made, and not in the page yet. */
  const ready = [];
  for (const [i, slice] of slices.entries()) {
    if (rows.slices[i] === slice) continue;
    try {
      ready.push({ i, made: rowsOf(build(toHtml(`${head}\n${slice}`, links), pictureUrl)) });
    } catch {
      drawPlain(node, source);
      return;
    }
    if (ready.length * SLICE_CELLS >= PLACED_CELLS || i === slices.length - 1) {
      for (const { i: at, made } of ready.splice(0)) {
        place(body, at * size, made);
        rows.slices[at] = slices[at];
      }
    }
    yield "large";
  }
  rows.slices.length = slices.length;
  const count = source.trimEnd().split("\n").length - 2;
  while (body.rows.length > Math.max(0, count)) body.deleteRow(-1);
}

/**
 * @param {DocumentFragment} made
 */
const rowsOf = (made) => [...(made.querySelector("tbody")?.rows ?? [])];

/**
 * Put rows into a table, from the row number `at`.
 *
 * @param {HTMLTableSectionElement} body
 * @param {number} at
 * @param {HTMLTableRowElement[]} made
 */
function place(body, at, made) {
  const before = made.map((_, i) => body.rows[at + i]);
  for (const [i, row] of made.entries()) drawFormulas(/** @type {HTMLElement} */ (patchChild(body, before[i], row)));
}
