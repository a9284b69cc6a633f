// What a search has found, as the page shows it.

/** @typedef {{ text: string, isMarked: boolean }} Part */

/** Kinds of texts in which words are found, in the order in which they are shown. @type {[Api.Hit["kind"], string][]} */
export const KINDS = [
  ["prompt", "Messages"],
  ["reply", "Replies"],
  ["commands", "Commands"],
  ["paths", "Files"],
  ["title", "Titles"],
];

/**
 * The parts of a text that are marked and those that are not. Marks count characters of Unicode; what does not fit is left
 * out.
 *
 * @param {string} text
 * @param {Api.Mark[]} marks
 * @returns {Part[]}
 */
export function partsOf(text, marks) {
  const characters = [...text];
  /** @type {Part[]} */
  const parts = [];
  let end = 0;
  const add = (/** @type {number} */ until, /** @type {boolean} */ isMarked) => {
    if (until > end) parts.push({ text: characters.slice(end, until).join(""), isMarked });
    end = Math.max(end, until);
  };
  for (const mark of marks) {
    if (mark.start < end || mark.end <= mark.start) continue;
    add(mark.start, false);
    add(mark.end, true);
  }
  add(characters.length, false);
  return parts.filter((part) => part.text);
}

/**
 * Whether a text has the beginnings of all words.
 *
 * @param {string} text
 * @param {string} words
 */
export function hasWords(text, words) {
  const lower = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}
