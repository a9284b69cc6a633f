// What is open beside the thread, by the address: the changes of a turn or of the chat, the details of a turn, files, or
// the thread of another chat.

import { KEEP } from "../components/scroll.js";
import { chatPath, detailsPath, go, routeOf, runPath } from "./router.js";
import { set, state } from "./store.js";

/**
 * @typedef {object} Beside
 * @property {"changes" | "details" | "files" | "chat"} kind
 * @property {number} [turn]  The one that it is of; changes without one are those of the whole chat.
 * @property {string} [path]  The file that is shown; "" if none was chosen yet.
 * @property {number} [line]  The line of the file that is meant; 0 if none is.
 * @property {string} [chat]  The chat whose thread it is.
 */

/**
 * The address at which something is open beside a chat.
 *
 * @param {string} id
 * @param {Beside} beside
 */
export function besidePath(id, { kind, turn, path, line, chat }) {
  if (kind === "chat") return `${chatPath(id)}/beside/${encodeURIComponent(chat ?? "")}`;
  if (kind === "details") return detailsPath(id, turn ?? 0);
  if (kind === "changes") return turn ? `${detailsPath(id, turn)}/changes` : `${chatPath(id)}/changes`;
  const query = new URLSearchParams({ ...(path && { path }), ...(line && { line: String(line) }) }).toString();
  return `${chatPath(id)}/files${query && `?${query}`}`;
}

/**
 * @param {string} id  The chat.
 * @param {Beside} beside
 */
export const openBeside = (id, beside) => go(besidePath(id, beside));

/**
 * The function that opens a file of a chat's directory, for the links of a text. Those of documents and loops lead nowhere.
 *
 * @param {string} id
 */
export const openFileOf = (id) => (/** @type {string} */ path, /** @type {number} */ line) => {
  if (state.route.page === "chat") openBeside(id, { kind: "files", path, line });
};

/**
 * Close what is beside the thread: go back to the address from which it was opened, if that is the one of the thread.
 */
export function closePane() {
  const { id = "", page, beside } = state.route;
  if (!beside) return;
  const path = page === "run" ? runPath(id) : chatPath(id);
  if (history.state?.from !== path) {
    go(path);
    return;
  }
  document.dispatchEvent(new Event(KEEP));
  set({ route: routeOf(path) }); // at once: the browser goes back a moment later
  history.back();
}
