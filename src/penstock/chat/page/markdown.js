// Markdown of an agent to the DOM, block by block. A block that is settled is never touched again, so what a person
// selected in it stays selected; the last one is changed in place while it grows. A long text takes many tasks.

import { appendCode, drawBlock, drawPlain, element } from "./blocks.js";
import { heal } from "./heal.js";
import { colour } from "./highlight.js";
import { scan } from "./parser.js";
import { drop, spread } from "./spread.js";
import { harmless } from "./text.js";

export { listenForCopies } from "./blocks.js";

const WINDOW = 16_384; // characters that are read for blocks at a time
const MAX_TEXT = 32_768; // characters of a block; more is shown as several
const MAX_BLOCKS = 20_000; // all text behind them is plain
const UNCUT = new Set(["code", "table", "html"]); // a part of them is not what the whole is
const SMALL = 20_000; // a text this short is drawn anew for each target of a reference link; others once, at the end
const LOOSE = 60; // blocks that stand alone: most replies have no more. The others stand together, in parts,
const PART = 40; // of so many, which are not laid out where they are far from the screen
const COSTLY_MS = 10; // the last block is drawn less often if it takes longer
const PAUSE = 4; // then it pauses so many times as long

/** Markdown in an element: `show` it again whenever the text has grown or changed. */
export class Prose {
  #root;
  #text = ""; // as it came
  #source = ""; // the same, harmless
  #isGrowing = false;
  #isOver = false;
  #links = {}; // the targets of reference links
  #blocks = []; // {raw, start, token, shown, links, isSettled, node}; `shown` is `raw`, or healed while it is the last
  #placed = 0; // so many of them are those of the source, and settled
  #at = 0; // where the block behind those begins
  #isChecked = true; // what is placed needs no second look
  #undrawn = []; // blocks whose text is not shown yet
  #work = null; // a generator that draws: it stops after each block
  #pausedUntil = 0;
  #timer = 0;

  constructor(root) {
    this.#root = root;
  }

  /** `isGrowing`: more is expected, or it was cut, so the end may be half written. `isOver`: no more text comes. */
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
      if (!this.#work.next().done) return true;
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
    this.#timer = 0;
    const pause = this.#isOver ? 0 : this.#pausedUntil - performance.now();
    if (pause > 0) this.#timer = setTimeout(() => this.#go(), pause);
    else spread(this);
  }

  * #draws() {
    const isNew = !this.#blocks.length;
    if (isNew) this.#root.replaceChildren();
    // What was whole when it came is drawn from its end: there it is read, and nothing moves when the rest comes.
    yield* this.#forward(isNew && this.#isOver);
    while (this.#undrawn.length) {
      this.#draw(this.#undrawn.pop());
      yield;
    }
    if (this.#isChecked || !(this.#isOver || this.#source.length < SMALL)) return;
    [this.#isChecked, this.#placed, this.#at] = [true, 0, 0];
    yield* this.#forward(false);
  }

  /** Place the blocks from the first that is not placed, and draw them, at once or later. */
  * #forward(isLater) {
    for (let [i, isEnd] = [this.#placed, false]; !isEnd; ) {
      const read = this.#read(i);
      isEnd = read.isEnd;
      for (const block of read.blocks) {
        const isLast = isEnd && block === read.blocks.at(-1);
        const placed = this.#place(i++, block, isLast && this.#isGrowing);
        if (!isLast) [this.#placed, this.#at] = [i, block.start + block.raw.length];
        if (isLater) this.#undrawn.push(placed);
        else if (this.#draw(placed)) yield;
      }
      if (isEnd) for (const gone of this.#blocks.splice(i)) gone.node.remove();
      yield;
    }
  }

  /** The next blocks of the source, which are whole, and whether it ends with them. */
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

  #blocksOf(tokens, start, isEnd) {
    const [blocks, defs] = [[], []];
    const isWhole = isEnd && this.#isOver;
    for (const token of tokens) {
      const block = { raw: token.raw, start, token };
      start += token.raw.length;
      if (token.type === "def") defs.push(token);
      if (token.type === "def" || token.type === "space") continue;
      this.#define(defs.splice(0));
      blocks.push(block);
      const cut = UNCUT.has(token.type) && !token.plain ? 0 : cutOf(token);
      if (!cut) continue;
      block.raw = token.raw.slice(0, cut);
      return { blocks, isCut: true };
    }
    if (isWhole) this.#define(defs);
    // The lexer tidies the white space at the end of a list; how it will go on hangs on what really stands there.
    if (isEnd && this.#isGrowing && blocks.length) blocks.at(-1).raw = this.#source.slice(blocks.at(-1).start);
    return { blocks, isCut: false };
  }

  /** Keep the targets of reference links; the first of a name counts. */
  #define(defs) {
    for (const { tag, href, title } of defs) {
      if (Object.hasOwn(this.#links, tag)) continue;
      this.#links[tag] = { href, title };
      // A reference before it may have got its target only now.
      this.#isChecked = false;
    }
  }

  /** The text from here on, in pieces. */
  #plain(start) {
    const raw = this.#source.slice(start, start + MAX_TEXT);
    const isEnd = start + raw.length >= this.#source.length;
    return { blocks: raw.trim() ? [{ raw, start, token: { type: "plain" }, isPlain: true }] : [], isEnd };
  }

  /** Let the block number `i` be this one; it is to be drawn if `target` and `targetLinks` differ from what is shown. */
  #place(i, block, isHealed) {
    const stands = this.#blocks[i];
    const node = stands?.node ?? this.#part(i).appendChild(element("div", "block"));
    const made = { ...block, node, isHealed, shown: stands?.shown, links: stands?.links, before: stands?.token };
    made.isSettled = Boolean(stands?.isSettled);
    this.#blocks[i] = made;
    return made;
  }

  /** Where the block number `i` stands. */
  #part(i) {
    if (i < LOOSE) return this.#root;
    const place = LOOSE + Math.floor((i - LOOSE) / PART);
    return this.#root.children[place] ?? this.#root.appendChild(element("div", "part"));
  }

  /** Draw a block; whether there was anything to do. */
  #draw(block) {
    const shown = block.isHealed ? heal(block.raw) : block.raw;
    const links = block.raw.includes("[") ? Object.keys(this.#links).length : 0;
    if (block.shown === shown && block.links === links && block.isSettled === !block.isHealed) return false;
    const began = performance.now();
    if (block.shown !== shown || block.links !== links) {
      const token = shown === block.raw ? block.token : scan(shown)[0];
      if (block.shown === undefined || !appendCode(block.node, block.before, token)) {
        drawBlock(block.node, shown, this.#links, block.isPlain);
      }
    }
    Object.assign(block, { shown, links, isSettled: !block.isHealed, before: null });
    if (block.isSettled) block.token = null; // it is not read again
    if (block.isSettled) {
      for (const code of block.node.querySelectorAll("figure.code")) colour(code);
      rest(block.node.parentNode);
    }
    const took = performance.now() - began;
    if (took > COSTLY_MS) this.#pausedUntil = began + took * (1 + PAUSE);
    return true;
  }
}

/** Where a block that is too long is cut, or 0: behind an item, a line, a word, or anywhere. */
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

/** A part that is full is laid out once, so that its height is known, and then only near the screen. */
function rest(part) {
  if (part.className !== "part" || part.dataset.rests || part.children.length < PART) return;
  if ([...part.children].some((block) => !block.firstChild)) return;
  part.dataset.rests = "soon";
  requestAnimationFrame(() => requestAnimationFrame(() => (part.dataset.rests = "true")));
}
