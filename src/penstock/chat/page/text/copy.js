// The texts of the page that more than one view uses, or that depend on something.

import { below, dayAndClock, oneLine, plural } from "./format.js";

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const SURE_ATTEMPTS = 3; // then a server of this machine does not run; a connection elsewhere may only be bad

const COMMAND = /^(git|penstock) /;

/**
 * A text that begins and ends as a sentence does; a command at its beginning stays as it is typed.
 *
 * @param {string} text
 */
export function sentence(text) {
  const upper = COMMAND.test(text) ? text : text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(upper) ? upper : `${upper}.`;
}

/** Whether the page comes from this machine, so that no network is between. */
export const isLocal = (/** @type {string} */ host) => LOOPBACK.test(host);

/**
 * The address of a link that another device can open, or null. From this machine, it is the one that is allowed besides:
 * it has TLS, as its name stands for a proxy.
 *
 * @param {Api.Link} link
 */
export function reachableUrl({ url, allowed }) {
  const { hostname, pathname, hash } = new URL(url);
  if (!isLocal(hostname)) return url;
  const name = allowed.find((it) => !it.startsWith("*"));
  return name ? `https://${name}${pathname}${hash}` : null;
}

/**
 * What is wrong if no response came.
 *
 * @param {string} host
 */
export function unreachable(host) {
  return isLocal(host) ? "Penstock is not running. Start it with `penstock serve`." : "The server cannot be reached.";
}

/**
 * The same while it is tried again by itself: `attempts` so far.
 *
 * @param {{ host: string, online: boolean, attempts: number, reason?: string }} connection
 */
export function connectionText({ host, online, attempts, reason = "" }) {
  if (reason) return `Penstock answers: ${reason}. It is tried again.`;
  if (isLocal(host)) {
    return attempts < SURE_ATTEMPTS ? "The connection is cut; it is tried again." : unreachable(host);
  }
  return online ? "The connection is cut; it is tried again." : "You are offline.";
}

/** The message after which a reply goes on that was stopped there. */
export const GO_ON = "Go on where you stopped.";

/** The message after which an agent does what was not allowed before. */
export const ALLOWED_NOW = "You may do that now. Go on.";

/** @typedef {Pick<Api.TurnView, "outcome" | "reason" | "cause" | "resets_at" | "began_at">} Ending */

/**
 * Whether a turn ended because the reply became too long.
 *
 * @param {Ending} turn
 */
export function atLimit({ outcome, cause }) {
  return outcome === "error" && cause === "length";
}

/**
 * Whether a turn ended in the middle of its work: at the output limit, or cut off in a conversation that the agent
 * `remembers`.
 *
 * @param {Ending & Pick<Api.TurnView, "steps">} turn
 * @param {boolean} remembers
 */
export function canGoOn(turn, remembers) {
  return atLimit(turn) || (turn.outcome === "cut_off" && remembers && Boolean(turn.steps));
}

/** @type {Partial<Record<NonNullable<Api.Completed["cause"]>, string>>} */
const CAUSES = {
  usage_limit: "The usage limit is reached",
  rate_limit: "The provider accepts no more requests at present",
  overloaded: "The provider is overloaded",
  provider: "The provider failed",
  auth: "The agent is not signed in",
  missing: "The model or the program does not exist",
  context: "The conversation is too long for the model",
  network: "The provider cannot be reached",
  budget: "The budget is used up",
};

/**
 * How a turn ended, if it did not end well; "" if it did. One that never began was taken back.
 *
 * @param {Ending} turn
 */
