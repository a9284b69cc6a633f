// How much of the model's context a conversation has left.

import { count } from "./format.js";

/** @import { TurnData } from "../net/wire.js" */
/** @typedef {{ percent: number, text: string, title: string, isLow: boolean }} ContextLeft */

const LOW_PERCENT = 20; // agents shorten the conversation by themselves when little more is used

/**
 * What is left after the newest turn that began. Null if that turn does not say: what an earlier one said no longer holds.
 *
 * @param {Pick<TurnData, "state" | "began_at" | "finalized" | "context_tokens" | "context_window">[]} turns
 * @returns {ContextLeft | null}
 */
export function contextLeft(turns) {
  const newest = turns.findLast((turn) => turn.state === "completed" && turn.finalized && turn.began_at);
  const { context_tokens: used, context_window: window } = newest ?? {};
  if (!used || !window) return null;
  const left = Math.max(0, window - used);
  const percent = Math.floor((100 * left) / window);
  const shown = percent || left <= 0 ? `${percent} %` : "Under 1 %";
  return {
    percent,
    text: `${shown} of the context left`,
    title: `${count(used)} of ${count(window)} tokens are used`,
    isLow: percent <= LOW_PERCENT,
  };
}
