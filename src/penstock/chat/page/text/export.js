// A chat as a Markdown file: what was asked and replied, and what the agent did if that is wanted.

import { outcomeText, refusedTexts } from "./copy.js";
import { depthsOf, isTop, orderOf } from "./details-order.js";
import { duration, exitWords, fullTime, oneLine } from "./format.js";

/** @import { Details, TurnData } from "../net/wire.js" */
/** @typedef {Details["items"][number]} Item */
/** @typedef {TurnData & { items?: Item[], why?: string }} ExportedTurn  `why`: why its steps are not there. */

/**
 * The whole file. Prompts and replies are what was written, to the character: a prompt as a quotation, so that its
 * headings are not those of the file.
 *
 * @param {Pick<Api.ChatView, "title" | "agent" | "cwd">} chat
 * @param {ExportedTurn[]} turns  The oldest first.
 */
export function markdownOf({ title, agent, cwd }, turns) {
  const head = `# ${escaped(oneLine(title) || "Chat")}\n\n${escaped(oneLine(agent))} in ${code(oneLine(cwd))}\n`;
  return [head, ...turns.map((turn) => turnOf(turn, agent))].join("\n---\n\n");
}

/**
 * A name for the file: the words of the title.
 *
 * @param {string | null} title
 */
export function fileName(title) {
  const words =
    oneLine(title)
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? [];
  return `${words.join("-").slice(0, 60).replace(/-$/, "") || "chat"}.md`;
}

/**
 * @param {ExportedTurn} turn
 * @param {string} agent  That of the chat, where the turn names none.
 */
function turnOf(turn, agent) {
  const { asked_at: asked, by, prompt, items, why } = turn;
  const who = by === "heartbeat" ? "Heartbeat" : "You";
  const isDone = turn.state === "completed";
  const reply = (isDone ? turn.message : turn.reply) ?? "";
  const state = isDone
    ? outcomeText(turn)
    : turn.state === "queued"
      ? "It waits for its turn."
      : "It is still running.";
  const notes = [escaped(state), ...refusedTexts(turn)].filter(Boolean);
  const parts = [
    `## ${who}${asked ? `, ${fullTime(asked)}` : ""}`,
    quoted(prompt),
    why && `*The steps cannot be read: ${escaped(oneLine(why))}*`,
    items?.length ? `### Steps\n\n${stepsOf(items, reply)}` : "",
    `### ${escaped(oneLine(turn.agent) || oneLine(agent))}`,
    closed(reply),
    ...notes.map((note) => `*${note}*`),
  ];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

/**
 * @param {Item[]} items
 * @param {string} reply  It is left out here, as it follows.
 */
function stepsOf(items, reply) {
  const depths = depthsOf(items);
  const quotedBy = (/** @type {string} */ text, /** @type {number} */ depth) =>
    Array.from({ length: depth }).reduce((/** @type {string} */ it) => quoted(it), text);
  const isReply = (/** @type {Item} */ it) => it.kind === "text" && isTop(it) && it.text?.trim() === reply.trim();
  return orderOf(items)
    .filter((i) => !isReply(items[i]))
    .map((i) => quotedBy(stepOf(items[i]), depths[i]))
    .join("\n\n");
}

/** @param {Item} item */
function stepOf(item) {
  switch (item.kind) {
    case "call":
      return callOf(item);
    case "thinking":
      return `**Thought**${marksOf(item)}\n\n${quoted(item.text ?? "")}`;
    case "text":
      return `**Text**${marksOf(item)}\n\n${quoted(item.text ?? "")}`;
    case "question":
      return [`**Question**`, quoted(item.text ?? ""), item.answer ? `Answer: ${escaped(oneLine(item.answer))}` : ""]
        .filter(Boolean)
        .join("\n\n");
    case "plan":
      return `**Plan**\n\n${(item.items ?? []).map(planned).join("\n")}`;
    default:
      return `**Notice**\n\n${quoted(item.text ?? "")}`;
  }
}

/** @param {Api.PlanItem} item */
const planned = ({ status, text }) => `- [${status === "completed" ? "x" : " "}] ${escaped(oneLine(text))}`;

/** @param {Api.Called} item */
function callOf(item) {
  const facts = [
    item.refused ? "not allowed" : item.is_error && "failed",
    item.exit_code && exitWords(item.exit_code),
    typeof item.duration_ms === "number" && duration(item.duration_ms),
  ].filter(Boolean);
  const title = oneLine(item.title) || oneLine(item.name) || "Call";
  const diffs = (item.changes ?? []).flatMap(({ diff }) => (diff ? [fenced(diff, "diff")] : []));
  return [
    `**Call** ${code(title)}${facts.length ? ` (${facts.join(", ")})` : ""}${marksOf(item)}`,
    ...diffs,
    !diffs.length && item.input && fenced(item.input),
    item.output && fenced(item.output),
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** @param {Item} item */
function marksOf({ given_up: isGivenUp, cut: isCut, shortened }) {
  const marks = [isGivenUp && "given up", isCut && "cut off", shortened && `${shortened} characters left out`];
  const said = marks.filter(Boolean).join(", ");
  return said && `, ${said}`;
}

/** @param {string} text */
const quoted = (text) =>
  closed(text)
    .split("\n")
    .map((line) => `> ${line}`.trimEnd())
    .join("\n");

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/;

/**
 * A Markdown text with an end for a fence that it leaves open: what follows in the file would be code.
 *
 * @param {string} text
 */
function closed(text) {
  let open = "";
  for (const line of text.split("\n")) {
    const [, fence = "", rest = ""] = FENCE.exec(line) ?? [];
    const isEnd = fence.startsWith(open) && fence[0] === open[0] && !rest.trim();
    if (open) open = isEnd ? "" : open;
    else if (fence && !(fence[0] === "`" && rest.includes("`"))) open = fence;
  }
  return open ? `${text}\n${open}` : text;
}

/**
 * A text as a block of code, in a fence that nothing in it ends.
 *
 * @param {string} text
 */
function fenced(text, language = "") {
  const fence = "`".repeat(Math.max(3, longest(text) + 1));
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

/** @param {string} text */
function code(text) {
  const marks = "`".repeat(longest(text) + 1);
  const space = /^`|`$/.test(text) ? " " : "";
  return `${marks}${space}${text}${space}${marks}`;
}

/** The longest run of backticks. @param {string} text */
const longest = (text) => Math.max(0, ...(text.match(/`+/g) ?? []).map((it) => it.length));

/** A text that means nothing in Markdown. @param {string} text */
const escaped = (text) => text.replace(/[\\`*_{}[\]<>#|~&!]/g, "\\$&");
