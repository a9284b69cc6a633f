// The order of the items of a turn's details: in rounds, and what a sub-agent did below the call that started it.

/** @import { Details } from "../net/wire.js" */
/** @typedef {Pick<Details["items"][number], "parent"> & { round?: number }} Item */

const MAX_DEPTH = 6; // sub-agents deeper than that are not moved in further

/**
 * The round of each item. What has none, as a thought, belongs to what comes after it.
 *
 * @param {Item[]} items
 */
export function roundsOf(items) {
  /** @type {number[]} */
  const rounds = [];
  const roundOf = (/** @type {Item} */ item) => (isTop(item) && "round" in item ? item.round : 0);
  let round = items.map(roundOf).findLast(Boolean) || 1;
  for (let i = items.length - 1; i >= 0; i--) {
    round = roundOf(items[i]) || round;
    rounds[i] = round;
  }
  return rounds;
}

export const isTop = (/** @type {Item} */ { parent }) => parent === undefined || parent === null;

/**
 * The call of the sub-agent that an item is of, or -1.
 *
 * @param {Item} item
 * @param {number} i
 */
const callOf = ({ parent }, i) => (typeof parent === "number" && parent < i ? parent : -1);

/**
 * The order of the items: those of a sub-agent come directly below the call that started it.
 *
 * @param {Item[]} items
 */
export function orderOf(items) {
  /** @type {Map<number, number[]>} */
  const below = new Map([-1, ...items.keys()].map((i) => [i, []]));
  items.forEach((item, i) => below.get(callOf(item, i))?.push(i));
  const order = [];
  const left = [...(below.get(-1) ?? [])].reverse(); // a stack of its own: agents may start agents without end
  while (left.length) {
    const i = /** @type {number} */ (left.pop());
    order.push(i);
    left.push(...(below.get(i) ?? []).reverse());
  }
  return order;
}

/**
 * The depth of each item.
 *
 * @param {Item[]} items
 */
export function depthsOf(items) {
  /** @type {number[]} */
  const depths = [];
  items.forEach((item, i) => {
    const call = callOf(item, i);
    depths[i] = call < 0 ? 0 : Math.min(MAX_DEPTH, depths[call] + 1);
  });
  return depths;
}
