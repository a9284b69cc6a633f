// What is left of the model's context, at the field for a message.

import { html } from "../components/ui.js";
import { contextLeft } from "../text/context.js";

/** @param {{ turns: import("../state/reducer.js").Turn[] }} props */
export function ContextLeft({ turns }) {
  const found = contextLeft(turns);
  if (!found) return null;
  const { text, title, isLow } = found;
  return html`<p class="context-left" data-low=${isLow} title=${title}>${text}</p>`;
}
