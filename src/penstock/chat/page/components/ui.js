// What every view is made of: Preact by tagged templates, the icons, and the few controls of our own.

import htm from "htm";
import { Component, h, render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { messageOf, serverNow } from "../net/api.js";
import { clock, duration, fullTime } from "../text/format.js";
import { copyToClipboard } from "./clipboard.js";

/** @typedef {import("preact").ComponentChildren} Children */

export const html = htm.bind(h);
export { Component, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** @type {Record<string, string>} */
const ICONS = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  search: "M16 16l4.5 4.5M18 10.5a7.5 7.5 0 1 1-15 0 7.5 7.5 0 0 1 15 0z",
  send: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  up: "M12 19V5M6 11l6-6 6 6",
  back: "M15 5l-7 7 7 7",
  forward: "M9 5l7 7-7 7",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  pulse: "M3 12h4l2.5-6 4.5 12 2.5-6H21",
  clock: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z",
  chevron: "M8 10l4 4 4-4",
  clip: "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.6-8.6a3.4 3.4 0 0 1 4.8 4.8l-8.6 8.6a1.7 1.7 0 0 1-2.4-2.4l7.9-7.9",
  file: "M13 3H6v18h12V8l-5-5zM13 3v5h5",
};

/**
 * A drawing that says nothing to a screen reader: its button has a label.
 *
 * @param {{ name: string }} props
 */
export function Icon({ name }) {
  return html`<svg class=${`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;
}

/** The sign of Penstock: a gated pipe. */
export function Mark() {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <path d="M2 12.5h6.5M15.5 12.5H22M2 20h20M12 8.5V16M8.5 16h7" />
    <circle cx="12" cy="5.5" r="3" />
  </svg>`;
}

/**
 * The handler that gives a field's value to `set`.
 *
 * @param {(value: string) => void} set
 */
export const withValue = (set) => (/** @type {Event} */ event) =>
  set(/** @type {HTMLInputElement} */ (event.target).value);

/**
 * The handler that gives to `set` whether a box is checked.
 *
 * @param {(isChecked: boolean) => void} set
 */
export const withChecked = (set) => (/** @type {Event} */ event) =>
  set(/** @type {HTMLInputElement} */ (event.target).checked);

/**
 * A modal dialog; Esc, the cross and a click beside it close it.
 *
 * @param {{ title: string, name: string, onClose: () => void, children?: Children }} props
 */
export function Dialog({ title, onClose, children, name }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const closeIfBeside = (/** @type {Event} */ event) => event.target === ref.current && onClose();
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog
    ref=${ref}
    class="dialog"
    data-dialog=${name}
    aria-labelledby="dialog-title"
    onCancel=${cancel}
    onMouseDown=${closeIfBeside}
  >
    <div class="dialog-body">
      <header>
        <h2 id="dialog-title">${title}</h2>
        <button type="button" class="quiet round" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** @typedef {{ label: string, act: () => void, danger?: boolean }} MenuItem */

/**
 * A button that opens a list of things to do.
 *
 * @param {{ label: string, items: MenuItem[] }} props
 */
export function Menu({ label, items }) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const menuItems = () => /** @type {HTMLElement[]} */ ([...(root.current?.querySelectorAll("[role=menuitem]") ?? [])]);
  // With the items, and not a moment later: the next key of a person, or of a program, is for the item it has chosen.
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    menuItems()[0]?.focus();
    const closeIfOutside = (/** @type {Event} */ event) => {
      if (!root.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", closeIfOutside);
    return () => document.removeEventListener("pointerdown", closeIfOutside);
  }, [isOpen]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (!isOpen) return;
    const all = menuItems();
    const index = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const targets = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: all.length - 1 };
    const target = targets[event.key];
    if (target !== undefined) all.at(target % all.length)?.focus();
    else if (event.key === "Escape") close();
    else {
      if (event.key === "Tab") setOpen(false);
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (/** @type {MenuItem} */ item) => {
    close();
    item.act();
  };
  const entry = (/** @type {MenuItem} */ item) =>
    html`<button
      type="button"
      role="menuitem"
      tabindex="-1"
      class=${item.danger ? "danger" : ""}
      onClick=${() => choose(item)}
    >
      ${item.label}
    </button>`;
  return html`<div class="menu" ref=${root} onKeyDown=${onKeyDown}>
    <button
      ref=${button}
      type="button"
      class="quiet round"
      aria-label=${label}
      aria-haspopup="menu"
      aria-expanded=${isOpen}
      onClick=${() => setOpen(!isOpen)}
    >
      <${Icon} name="more" />
    </button>
    ${isOpen && html`<div role="menu" aria-label=${label}>${items.map(entry)}</div>`}
  </div>`;
}

/** @typedef {{ value: string, label: string, disabled?: boolean }} ChoiceOption */

/**
 * A choice among few, as a native control.
 *
 * @param {{ label: string, value: string, options: ChoiceOption[], onChange: (value: string) => void, level?: string }} props
 */
export function Choice({ label, value, options, onChange, level }) {
  const option = (/** @type {ChoiceOption} */ it) =>
    html`<option value=${it.value} disabled=${it.disabled} selected=${it.value === value}>${it.label}</option>`;
  return html`<span class="choice" data-level=${level}>
    <select aria-label=${label} value=${value} onChange=${withValue(onChange)}>
      ${options.map(option)}
    </select>
    <${Icon} name="chevron" />
  </span>`;
}

const LABEL_MS = 1600; // how long a button says what it did

/**
 * A button that puts a text on the clipboard.
 *
 * @param {{ text: string, label: string, plain?: boolean }} props
 */
export function CopyButton({ text, label, plain = false }) {
  const [result, setResult] = useState("");
  useEffect(() => {
    if (!result) return undefined;
    const timer = setTimeout(() => setResult(""), LABEL_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => setResult((await copyToClipboard(text)) ? "Copied" : "Not copied");
  return html`<button
    type="button"
    class=${plain ? "button" : "quiet"}
    aria-label=${result ? undefined : label}
    onClick=${copy}
  >
    ${result || "Copy"}
  </button>`;
}

/**
 * Run what may fail; returns whether it runs, what went wrong, and how to run it. `run` gives undefined for a failure.
 *
 * @returns {[boolean, string, <T>(task: () => Promise<T>) => Promise<T | undefined>]}
 */
export function useAsync() {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  /**
   * @template T
   * @param {() => Promise<T>} task
   */
  const run = async (task) => {
    setBusy(true);
    setError("");
    try {
      return await task();
    } catch (problem) {
      setError(messageOf(problem));
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [isBusy, error, run];
}

/**
 * Contains a fault of what it shows: `plain()` is shown instead, until `of`, what is shown, is another. Then it is tried
 * again.
 *
 * @extends {Component<{ of: unknown, plain: () => Children, children?: Children }, { failed?: unknown }>}
 */
export class Boundary extends Component {
  /** @param {unknown} error */
  componentDidCatch(error) {
    console.error(error);
    this.setState({ failed: this.props.of });
  }

  /**
   * @param {{ of: unknown, plain: () => Children, children?: Children }} props
   * @param {{ failed?: unknown }} state
   */
  render({ of, plain, children }, { failed }) {
    return failed === of && of !== undefined ? plain() : children;
  }
}

/**
 * What went wrong, announced at once.
 *
 * @param {{ children?: string }} props
 */
export function Wrong({ children }) {
  return children ? html`<p class="wrong" role="alert"><${Coded} text=${children} /></p>` : null;
}

/**
 * A sentence in which what stands between backticks is code.
 *
 * @param {{ text: string }} props
 */
export function Coded({ text }) {
  return text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
}

/**
 * "14:05", and the whole of it for who points at it.
 *
 * @param {{ at: number }} props
 */
export function Time({ at }) {
  return html`<time dateTime=${new Date(at).toISOString()} title=${fullTime(at)}>${clock(at)}</time>`;
}

/**
 * Whole seconds since a time of the server's, counted on while they are shown; 0 without one.
 *
 * @param {number | null | undefined} since
 */
export function useSeconds(since) {
  const secondsNow = () => (since ? Math.max(0, Math.floor((serverNow() - since) / 1000)) : 0);
  const [seconds, setSeconds] = useState(secondsNow);
  useEffect(() => {
    if (!since) return undefined;
    const timer = setInterval(() => setSeconds(secondsNow()), 1000);
    return () => clearInterval(timer);
  }, [since]);
  return seconds;
}

const WONDER_S = 10;

/**
 * How long something takes by now, once one wonders.
 *
 * @param {{ since: number | null | undefined }} props
 */
export function Elapsed({ since }) {
  const seconds = useSeconds(since);
  return seconds < WONDER_S ? null : html`<span class="elapsed">${duration(seconds * 1000)}</span>`;
}

/** The quiet line that shows that something goes on. @param {{ children?: Children, loading?: boolean }} props */
export function Status({ children, loading = false }) {
  return html`<p class=${loading ? "status loading" : "status"}><span class="flow"></span>${children}</p>`;
}

/** A screen that is touched: a field with the focus brings up a keyboard, which covers what one came to read. */
export const FINGER = window.matchMedia("(hover: none) and (pointer: coarse)");

/** @returns {HTMLTextAreaElement | null} */
export const composerField = () => document.querySelector(".composer textarea");

/** Whether an element, by default the one with the focus, is in the thread of a chat that is beside the open one. */
export const isInThreadBeside = (/** @type {Element | null} */ element = document.activeElement) =>
  Boolean(element?.closest(".has-chat > .side-pane"));

/**
 * Move a focus whose control is gone to the composer; to `scroller` where a keyboard would come up, or beside the open
 * chat, where there is no composer.
 *
 * @param {{ current: HTMLElement | null }} scroller
 */
export function useKeptFocus(scroller, isBeside = false) {
  const last = useRef(/** @type {Node | null} */ (null));
  useLayoutEffect(() => {
    const note = (/** @type {FocusEvent} */ event) => {
      const focused = /** @type {Element} */ (event.target);
      last.current = isInThreadBeside(focused) === isBeside ? focused : null;
    };
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
  useLayoutEffect(() => {
    if (!last.current || last.current.isConnected || document.activeElement !== document.body) return;
    last.current = null;
    const target = (isBeside || FINGER.matches ? null : composerField()) ?? scroller.current;
    target?.focus({ preventScroll: true });
  });
}
