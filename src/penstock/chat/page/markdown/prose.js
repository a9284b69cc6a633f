// Markdown of an agent to the DOM, block by block. A block that is settled is never touched again, so what a person
// selected in it stays selected; the last one is changed in place while it grows. A long text takes many tasks.

import { appendCode, drawBlock, drawPlain, element } from "./blocks.js";
import { completeMarkdown } from "./complete-markdown.js";
import { colour } from "./highlight.js";
import { scan } from "./parser.js";
import { drop, spread } from "./scheduler.js";
import { drawTable } from "./tables.js";
import { harmless } from "../text/format.js";

const WINDOW = 16_384; // characters that are read for blocks at a time
const MAX_TEXT = 32_768; // characters of a block; more is shown as several
const MAX_BLOCKS = 20_000; // all text behind them is plain
const UNCUT = new Set(["code", "table", "html", "folded", "footnote", "formula_block"]); // a part of them is not what the whole is
const SMALL = 20_000; // a text this short is drawn anew for each target of a reference link; others once, at the end
const LOOSE = 60; // blocks that stand alone: most replies have no more. The others stand together, in parts,
const PART = 40; // of so many, which are not laid out where they are far from the screen
const COSTLY_MS = 10; // the last block is drawn less often if it takes longer
const PAUSE = 4; // then it pauses so many times as long

/**
 * @typedef {import("./parser.js").Block} Token
 * @typedef {{ raw: string, start: number, token: Token, isPlain?: boolean }} NewBlock
 * @typedef {object} Drawing
 * @property {HTMLElement} node
 * @property {boolean} isCompleted  The end of it may be half written, and is completed before it is drawn.
 * @property {string | undefined} shown  `raw`, or that completed.
 * @property {number | undefined} links  How many targets of reference links there were when it was drawn.
 * @property {Token | null | undefined} before  The token that is drawn now.
 * @property {import("./tables.js").Rows} [rows]  What is drawn of it if it is a table.
 * @property {boolean} isSettled
 * @typedef {Omit<NewBlock, "token"> & { token: Token | null } & Drawing} DrawnBlock
 */

/** Markdown in an element: `show` it again whenever the text has grown or changed. */
export class Prose {
  #root;
  #text = ""; // as it came
  #source = ""; // the same, harmless
  #isGrowing = false;
  #isOver = false;
  /** @type {import("./parser.js").Links} The targets of reference links. */
  #links = {};
  /** @type {DrawnBlock[]} */
  #blocks = [];
  #placed = 0; // so many of them are those of the source, and settled
  #at = 0; // where the block behind those begins
  #isChecked = true; // what is placed needs no second look
  /** @type {DrawnBlock[]} Those whose text is not shown yet. */
  #undrawn = [];
  /** @type {Generator<void | "large"> | null} It draws, and stops after each block, or a part of a large one. */
  #work = null;
  #pausedUntil = 0;
  /** @type {Timer} */
  #timer;

  #pictureUrl;

  /**
   * @param {HTMLElement} root
   * @param {import("./blocks.js").PictureUrl | null} pictureUrl
   */
  constructor(root, pictureUrl = null) {
    this.#root = root;
    this.#pictureUrl = pictureUrl;
  }

