// Stays at the end of what grows, until a person scrolls away; only a person does that.

const NEAR = 48; // this close to the end is the end
const GESTURE_MS = 400; // a scroll this soon after a wheel, a touch or a key is a person's
const KEYS = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "]);

export class Stick {
  pinned = true;
  #scroller; #onChange; #observer;
  #gesture = -Infinity;
  #top = 0; // where it stood when we last looked
  #held = false; // a pointer holds the scrollbar, or a finger the page
  #listeners = new AbortController();

  /** `onChange(pinned)` is called when it changes. */
  constructor(scroller, content, onChange) {
    [this.#scroller, this.#onChange] = [scroller, onChange];
    const on = (target, names, call) => {
      for (const name of names) target.addEventListener(name, call, { passive: true, signal: this.#listeners.signal });
    };
    on(scroller, ["wheel", "touchmove"], () => this.#moved());
    on(scroller, ["touchstart"], () => (this.#held = true));
    on(scroller, ["pointerdown"], (event) => (this.#held = event.offsetX >= scroller.clientWidth));
    on(window, ["pointerup", "touchend", "touchcancel", "pointercancel"], () => this.#release());
    on(scroller, ["keydown"], ({ key, target }) => KEYS.has(key) && !target.closest("textarea, input, select") && this.#moved());
    on(scroller, ["scroll"], () => this.#scrolled());
    this.#observer = new ResizeObserver(() => this.pinned && this.#follow());
    this.#observer.observe(content);
    this.#observer.observe(scroller);
    this.#set(true);
    this.#follow();
  }

  /** Go to the end, and stay there. */
  pin() {
    this.#gesture = -Infinity; // what scrolls from now on is not what they did before
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

  #follow() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#top = this.#scroller.scrollTop;
  }

  #moved() {
    this.#gesture = performance.now();
  }

  #release() {
    if (this.#held) this.#moved(); // the page may glide on
    this.#held = false;
  }

  #scrolled() {
    const [before, top] = [this.#top, this.#scroller.scrollTop];
    if (Math.abs(top - before) < 1) return; // we did it
    this.#top = top;
    const theirs = this.#held || performance.now() - this.#gesture < GESTURE_MS;
    if (theirs) {
      this.#moved(); // as long as it glides
      if (this.#left <= NEAR) this.#set(true);
      else if (top < before) this.#set(false);
    } else if (this.pinned && this.#left > NEAR) this.#follow();
  }

  #set(pinned) {
    // While pinned, the end is held by us and not by the browser's own anchor, which would fight.
    this.#scroller.classList.toggle("pinned", pinned);
    if (pinned === this.pinned) return;
    this.pinned = pinned;
    this.#onChange(pinned);
  }
}
