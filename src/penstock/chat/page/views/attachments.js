// Pictures and files of messages: small ones in the composer and in the thread, and a picture opened large.

import { Dialog, html, Icon } from "../components/ui.js";
import { api } from "../net/api.js";
import { closeDialog, openDialog } from "../state/store.js";
import { bytes, oneLine } from "../text/format.js";

/** @import { Drafted, Item } from "../state/attachments.js" */

const isPicture = (/** @type {string | undefined} */ type) => Boolean(type?.startsWith("image/"));

/**
 * The attachments of a draft, each with a way to remove it.
 *
 * @param {{ chat: string, drafted: Drafted, onText: (text: string) => void }} props  `onText`: a pasted text is text again.
 */
export function DraftedFiles({ chat, drafted, onText }) {
  const { items } = drafted;
  if (!items.length) return null;
  const remove = (/** @type {Item} */ item) => {
    drafted.remove(item.key);
    /** @type {HTMLElement | null} */ (document.querySelector(".composer textarea"))?.focus();
  };
  const asText = (/** @type {Item} */ item) => {
    remove(item);
    onText(item.text ?? "");
  };
  return html`<ul class="drafted" aria-label="Files of this message">
    ${items.map((item) => html`<${DraftedFile} key=${item.key} chat=${chat} item=${item} onRemove=${remove} onRetry=${drafted.retry} onText=${asText} />`)}
  </ul>`;
}

/**
 * @param {{ chat: string, item: Item, onRemove: (item: Item) => void, onRetry: (key: string) => void,
 *   onText: (item: Item) => void }} props
 */
function DraftedFile({ chat, item, onRemove, onRetry, onText }) {
  const { attached, preview, why, text } = item;
  const name = oneLine(attached?.name ?? item.name);
  const url = attached && isPicture(attached.media_type) ? api.attachmentUrl(chat, attached.id) : preview;
  const state = why ? "failed" : attached || !chat ? "ready" : "uploading";
  return html`<li data-state=${state}>
    ${url ? html`<img src=${url} alt="" />` : html`<${Icon} name="file" />`}
    <span class="file-name"><bdi>${name}</bdi><small>${why ?? (state === "uploading" ? "Uploading…" : bytes(item.size))}</small></span>
    ${why && html`<button type="button" class="quiet" onClick=${() => onRetry(item.key)}>Try again</button>`}
    ${text !== undefined && html`<button type="button" class="quiet" onClick=${() => onText(item)}>As text</button>`}
    <button type="button" class="quiet round" aria-label=${`Remove ${name}`} onClick=${() => onRemove(item)}>
      <${Icon} name="close" />
    </button>
  </li>`;
}

/**
 * The attachments of a message in the thread.
 *
 * @param {{ chat: string, files: Api.AttachedFile[] | null | undefined }} props
 */
export function SentFiles({ chat, files }) {
  if (!files?.length) return null;
  return html`<ul class="sent-files" aria-label="Files">
    ${files.map((file) => html`<li key=${file.id}><${SentFile} chat=${chat} file=${file} /></li>`)}
  </ul>`;
}

/** @param {{ chat: string, file: Api.AttachedFile }} props */
function SentFile({ chat, file }) {
  const url = api.attachmentUrl(chat, file.id);
  const name = oneLine(file.name);
  if (!isPicture(file.media_type)) {
    return html`<a class="sent-file" href=${url} download=${name}>
      <${Icon} name="file" /><span class="file-name"><bdi>${name}</bdi><small>${bytes(file.size)}</small></span>
    </a>`;
  }
  const open = () => openDialog({ kind: "picture", path: url, text: name });
  return html`<button type="button" class="thumb" aria-label=${`Open ${name}`} title=${name} onClick=${open}>
    <img src=${url} alt="" loading="lazy" />
  </button>`;
}

/**
 * A picture, as large as there is space.
 *
 * @param {{ dialog: import("../state/store.js").OpenDialog }} props
 */
export function PictureDialog({ dialog: { path, text } }) {
  return html`<${Dialog} title=${html`<bdi>${text}</bdi>`} name="picture" onClose=${closeDialog}>
    <img class="large-picture" src=${path} alt=${text} />
    <footer class="dialog-buttons"><a class="button" href=${path} download=${text}>Download</a></footer>
  <//>`;
}
