// The field for the path of another directory: it offers those below the roots that continue what is written.

import { html, useEffect, useLayoutEffect, useRef, useState, withValue } from "../components/ui.js";
import { api } from "../net/api.js";
import { base, oneLine } from "../text/format.js";

const ASK_MS = 100; // somebody who types is not asked for at each letter
const LIST = "directory-choice";

/**
 * `canOffer`: the directories are those of the machine that the page comes from. `isChosen`: a person wants to write a
 * path, and need not go to the field.
 *
 * @param {{ value: string, roots: Api.Workspace[], canOffer: boolean, isChosen: boolean,
 *   onChange: (value: string) => void }} props
 */
export function DirectoryField({ value, roots, canOffer, isChosen, onChange }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [found, setFound] = useState(/** @type {Api.FoundDirectory[]} */ ([]));
  const [at, setAt] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (isChosen) field.current?.focus();
  }, [isChosen]);
  useEffect(() => {
    if (!canOffer || !isOpen) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      api.directories(value).then(
        (directories) => isOld || setFound(directories.filter((it) => it.path !== value)),
        () => isOld || setFound([]), // a path can be written without a list
      );
    }, ASK_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [value, isOpen, canOffer]);
  useLayoutEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const shown = canOffer && isOpen ? found : [];
  const chosen = Math.min(at, shown.length - 1);
  const write = (/** @type {string} */ text) => {
    setAt(-1);
    setOpen(true);
    onChange(text);
  };
  // With a slash at its end, the directories inside are offered next.
  const choose = (/** @type {Api.FoundDirectory} */ { path }) => write(`${path.replace(/\/$/, "")}/`);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "ArrowDown" && shown.length) setAt((chosen + 1) % shown.length);
    else if (event.key === "ArrowUp" && shown.length) setAt((Math.max(chosen, 0) + shown.length - 1) % shown.length);
    else if (event.key === "Enter") {
      if (chosen >= 0) choose(shown[chosen]);
      else setOpen(false);
    } else if (event.key === "Escape" && shown.length) {
      event.stopPropagation();
      setOpen(false);
    } else return;
    event.preventDefault(); // Enter in this field sends no message
  };
  const optionId = (/** @type {number} */ index) => `${LIST}-${index}`;
  return html`<div class="other">
    <label for="other-directory">Its path</label>
    <input
      id="other-directory"
      ref=${field}
      role="combobox"
      aria-autocomplete="list"
      aria-expanded=${shown.length > 0}
      aria-controls=${shown.length ? LIST : undefined}
      aria-activedescendant=${chosen >= 0 ? optionId(chosen) : undefined}
      value=${value}
      placeholder=${roots[0]?.path ?? "/"}
      spellcheck=${false}
      autocapitalize="off"
      autocomplete="off"
      onFocus=${() => setOpen(true)}
      onBlur=${() => setOpen(false)}
      onInput=${withValue(write)}
      onKeyDown=${onKeyDown}
    />
    ${
      shown.length > 0 &&
      html`<ul
        id=${LIST}
        class="file-choice"
        role="listbox"
        aria-label="Directories"
        ref=${list}
        onMouseDown=${(/** @type {MouseEvent} */ event) => event.preventDefault()}
      >
        ${shown.map(
          (it, index) =>
            html`<li
              key=${it.path}
              id=${optionId(index)}
              role="option"
              aria-selected=${index === chosen}
              onClick=${() => choose(it)}
            >
              <bdi>${base(it.path)}</bdi>
              ${it.branch && html`<span class="branch">on <bdi>${oneLine(it.branch)}</bdi></span>`}
              <span class="whole-path"><bdi>${oneLine(it.path)}</bdi></span>
            </li>`,
        )}
      </ul>`
    }
  </div>`;
}
