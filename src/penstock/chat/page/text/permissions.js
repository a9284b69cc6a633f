// What an agent may do, as the server describes its levels.

/** @typedef {Api.ChatView["allow"]} Allow */

/** @type {Allow[]} From the least to the most. An agent's own default has no place here: it may be anything. */
const ORDER = ["read", "ask", "edits", "all"];

/**
 * The level of an agent; one that it does not have is the one below it, else what it does by default.
 *
 * @param {Pick<Api.AgentView, "allows" | "default_allow"> | undefined} agent
 * @param {Allow} allow
 */
export function levelOf(agent, allow) {
  const named = (/** @type {Allow | undefined} */ name) => agent?.allows.find((level) => level.allow === name);
  const most = ORDER.indexOf(allow);
  const below = agent?.allows.findLast((level) => ORDER.includes(level.allow) && ORDER.indexOf(level.allow) <= most);
  return named(allow) ?? below ?? named(agent?.default_allow);
}

/** @typedef {Api.Level["kind"]} Kind */

/** @type {Record<Kind, number>} How free an agent is; what follows its own settings may do anything. */
const FREEDOM = { answers: 0, reads: 1, asks: 2, edits: 3, own: 4, all: 5 };

/** @type {Kind} What a person gets who has chosen nothing yet. */
export const FIRST_KIND = "asks";

/**
 * The level of an agent that comes to what a person chose, for whatever agent that was. `isKept` is false if the agent
 * cannot be made to keep it, so that the person has to know what it does instead.
 *
 * @param {Api.AgentView} agent
 * @param {string | undefined} chosen
 * @returns {{ level: Api.Level | undefined, wanted: Kind, isKept: boolean }}
 */
export function chosenLevel({ allows }, chosen) {
  const exact = allows.find((it) => it.kind === chosen);
  if (exact) return { level: exact, wanted: exact.kind, isKept: true };
  // One agent's own settings are none of another's.
  const wanted =
    chosen && chosen !== "own" && Object.hasOwn(FREEDOM, chosen) ? /** @type {Kind} */ (chosen) : FIRST_KIND;
  const level = allows.find((it) => it.kind === wanted) ?? freest(allows, FREEDOM[wanted]) ?? allows[0];
  if (!level || level.kind === wanted || level.kind === "answers") return { level, wanted, isKept: true };
  const isAsked = level.kind === "asks" && wanted === "reads"; // nothing is done unasked
  const isLess = FREEDOM[wanted] > FREEDOM.asks && FREEDOM[level.kind] <= FREEDOM[wanted];
  return { level, wanted, isKept: isAsked || isLess };
}

/**
 * @param {Api.Level[]} allows
 * @param {number} most
 */
function freest(allows, most) {
  return allows.findLast((it) => FREEDOM[it.kind] <= most);
}

/**
 * The level at which the actions are that nobody allowed: above the one of the chat. Undefined if there is none. What a
 * person rejected is settled.
 *
 * @param {Pick<Api.TurnView, "refused" | "rejected" | "needs_allow">} turn
 * @param {Allow} allow  Of the chat.
 * @param {Pick<Api.AgentView, "allows" | "default_allow"> | undefined} agent
 */
export function levelFor({ refused = 0, rejected = 0, needs_allow: needed }, allow, agent) {
  if (refused <= rejected) return undefined;
  const current = ORDER.indexOf(levelOf(agent, allow)?.allow ?? allow);
  const least = Math.max(ORDER.indexOf(needed ?? "edits"), current + 1);
  return agent?.allows.find((level) => ORDER.indexOf(level.allow) >= least);
}
