// The files that are offered after an @ in a message.

import { useChoiceList, useFound } from "../components/choice-list.js";
import { html, useLayoutEffect, useState } from "../components/ui.js";
import { api } from "../net/api.js";
import { oneLine } from "../text/format.js";
import { mentionAt, mentioned } from "../text/mentions.js";

/**
 * Return the list of files for what is written, its attributes of the field, what the field does with keys, and what to do
 * if the caret may have moved.
 *
 * @param {string} chat  "" offers none.
 * @param {{ current: HTMLTextAreaElement | null }} field
 * @param {string} text  What is written.
 */
export function useFileChoice(chat, field, text) {
  const [mention, setMention] = useState(/** @type {import("../text/mentions.js").Mention | null} */ (null));
  const [left, setLeft] = useState(-1); // place of the @ whose list was closed
  const look = () => {
    const { current } = field;
    const isWriting = current !== null && current === document.activeElement;
    const next = chat && isWriting ? mentionAt(current.value, current.selectionStart) : null;
    if (next?.start !== mention?.start) setLeft(-1);
    if (next?.start !== mention?.start || next?.typed !== mention?.typed) setMention(next);
  };
  useLayoutEffect(look, [text]);
  const found = useFound(mention?.typed ?? null, (typed) => api.fileNames(chat, typed), chat);
  const choose = (/** @type {string} */ path) => {
    const { current } = field;
    if (!current || !mention) return;
    current.setRangeText(mentioned(path), mention.start, mention.end, "end");
    current.dispatchEvent(new Event("input", { bubbles: true }));
    current.focus();
  };
  const list = useChoiceList({
    id: "file-choice",
    label: "Files",
    items: mention && mention.start !== left ? stillMeant(found, mention.typed) : [],
    of: `${mention?.start} ${mention?.typed}`,
    isFirstMarked: true,
    keyOf: (path) => path,
    draw: (path) => html`<bdi>${oneLine(path)}</bdi>`,
    onChoose: choose,
    onClose: () => setLeft(mention?.start ?? -1),
  });
  return { ...list, look };
}

/**
 * Return the paths of the last answer that have what is typed by now: another answer may be on its way.
 *
 * @param {{ typed: string, items: string[] } | null} found
 * @param {string} typed
 */
function stillMeant(found, typed) {
  if (!found || !typed.startsWith(found.typed)) return [];
  const wanted = typed.toLowerCase();
  return found.items.filter((path) => path.toLowerCase().includes(wanted) && path !== typed);
}
