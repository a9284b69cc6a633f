// What the page says in words of its own.

import { line } from "./text.js";

/** How a turn ended, where it did not end well; "" where it did. One that never began was taken back. */
export function outcomeWords({ outcome, reason, began_at: began }) {
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

/** What that means for an agent that cannot ask while it works. */
export function allowWords(value, agent) {
  if (agent && !agent.asks && value !== "all") {
    const may = value === "edits" ? "It changes files without asking. " : "";
    return `${may}${line(agent.name)} cannot ask while it works: what needs your word it leaves undone.`;
  }
  return ALLOW.find((it) => it.value === value)?.words ?? "";
}

export const SHORTCUTS = [
  ["Enter", "Send the message"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop the agent"],
  ["/", "Write a message"],
  ["Alt + N", "New chat"],
  ["Alt + ↑ ↓", "Chat above, chat below"],
  ["Alt + End", "Jump to the latest"],
  ["?", "This list"],
];
