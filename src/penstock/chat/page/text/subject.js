// What a question of an agent is about, and what its text says beside that: each is shown once.

import { changeTitle, linesOf } from "./diff.js";
import { base, below, harmless, oneLine } from "./format.js";

const PATCH = /^(?:@@|--- |\+\+\+ |\*\*\* |diff --git |index |\\ No newline)/; // marks of a patch in a text
/** @type {Record<string, RegExp | undefined>} */
const REPEATED = { command: /^\s*bash\s*$/, edit: /^\s*edit\s*$/ }; // names of tools that the heading tells already
const NAMING_WORDS = 3; // a line with at most so many words before a file's name only names it

/**
 * The command or the name that a question is about, or "": its changes are shown as diffs.
 *
 * @param {Api.OpenQuestion} question
 */
export function subjectOf({ changes, command, title, text, ask }) {
  if (changes?.length) return "";
  return command || title || (ask === "command" ? text : "");
}

/**
 * The label of an answer; one that allows more than what is asked for says so, unless its label names it.
 *
 * @param {Api.Option} option
 */
export function labelOf({ label, wide }) {
  return wide && !label.includes(":") ? `${label} (more than this)` : label;
}

/**
 * What the text of a question says beside its subject: the reason of the agent, or the name of a tool. `cwd` is the
 * directory of the chat, below which paths are shown.
 *
 * @param {Api.OpenQuestion} question
 * @param {string} [cwd]
 */
export function remarkOf(question, cwd = "") {
  const { changes, command, title } = question;
  const names = [command, title, subjectOf(question)].map((it) => it ?? "");
  const text = names.reduce(without, harmless(question.text));
  const isRepeated = (/** @type {string} */ line) =>
    REPEATED[question.ask]?.test(line) || isPartOf(oneLine(line), oneLine(command));
  const lines = text.split("\n").filter((line) => !isRepeated(line));
  const left = changes?.length ? withoutChanges(lines, question) : lines;
  const short = (/** @type {string} */ line) => line.replace(/\S+/g, (word) => below(word, cwd));
  return left.map(short).join("\n").trim();
}

/**
 * A text without a subject that it has in the same words, however they are broken into lines. Of "bash: npm test" it is
 * "bash".
 *
 * @param {string} text
 * @param {string} subject
 */
function without(text, subject) {
  const wanted = oneLine(subject);
  if (!wanted) return text;
  if (text.endsWith("…") && wanted.startsWith(oneLine(text.slice(0, -1)))) return ""; // the text has its beginning
  const words = [...text.matchAll(/\S+/g)];
  const found = ` ${words.map(([word]) => word).join(" ")} `.indexOf(` ${wanted} `);
  if (found < 0) return text;
  let [at, length] = [0, 0];
  for (; length < found; at++) length += words[at][0].length + 1;
  const last = words[at + wanted.split(" ").length - 1];
  const before = text.slice(0, words[at].index).replace(/:\s*$/, "");
  return `${before}\n${text.slice((last.index ?? 0) + last[0].length)}`.replace(/\n\s*\n/g, "\n").trim();
}

/**
 * Whether a line is one of a command: a shell's arguments may have it in quotation marks.
 *
 * @param {string} line
 * @param {string} command
 */
function isPartOf(line, command) {
  return line !== "" && command.includes(line);
}

/**
 * The lines of a text that neither name a change nor are of its diff.
 *
 * @param {string[]} lines
 * @param {Api.OpenQuestion} question
 */
function withoutChanges(lines, { changes, more_changes: more }) {
  const all = changes ?? [];
  const paths = all.flatMap(({ path, to }) => [path, to ?? path]).map(oneLine);
  const parts = new Set(all.flatMap((it) => linesOf(it.diff).map((line) => oneLine(line.text))));
  const isCut = Boolean(more) || all.some((it) => it.truncated);
  const titles = new Set(all.map((it) => changeTitle(it)));
  let [isInside, isPatched] = [false, false]; // the lines of a patch follow the name of its file
  return lines.filter((line) => {
    const shown = oneLine(line);
    if (titles.has(shown) || names(shown, paths)) {
      isInside = true;
      return false;
    }
    const isPatch = isInside && (parts.has(shown) || parts.has(oneLine(line.slice(1))) || PATCH.test(line));
    isPatched ||= isPatch;
    return !(isPatch || (isInside && shown === "") || (isPatched && isCut));
  });
}

/**
 * Whether a line names one of the files, and says nothing else of it: "add /shop/a.txt", "Writing to a.txt: /shop/a.txt".
 *
 * @param {string} line
 * @param {string[]} paths
 */
function names(line, paths) {
  return paths.some((path) => {
    const name = [path, base(path)].find((it) => line === it || line.endsWith(` ${it}`));
    return name !== undefined && line.slice(0, -name.length).split(" ").filter(Boolean).length <= NAMING_WORDS;
  });
}
