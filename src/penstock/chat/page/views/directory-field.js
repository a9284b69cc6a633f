// The field for the path of another directory: it offers those below the roots that continue what is written.

import { useChoiceList, useFound } from "../components/choice-list.js";
import { html, useEffect, useRef, useState, withValue } from "../components/ui.js";
import { api } from "../net/api.js";
import { base, oneLine } from "../text/format.js";

/**
 * `canOffer`: the directories are those of the machine that the page comes from. `isChosen`: a person wants to write a
 * path, and need not go to the field.
 *
 * @param {{ value: string, roots: Api.Workspace[], canOffer: boolean, isChosen: boolean,
 *   onChange: (value: string) => void }} props
 */
export function DirectoryField({ value, roots, canOffer, isChosen, onChange }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (isChosen) field.current?.focus();
  }, [isChosen]);
  const isOffered = canOffer && isOpen;
  const found = useFound(isOffered ? value : null, api.directories, "");
  const write = (/** @type {string} */ text) => {
    setOpen(true);
    onChange(text);
  };
  const list = useChoiceList({
    id: "directory-choice",
    label: "Directories",
    items: isOffered ? (found?.items.filter((it) => it.path !== found.typed) ?? []) : [],
    of: value,
    keyOf: (it) => it.path,
    draw: (it) =>
      html`<bdi>${base(it.path)}</bdi>
        ${it.branch && html`<span class="choice-note">on <bdi>${oneLine(it.branch)}</bdi></span>`}
        <span class="choice-more"><bdi>${oneLine(it.path)}</bdi></span>`,
    onChoose: ({ path }) => write(`${path.replace(/\/$/, "")}/`), // with a slash, those inside are offered next
    onClose: () => setOpen(false),
  });
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const isEnter = event.key === "Enter" && !event.isComposing && !event.ctrlKey && !event.metaKey;
    if (list.onKeyDown(event) || !isEnter || event.altKey || event.shiftKey) return;
    setOpen(false);
    event.preventDefault(); // Enter in this field sends no message
  };
  return html`<div class="other">
    <label for="other-directory">Its path</label>
    <input
      ...${list.combobox}
      id="other-directory"
      ref=${field}
      value=${value}
      placeholder=${roots[0]?.path ?? "/"}
      onFocus=${() => setOpen(true)}
      onBlur=${() => setOpen(false)}
      onInput=${withValue(write)}
      onKeyDown=${onKeyDown}
    />
    ${list.view}
  </div>`;
}