export function outcomeText(turn) {
  const { outcome, reason, cause, resets_at: resets, began_at: began } = turn;
  if (atLimit(turn)) return "It stopped at the model's output limit.";
  const why = oneLine(reason);
  const because = why ? `: ${why}` : ".";
  const until = typeof resets === "number" ? ` until ${dayAndClock(resets)}` : "";
  switch (outcome) {
    case "error":
      return `${(cause && CAUSES[cause]) || "It failed"}${until}${because}`;
    case "cancelled":
      return began ? `Stopped${because}` : "Taken back before it began.";
    case "timed_out":
      return `It ran out of time${because}`;
    case "cut_off":
      return `It was cut off${because}`;
    case "empty":
      return `It ended without a reply${because}`;
    default:
      return "";
  }
}

/** @type {Partial<Record<Api.Level["kind"], string>>} */
const NOT_KEPT = { reads: "does more than read", asks: "does not ask first", edits: "does more than change files" };

/**
 * What an agent does that does not keep what a person chose.
 *
 * @param {string} agent
 * @param {Api.Level["kind"]} wanted
 * @param {Api.Level} level
 */
export function notKeptText(agent, wanted, { text }) {
  return `${oneLine(agent)} ${NOT_KEPT[wanted] ?? "does something else"}. ${text}`;
}

const NAME_CHARACTERS = 80; // of an action that was denied; the details have all of it

/** @typedef {Pick<Api.TurnView, "refused" | "rejected" | "denied">} Denied */

/**
 * Sentences about the actions that were denied, with their names between backticks: "You rejected `npm test`.", "2
 * actions were not allowed: `a`, `b`." None if there were none.
 *
 * @param {Denied} turn
 * @param {string} [directory]  The one below which paths are shown relative to it.
 */
export function refusedTexts({ refused = 0, rejected = 0, denied }, directory) {
  const names = (/** @type {Api.DeniedAction["by"]} */ by) =>
    (denied ?? []).filter((it) => it.by === by).map((it) => named(below(it.name, directory)));
  const [byPerson, byPolicy] = [names("person"), names("policy")];
  const left = Math.max(0, refused - rejected);
  const is = `${plural(left, "action was", "actions were")} not allowed`;
  return [
    rejected > 0 && `You rejected ${byPerson.length ? listed(byPerson, rejected) : plural(rejected, "action")}.`,
    left > 0 && (byPolicy.length ? `${is}: ${listed(byPolicy, left)}.` : `${is}.`),
  ].filter((it) => it !== false);
}

/** @param {string} name */
function named(name) {
  const text = oneLine(name).replaceAll("`", "ˋ"); // a backtick would end the code
  return `\`${text.length > NAME_CHARACTERS ? `${text.slice(0, NAME_CHARACTERS)}…` : text}\``;
}

/**
 * @param {string[]} names
 * @param {number} all
 */
function listed(names, all) {
  return all > names.length ? `${names.join(", ")} and ${all - names.length} more` : names.join(", ");
}

/** What to do with files where none can be sent. */
export const NO_FILES = "Files cannot be sent to a loop. Put them into its repository, and name them in your message.";

/** @type {Record<string, string>} */
const QUESTION_TITLES = {
  command: "The agent asks to run a command",
  edit: "The agent asks to change a file",
  outside: "The agent asks to leave its directory",
  network: "The agent asks to use the network",
  tool: "The agent asks to use a tool",
  choice: "The agent asks you to choose",
};

/** What a question asks for. */
export const questionTitle = (/** @type {string} */ ask) => QUESTION_TITLES[ask] ?? "The agent asks";

/**
 * The placeholder of the field while a question waits.
 *
 * @param {Api.OpenQuestion} question
 */
export function answerPlaceholder({ options, free_text: isFree }) {
  if (!options?.length) return "Your answer";
  return isFree ? "Choose above, or write what to do instead" : "Choose above, or write its number";
}

export const LATE_ANSWER =
  "The question was already answered, in another tab or by somebody else. Your answer was not sent.";
export const FILES_FOR_BOTH = "Files go to one chat only. Turn off Both, or take the files out of the message.";
export const EARLY_TEXT =
  "The agent asked this while you were writing. Press Enter again to give your text as the answer, or choose above.";
