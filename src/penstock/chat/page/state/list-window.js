// Which rows of a long list are drawn: those near what is seen, and gaps as high as the others.

/** @import { Group } from "./attention.js" */

/** @typedef {{ from: number, to: number }} Span  Rows from one to before another, counted over all groups. */
/** @typedef {{ heading: number, row: number }} Heights  In pixels: all headings have one height, and all rows another. */
/** @typedef {{ gap: number } | { it: Group["items"][number], place: number }} RowPart  `place`: its index in its group. */
/** @typedef {{ gap: number } | { group: Group, rows: RowPart[] }} Part */

const NEAR = 25; // rows before and after what is seen that are drawn at any time: who scrolls or listens finds them there
const FAR = 50; // rows that are drawn when some are lacking, so that they are not drawn anew all the time

/**
 * The rows that stand between two heights of the list.
 *
 * @param {Group[]} groups
 * @param {Heights} heights
 * @param {number} top
 * @param {number} bottom
 * @returns {Span}
 */
export function rowsBetween(groups, { heading, row }, top, bottom) {
  let from = -1;
  let to = 0;
  let first = 0; // of the group
  let y = 0;
  for (const { items } of groups) {
    const begin = y + heading;
    const end = begin + items.length * row;
    const inGroup = (/** @type {number} */ rows) => first + Math.min(items.length, Math.max(0, rows));
    if (end > top && y < bottom) {
      if (from < 0) from = inGroup(Math.floor((top - begin) / row));
      to = inGroup(Math.ceil((bottom - begin) / row));
    }
    first += items.length;
    y = end;
  }
  return from < 0 ? { from: first, to: first } : { from, to };
}

/**
 * The rows to draw, if these are seen: those that are drawn already if they are enough.
 *
 * @param {Span} drawn
 * @param {Span} seen
 * @param {number} all  How many rows there are.
 * @returns {Span}
 */
export function around(drawn, seen, all) {
  const isEnough = drawn.from <= Math.max(0, seen.from - NEAR) && drawn.to >= Math.min(all, seen.to + NEAR);
  return isEnough ? drawn : { from: Math.max(0, seen.from - FAR), to: Math.min(all, seen.to + FAR) };
}

/**
 * The list with gaps in the places of the rows that are not drawn. A group without any that is drawn is part of a gap.
 *
 * @param {Group[]} groups
 * @param {(row: number, it: Group["items"][number]) => boolean} isDrawn
 * @param {Heights} heights
 * @returns {Part[]}
 */
export function partsOf(groups, isDrawn, { heading, row }) {
  /** @type {Part[]} */
  const parts = [];
  let number = 0;
  let gap = 0;
  for (const group of groups) {
    /** @type {RowPart[]} */
    const rows = [];
    let left = 0;
    for (const [place, it] of group.items.entries()) {
      if (isDrawn(number++, it)) {
        if (left) rows.push({ gap: left * row });
        left = 0;
        rows.push({ it, place });
      } else left++;
    }
    if (!rows.length) {
      gap += heading + left * row;
      continue;
    }
    if (left) rows.push({ gap: left * row });
    if (gap) parts.push({ gap });
    gap = 0;
    parts.push({ group, rows });
  }
  if (gap) parts.push({ gap });
  return parts;
}
