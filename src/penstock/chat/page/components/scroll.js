// Keeps the end of what grows in sight, until the thread is moved up: by a wheel, a key, the focus, a search, a selection.
// It then keeps the place where one reads, for whoever comes back.

/** Sent to the document to bring the thread to its end. */
export const LATEST = "penstock:latest";

/** Sent to the document to bring the thread to the place that is its `detail`. */
export const TO_PLACE = "penstock:place";

/** Sent to the document before something opens or closes beside the thread. */
export const KEEP = "penstock:keep";

/** Sent to the document to go to the turn above (`detail` -1) or below (1). */
export const STEP = "penstock:step";

const NEAR = 48; // this close to the end is the end, for whoever comes down to it
const ROUNDING = 1; // pixels by which a position may differ from what was set

const RETURN_MS = 3000; // so long a place is held while the texts around it are drawn
const MISSING_MS = 30_000; // after that, a place that was not there goes for the end
const KEPT_FRAMES = 12; // by then what opens beside the thread has its place
const SETTLED_MS = 150; // after the last movement, the place is noted
const GAP = 12; // above a turn that was gone to
const INPUTS = ["wheel", "touchstart", "pointerdown", "keydown"]; // of a person who goes elsewhere

/**
 * @typedef {object} Place  Where one reads: how far the upper edge of the thread is below a block of a turn.
 * @property {number} turn
 * @property {number} block  Its number in the turn; -1: the turn itself.
 * @property {number} offset  In pixels.
 */

/**
 * @param {unknown} value
 * @returns {Place | null}
 */
export function placeOf(value) {
  const { turn, block, offset } = /** @type {Partial<Place>} */ (value ?? {});
  const isPlace = Number.isInteger(turn) && Number.isInteger(block) && Number.isFinite(offset);
  return isPlace ? /** @type {Place} */ ({ turn, block, offset }) : null;
}

