// Names of files in a message: an @, and a part of a path after it.

/** @typedef {{ start: number, end: number, typed: string }} Mention  Its place in the text, and the path so far. */

const MENTION = /(?:^|\s)@(?:"([^"\n]*)|([^\s"@]*))$/;
const MOST = 200; // characters that are looked at: a longer path is not typed

/**
 * Return the name of a file that is being written before the caret.
 *
 * @param {string} text
 * @param {number} caret
 * @returns {Mention | null}
 */
export function mentionAt(text, caret) {
  const before = text.slice(Math.max(0, caret - MOST), caret);
  const found = MENTION.exec(before);
  if (!found) return null;
  const typed = found[1] ?? found[2];
  const start = caret - typed.length - (found[1] === undefined ? 1 : 2);
  return { start, end: caret, typed };
}

/**
 * Return what a message has in the place of a mention once a path was chosen. A folder can be gone into.
 *
 * @param {string} path
 */
export function mentioned(path) {
  const isFolder = path.endsWith("/");
  if (!/\s/.test(path)) return isFolder ? `@${path}` : `@${path} `;
  return isFolder ? `@"${path}` : `@"${path}" `;
}
