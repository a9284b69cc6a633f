// What is left of the model's context, at the field for a message.

import { html } from "../components/ui.js";
import { isReader } from "../state/people.js";
import { openDialog } from "../state/store.js";
import { contextLeft } from "../text/context.js";

/** @param {{ chat: string, turns: import("../state/reducer.js").Turn[] }} props */
export function ContextLeft({ chat, turns }) {
  const found = contextLeft(turns);
  if (!found) return null;
  const { text, title, isLow } = found;
  const last = Math.max(...turns.map(({ turn }) => turn));
  // A new chat that begins after all that was said: its first message goes with the conversation.
  const goOn = () => openDialog({ kind: "branch", id: chat, turn: last + 1 });
  const isOffered = isLow && !isReader() && turns.every(({ state }) => state === "completed");
  return html`<p class="context-left" data-low=${isLow} title=${title}>
    ${text}${isOffered && html` · <button type="button" class="quiet" onClick=${goOn}>New chat with a summary</button>`}
  </p>`;
}