  /**
   * `isGrowing`: more is expected, or it was cut, so the end may be half written. `isOver`: no more text comes.
   *
   * @param {string} text
   * @param {boolean} isGrowing
   */
  show(text, isGrowing, isOver = !isGrowing) {
    const isMore = this.#text !== "" && text.startsWith(this.#text);
    const source = isMore && !isOver ? this.#source + harmless(text.slice(this.#text.length)) : harmless(text);
    if (!isMore || !source.startsWith(this.#source)) this.#begin();
    else if (isOver && !this.#isOver) this.#isChecked = false;
    [this.#text, this.#source, this.#isGrowing, this.#isOver] = [text, source, isGrowing, isOver];
    this.#work = this.#draws();
    this.#go();
  }

  /** Stop drawing. */
  close() {
    drop(this);
    clearTimeout(this.#timer);
  }

  /** It goes on in another task. */
  wait() {
    this.#root.setAttribute("aria-busy", "true");
  }

  /** Draw a block; whether there is more to do. */
  step() {
    try {
      const { done = true, value } = this.#work?.next() ?? {};
      if (!done) return value ?? true;
    } catch (error) {
      // All of the text, as it was written, is better than a part of it.
      reportError(error);
      this.#begin();
      this.#blocks = [];
      drawPlain(this.#root, this.#source);
    }
    this.#root.removeAttribute("aria-busy");
    return false;
  }

  #begin() {
    [this.#placed, this.#at, this.#links, this.#undrawn, this.#isChecked] = [0, 0, {}, [], true];
  }

  #go() {
    clearTimeout(this.#timer);
    const pause = this.#isOver ? 0 : this.#pausedUntil - performance.now();
    if (pause > 0) this.#timer = setTimeout(() => this.#go(), pause);
    else spread(this);
  }

  *#draws() {
    const isNew = !this.#blocks.length;
    if (isNew) this.#root.replaceChildren();
    // What was whole when it came is drawn from its end: there it is read, and nothing moves when the rest comes.
    yield* this.#forward(isNew && this.#isOver);
    for (let block = this.#undrawn.at(-1); block; block = this.#undrawn.at(-1)) {
      yield* this.#draw(block);
      this.#undrawn.pop(); // only now: who begins anew before its end goes on with it
      yield;
    }
    if (this.#isChecked || !(this.#isOver || this.#source.length < SMALL)) return;
    [this.#isChecked, this.#placed, this.#at] = [true, 0, 0];
    yield* this.#forward(false);
  }

  /**
   * Place the blocks from the first that is not placed, and draw them, at once or later.
   *
   * @param {boolean} isLater
   */
  *#forward(isLater) {
    for (let [i, isEnd] = [this.#placed, false]; !isEnd;) {
      const read = this.#read(i);
      isEnd = read.isEnd;
      for (const block of read.blocks) {
        const isLast = isEnd && block === read.blocks.at(-1);
        const placed = this.#place(i++, block, isLast && this.#isGrowing);
        if (isLater) this.#undrawn.push(placed);
        else if (yield* this.#draw(placed)) yield;
        if (!isLast) [this.#placed, this.#at] = [i, block.start + block.raw.length];
      }
      if (isEnd) for (const gone of this.#blocks.splice(i)) gone.node.remove();
      yield;
    }
  }

  /**
   * The next blocks of the source, which are whole, and whether it ends with them.
   *
   * @param {number} i
   * @returns {{ blocks: NewBlock[], isEnd: boolean }}
   */
  #read(i) {
    const start = this.#at;
    if (i >= MAX_BLOCKS) return this.#plain(start);
    for (let size = WINDOW; ; size *= 2) {
      const isEnd = start + size >= this.#source.length;
      const tokens = scan(this.#source.slice(start, isEnd ? undefined : start + size));
      const { blocks, isCut } = this.#blocksOf(tokens, start, isEnd);
      if (isCut || isEnd) return { blocks, isEnd: isEnd && !isCut };
      // What comes behind can change the last one, and no other.
      blocks.pop();
      if (blocks.length) return { blocks, isEnd };
    }
  }

  /**
   * @param {Token[]} tokens
   * @param {number} start
   * @param {boolean} isEnd
   */
  #blocksOf(tokens, start, isEnd) {
    /** @type {NewBlock[]} */
    const blocks = [];
    /** @type {Token[]} */
    const defs = [];
    const isWhole = isEnd && this.#isOver;
    for (const token of tokens) {
      const block = { raw: token.raw, start, token };
      start += token.raw.length;
      if (token.type === "def") defs.push(token);
      if (token.type === "def" || token.type === "space") continue;
      if (token.type === "footnote") defs.push(token);
      this.#define(defs.splice(0));
      blocks.push(block);
      const cut = UNCUT.has(token.type) && !token.plain ? 0 : cutOf(token);
      if (!cut) continue;
      block.raw = token.raw.slice(0, cut);
      return { blocks, isCut: true };
    }
    if (isWhole) this.#define(defs);
    // The lexer tidies the white space at the end of a list; how it goes on depends on what is really there.
    const last = blocks.at(-1);
    if (isEnd && this.#isGrowing && last) last.raw = this.#source.slice(last.start);
    return { blocks, isCut: false };
  }

  /**
   * Keep the targets of reference links; the first of a name counts.
   *
   * @param {Token[]} defs
   */
  #define(defs) {
    for (const { tag = "", href = "", title } of defs) {
      if (Object.hasOwn(this.#links, tag)) continue;
      this.#links[tag] = { href, title };
      // A reference before it may have got its target only now.
      this.#isChecked = false;
    }
  }

  /**
   * The text from here on, in pieces.
   *
   * @param {number} start
   * @returns {{ blocks: NewBlock[], isEnd: boolean }}
   */
  #plain(start) {
    const raw = this.#source.slice(start, start + MAX_TEXT);
    const isEnd = start + raw.length >= this.#source.length;
    return { blocks: raw.trim() ? [{ raw, start, token: { type: "plain", raw }, isPlain: true }] : [], isEnd };
  }

  /**
   * Let the block number `i` be this one; it is to be drawn if `target` and `targetLinks` differ from what is shown.
   *
   * @param {number} i
   * @param {NewBlock} block
   * @param {boolean} isCompleted
   */
  #place(i, block, isCompleted) {
    const { node, shown, links, token: before, isSettled = false, rows } = this.#blocks[i] ?? {};
    const placed = { ...block, isCompleted, shown, links, before, isSettled, rows };
    this.#blocks[i] = { ...placed, node: node ?? this.#part(i).appendChild(element("div", "block")) };
    return this.#blocks[i];
  }

  /**
   * The element that the block number `i` is in.
   *
   * @param {number} i
   */
  #part(i) {
    if (i < LOOSE) return this.#root;
    const place = LOOSE + Math.floor((i - LOOSE) / PART);
    return (
      /** @type {HTMLElement | undefined} */ (this.#root.children[place]) ??
      this.#root.appendChild(element("div", "part"))
    );
  }

  /**
   * Draw a block; whether there was anything to do. A large table takes many steps.
   *
   * @param {DrawnBlock} block
   * @returns {Generator<void | "large", boolean>}
   */
  *#draw(block) {
    const shown = block.isCompleted ? completeMarkdown(block.raw) : block.raw;
    const links = block.raw.includes("[") ? Object.keys(this.#links).length : 0;
    if (block.shown === shown && block.links === links && block.isSettled === !block.isCompleted) return false;
    const began = performance.now();
    if (block.shown !== shown || block.links !== links) {
      if (block.token?.type === "table") yield* this.#drawRows(block, shown, links);
      else {
        const token = shown === block.raw ? block.token : scan(shown)[0];
        if (block.shown === undefined || !token || !appendCode(block.node, block.before, token)) {
          drawBlock(block.node, shown, this.#links, this.#pictureUrl, block.isPlain);
        }
        block.rows = undefined;
      }
    }
    Object.assign(block, { shown, links, isSettled: !block.isCompleted, before: null });
    if (block.isSettled) block.token = null; // it is not read again
    if (block.isSettled) {
      /** @type {NodeListOf<HTMLElement>} */
      const figures = block.node.querySelectorAll("figure.code");
      for (const figure of figures) colour(figure);
      if (block.node.parentElement) rest(block.node.parentElement);
    }
    const took = performance.now() - began;
    if (took > COSTLY_MS) this.#pausedUntil = began + took * (1 + PAUSE);
    return true;
  }

  /**
   * Draw a table in slices.
   *
   * @param {DrawnBlock} block
   * @param {string} source
   * @param {number} linkCount
   */
  *#drawRows(block, source, linkCount) {
    const keep = (/** @type {import("./tables.js").Rows} */ rows) => {
      block.rows = rows;
    };
    const how = { links: this.#links, linkCount, pictureUrl: this.#pictureUrl };
    yield* drawTable(block.node, source, block.rows, keep, how);
    // The layout of a large table is most of what it costs; it is the last thing before the pause is measured.
    if (block.isCompleted && (block.rows?.slices.length ?? 0) > 1) block.node.getBoundingClientRect();
  }
}

/**
 * Where a block that is too long is cut, or 0: behind an item, a line, a word, or anywhere.
 *
 * @param {Token} token
 */
function cutOf({ raw, items = [] }) {
  if (raw.length <= MAX_TEXT) return 0;
  let end = 0;
  for (const item of items) {
    if (end + item.raw.length > MAX_TEXT) break;
    end += item.raw.length;
  }
  end ||= raw.lastIndexOf("\n", MAX_TEXT - 1) + 1 || raw.lastIndexOf(" ", MAX_TEXT - 1) + 1 || MAX_TEXT;
  // Not between the halves of a character.
  return /[\ud800-\udbff]/.test(raw[end - 1]) ? end - 1 : end;
}

/**
 * A part that is full is laid out once, so that its height is known, and then only near the screen.
 *
 * @param {HTMLElement} part
 */
function rest(part) {
  if (part.className !== "part" || part.dataset.rests || part.children.length < PART) return;
  if ([...part.children].some((block) => !block.firstChild)) return;
  part.dataset.rests = "soon";
  const keep = () => {
    part.dataset.rests = "true";
  };
  requestAnimationFrame(() => requestAnimationFrame(keep));
}
