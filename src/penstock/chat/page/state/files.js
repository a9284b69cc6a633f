// The file that is open beside the thread.

import { set, state } from "./store.js";

/** @typedef {{ chat: string, path: string, line: number }} OpenFile  `line`: 0 if none is meant. */

/**
 * Open a file of a chat's directory beside the thread.
 *
 * @param {string} chat
 * @param {string} path
 * @param {number} line
 */
export const openFile = (chat, path, line) => set({ file: { chat, path, line } });

export const closeFile = () => set({ file: null });

/** The file that is open, if it is one of the chat that is shown. */
export function shownFile() {
  const { file, route } = state;
  return file && route.page === "chat" && route.id === file.chat ? file : null;
}
