// What every view is made of: Preact by tagged templates, the icons, and the few controls of our own.

import htm from "htm";
import { Component, h, render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock, copy, fullTime } from "./text.js";

export const html = htm.bind(h);
export { render, Component, useEffect, useLayoutEffect, useRef, useState };

const ICONS = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  back: "M15 5l-7 7 7 7",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  pulse: "M3 12h4l2.5-6 4.5 12 2.5-6H21",
  clock: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z",
  chevron: "M8 10l4 4 4-4",
};

/** A drawing that says nothing to a screen reader: its button has a label. */
export function Icon({ name }) {
  return html`<svg class=${`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;
}

/** The sign of Penstock: a gated pipe. */
export function Mark() {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <path d="M2 12.5h6.5M15.5 12.5H22M2 20h20M12 8.5V16M8.5 16h7" /><circle cx="12" cy="5.5" r="3" />
  </svg>`;
}

/** A modal dialog; Esc, the cross and a click beside it close it. */
export function Dialog({ title, onClose, children, name }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const beside = (event) => event.target === ref.current && onClose();
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} class="dialog" data-dialog=${name} aria-labelledby="dialog-title"
      onCancel=${cancel} onMouseDown=${beside}>
    <div class="dialog-body">
      <header>
        <h2 id="dialog-title">${title}</h2>
        <button type="button" class="quiet round" aria-label="Close" onClick=${onClose}><${Icon}
            name="close" /></button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** A button that opens a list of things to do: [{label, act, danger?}]. */
export function Menu({ label, items }) {
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  const button = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    root.current.querySelector("[role=menuitem]")?.focus();
    const away = (event) => root.current?.contains(event.target) || setOpen(false);
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const shut = () => {
    setOpen(false);
    button.current.focus();
  };
  const keys = (event) => {
    if (!open) return;
    const all = [...root.current.querySelectorAll("[role=menuitem]")];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all.at(to % all.length).focus();
    else if (event.key === "Escape") shut();
    else if (event.key === "Tab") return setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const item = ({ label: text, act, danger }) => html`<button type="button" role="menuitem" tabindex="-1"
    class=${danger ? "danger" : ""} onClick=${() => (shut(), act())}>${text}</button>`;
  return html`<div class="menu" ref=${root} onKeyDown=${keys}>
    <button ref=${button} type="button" class="quiet round" aria-label=${label} aria-haspopup="menu"
        aria-expanded=${open}
      onClick=${() => setOpen(!open)}><${Icon} name="more" /></button>
    ${open && html`<div role="menu" aria-label=${label}>${items.map(item)}</div>`}
  </div>`;
}

/** A choice among few, as a native control. options: [{value, label, disabled?}] */
export function Choice({ label, value, options, onChange }) {
  return html`<span class="choice">
    <select aria-label=${label} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map((it) => html`<option value=${it.value} disabled=${it.disabled}
          selected=${it.value === value}>${it.label}</option>`)}
    </select>
    <${Icon} name="chevron" />
  </span>`;
}

const TOLD_MS = 1600; // how long a button says what it did

/** A button that puts a text on the clipboard. */
export function CopyButton({ text, label, plain = false }) {
  const [told, tell] = useState("");
  useEffect(() => {
    if (!told) return undefined;
    const timer = setTimeout(() => tell(""), TOLD_MS);
    return () => clearTimeout(timer);
  }, [told]);
  const act = async () => tell((await copy(text)) ? "Copied" : "Not copied");
  return html`<button type="button" class=${plain ? "button" : "quiet"} aria-label=${told ? undefined : label}
      onClick=${act}>${told || "Copy"}</button>`;
}

/** Run what may be refused; gives [busy, error, run]. */
export function useAct() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const run = async (act) => {
    setBusy(true);
    setError("");
    try {
      return await act();
    } catch (problem) {
      setError(problem.words ?? String(problem));
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [busy, error, run];
}

/**
 * Keeps a fault of what it shows to itself: `plain()` is shown instead, until `of`, what is shown, is another. Then it is
 * tried again.
 */
export class Boundary extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ failed: this.props.of });
  }

  render({ of, plain, children }, { failed }) {
    return failed === of && of !== undefined ? plain() : children;
  }
}

/** What went wrong, said at once. */
export function Wrong({ children }) {
  return children ? html`<p class="wrong" role="alert"><${Coded} text=${children} /></p>` : null;
}

/** A sentence in which what stands between backticks is code. */
export function Coded({ text }) {
  return text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
}

/** "14:05", and the whole of it for who points at it. */
export function Time({ at }) {
  return html`<time dateTime=${new Date(at).toISOString()} title=${fullTime(at)}>${clock(at)}</time>`;
}

/** A screen that is touched: a field with the focus brings up a keyboard, which covers what one came to read. */
export const FINGER = window.matchMedia("(hover: none) and (pointer: coarse)");

/** A focus whose control is gone goes to the composer, or to `scroller` where a keyboard would come up. */
export function useKeptFocus(scroller) {
  const last = useRef(null);
  useLayoutEffect(() => {
    const note = (event) => (last.current = event.target);
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
  useLayoutEffect(() => {
    if (!last.current || last.current.isConnected || document.activeElement !== document.body) return;
    last.current = null;
    const composer = document.querySelector(".composer textarea");
    (FINGER.matches || !composer ? scroller.current : composer).focus({ preventScroll: true });
  });
}
