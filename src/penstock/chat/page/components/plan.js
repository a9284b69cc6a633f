// An agent's plan as a checklist.

import { oneLine } from "../text/format.js";
import { html } from "./ui.js";

/** @param {{ items: Api.PlanItem[] | undefined }} props */
export function Plan({ items = [] }) {
  const entry = (/** @type {Api.PlanItem} */ { status, text }) =>
    html`<li data-status=${status} dir="auto">
      <span class="offscreen">${status.replace("_", " ")}: </span>${oneLine(text)}
    </li>`;
  return html`<ul class="plan">${items.map(entry)}</ul>`;
}
