// The texts of the page that more than one view uses, or that depend on something.

import { oneLine } from "./format.js";

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const SURE_ATTEMPTS = 3; // then a server of this machine does not run; a connection elsewhere may only be bad

/**
 * A text that begins and ends as a sentence does.
 *
 * @param {string} text
 */
export function sentence(text) {
  const upper = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(upper) ? upper : `${upper}.`;
}

/** Whether the page comes from this machine, so that no network is between. */
export const isLocal = (/** @type {string} */ host) => LOOPBACK.test(host);

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
 * @param {{ host: string, online: boolean, attempts: number }} connection
 */
export function connectionText({ host, online, attempts }) {
  if (isLocal(host)) {
    return attempts < SURE_ATTEMPTS ? "The connection is cut; it is tried again." : unreachable(host);
  }
  return online ? "The connection is cut; it is tried again." : "You are offline.";
}

const LIMIT = "the model stopped at its output limit"; // a reason, as the adapters give it

/** The message after which a reply goes on that was stopped there. */
export const GO_ON = "Go on where you stopped.";

/** @typedef {{ outcome?: Api.Completed["outcome"] | null, reason?: string | null, began_at?: number | null }} Ending */

/**
 * Whether a turn ended because the reply became too long.
 *
 * @param {Ending} turn
 */
export function atLimit({ outcome, reason }) {
  return outcome === "error" && oneLine(reason) === LIMIT;
}

/**
 * How a turn ended, if it did not end well; "" if it did. One that never began was taken back.
 *
 * @param {Ending} turn
 */
export function outcomeText({ outcome, reason, began_at: began }) {
  if (atLimit({ outcome, reason })) return "It stopped at the model's output limit.";
  const why = oneLine(reason);
  const because = why ? `: ${why}` : ".";
  switch (outcome) {
    case "error":
      return `It failed${because}`;
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

/**
 * What an agent may do, from the least to the most: as a chat's `allow` has it.
 *
 * @type {{ value: Api.ChatView["allow"], label: string, text: string }[]}
 */
export const ALLOW = [
  {
    value: "default",
    label: "Asks first",
    text: "It asks you before it changes a file or runs a command, except for what its own settings allow.",
  },
  {
    value: "edits",
    label: "Edits files",
    text: "It changes files in this directory without asking. Before it runs a command, it asks.",
  },
  {
    value: "all",
    label: "Does everything",
    text: "It changes files and runs any command without asking. Choose it only where nothing can be lost.",
  },
];

const cannotAsk = (/** @type {Api.AgentView | undefined} */ agent) => agent && !agent.asks;

/**
 * The name of a permission, for this agent.
 *
 * @param {Api.ChatView["allow"]} value
 * @param {Api.AgentView | undefined} agent
 */
export function allowLabel(value, agent) {
  if (value === "default" && cannotAsk(agent)) return "Only reads";
  return ALLOW.find((it) => it.value === value)?.label ?? "";
}

/**
 * What a permission means for this agent.
 *
 * @param {Api.ChatView["allow"]} value
 * @param {Api.AgentView | undefined} agent
 */
export function allowText(value, agent) {
  if (agent && cannotAsk(agent) && value !== "all") {
    const may = value === "edits" ? "It changes files without asking. " : "";
    return `${may}${oneLine(agent.name)} cannot ask you while it works. It skips what needs your permission.`;
  }
  return ALLOW.find((it) => it.value === value)?.text ?? "";
}

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
export const EARLY_TEXT =
  "The agent asked this while you were writing. Press Enter again to give your text as the answer, or choose above.";

export const SHORTCUTS = [
  ["Enter", "Send the message"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop the agent"],
  ["/", "Write a message"],
  ["1 2 3", "Choose an answer, outside of a field"],
  ["Alt + N", "New chat"],
  ["Alt + ↑ ↓", "Chat above, chat below"],
  ["Alt + End", "Jump to the latest"],
  ["?", "This list"],
];
