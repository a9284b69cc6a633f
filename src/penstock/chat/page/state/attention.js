// What waits for a person, and how the tab says it: in its title, by its icon, and by the badge of an installed page.

import { oneLine } from "../text/format.js";
import { chatOf, runOf, state } from "./store.js";
import { isUnread } from "./unread.js";

const ICON = "/favicon.svg";
const ICON_ASKS = "/favicon-asks.svg";

/**
 * Whether a chat, a document or a loop waits for an answer.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
export const asks = (it) => ("kind" in it ? it.state === "asks" : it.asks);

/** How many chats, documents and loops wait for an answer. */
const asking = () => [...(state.chats ?? []), ...state.runs].filter(asks).length;

/** The title of the window: "(2) " where two ask, else "• " where a chat went on unseen, then what is open. */
export function windowTitle() {
  const count = asking();
  const mark = (state.chats ?? []).some(isUnread) ? "• " : "";
  const open = chatOf(state.route.id) ?? runOf(state.route.id);
  const name = open ? `${oneLine(open.title) || "New chat"} – Penstock` : "Penstock";
  return `${count ? `(${count}) ` : mark}${name}`;
}

/** Show what waits where a tab shows it. */
export function showAttention() {
  document.title = windowTitle();
  const count = asking();
  const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const wanted = count ? ICON_ASKS : ICON;
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
  navigator.setAppBadge?.(count).catch(() => {}); // 0 removes it; only an installed page has one
}
