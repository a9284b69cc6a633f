// What the page says in words of its own.

import { line } from "./text.js";

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const SURE = 3; // attempts after which a server of this machine does not run; a line elsewhere may only be bad

/** A text that begins and ends as a sentence does. */
export function sentence(text) {
  const upper = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(upper) ? upper : `${upper}.`;
}

/** Whether the page comes from this machine, so that no network is between. */
export const isLocal = (host) => LOOPBACK.test(host);

/** What is wrong where an answer did not come. */
export function unreachable(host) {
  return isLocal(host) ? "Penstock is not running. Start it with `penstock serve`." : "The server cannot be reached.";
}

/** The same where it is tried again by itself: `attempts` so far. */
export function cutWords({ host, online, attempts }) {
  if (isLocal(host)) {
    return attempts < SURE ? "The connection is cut; it is tried again." : unreachable(host);
  }
  return online ? "The connection is cut; it is tried again." : "You are offline.";
}

const LIMIT = "the model stopped at its output limit"; // a reason, as the adapters give it

/** The message that has a reply continued which was stopped there. */
export const GO_ON = "Go on where you stopped.";

/** Whether a turn ended because the reply became too long. */
export function atLimit({ outcome, reason }) {
  return outcome === "error" && line(reason) === LIMIT;
}

/** How a turn ended, where it did not end well; "" where it did. One that never began was taken back. */
export function outcomeWords({ outcome, reason, began_at: began }) {
  if (atLimit({ outcome, reason })) return "It stopped at the model's output limit.";
  const why = line(reason);
  const because = why ? `: ${why}` : ".";
  switch (outcome) {
    case "error": return `It failed${because}`;
    case "cancelled": return began ? `Stopped${because}` : "Taken back before it began.";
    case "timed_out": return `It ran out of time${because}`;
    case "cut_off": return `It was cut off${because}`;
    case "empty": return `It ended without a reply${because}`;
    default: return "";
  }
}

/** What an agent may do, from the least to the most: as a chat's `allow` has it. */
export const ALLOW = [
  {
    value: "default",
    label: "Asks first",
    words: "It asks you before it changes a file or runs a command, except for what its own settings allow.",
  },
  {
    value: "edits",
    label: "Edits files",
    words: "It changes files in this directory without asking. Before it runs a command, it asks.",
  },
  {
    value: "all",
    label: "Does everything",
    words: "It changes files and runs any command without asking. Choose it only where nothing can be lost.",
  },
];

const cannotAsk = (agent) => agent && !agent.asks;

/** What a permission is called, for this agent. */
export function allowLabel(value, agent) {
  if (value === "default" && cannotAsk(agent)) return "Only reads";
  return ALLOW.find((it) => it.value === value)?.label ?? "";
}

/** What that means for this agent. */
export function allowWords(value, agent) {
  if (cannotAsk(agent) && value !== "all") {
    const may = value === "edits" ? "It changes files without asking. " : "";
    return `${may}${line(agent.name)} cannot ask you while it works. It skips what needs your permission.`;
  }
  return ALLOW.find((it) => it.value === value)?.words ?? "";
}

const ASKS = {
  command: "The agent asks to run a command",
  edit: "The agent asks to change a file",
  outside: "The agent asks to leave its directory",
  network: "The agent asks to use the network",
  tool: "The agent asks to use a tool",
  choice: "The agent asks you to choose",
};

/** What a question asks for. */
export const askWords = (ask) => ASKS[ask] ?? "The agent asks";

/** What the field invites to, where a question waits. */
export function answerPlaceholder({ options, free_text: freely }) {
  if (!options?.length) return "Your answer";
  return freely ? "Choose above, or write what to do instead" : "Choose above, or write its number";
}

export const LATE_ANSWER = "The question was already answered, in another tab or by somebody else. Your answer was not sent.";
export const EARLY_TEXT = "The agent asked this while you were writing. Press Enter again to give your text as the answer, or choose above.";

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
