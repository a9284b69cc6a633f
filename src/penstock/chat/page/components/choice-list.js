// A list of what can take the place of what is written: below or above its field, which keeps the focus.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const ASK_MS = 100; // somebody who types is not asked for at each letter

/**
 * Return what was found last, and for which text; null without anything.
 *
 * @template Item
 * @param {string | null} typed  null asks for nothing.
 * @param {(typed: string) => Promise<Item[]>} load
 * @param {unknown} of  What it is asked of: with another one, it is asked for anew.
 * @returns {{ typed: string, items: Item[] } | null}
 */
export function useFound(typed, load, of) {
  const [found, setFound] = useState(/** @type {{ typed: string, items: Item[], of: unknown } | null} */ (null));
  useEffect(() => {
    if (typed === null) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      load(typed).then(
        (items) => isOld || setFound({ typed, items, of }),
        () => isOld || setFound(null), // the text can be written without a list
      );
    }, ASK_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [typed, of]);
  return found?.of === of ? found : null;
}

/**
 * Return the list, its attributes of a field for a text or of an input (`combobox`), and what the field does with keys: arrows mark, Enter or Tab chooses what is
 * marked, Escape closes the list.
 *
 * @template Item
 * @param {object} options
 * @param {string} options.id
 * @param {string} options.label
 * @param {Item[]} options.items  If it is empty, no list is shown.
 * @param {string} options.of  What is written: with another text, the mark begins anew.
 * @param {boolean} [options.isFirstMarked]  So that Enter chooses at once.
 * @param {(item: Item) => string} options.keyOf
 * @param {(item: Item) => import("preact").ComponentChildren} options.draw
 * @param {(item: Item) => void} options.onChoose
 * @param {() => void} options.onClose
 */
export function useChoiceList({ id, label, items, of, isFirstMarked = false, keyOf, draw, onChoose, onClose }) {
  const [mark, setMark] = useState({ of, at: -1 });
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const first = isFirstMarked ? 0 : -1;
  const at = Math.min(mark.of === of && mark.at >= 0 ? mark.at : first, items.length - 1);
  useLayoutEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const moveTo = (/** @type {number} */ place) => setMark({ of, at: (place + items.length) % items.length });
  /** @type {(event: KeyboardEvent) => boolean} Whether the list has taken the key. */
  const onKeyDown = (event) => {
    if (!items.length || event.isComposing) return false;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (event.key === "ArrowDown") moveTo(at + 1);
    else if (event.key === "ArrowUp") moveTo(Math.max(at, 0) - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) onChoose(items[at]);
    else if (event.key === "Escape") onClose();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  const optionId = (/** @type {number} */ place) => `${id}-${place}`;
  const attributes = {
    "aria-autocomplete": "list",
    "aria-controls": items.length ? id : undefined,
    "aria-activedescendant": items.length && at >= 0 ? optionId(at) : undefined,
  };
  /** The attributes of an input of its own for the list; a message has only those above, as it is more than a choice. */
  const combobox = {
    ...attributes,
    role: "combobox",
    "aria-expanded": items.length > 0,
    spellcheck: false,
    autocapitalize: "off",
    autocomplete: "off",
  };
  const keepFocus = (/** @type {MouseEvent} */ event) => event.preventDefault();
  const view =
    items.length > 0 &&
    html`<ul id=${id} class="choice-list" role="listbox" aria-label=${label} ref=${list} onMouseDown=${keepFocus}>
      ${items.map(
        (item, place) =>
          html`<li
            key=${keyOf(item)}
            id=${optionId(place)}
            role="option"
            aria-selected=${place === at}
            onClick=${() => onChoose(item)}
          >
            ${draw(item)}
          </li>`,
      )}
    </ul>`;
  return { view, attributes, combobox, onKeyDown };
}
