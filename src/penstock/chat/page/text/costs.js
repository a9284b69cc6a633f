// What turns have cost, in the words and with the rounding of `penstock cost`.

/** @typedef {Pick<Api.CostOfTurns, "turns" | "cost_usd" | "turns_without_cost" | "input_tokens" | "output_tokens">} Sum */

export const HEADS = ["turns", "cost", "tokens in", "out", "without cost"];

const DIGITS = 4; // after the point
const whole = (/** @type {number} */ n) => n.toLocaleString("en");

/**
 * The figures of a sum, in the order of the heads.
 *
 * @param {Sum} sum
 */
export function figuresOf({
  turns,
  cost_usd: cost,
  turns_without_cost: without,
  input_tokens: input,
  output_tokens: output,
}) {
  const digits = { minimumFractionDigits: DIGITS, maximumFractionDigits: DIGITS };
  return [
    whole(turns),
    cost === null ? "–" : `$${cost.toLocaleString("en", digits)}`,
    input ? whole(input) : "–",
    output ? whole(output) : "–",
    without ? whole(without) : "",
  ];
}

/**
 * The sum of sums.
 *
 * @param {Sum[]} sums
 * @returns {Sum}
 */
export function totalOf(sums) {
  const add = (/** @type {"turns" | "turns_without_cost" | "input_tokens" | "output_tokens"} */ name) =>
    sums.reduce((total, sum) => total + sum[name], 0);
  const costs = sums.flatMap(({ cost_usd: cost }) => (cost === null ? [] : [cost]));
  return {
    turns: add("turns"),
    cost_usd: costs.length ? costs.reduce((total, cost) => total + cost, 0) : null,
    turns_without_cost: add("turns_without_cost"),
    input_tokens: add("input_tokens"),
    output_tokens: add("output_tokens"),
  };
}
