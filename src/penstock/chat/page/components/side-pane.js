// What is beside the thread; over it where there is no room for both. It takes the focus, and gives it back.

import { html, Icon, useLayoutEffect, useRef } from "./ui.js";

/**
 * `of`: what it shows; with another one, it takes the focus if it does not have it. `isQuiet`: not from a field in which
 * somebody may write. `actions`: beside the title.
 *
 * @param {{ of: object, label: string, title: import("preact").ComponentChildren, close: string, onClose: () => void, isQuiet?: boolean,
 *   actions?: import("preact").ComponentChildren, children?: import("preact").ComponentChildren }} props  `close`: the
 *   label of the button.
 */
export function SidePane({ of, label, title, close, onClose, isQuiet = false, actions, children }) {
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const opener = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const { activeElement: focused } = document;
    if (root.current?.contains(focused) || (isQuiet && focused?.matches("textarea, input"))) return;
    if (focused instanceof HTMLElement && focused !== document.body) opener.current = focused;
    root.current?.focus();
  }, [of]);
  useLayoutEffect(
    () => () => {
      const { activeElement: focused } = document;
      const isLost = focused === document.body || root.current?.contains(focused);
      if (isLost && opener.current?.isConnected) opener.current.focus({ preventScroll: true });
    },
    [],
  );
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    onClose();
  };
  return html`<aside class="side-pane" ref=${root} tabindex="-1" aria-label=${label} onKeyDown=${onKeyDown}>
    <header>
      <h2>${title}</h2>
      ${actions}
      <button type="button" class="quiet round" aria-label=${close} onClick=${onClose}><${Icon} name="close" /></button>
    </header>
    ${children}
  </aside>`;
}
