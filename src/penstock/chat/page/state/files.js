// What is open beside the thread: a file of the chat's directory, or what a turn changed.

import { set, state } from "./store.js";

/**
 * @typedef {{ kind: "file", chat: string, path: string, line: number }} OpenFile  `line`: 0 if none is meant.
 * @typedef {{ kind: "changes", chat: string, turn: number }} OpenChanges
 */

/**
 * Open a file of a chat's directory beside the thread.
 *
 * @param {string} chat
 * @param {string} path
 * @param {number} line
 */
export const openFile = (chat, path, line) => set({ beside: { kind: "file", chat, path, line } });

/**
 * Open the files that a turn changed beside the thread.
 *
 * @param {string} chat
 * @param {number} turn
 */
export const openChanges = (chat, turn) => set({ beside: { kind: "changes", chat, turn } });

export const closePane = () => set({ beside: null });

/** What is open, if it is of the chat that is shown. */
export function shownBeside() {
  const { beside, route } = state;
  return beside && route.page === "chat" && route.id === beside.chat ? beside : null;
}
