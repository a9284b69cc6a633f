// The diffs of edits as lines, and the words beside them.

import { below, oneLine, plural } from "./format.js";

/**
 * @typedef {object} DiffLine
 * @property {"added" | "removed" | "same" | "hunk" | "note"} kind
 * @property {string} text  Without its sign.
 * @property {number} [number]  In the new file; of a removed line, in the old one. Only if the hunk has numbers.
 */

/** @type {Record<string, DiffLine["kind"]>} */
const SIGNS = { "+": "added", "-": "removed", " ": "same" };
const GAP = "⋯"; // between hunks; the lines have their numbers
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@( .*)?/;

/**
 * The lines of the hunks of a unified diff. What is none of its lines is a note.
 *
 * @param {string | null | undefined} diff
 */
export function linesOf(diff) {
  /** @type {DiffLine[]} */
  const lines = [];
  let [old, next] = [NaN, NaN];
  for (const line of diff ? diff.replace(/\n$/, "").split("\n") : []) {
    if (line.startsWith("@@")) {
      const found = HUNK.exec(line);
      [old, next] = found ? [Number(found[1]), Number(found[2])] : [NaN, NaN];
      const within = found?.[3] ?? ""; // the function or heading that git names
      if (within || lines.length) lines.push({ kind: "hunk", text: `${GAP}${within}` });
      continue;
    }
    const kind = line === "" ? "same" : SIGNS[line[0]];
    if (!kind) {
      lines.push({ kind: "note", text: line.replace(/^\\ /, "") });
      continue;
    }
    const number = kind === "removed" ? old : next;
    lines.push({ kind, text: line.slice(1), ...(Number.isNaN(number) ? {} : { number }) });
    if (kind !== "added") old++;
    if (kind !== "removed") next++;
  }
  return lines;
}

const VERBS = { add: "new file", update: "edit", delete: "delete", move: "move" };

/**
 * "edit README.md", "move a.txt → b.txt". Paths below the directory are relative to it.
 *
 * @param {Api.Change} change
 * @param {string | null} [directory]
 */
export function changeTitle({ kind, path, to }, directory) {
  const name = (/** @type {string} */ it) => oneLine(below(it, directory));
  return `${VERBS[kind] ?? "change"} ${name(path)}${to ? ` → ${name(to)}` : ""}`;
}

/**
 * "1 file changed", "12 files changed".
 *
 * @param {number} files
 */
export const filesChanged = (files) => `${plural(files, "file")} changed`;

/**
 * "2 files changed meanwhile", " · 2 more changed meanwhile" after those of the agent; "" if git found none.
 *
 * @param {number | undefined} found
 * @param {Api.ChangedFiles | null | undefined} changed
 */
export function foundMeanwhile(found, changed) {
  if (!found) return "";
  return changed ? ` · ${found.toLocaleString()} more changed meanwhile` : `${filesChanged(found)} meanwhile`;
}

/** @type {Record<NonNullable<Api.OtherChanges["problem"]>, string>} */
const PROBLEMS = {
  slow: "git needed too long",
  large: "too many files differ from those that git tracks",
  failed: "git cannot compare it",
};

/**
 * Why other changes in the directory are not known.
 *
 * @param {NonNullable<Api.OtherChanges["problem"]>} problem
 */
export const notCompared = (problem) =>
  `Other changes in this directory, as by commands, are not known: ${PROBLEMS[problem] ?? PROBLEMS.failed}.`;

/**
 * "+1 −2": the lines that were added and removed, as far as they are known.
 *
 * @param {Pick<Api.Change, "added" | "removed">} change
 */
export function countsOf({ added, removed }) {
  const known = (/** @type {number | null | undefined} */ n) => typeof n === "number";
  return [known(added) && `+${added}`, known(removed) && `\u2212${removed}`].filter(Boolean).join(" ");
}

/**
 * "undone", "1 of 2 undone"; "" if nothing is.
 *
 * @param {Api.UndoneFiles | null | undefined} undone
 */
export function undoneMark(undone) {
  if (!undone) return "";
  return undone.stayed ? `${undone.files} of ${undone.files + undone.stayed} undone` : "undone";
}
