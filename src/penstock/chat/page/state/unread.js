// Which chats went on since a person looked at them, as this browser keeps it.

import { readObject, writeObject } from "./storage.js";
import { state } from "./store.js";

const NAME = "penstock.seen";

/** @type {Record<string, { turns: number, idle: boolean }> | null} What was seen of each chat. */
let seen = null;
let isNewBrowser = false; // this browser had noted nothing, and the first list is not whole yet

/** Note what is seen now: the chat that is open, and all chats if this browser has never noted any. */
export function markSeen() {
  const isFirst = seen === null;
  const before = (seen ??= readObject(NAME));
  if (isFirst) isNewBrowser = Object.keys(before).length === 0;
  const openId = document.hidden ? undefined : state.route.id;
  /** @type {typeof before} */
  const now = state.isWhole ? {} : { ...before };
  for (const chat of state.chats ?? []) {
    const old = chat.id === openId || isNewBrowser ? seenOf(chat) : before[chat.id];
    if (old) now[chat.id] = old;
  }
  if (state.isWhole) isNewBrowser = false;
  seen = now;
  writeObject(NAME, now);
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
  if (document.hidden || !seen || !turns.length) return;
  seen[id] = {
    turns: Math.max(...turns.map(({ turn }) => turn)),
    idle: turns.every((turn) => turn.state === "completed"),
  };
  writeObject(NAME, seen);
}

/**
 * Whether a chat went on since a person looked at it.
 *
 * @param {Api.ChatView} chat
 */
export function isUnread(chat) {
  const old = seen?.[chat.id];
  const isRead = chat.id === state.route.id && !document.hidden;
  if (isRead || chat.state !== "idle" || !chat.turns) return false;
  return !old || chat.turns > old.turns || !old.idle;
}
