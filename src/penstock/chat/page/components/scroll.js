// Keeps the end of what grows in sight, until the thread is moved up: by a wheel, a key, the focus, a search, a selection.

/** Sent to the document to bring the thread to its end. */
export const LATEST = "penstock:latest";

const NEAR = 48; // this close to the end is the end, for whoever comes down to it
const ROUNDING = 1; // pixels by which a position may differ from what was set

export class StickToEnd {
  pinned = true;
  #scroller;
  #onChange;
  #observer;
  #top = 0; // where it was, and how high all of it was, when it was last measured
  #height = 0;
  #listeners = new AbortController();

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} content
   * @param {(isPinned: boolean) => void} onChange
   */
  constructor(scroller, content, onChange) {
    this.#scroller = scroller;
    this.#onChange = onChange;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true, signal: this.#listeners.signal });
    this.#observer = new ResizeObserver(() => this.#resized());
    this.#observer.observe(content);
    this.#observer.observe(scroller);
    this.#set(true);
    this.#follow();
  }

  /** Go to the end, and stay there. */
  pin() {
    this.#set(true);
    this.#follow();
  }

  close() {
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
    else this.#measure();
  }

  #scrolled() {
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
