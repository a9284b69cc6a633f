// The end of a Markdown text that still grows, made whole: what is half written must not flicker once the rest comes.

import { formulaAt, formulaBlockAt } from "./extensions.js";

const CODE_FENCE = /^ {0,3}(`{3,}|~{3,})/;
const MARKER_LINE =
  /(^|\n)[ \t]*(?:[-=*+_]{1,3}|#{1,6}|>+|\d{1,9}[.)]?|`{1,3}[\w+-]*|~{1,3}|\||[-*+] \[[ xX]?\]?|>[ \t]?\[!?[A-Za-z]{0,9}\]?)[ \t]*$/;
const HALF_TAG = /<(?:[a-zA-Z/!][^<>\n]*)?$/;
const HALF_ENTITY = /&(?:#\w*|[a-z]\w*)?$/i;
const DEFINITION = /(^|\n) {0,3}\[(?!\^)[^\]\n]+\]:[^\n]*$/;
const NOTE = /^\[\^[^\]\s^[]{0,40}(\]|$)/;
const MAX_FORMULA = 4100; // characters in which the end of a formula is looked for
const MAX_SEGMENT = 4096; // characters; a longer line is no prose, and to look for its marks would take too long
const MAX_TARGET = 1000; // characters of a link's address

/** @typedef {{ mark: string, at: number }} Mark  Of emphasis, and where it is. */

const SEGMENT = /\n[ \t]*\n|\n[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]|(?<!\\)\|/g;

/**
 * The last block of a growing text, as it can be shown now.
 *
 * @param {string} raw
 */
export function completeMarkdown(raw) {
  const fence = CODE_FENCE.exec(raw);
  if (fence) return completeFence(raw, fence[1]);
  const formula = formulaBlockAt(raw);
  if (formula) return formula.isOpen ? "" : raw;
  let text = withoutEnd(raw, " \t\n");
  text = text.replace(MARKER_LINE, "").replace(DEFINITION, "");
  text = withoutTableHead(text);
  text = withoutEnd(text, " \t\n\\");
  const start = segment(text);
  if (text.length - start > MAX_SEGMENT) return text;
  return text.slice(0, start) + completeInline(text.slice(start));
}

/**
 * A text without these characters at its end. (A pattern would look at each run of them.)
 *
 * @param {string} text
 * @param {string} characters
 */
function withoutEnd(text, characters) {
  let end = text.length;
  while (end && characters.includes(text[end - 1])) end--;
  return text.slice(0, end);
}

/**
 * Of an open fence, what may be the half of its end is not shown; nor is a half language.
 *
 * @param {string} raw
 * @param {string} fence
 */
function completeFence(raw, fence) {
  if (!raw.includes("\n")) return "";
  const isMath = raw.slice(raw.indexOf(fence) + fence.length).startsWith("math\n");
  if (isMath && !raw.slice(fence.length).includes(`\n${fence}`)) return ""; // half a formula is none
  const half = new RegExp(`\\n {0,3}${fence[0]}{1,${fence.length}}$`).exec(raw);
  return half && half[0].trim().length < fence.length ? raw.slice(0, half.index) : raw;
}

/**
 * A table's head looks like prose until the line below it is whole.
 *
 * @param {string} text
 */
function withoutTableHead(text) {
  const lines = text.split("\n");
  const from = lines.findLastIndex((line) => !/^[ \t]*\|/.test(line)) + 1; // the lines at the end with a bar in front
  const [head, rule] = lines.slice(from);
  if (head === undefined || lines.length - from > 2) return text;
  const open = rule === undefined || (/^[|: \t-]*$/.test(rule) && cells(rule) < cells(head));
  return open ? lines.slice(0, from).join("\n") : text;
}

const cells = (/** @type {string} */ row) =>
  row
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/).length;

/**
 * Where the last paragraph, item, heading or cell begins: emphasis does not reach beyond.
 *
 * @param {string} text
 */
function segment(text) {
  let start = 0;
  for (const found of text.matchAll(SEGMENT)) start = found.index + found[0].length;
  return start;
}

