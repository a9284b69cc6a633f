// Which chats went on since a person looked at them, as this browser keeps it.

import { read, write } from "./storage.js";
import { set, state } from "./store.js";

const NAME = "penstock.seen";
const MAX_NOTED = 500; // the newest chats; older ones count as seen until they go on

/** @typedef {{ turns: number, idle: boolean }} Seen  What was seen of a chat. */

/**
 * What this browser has noted: of each chat, and the time up to which the others count as seen.
 *
 * @type {{ since: number, chats: Record<string, Seen> } | null}
 */
let noted = null;
let written = "";
let isNewBrowser = false; // this browser had noted nothing, and the first list is not whole yet

/** Note what is seen now: the chat that is open, and all chats if this browser has never noted any. */
export function markSeen() {
  if (noted === null) {
    written = read(NAME, "localStorage");
    noted = parsed(written);
    isNewBrowser = !noted.since && Object.keys(noted.chats).length === 0;
  } else takeOver();
  const { chats: before } = noted;
  const openId = document.hidden ? undefined : state.route.id;
  const chats = state.chats ?? []; // the newest first
  const isLong = state.isWhole && chats.length > MAX_NOTED;
  const since = isLong ? Math.max(noted.since, chats[MAX_NOTED].used_at) : noted.since;
  /** @type {Record<string, Seen>} */
  const now = state.isWhole ? {} : { ...before };
  for (const chat of isLong ? chats.slice(0, MAX_NOTED) : chats) {
    const old = chat.id === openId || isNewBrowser ? seenOf(chat) : before[chat.id];
    if (old) now[chat.id] = old;
  }
  if (state.isWhole) isNewBrowser = false;
  noted = { since, chats: now };
  keep();
}

/** Note what other tabs of this browser have noted meanwhile. */
function takeOver() {
  const text = read(NAME, "localStorage");
  if (!noted || text === written) return;
  const { since, chats } = parsed(text);
  for (const [id, seen] of Object.entries(chats)) {
    const own = noted.chats[id];
    const isNewer = !own || seen.turns > own.turns || (seen.turns === own.turns && seen.idle);
    if (isNewer) noted.chats[id] = seen;
  }
  noted.since = Math.max(noted.since, since);
}

/** Show at once what was seen in another tab. */
export function listenForSeen() {
  window.addEventListener("storage", ({ key }) => {
    if (key !== NAME || !noted) return;
    takeOver();
    set({});
  });
}

function keep() {
  const text = JSON.stringify(noted);
  if (text === written) return;
  written = text;
  write(NAME, text, "localStorage");
}

/**
 * What a browser has kept; one of an older page kept the chats alone.
 *
 * @param {string} text
 * @returns {{ since: number, chats: Record<string, Seen> }}
 */
function parsed(text) {
  try {
    const found = JSON.parse(text) ?? {};
    return "since" in found ? found : { since: 0, chats: found };
  } catch {
    return { since: 0, chats: {} };
  }
}

/** @param {Api.ChatView} chat */
function seenOf(chat) {
  return { turns: chat.turns, idle: chat.state === "idle" };
}

/**
 * Note that what the thread shows was seen, even if the list of chats does not have it yet.
 *
 * @param {string} id
 * @param {import("./reducer.js").Chat} chat
 */
export function markThreadSeen(id, { turns }) {
  if (document.hidden || !noted || !turns.length) return;
  takeOver();
  noted.chats[id] = {
    turns: Math.max(...turns.map(({ turn }) => turn)),
    idle: turns.every((turn) => turn.state === "completed"),
  };
  keep();
}

/**
 * Whether a chat went on since a person looked at it.
 *
 * @param {Api.ChatView} chat
 */
export function isUnread(chat) {
  const old = noted?.chats[chat.id];
  const isRead = chat.id === state.route.id && !document.hidden;
  if (isRead || chat.state !== "idle" || !chat.turns) return false;
  if (!old) return !noted || chat.used_at > noted.since;
  return chat.turns > old.turns || !old.idle;
}
