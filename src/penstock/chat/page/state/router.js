// The address, and the chat that is open there.

import { KEEP } from "../components/scroll.js";
import { inListOrder } from "./attention.js";
import { ChatSession } from "./chat-session.js";
import { isListFollowed, leaveList, loadChoices, refresh, removeChat, scheduleRefresh } from "./chats.js";
import { EMPTY, openQuestion, running } from "./reducer.js";
import { chatOf, set, state, threadChanged } from "./store.js";
import { markSeen, markThreadSeen } from "./unread.js";

const CHAT_PATH = /^\/chats\/([^/]+)(?:\/turns\/(\d+))?(?:\/(changes|files)|\/beside\/([^/]+))?\/?$/;
const RUN_PATH = /^\/runs\/([^/]+)(?:\/turns\/(\d+))?\/?$/;
const REFRESH_MS = 150; // the list of chats is written a little later than the thread

/** A window in which the thread and what is beside it have room; as in styles/shell.css. */
export const WIDE = window.matchMedia("(min-width: 1200px)");

/**
 * The route of an address. Where there is no room beside the thread, details are a page of their own, and of two chats only
 * the first one is shown.
 *
 * @param {string} address  With its query, if it has one.
 * @returns {import("./store.js").Route}
 */
export function routeOf(address) {
  const [path, query] = address.split("?");
  if (path === "/") return { page: "home" };
  const chat = CHAT_PATH.exec(path);
  const found = chat ?? RUN_PATH.exec(path);
  if (!found) return { page: "missing" };
  const [id, turn] = [decodeURIComponent(found[1]), Number(found[2] ?? 0)];
  const page = chat ? "chat" : "run";
  const kind = chat?.[3];
  const other = chat?.[4] && decodeURIComponent(chat[4]);
  if (other && turn) return { page: "missing" };
  if (other && other !== id && WIDE.matches) return { page, id, beside: { kind: "chat", chat: other } };
  if (kind === "changes") return { page, id, beside: { kind, turn } };
  if (kind === "files") return turn ? { page: "missing" } : { page, id, beside: { kind, ...fileOf(query) } };
  if (!turn) return { page, id };
  if (WIDE.matches) return { page, id, beside: { kind: "details", turn } };
  return { page: chat ? "details" : "run_details", id, turn };
}

/** The file that a query names. @param {string} [query] */
function fileOf(query) {
  const values = new URLSearchParams(query);
  const line = Number(values.get("line"));
  return { path: values.get("path") ?? "", line: Number.isSafeInteger(line) && line > 0 ? line : 0 };
}

export const chatPath = (/** @type {string} */ id) => `/chats/${encodeURIComponent(id)}`;
export const runPath = (/** @type {string} */ id) => `/runs/${encodeURIComponent(id)}`;
export const detailsPath = (/** @type {string} */ id, /** @type {number} */ turn) => `${chatPath(id)}/turns/${turn}`;

const address = () => `${location.pathname}${location.search}`;

/**
 * Go to an address of the page. What is opened beside a thread takes the place of what is there, so that the way back
 * leads to the thread alone.
 *
 * @param {string} path
 */
export function go(path) {
  const [here, next] = [routeOf(address()), routeOf(path)];
  const isInPlace = here.beside && next.beside && here.id === next.id;
  if (path !== address()) {
    if (isInPlace) history.replaceState(history.state, "", path);
    else history.pushState({ from: address() }, "", path);
  }
  applyAddress();
}

/**
 * Show what the address names.
 *
 * @param {Parameters<typeof loadChoices>[0]} [known]  What was loaded just now.
 */
export function applyAddress(known) {
  const route = routeOf(address());
  if (Boolean(route.beside) !== Boolean(state.route.beside)) document.dispatchEvent(new Event(KEEP));
  Object.assign(state, { route, drawer: false });
  const { session } = state;
  // What is read beside a chat, or over it, is of that chat, which goes on meanwhile.
  if (session && session.id !== route.id) closeChat();
  if (route.id && state.session === null && state.signedIn) {
    if (route.page === "run" || route.page === "run_details") openRun(route.id);
    else openChat(route.id);
  }
  if (state.chats) markSeen();
  set({});
  if (!state.signedIn) return;
  scheduleRefresh(); // how soon depends on what is open
  if (route.page === "home") loadChoices(known);
}

/**
 * Open a chat. The list has all chats; one that was just made elsewhere is in it once it is asked for again.
 *
 * @param {string} id
 */
async function openChat(id) {
  if (!chatOf(id)) await refresh();
  if (state.route.id !== id || state.session) return;
  if (chatOf(id) || !state.chats) set({ session: startSession(id) });
  else set({ session: { id, chat: EMPTY, connection: "missing", close() {} } });
}

/**
 * Follow a chat; `draw` is called whenever it changes.
 *
 * @param {string} id
 */
export function startSession(id, draw = threadChanged) {
  /** @type {string | null} */
  let before = null;
  const session = new ChatSession(id, () => {
    const { chat, connection } = session;
    if (connection === "signed_out") {
      signedOut();
      return;
    }
    if (connection === "deleted") removeChat(id);
    // The list shows the same of this chat as the thread does, at once.
    const now = [running(chat)?.turn, chat.turns.at(-1)?.turn, openQuestion(chat)?.question.id].join("/");
    if (before !== now) markThreadSeen(id, chat);
    if (before !== null && before !== now && !isListFollowed()) setTimeout(refresh, REFRESH_MS);
    before = now;
    draw();
  });
  return session;
}

/**
 * Open a document or loop.
 *
 * @param {string} id
 */
function openRun(id) {
  let before = "";
  const changed = () => {
    const { chat, connection } = session;
    if (connection === "signed_out") {
      signedOut();
      return;
    }
    const now = JSON.stringify(chat.run);
    if (before && before !== now) refresh(); // the list shows the same
    before = now;
    threadChanged();
  };
  const session = new ChatSession(id, changed, `runs/${id}`);
  set({ session });
}

function closeChat() {
  state.session?.close();
  set({ session: null });
}

/** Close what only somebody who is signed in may see. */
export function signedOut() {
  closeChat();
  leaveList();
  set({ signedIn: false, dialog: null, palette: null });
}

/**
 * Open a chat, a document or a loop of the list.
 *
 * @param {Api.ChatView | Api.RunView} it
 */
export const openListed = (it) => go("kind" in it ? runPath(it.id) : chatPath(it.id));

/**
 * Go to the chat, document or loop above (-1) or below (1) in the list.
 *
 * @param {-1 | 1} by
 */
export function goToNeighbour(by) {
  const list = inListOrder();
  const index = list.findIndex((it) => it.id === state.route.id);
  const found = list[index < 0 ? 0 : index + by];
  if (found) openListed(found);
}
