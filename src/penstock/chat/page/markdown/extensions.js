// What Markdown has beside CommonMark: formulas, footnotes, notes in boxes, folded parts. Reading each takes a bounded
// number of steps, and what is not whole, or goes beyond its bound, stays the text that was written.

const MAX_TEX = 4000; // characters of a formula
const MAX_FOLDED = 32_768; // characters of a folded part; of a longer one, the tags are text
const MAX_LABEL = 40; // characters of a footnote's name
const MAX_NOTE = 8192; // characters of a footnote

/** @typedef {{ raw: string, tex: string, isDisplay: boolean }} Formula */

/** @type {[begin: string, end: string, isDisplay: boolean][]} */
const PAIRS = [
  ["$$", "$$", true],
  ["\\[", "\\]", true],
  ["\\(", "\\)", false],
];

/**
 * The formula that a text begins with; "open" if it may become one, null if there is none.
 *
 * A single `$` is a sum of money more often: it begins a formula only if the next one on its line ends it, and neither
 * has a space inside or a word behind.
 *
 * @param {string} source
 * @returns {Formula | "open" | null}
 */
export function formulaAt(source) {
  for (const [begin, end, isDisplay] of PAIRS) {
    if (!source.startsWith(begin)) continue;
    const area = source.slice(begin.length, begin.length + MAX_TEX);
    const at = area.indexOf(end);
    const blank = area.search(/\n[ \t]*\n/);
    if (blank >= 0 && (at < 0 || blank < at)) return null;
    if (at < 0) return area.length < MAX_TEX ? "open" : null;
    const tex = area.slice(0, at);
    if (!tex.trim()) return null;
    return { raw: source.slice(0, begin.length + at + end.length), tex: tex.trim(), isDisplay };
  }
  const found = /^\$(?![\s$])((?:[^$\\\n`]|\\[^\n]){1,300})\$(?![\w$])/.exec(source);
  if (!found || /\s$/.test(found[1])) return null;
  return { raw: found[0], tex: found[1], isDisplay: false };
}

/**
 * The formula that is a block of its own: it ends at the end of a line.
 *
 * @param {string} source
 * @returns {{ raw: string, tex: string, isOpen: boolean } | null}
 */
export function formulaBlockAt(source) {
  const indent = /^ {0,3}(?=\$\$|\\\[)/.exec(source)?.[0];
  if (indent === undefined) return null;
  const found = formulaAt(source.slice(indent.length));
  if (found === null) return null;
  if (found === "open") {
    // Without an end, it is one that is being written only if its delimiter has a line of its own.
    return /^ {0,3}(?:\$\$|\\\[)[ \t]{0,20}(?:\n|$)/.test(source) ? { raw: source, tex: "", isOpen: true } : null;
  }
  const raw = indent + found.raw;
  const rest = /^[ \t]{0,20}(?:\n|$)/.exec(source.slice(raw.length));
  return rest ? { raw: raw + rest[0], tex: found.tex, isOpen: false } : null;
}

const NOTE_BEGIN = new RegExp(`^ {0,3}\\[\\^([^\\]\\s^[]{1,${MAX_LABEL}})\\]:[ \\t]*`);

/**
 * The footnote that a text begins with: its line, those that go on with it, and what is indented below.
 *
 * @param {string} source
 * @returns {{ raw: string, label: string, text: string } | null}
 */
export function footnoteAt(source) {
  const begin = NOTE_BEGIN.exec(source);
  if (!begin) return null;
  const area = source.slice(0, MAX_NOTE);
  const [line, ...lines] = area.split("\n");
  if (area.length < source.length) lines.pop(); // half a line
  let count = 1;
  for (const [i, next] of lines.entries()) {
    const isBlank = !next.trim();
    const isInside = /^(?: {2,}|\t)\S/.test(next);
    const wasBlank = i > 0 && !lines[i - 1].trim();
    if (NOTE_BEGIN.test(next) || (wasBlank && !isBlank && !isInside) || (isBlank && wasBlank)) break;
    count = i + 2;
  }
  const all = [line, ...lines.slice(0, count - 1)];
  while (all.length > 1 && !all[all.length - 1].trim()) all.pop();
  let raw = all.join("\n");
  if (raw.length < source.length) raw += "\n";
  const text = [line.slice(begin[0].length), ...all.slice(1).map((it) => it.replace(/^(?: {1,4}|\t)/, ""))].join("\n");
  return { raw, label: begin[1], text };
}

/** The key of a footnote among the targets of reference links, which cannot have this name. */
export const noteKey = (/** @type {string} */ label) => `^${label.toLowerCase()}`;

const FOLD_TAG = /<(\/?)details( open)?\s{0,9}>/gi;
const FOLD_BEGIN = /^ {0,3}<details( open)?\s{0,9}>/i;
const SUMMARY = /^\s{0,99}<summary>([^]{0,1000}?)<\/summary>[ \t]{0,9}\n?/i;

/**
 * The folded part that a text begins with, up to its end, or to the end of the text where it is not ended.
 *
 * @param {string} source
 * @returns {{ raw: string, isOpen: boolean, summary: string, text: string } | null}
 */
export function foldedAt(source) {
  const begin = FOLD_BEGIN.exec(source);
  if (!begin) return null;
  const area = source.slice(0, MAX_FOLDED);
  let depth = 0;
  let [raw, end] = ["", ""];
  for (const { 0: tag, 1: isEnd, index } of area.matchAll(FOLD_TAG)) {
    depth += isEnd ? -1 : 1;
    if (depth) continue;
    const rest = /^[ \t]*\n?/.exec(area.slice(index + tag.length))?.[0] ?? "";
    [raw, end] = [area.slice(0, index + tag.length + rest.length), area.slice(index, index + tag.length + rest.length)];
    break;
  }
  if (!raw) {
    if (source.length >= MAX_FOLDED) return null;
    raw = source;
  }
  const inner = raw.slice(begin[0].length, raw.length - end.length);
  const head = SUMMARY.exec(inner);
  return {
    raw,
    isOpen: Boolean(begin[1]),
    summary: head?.[1].trim() || "Details",
    text: inner.slice(head?.[0].length ?? 0).replace(/^\n+/, ""),
  };
}

/** The kinds of notes in boxes, and their names. */
const ALERTS = /** @type {Record<string, string>} */ ({
  note: "Note",
  tip: "Tip",
  important: "Important",
  warning: "Warning",
  caution: "Caution",
});
const ALERT = /^\[!([A-Z]{3,9})\][ \t]*(?:\n|$)/i;

/**
 * The kind of a quote that is a note in a box, its name, and the quote without its first line.
 *
 * @param {string} text
 */
export function alertOf(text) {
  const found = ALERT.exec(text);
  const kind = found?.[1].toLowerCase() ?? "";
  if (!found || !Object.hasOwn(ALERTS, kind)) return null;
  return { kind, name: ALERTS[kind], text: text.slice(found[0].length) };
}
