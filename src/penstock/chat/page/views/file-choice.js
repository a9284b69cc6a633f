// The files that are offered after an @ in a message.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../components/ui.js";
import { api } from "../net/api.js";
import { oneLine } from "../text/format.js";
import { mentionAt, mentioned } from "../text/mentions.js";

const ASK_MS = 100; // somebody who types is not asked for at each letter
const LIST = "file-choice";

/** @typedef {{ typed: string, paths: string[] }} Found */

/**
 * Return the list of files for what is written, its attributes of the field, and what the field does with keys.
 *
 * @param {string} chat  "" offers none.
 * @param {{ current: HTMLTextAreaElement | null }} field
 * @param {string} text  What is written.
 */
export function useFileChoice(chat, field, text) {
  const [mention, setMention] = useState(/** @type {import("../text/mentions.js").Mention | null} */ (null));
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const [chosen, setChosen] = useState(0);
  const [left, setLeft] = useState(-1); // place of the @ whose list was closed
  const look = () => {
    const { current } = field;
    const isWriting = current !== null && current === document.activeElement;
    const next = chat && isWriting ? mentionAt(current.value, current.selectionStart) : null;
    if (next?.start !== mention?.start) setLeft(-1);
    if (next?.start !== mention?.start || next?.typed !== mention?.typed) {
      setMention(next);
      setChosen(0);
    }
  };
  useLayoutEffect(look, [text]);
  const typed = mention?.typed ?? null;
  useEffect(() => {
    if (typed === null) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      api.fileNames(chat, typed).then(
        (paths) => isOld || setFound({ typed, paths }),
        () => isOld || setFound(null), // the message can be written without a list
      );
    }, ASK_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [chat, typed]);

  const paths = mention && mention.start !== left ? stillMeant(found, mention.typed) : [];
  const at = Math.min(chosen, paths.length - 1);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const choose = (/** @type {string} */ path) => {
    const { current } = field;
    if (!current || !mention) return;
    current.setRangeText(mentioned(path), mention.start, mention.end, "end");
    current.dispatchEvent(new Event("input", { bubbles: true }));
    current.focus();
  };
  /** @type {(event: KeyboardEvent) => boolean} Whether the list has taken the key. */
  const onKeyDown = (event) => {
    if (!paths.length || !mention || event.isComposing) return false;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (event.key === "ArrowDown") setChosen((at + 1) % paths.length);
    else if (event.key === "ArrowUp") setChosen((at + paths.length - 1) % paths.length);
    else if (event.key === "Enter" || event.key === "Tab") choose(paths[at]);
    else if (event.key === "Escape") setLeft(mention.start);
    else return false;
    event.preventDefault();
    return true;
  };
  const optionId = (/** @type {number} */ index) => `${LIST}-${index}`;
  const attributes = chat && {
    "aria-autocomplete": "list",
    "aria-controls": paths.length ? LIST : undefined,
    "aria-activedescendant": paths.length ? optionId(at) : undefined,
    onKeyUp: look, // the caret may have moved
    onClick: look,
    onBlur: look,
  };
  const view =
    paths.length > 0 &&
    html`<ul
      id=${LIST}
      class="file-choice"
      role="listbox"
      aria-label="Files"
      ref=${list}
      onMouseDown=${(/** @type {MouseEvent} */ event) => event.preventDefault()}
    >
      ${paths.map(
        (path, index) =>
          html`<li
            key=${path}
            id=${optionId(index)}
            role="option"
            aria-selected=${index === at}
            onClick=${() => choose(path)}
          >
            <bdi>${oneLine(path)}</bdi>
          </li>`,
      )}
    </ul>`;
  return { view, attributes, onKeyDown };
}

/**
 * Return the paths of the last answer that have what is typed by now: another answer may be on its way.
 *
 * @param {Found | null} found
 * @param {string} typed
 */
function stillMeant(found, typed) {
  if (!found || !typed.startsWith(found.typed)) return [];
  const wanted = typed.toLowerCase();
  return found.paths.filter((path) => path.toLowerCase().includes(wanted) && path !== typed);
}
