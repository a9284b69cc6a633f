// Keeps the end of what grows in sight, until the thread is moved up: by a wheel, a key, the focus, a search, a selection.
// It then keeps the place where one reads, for whoever comes back.

/** Sent to the document to bring the thread to its end. */
export const LATEST = "penstock:latest";

/** Sent to the document to bring the thread to the place that is its `detail`. */
export const TO_PLACE = "penstock:place";

const NEAR = 48; // this close to the end is the end, for whoever comes down to it
const ROUNDING = 1; // pixels by which a position may differ from what was set

const RETURN_MS = 3000; // so long a place is held while the texts around it are drawn
const MISSING_MS = 30_000; // after that, a place that was not there goes for the end
const SETTLED_MS = 150; // after the last movement, the place is noted
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
      scroller.addEventListener(name, () => this.#endReturn(), options);
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
    if (this.pinned) this.#follow();
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

  #scrolled() {
    this.#noteSoon();
    if (this.#place) {
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