/** @param {string} text */
function completeInline(text) {
  text = text
    .replace(HALF_TAG, "")
    .replace(HALF_ENTITY, "")
    .replace(/(?<!~)~$/, "");
  /** @type {Mark[]} */
  const open = []; // those without an end, outermost first
  /** @type {number[]} */
  const brackets = [];
  for (let i = 0; i < text.length;) {
    const char = text[i];
    if (char === "$" || (char === "\\" && /[([]/.test(text[i + 1] ?? ""))) {
      const formula = formulaAt(text.slice(i, i + MAX_FORMULA));
      if (formula === "open") return close(text.slice(0, i), open);
      i += formula ? formula.raw.length : char === "$" ? 1 : 2;
    } else if (char === "[" && NOTE.test(text.slice(i, i + 50))) {
      const note = NOTE.exec(text.slice(i, i + 50));
      if (!note?.[1]) return close(text.slice(0, i), open);
      i += note[0].length;
    } else if (char === "\\") i += 2;
    else if (char === "`") {
      const [run] = /^`+/.exec(text.slice(i)) ?? [char];
      const end = closing(text, i + run.length, run);
      if (end < 0) return closeCode(text, i, run, open);
      i = end;
    } else if (char === "[" && !/\w/.test(text[i - 1] ?? " ")) {
      brackets.push(i++);
    } else if (char === "]") {
      const from = brackets.pop();
      const target = from === undefined ? null : linkEnd(text, i + 1);
      if (from !== undefined && target === "half") return close(withoutLink(text, from, i), open);
      i = typeof target === "number" ? target : i + 1;
    } else if (char === "*" || char === "_" || char === "~") {
      i = emphasis(text, i, open);
    } else i++;
  }
  const half = brackets.at(-1);
  // A link's text that is not closed yet.
  if (half !== undefined && text.length - half < 200) return close(withoutLink(text, half, text.length), open);
  return close(text, open);
}

/**
 * The index behind the run of backticks that ends a code span, or -1.
 *
 * @param {string} text
 * @param {number} from
 * @param {string} run
 */
function closing(text, from, run) {
  for (const found of text.slice(from).matchAll(/`+/g)) {
    if (found[0].length === run.length) return from + found.index + run.length;
  }
  return -1;
}

/**
 * @param {string} text
 * @param {number} at
 * @param {string} run
 * @param {Mark[]} open
 */
function closeCode(text, at, run, open) {
  const code = text.slice(at + run.length).replace(/`+$/, "");
  if (!code.trim()) return close(text.slice(0, at), open);
  return close(text.slice(0, at) + run + code + run, open);
}

/**
 * The index behind a link's target, "half" where it is not whole, null where there is none.
 *
 * @param {string} text
 * @param {number} at
 * @returns {number | "half" | null}
 */
function linkEnd(text, at) {
  if (at === text.length) return "half";
  if (text[at] !== "(") return null;
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    if (i > at + MAX_TARGET) return null;
    if (text[i] === "\\") i++;
    else if (text[i] === "\n") return null;
    else if (text[i] === "(") depth++;
    else if (text[i] === ")" && --depth === 0) return i + 1;
  }
  return "half";
}

/**
 * @param {string} text
 * @param {number} from
 * @param {number} to
 */
function withoutLink(text, from, to) {
  const image = text[from - 1] === "!";
  return text.slice(0, image ? from - 1 : from) + text.slice(from + 1, to);
}

/**
 * Take a run of marks: it ends what is open, or begins something. Gives the index behind it.
 *
 * @param {string} text
 * @param {number} at
 * @param {Mark[]} open
 */
function emphasis(text, at, open) {
  const char = text[at];
  let run = 1;
  while (text[at + run] === char) run++;
  const [before, after] = [text[at - 1] ?? " ", text[at + run] ?? " "];
  const inWord = char === "_" && /\w/.test(before) && /\w/.test(after);
  if (inWord || (char === "~" && run !== 2)) return at + run;
  let left = run;
  if (/\S/.test(before)) {
    for (let last = open.at(-1); last && last.mark[0] === char && last.mark.length <= left; last = open.at(-1)) {
      open.pop();
      left -= last.mark.length;
    }
  }
  if (left && left <= 3 && (/\S/.test(after) || at + run === text.length)) {
    if (char === "~") open.push({ mark: "~~", at });
    else if (left === 3) open.push({ mark: char, at }, { mark: char + char, at: at + 1 });
    else open.push({ mark: char.repeat(left), at: at + run - left });
  }
  return at + run;
}

/**
 * End what is open; a mark that nothing follows is left out.
 *
 * @param {string} text
 * @param {Mark[]} open
 */
function close(text, open) {
  let kept = text;
  const words = withoutEnd(text, "*_~ \t\n").length;
  for (let last = open.at(-1); last && last.at >= words; last = open.at(-1)) {
    open.pop();
    kept = kept.slice(0, last.at);
  }
  kept = kept.trimEnd();
  const half = /([*_~])$/.exec(kept); // the first half of a mark that ends something
  const last = open.at(-1);
  if (half && last && last.mark[0] === half[1] && last.at + last.mark.length < kept.length) kept = kept.slice(0, -1);
  for (const { mark } of open.reverse()) kept += mark;
  return kept;
}
