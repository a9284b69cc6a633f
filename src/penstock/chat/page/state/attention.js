// Chats, documents and loops that need a person: first in the list, and shown by the tab's title, its icon, and the badge of
// an installed page.

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

const DAY_MS = 24 * 3600 * 1000;

/**
 * The groups of the list, and what each has that none before has.
 *
 * @type {[string, (it: Api.ChatView | Api.RunView, days: number) => boolean][]}
 */
const GROUPS = [
  ["Asks you", asks],
  ["Working", isAtWork],
  ["Today", (it, days) => days < 1],
  ["Yesterday", (it, days) => days < 2],
  ["Last 7 days", (it, days) => days < 8],
  ["Last 30 days", (it, days) => days < 31],
  ["Older", () => true],
];

/**
 * Whether it does nothing until a person does something.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
export const rests = (it) => it.state === "idle" || (it.state === "queued" && Boolean(it.held));

/**
 * Whether it runs, or will run without a person and without a machine that is away.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
function isAtWork(it) {
  return !rests(it) && !(it.state === "queued" && it.is_away);
}

/**
 * The list in groups: what asks, what works, then by day; in each the one used last first. Groups that would be empty are
 * left out.
 *
 * @template {Api.ChatView | Api.RunView} T
 * @param {T[]} list
 * @param {number} now
 * @returns {{ name: string, items: T[] }[]}
 */
export function groupsOf(list, now = Date.now()) {
  const midnight = new Date(now).setHours(24, 0, 0, 0);
  /** @type {Map<string, T[]>} */
  const groups = new Map(GROUPS.map(([name]) => [name, []]));
  for (const it of [...list].sort((a, b) => b.used_at - a.used_at)) {
    const days = (midnight - it.used_at) / DAY_MS;
    const [name] = /** @type {typeof GROUPS[0]} */ (GROUPS.find(([, has]) => has(it, days)));
    groups.get(name)?.push(it);
  }
  return [...groups].flatMap(([name, items]) => (items.length ? [{ name, items }] : []));
}

/** All chats, documents and loops, in the order of the list. */
export const inListOrder = () => groupsOf([...(state.chats ?? []), ...state.runs]).flatMap(({ items }) => items);

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
