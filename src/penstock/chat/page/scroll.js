// Stays at the end of what grows, until the thread is moved up: by a wheel, a key, the focus, a search, a selection.

const NEAR = 48; // this close to the end is the end, for whoever comes down to it
const ROUNDING = 1; // pixels by which a position may differ from what was set

export class Stick {
  pinned = true;
  #scroller; #onChange; #observer;
  #top = 0; // where it was, and how high all of it was, when we last looked
  #height = 0;
  #listeners = new AbortController();

  /** `onChange(pinned)` is called when it changes. */
  constructor(scroller, content, onChange) {
    [this.#scroller, this.#onChange] = [scroller, onChange];
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

  #look() {
    [this.#top, this.#height] = [this.#scroller.scrollTop, this.#scroller.scrollHeight];
  }

  #follow() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#look();
  }

  /** What grows or shrinks is followed here, before it is painted; no scroll has to tell of it. */
  #resized() {
    if (this.pinned) this.#follow();
    else this.#look();
  }

  #scrolled() {
    const moved = this.#scroller.scrollTop - this.#top;
    const same = this.#scroller.scrollHeight === this.#height;
    this.#look();
    const left = this.#left;
    // A layout moves the position up as well: with the height, and to the end or close to it. What is far up is laid
    // out only when somebody goes there, which changes the height too, but leaves the end out of sight.
    const theirs = left > ROUNDING && (same || left > this.#scroller.clientHeight);
    if (moved < -ROUNDING && theirs) this.#set(false);
    else if (moved > ROUNDING && left <= NEAR) this.#set(true);
  }

  #set(pinned) {
    // While pinned, the end is held by us and not by the browser's own anchor, which would fight.
    this.#scroller.classList.toggle("pinned", pinned);
    if (pinned === this.pinned) return;
    this.pinned = pinned;
    this.#onChange(pinned);
  }
}
