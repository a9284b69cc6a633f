// The colours of code in diffs: each side of a hunk is read as code, so that what goes over several lines is known.

import { loadLanguage } from "./highlight.js";
import { fileOfPath } from "./languages.js";
import { drop, spread } from "./scheduler.js";
import { piecesOf, tokensOf } from "../text/code-tokens.js";

/** @import { DiffLine } from "../text/diff.js" */
/** @import { Piece, Token } from "../text/code-tokens.js" */

const LONG_LINE = 1000; // characters of a line that nobody wrote

/**
 * Read the colours of the lines of a diff, a piece at a time, and show them once all are read. Returns what ends that.
 *
 * @param {DiffLine[]} lines
 * @param {string} path  Its name decides the language.
 * @param {(colours: Map<number, Token[]>) => void} show  Called with the tokens of lines by their places.
 */
export function colourDiff(lines, path, show) {
  const file = fileOfPath(path);
  const pieces = file ? piecesOf(lines) : [];
  if (!file || !pieces.length) return () => {};
  /** @type {Map<number, Token[]>} */
  const found = new Map();
  /** @type {any} */
  let hljs = null;
  const job = {
    step() {
      const piece = pieces.shift();
      if (piece)
        read(piece, lines, found, (text) => hljs.highlight(text, { language: file, ignoreIllegals: true }).value);
      if (!pieces.length) show(found);
      return pieces.length > 0;
    },
  };
  let isGone = false;
  loadLanguage(file).then(
    (loaded) => {
      hljs = loaded;
      if (!isGone) spread(job, true);
    },
    () => {}, // without it the diff has no such colours
  );
  return () => {
    isGone = true;
    drop(job);
  };
}

/**
 * @param {Piece} piece
 * @param {DiffLine[]} lines
 * @param {Map<number, Token[]>} found
 * @param {(text: string) => string} highlight
 */
function read({ places, kept }, lines, found, highlight) {
  const texts = places.map((at) => (lines[at].text.length > LONG_LINE ? "" : lines[at].text));
  const coloured = tokensOf(highlight(texts.join("\n")));
  for (const [i, at] of places.entries()) {
    const tokens = coloured[i] ?? [];
    const isSame = tokens.map(({ text }) => text).join("") === lines[at].text; // colours never change what is read
    if (isSame && kept.includes(lines[at].kind)) found.set(at, tokens);
  }
}
