// Chats, documents and loops that need a person: first in the list, and shown by the tab's title, its icon, and the badge of
// an installed page.

import { oneLine } from "../text/format.js";
import { readObject, writeObject } from "./storage.js";
import { chatOf, machineOf, runOf, set, state } from "./store.js";
import { isUnread } from "./unread.js";

const ICON = new URL("../favicon.svg", import.meta.url).pathname; // below the version of the files, as the document names it
const ICON_ASKS = new URL("../favicon-asks.svg", import.meta.url).pathname;

/**
 * Whether a chat, a document or a loop waits for an answer.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
export const asks = (it) => ("kind" in it ? it.state === "asks" : it.asks);

const DAY_MS = 24 * 3600 * 1000;

/** Groups of the list by day: less than so many days ago, counted by the calendar. @type {[string, number][]} */
const DAYS = [
  ["Today", 1],
  ["Yesterday", 2],
  ["Last 7 days", 8],
  ["Last 30 days", 31],
  ["Older", Infinity],
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
 * Whether a chat is out of the list: it was archived, and nothing goes on in it.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
export function isArchived(it) {
  return !("kind" in it) && it.archived && it.state === "idle" && !it.asks;
}

/** @typedef {{ name: string, path?: string, items: (Api.ChatView | Api.RunView)[] }} Group  `path`: its directory. */

const ARCHIVED = "Archived";

/**
 * The list in groups: what asks and what is pinned, then what works and the rest by day, or all the rest by directory, then
 * what is archived. In each group the one used last is first. Groups that would be empty are left out.
 *
 * @param {(Api.ChatView | Api.RunView)[]} list
 * @param {{ now?: number, byDirectory?: boolean }} how
 * @returns {Group[]}
 */
export function groupsOf(list, { now = Date.now(), byDirectory = isByDirectory() } = {}) {
  const midnight = new Date(now).setHours(24, 0, 0, 0);
  const sorted = [...list].sort((a, b) => b.used_at - a.used_at);
  const keyOf = (/** @type {Api.ChatView | Api.RunView} */ it) => {
    if (isArchived(it)) return ARCHIVED;
    if (asks(it)) return "Asks you";
    if ("pinned" in it && it.pinned) return "Pinned";
    if (byDirectory) return placeOf(it);
    return isAtWork(it) ? "Working" : dayOf(it, midnight);
  };
  const rest = byDirectory ? sorted.map(placeOf) : ["Working", ...DAYS.map(([name]) => name)];
  /** @type {Map<string, Group["items"]>} */
  const groups = new Map(["Asks you", "Pinned", ...rest, ARCHIVED].map((key) => [key, []]));
  for (const it of sorted) groups.get(keyOf(it))?.push(it);
  const found = [...groups].filter(([, items]) => items.length);
  return byDirectory ? named(found) : found.map(([name, items]) => ({ name, items }));
}

/**
 * @param {Api.ChatView | Api.RunView} it
 * @param {number} midnight  The end of today.
 */
function dayOf(it, midnight) {
  const days = (midnight - it.used_at) / DAY_MS;
  return DAYS.find(([, before]) => days < before)?.[0] ?? "";
}

/**
 * The directory in which something works, with its machine if there are several.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
function placeOf(it) {
  if ("kind" in it) return it.kind === "document" ? it.path.replace(/\/[^/]*$/, "") || "/" : it.path;
  const machine = machineOf(it);
  return machine ? `${it.cwd} on ${machine}` : it.cwd;
}

/**
 * Groups by directory, each named by the end of its path that no other has.
 *
 * @param {[string, Group["items"]][]} groups
 * @returns {Group[]}
 */
function named(groups) {
  const ends = groups.map(([key]) => endsOf(key));
  /** @type {Map<string, number>} How many paths have an end. */
  const counts = new Map();
  for (const end of ends.flat()) counts.set(end, (counts.get(end) ?? 0) + 1);
  return groups.map(([path, items], i) => {
    return { name: ends[i].find((end) => counts.get(end) === 1) ?? path, path, items };
  });
}

/**
 * The ends of a path: its last part, its last two parts, and so on.
 *
 * @param {string} path
 */
function endsOf(path) {
  const parts = path.split("/").filter(Boolean);
  return parts.map((_, i) => parts.slice(-1 - i).join("/"));
}

const LIST = "penstock.list"; // how this browser shows the list

/** Whether the list is grouped by directory, not by day. */
export const isByDirectory = () => Boolean(readObject(LIST).byDirectory);

/** @param {boolean} byDirectory */
export function groupByDirectory(byDirectory) {
  writeObject(LIST, { byDirectory });
  set({});
}

/** All chats, documents and loops that are in the list, in its order. */
export const inListOrder = () =>
  groupsOf([...(state.chats ?? []), ...state.runs].filter((it) => !isArchived(it))).flatMap(({ items }) => items);

/** How many chats, documents and loops wait for an answer. */
const asking = () => [...(state.chats ?? []), ...state.runs].filter(asks).length;

/** The title of the window: "(2) " where two ask, else "• " where a chat went on unseen, then what is open. */
export function windowTitle() {
  const count = asking();
  const mark = (state.chats ?? []).some((it) => isUnread(it) && !isArchived(it)) ? "• " : "";
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
