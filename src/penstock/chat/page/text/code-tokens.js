// Coloured code as data: the tokens of each line, and those of the parts of a line.

/** @import { DiffLine } from "./diff.js" */
/** @typedef {{ kind: string, text: string }} Token  `kind`: the classes of its colour, or "". */
/** @typedef {{ places: number[], kept: DiffLine["kind"][] }} Piece  Lines of one side of a diff, and those whose colours it gives. */

const MAX_CHARACTERS = 30_000; // of a diff; the lines behind them have no colours
const PIECE_CHARACTERS = 4000; // that are read at once, in about a millisecond
const PIECE = /<span class="([\w -]*)">|(<\/span>)|&(amp|lt|gt|quot|#x27);|([^<&]+|[<&])/g;
/** @type {Record<string, string>} */
const CHARACTERS = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

/**
 * The tokens of each line of what highlight.js has made of a text.
 *
 * @param {string} coloured
 * @returns {Token[][]}
 */
export function tokensOf(coloured) {
  /** @type {string[]} */
  const open = [];
  /** @type {Token[][]} */
  const lines = [[]];
  const add = (/** @type {string} */ text) => {
    const kind = open.join(" ");
    const line = /** @type {Token[]} */ (lines.at(-1));
    const last = line.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text) line.push({ kind, text });
  };
  for (const [, kind, end, character, text] of coloured.matchAll(PIECE)) {
    if (kind !== undefined) open.push(kind);
    else if (end) open.pop();
    else {
      const [first, ...others] = (text ?? CHARACTERS[character]).split("\n");
      add(first);
      for (const line of others) {
        lines.push([]);
        add(line);
      }
    }
  }
  return lines;
}

/**
 * The tokens of each part of a line.
 *
 * @param {Token[]} tokens
 * @param {import("./changed-words.js").Part[]} parts  Of the same text.
 */
export function tokensOfParts(tokens, parts) {
  let [token, at] = [0, 0]; // the place in the tokens
  return parts.map(({ isChanged, text }) => {
    /** @type {Token[]} */
    const found = [];
    for (let left = text.length; left > 0 && token < tokens.length;) {
      const { kind, text: whole } = tokens[token];
      const piece = whole.slice(at, at + left);
      if (piece) found.push({ kind, text: piece });
      left -= piece.length;
      at += piece.length;
      if (at >= whole.length) [token, at] = [token + 1, 0];
    }
    return { isChanged, tokens: found };
  });
}

/**
 * Both sides of each hunk of a diff, in pieces that are read as code.
 *
 * @param {DiffLine[]} lines
 */
export function piecesOf(lines) {
  /** @type {Piece[]} */
  const pieces = [];
  const newPieces = () => ({
    now: /** @type {Piece} */ ({ places: [], kept: ["added", "same"] }),
    before: /** @type {Piece} */ ({ places: [], kept: ["removed"] }),
  });
  let open = newPieces();
  let [size, all] = [0, 0];
  const end = () => {
    for (const piece of Object.values(open))
      if (piece.places.some((at) => piece.kept.includes(lines[at].kind))) pieces.push(piece);
    open = newPieces();
    size = 0;
  };
  for (const [at, { kind, text }] of lines.entries()) {
    if (kind === "note") continue;
    if (kind === "hunk" || size > PIECE_CHARACTERS) end();
    if (kind === "hunk") continue;
    all += text.length;
    if (all > MAX_CHARACTERS) break;
    size += text.length;
    if (kind !== "removed") open.now.places.push(at);
    if (kind !== "added") open.before.places.push(at);
  }
  end();
  return pieces;
}