export class StickToEnd {
  pinned = true;
  #scroller;
  #onChange;
  #observer;
  #top = 0; // where it was, and how high all of it was, when it was last measured
  #height = 0;
  /** @type {{ element: Element, top: number } | null} What is kept where it was seen, while something opens beside it. */
  #kept = null;
  #listeners = new AbortController();
  /** @type {Place | null} The place to return to, until it is reached and all around it is drawn. */
  #place = null;
  #isReached = false;
  #note;
  /** @type {Timer} */
  #noteTimer;
  /** @type {Timer} */
  #returnTimer;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} content
   * @param {(isPinned: boolean) => void} onChange
   * @param {{ place: Place | null, note: (place: Place | null) => void }} reading  Where to begin, and what is called
   *   with the place where one reads; null is the end.
   */
  constructor(scroller, content, onChange, { place, note }) {
    this.#scroller = scroller;
    this.#onChange = onChange;
    this.#note = note;
    for (const name of INPUTS) {
      const options = { passive: true, signal: this.#listeners.signal };
      scroller.addEventListener(name, () => this.#goesElsewhere(), options);
    }
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true, signal: this.#listeners.signal });
    const leave = () => this.#place || this.#note(this.#here());
    window.addEventListener("pagehide", leave, { signal: this.#listeners.signal });
    this.#observer = new ResizeObserver(() => this.#resized());
    this.#observer.observe(content);
    this.#observer.observe(scroller);
    if (place) this.goTo(place);
    else this.pin();
  }

  /**
   * Go to a place, once it is there, and stay there.
   *
   * @param {Place} place
   */
  goTo(place) {
    this.#place = place;
    this.#isReached = false;
    this.#set(false);
    clearTimeout(this.#returnTimer);
    this.#returnTimer = setTimeout(() => this.#endReturn(), MISSING_MS);
    this.#return();
  }

  /** Go to the end, and stay there. */
  pin() {
    this.#place = null;
    this.#set(true);
    this.#follow();
    this.#noteSoon();
  }

  /**
   * Go to the beginning of the turn above or below; behind the last one is the end, and above the first what is not loaded.
   *
   * @param {-1 | 1} by
   */
  step(by) {
    const top = this.#scroller.getBoundingClientRect().top + GAP;
    /** @type {HTMLElement[]} */
    const turns = [...this.#scroller.querySelectorAll(/** @type {"article"} */ ("[data-turn]"))];
    const away = (/** @type {HTMLElement} */ it) => by * (it.getBoundingClientRect().top - top) > ROUNDING;
    const found = by > 0 ? turns.find(away) : turns.findLast(away);
    if (found && (by < 0 || this.#left > ROUNDING))
      this.goTo({ turn: Number(found.dataset.turn), block: -1, offset: -GAP });
    else if (by > 0) this.pin();
    else this.#scroller.scrollTop = 0;
  }

  close() {
    clearTimeout(this.#returnTimer);
    clearTimeout(this.#noteTimer);
    if (!this.#place) this.#note(this.#here());
    this.#listeners.abort();
    this.#observer.disconnect();
  }

  get #left() {
    return this.#scroller.scrollHeight - this.#scroller.clientHeight - this.#scroller.scrollTop;
  }

  #measure() {
    [this.#top, this.#height] = [this.#scroller.scrollTop, this.#scroller.scrollHeight];
  }

  #follow() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#measure();
  }

  /** What grows or shrinks is followed here, before it is painted; no scroll event is needed. */
  #resized() {
    if (this.#kept) this.#hold();
    else if (this.pinned) this.#follow();
    else if (this.#place) this.#return();
    else if (this.#scroller.scrollHeight <= this.#scroller.clientHeight)
      this.pin(); // all is seen, and so the end is
    else this.#measure();
  }

  /** Go to the place to return to, as far as it is there. */
  #return() {
    const { turn, block, offset } = /** @type {Place} */ (this.#place);
    const found = this.#scroller.querySelector(`[data-turn="${turn}"], [data-part="${turn}"]`);
    const anchor = block < 0 ? found : (found?.querySelectorAll(".block")[block] ?? found);
    if (anchor) {
      if (!this.#isReached) {
        this.#isReached = true;
        clearTimeout(this.#returnTimer);
        this.#returnTimer = setTimeout(() => this.#endReturn(), RETURN_MS);
      }
      this.#scroller.scrollTop +=
        anchor.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top + offset;
    }
    this.#measure();
  }

  #goesElsewhere() {
    this.#endKeeping();
    this.#endReturn();
  }

  #endReturn() {
    if (!this.#place) return;
    this.#place = null;
    clearTimeout(this.#returnTimer);
    if (!this.#isReached || this.#left <= ROUNDING) this.pin();
  }

  /**
   * Where one reads now; null at the end.
   *
   * @returns {Place | null}
   */
  #here() {
    if (this.pinned) return null;
    const top = this.#scroller.getBoundingClientRect().top;
    /** @type {(selector: string, within: Element) => Element[]} */
    const all = (selector, within) => [...within.querySelectorAll(selector)];
    const above = (/** @type {Element} */ it) => it.getBoundingClientRect().top <= top + ROUNDING;
    const turns = all("[data-turn]", this.#scroller);
    const turn = turns[Math.max(0, lastWhere(turns, above))];
    if (!(turn instanceof HTMLElement)) return null;
    const blocks = all(".block", turn);
    const block = lastWhere(blocks, above);
    const offset = top - (blocks[block] ?? turn).getBoundingClientRect().top;
    return { turn: Number(turn.dataset.turn), block, offset: Math.round(offset) };
  }

  #noteSoon() {
    clearTimeout(this.#noteTimer);
    this.#noteTimer = setTimeout(() => this.#place || this.#note(this.#here()), SETTLED_MS);
  }

  /** Keep what is seen where it is, while something opens or closes beside it and changes the width. */
  keep() {
    if (this.pinned || this.#place || this.#kept) return;
    this.#kept = this.#inSight();
    this.#scroller.style.overflowAnchor = "none"; // the browser's own anchor is often another one
    let frames = KEPT_FRAMES;
    const again = () => {
      if (!this.#kept) return;
      this.#hold();
      if (frames-- > 0) requestAnimationFrame(again);
      else this.#endKeeping();
    };
    requestAnimationFrame(again);
  }

  #hold() {
    if (!this.#kept) return;
    const { element, top } = this.#kept;
    if (element.isConnected) this.#scroller.scrollTop += element.getBoundingClientRect().top - top;
    this.#measure();
  }

  #endKeeping() {
    this.#kept = null;
    this.#scroller.style.overflowAnchor = "";
  }

  /** The first block that begins in sight: in another width, all above it is of another height. */
  #inSight() {
    const { top, bottom } = this.#scroller.getBoundingClientRect();
    const isAbove = (/** @type {Element} */ it) => it.getBoundingClientRect().top < top;
    /** @type {(within: Element, selector: string) => Element[]} */
    const all = (within, selector) => [...within.querySelectorAll(selector)];
    const turns = all(this.#scroller, "[data-turn]");
    const from = Math.max(0, lastWhere(turns, isAbove));
    for (const turn of turns.slice(from, from + 2)) {
      const element = [turn, ...all(turn, ".block")].find((it) => !isAbove(it));
      const place = element?.getBoundingClientRect().top ?? bottom;
      if (element && place < bottom) return { element, top: place };
    }
    return null;
  }

  #scrolled() {
    this.#noteSoon();
    if (this.#place || this.#kept) {
      this.#measure();
      return;
    }
    const moved = this.#scroller.scrollTop - this.#top;
    const same = this.#scroller.scrollHeight === this.#height;
    this.#measure();
    const left = this.#left;
    // A layout moves the position up as well: with the height, and to the end or close to it. What is far up is laid
    // out only when somebody goes there, which changes the height too, but leaves the end out of sight.
    const theirs = left > ROUNDING && (same || left > this.#scroller.clientHeight);
    if (moved < -ROUNDING && theirs) this.#set(false);
    else if (moved > ROUNDING && left <= NEAR) this.#set(true);
  }

  /** @param {boolean} pinned */
  #set(pinned) {
    // While pinned, the end is held by us and not by the browser's own anchor, which would fight.
    this.#scroller.classList.toggle("pinned", pinned);
    if (pinned === this.pinned) return;
    this.pinned = pinned;
    this.#onChange(pinned);
  }
}

/**
 * The index of the last of the elements, which stand in one column, that is above a line; -1 if none is.
 *
 * @param {Element[]} elements
 * @param {(element: Element) => boolean} isAbove
 */
function lastWhere(elements, isAbove) {
  let [low, high] = [0, elements.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAbove(elements[middle])) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
