// The field in which a message that waits is edited.

import { html, useAsync, useLayoutEffect, useRef, useState, withValue, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";

/**
 * The field in which a message that waits is edited: Ctrl+Enter saves it, Esc leaves it as it was.
 *
 * @param {import("./turn.js").Props & { onClose: () => void }} props
 */
export function EditQueued({ chat, turn, onEdit, onClose }) {
  const [text, setText] = useState(turn.prompt);
  const [isBusy, error, run] = useAsync();
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const seen = useRef(turn.edits ?? 0); // another person may edit it meanwhile: then this text is of an older one
  const unsaved = useRef("");
  unsaved.current = text === turn.prompt ? "" : text;
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
    return () => unsaved.current && onEdit?.(unsaved.current); // the turn began: its text goes to the next message
  }, []);
  const close = () => {
    unsaved.current = "";
    onClose();
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const isKept = await run(async () => {
      await api.edit(chat, { turn: turn.turn, text, edits: seen.current });
      return true;
    });
    if (isKept) close();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<form class="asked editing" onSubmit=${save}>
    <textarea
      ref=${field}
      rows="3"
      aria-label="Text of the message"
      value=${text}
      readonly=${isBusy}
      dir="auto"
      onInput=${withValue(setText)}
      onKeyDown=${onKeyDown}
    ></textarea>
    <div class="queued">
      <button type="button" class="quiet" onClick=${close}>Cancel</button>
      <button type="submit" class="button" disabled=${isBusy || !text.trim()}>Save</button>
      <${Wrong}>${error}<//>
    </div>
  </form>`;
}
