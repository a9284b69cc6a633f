// Words that changed within the lines of a diff, by the rule that the terminal has: sinks/text/changed_words.py.
//
// The cases of both are in tests/page/unit/changed_words.json.

/** @import { DiffLine } from "./diff.js" */
/** @typedef {{ isChanged: boolean, text: string }} Part */

const MAX_COMPARED_CHARACTERS = 400; // of the longest line that is compared; nobody reads a longer one word by word
const MAX_PAIRS = 4000; // of words that are compared in two lines, between their common beginning and end

const WORD = /[\w\u0080-\u{10ffff}]+|[\s\x1c-\x1f]+|./gu; // other scripts are not divided: their characters may join
const SPACE = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/;

/**
 * The parts of the lines of a diff in which only some words changed, by the places of the lines. Lines are compared in
 * order if as many are added as were removed right before them.
 *
 * @param {DiffLine[]} lines
 * @param {number} [end]  The place from which on no block begins that is compared.
 */
export function changedWords(lines, end = lines.length) {
  /** @type {Map<number, Part[]>} */
  const found = new Map();
  for (const [removed, added] of replaced(lines, end)) {
    const parts = compared(lines[removed].text, lines[added].text);
    if (!parts) continue;
    found.set(removed, parts[0]);
    found.set(added, parts[1]);
  }
  return found;
}

/**
 * The places of each removed line and the line that took its place.
 *
 * @param {DiffLine[]} lines
 * @param {number} end
 * @returns {Generator<[number, number]>}
 */
function* replaced(lines, end) {
  /** @type {number[]} */
  let removed = [];
  /** @type {number[]} */
  let added = [];
  for (let i = 0; i <= lines.length; i++) {
    const kind = lines[i]?.kind;
    if (kind === "note") continue; // about the line before it
    if (added.length && kind !== "added") {
      for (const [n, place] of added.length === removed.length ? removed.entries() : []) yield [place, added[n]];
      [removed, added] = [[], []];
    }
    if (kind === "removed") removed.push(i);
    else if (kind === "added") added.push(i);
    else removed = [];
    if (i >= end && !removed.length && !added.length) return;
  }
}

/**
 * The parts of two lines; null if they differ in most of their text.
 *
 * @param {string} old
 * @param {string} now
 * @returns {[Part[], Part[]] | null}
 */
function compared(old, now) {
  if (Math.max(lengthOf(old), lengthOf(now)) > MAX_COMPARED_CHARACTERS) return null;
  const [before, after] = [wordsOf(old), wordsOf(now)];
  const shorter = Math.min(before.length, after.length);
  let [start, end] = [0, 0];
  while (start < shorter && before[start] === after[start]) start++;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const isBetween = (/** @type {string[]} */ words) => words.map((_, i) => i >= start && i < words.length - end);
  const [was, is] = [isBetween(before), isBetween(after)];
  const middle = (/** @type {string[]} */ words) => words.slice(start, words.length - end);
  for (const [i, j] of common(middle(before), middle(after))) was[start + i] = is[start + j] = false;
  const sizeOf = (/** @type {string} */ word) => (SPACE.test(word) ? 0 : lengthOf(word));
  const kept = sum(before.map((word, i) => (was[i] ? 0 : sizeOf(word))));
  if (4 * kept <= sum([...before, ...after].map(sizeOf))) return null;
  return [partsOf(before, was), partsOf(after, is)];
}

/**
 * The places of the words that both have in this order: those with the most characters altogether.
 *
 * @param {string[]} before
 * @param {string[]} after
 * @returns {Generator<[number, number]>}
 */
function* common(before, after) {
  if (before.length * after.length > MAX_PAIRS) return;
  const best = Array.from({ length: before.length + 1 }, () => new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      best[i][j] =
        before[i] === after[j] ? best[i + 1][j + 1] + lengthOf(before[i]) : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) yield [i++, j++];
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
}

/**
 * Words in as few parts as possible.
 *
 * @param {string[]} words
 * @param {boolean[]} changed
 */
function partsOf(words, changed) {
  /** @type {Part[]} */
  const parts = [];
  for (const [i, text] of words.entries()) {
    const last = parts.at(-1);
    if (last?.isChanged === changed[i]) last.text += text;
    else parts.push({ isChanged: changed[i], text });
  }
  return parts;
}

const wordsOf = (/** @type {string} */ line) => line.match(WORD) ?? [];
const lengthOf = (/** @type {string} */ text) => [...text].length;
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0);
