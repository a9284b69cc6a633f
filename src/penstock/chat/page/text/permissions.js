// What an agent may do, as the server describes its levels.

/** @typedef {Api.ChatView["allow"]} Allow */

/** @type {Allow[]} From the least to the most. */
const ORDER = ["default", "edits", "all"];

/**
 * The level of an agent; one that it does not have is the one below it.
 *
 * @param {Api.AgentView | undefined} agent
 * @param {Allow} allow
 */
export function levelOf(agent, allow) {
  const most = ORDER.indexOf(allow);
  return agent?.allows.findLast((level) => ORDER.indexOf(level.allow) <= most);
}

/**
 * The level at which the actions are that nobody allowed: above the one of the chat. Undefined if there is none. What a
 * person rejected is settled.
 *
 * @param {Pick<Api.TurnView, "refused" | "rejected" | "needs_allow">} turn
 * @param {Allow} allow  Of the chat.
 * @param {Api.AgentView | undefined} agent
 */
export function levelFor({ refused = 0, rejected = 0, needs_allow: needed }, allow, agent) {
  if (refused <= rejected) return undefined;
  const least = Math.max(ORDER.indexOf(needed ?? "edits"), ORDER.indexOf(allow) + 1);
  return agent?.allows.find((level) => ORDER.indexOf(level.allow) >= least);
}
