// The list of chats, and what a new chat can be made of.

import { api, messageOf, OFFLINE, statusOf } from "../net/api.js";
import { outbox } from "../net/outbox.js";
import { ChatStream } from "../net/stream.js";
import { rests } from "./attention.js";
import { callFor, notifying } from "./notifications.js";
import { chatOf, set, state } from "./store.js";
import { markSeen } from "./unread.js";

const BUSY_MS = 3000; // how often the list of chats is asked for while it changes soon
const IDLE_MS = 15_000;
const MINUTE_MS = 60_000;
const UNAUTHORIZED = 401;

/** @type {Timer} */
let timer;
let drawnMinute = 0; // the list says how long ago things were

export function scheduleRefresh() {
  clearTimeout(timer);
  const isWatched = !document.hidden || notifying() === "on";
  timer = setTimeout(refreshIfOfUse, isWatched && (isBusy() || mayBeAway()) ? BUSY_MS : IDLE_MS);
}

/** A tab that is not seen asks only while something goes on, for its title and for notifications. */
function refreshIfOfUse() {
  if (!document.hidden || isBusy()) refresh();
}

/** Whether anything goes on that a person may want to know of, and that the stream does not tell. */
const isBusy = () => [...(isListFollowed() ? [] : (state.chats ?? [])), ...state.runs].some((it) => !rests(it));

/** @type {ChatStream | null} */
let listStream = null;
let isOpen = false;

/** Whether changes of the list come by the stream, as they happen. */
export const isListFollowed = () => isOpen;

/** Follow what changes in the list, which was just loaded. */
export function followList() {
  leaveList();
  let isJustLoaded = true;
  listStream = new ChatStream("list", {
    onFrame(given) {
      const frame = /** @type {import("../net/wire.js").ListFrame} */ (/** @type {unknown} */ (given));
      if (frame.type === "listed") setLists(withChat(frame.chat), state.runs);
      else if (frame.type === "unlisted") removeChat(frame.id);
      else if (isJustLoaded) isJustLoaded = false;
      else refresh();
    },
    onState(connection) {
      isOpen = connection === "open";
      if (connection === "signed_out") refresh();
      else if (connection === "open" || connection === "waiting") scheduleRefresh();
    },
  });
}

/** Follow the list no longer: nobody is signed in. */
export function leaveList() {
  listStream?.close();
  listStream = null;
  isOpen = false;
}

/** Whether the machine of the open chat is away, or was just lost. */
function mayBeAway() {
  const isCutOff = state.session?.chat.turns.at(-1)?.outcome === "cut_off";
  return isCutOff || Boolean(chatOf(state.route.id)?.is_away);
}

/** Ask for the list again. */
export async function refresh() {
  clearTimeout(timer);
  if (state.signedIn === false || !state.about) return;
  try {
    setLists(...(await Promise.all([api.chats(), api.runs()])));
    outbox.wake();
    if (state.problem) set({ problem: "" });
    const isLacking = !state.workspaces || !state.agents?.some((agent) => agent.available);
    if ((isLacking || state.about.node) && state.route.page === "home") await loadChoices();
  } catch (error) {
    const status = statusOf(error);
    if (status !== UNAUTHORIZED && status !== OFFLINE) set({ problem: messageOf(error) });
  }
  scheduleRefresh();
}

/** Refresh for somebody who comes back, and may have installed an agent meanwhile. */
export function refreshForReturn() {
  refresh();
  if (state.signedIn && state.route.page === "home") loadChoices();
}

/**
 * @param {Api.ChatView[]} chats
 * @param {Api.RunView[]} runs
 */
export function setLists(chats, runs) {
  const minute = Math.floor(Date.now() / MINUTE_MS);
  const before = state.chats && [...state.chats, ...state.runs];
  const isSame = minute === drawnMinute && JSON.stringify([chats, runs]) === JSON.stringify([state.chats, state.runs]);
  Object.assign(state, { chats, runs });
  markSeen();
  if (before) callFor(before, [...chats, ...runs]);
  drawnMinute = minute;
  if (!isSame) set({});
}

/**
 * Put a chat into the list, in the place of what the list had of it.
 *
 * @param {Api.ChatView} chat
 */
export function putChat(chat) {
  set({ chats: withChat(chat) });
}

/** @param {Api.ChatView} chat */
function withChat(chat) {
  const rest = (state.chats ?? []).filter((it) => it.id !== chat.id);
  return [chat, ...rest].sort((a, b) => b.used_at - a.used_at);
}

/** @param {string} id */
export function removeChat(id) {
  const dialog = state.dialog?.id === id ? null : state.dialog;
  set({ chats: (state.chats ?? []).filter((chat) => chat.id !== id), dialog });
}

/**
 * The machines; none if there is one. Behind a proxy each request may reach another one: the first stays the one that
 * is here.
 *
 * @param {Api.About | null} about
 */
export async function listNodes(about) {
  if (!about?.node) return [];
  return (await api.nodes()).map((it) => ({ ...it, is_here: it.name === about.node }));
}

/**
 * Load what a new chat can be made of, which may have changed while nobody looked.
 *
 * @param {Partial<Pick<import("./store.js").State, "agents" | "nodes">>} [known]  What was loaded just now.
 */
export async function loadChoices(known = {}) {
  try {
    const [workspaces, agents, nodes] = await Promise.all([
      api.workspaces(),
      known.agents ?? api.agents(),
      known.nodes ?? listNodes(state.about),
    ]);
    const before = [state.workspaces, state.agents, state.nodes];
    if (JSON.stringify([workspaces, agents, nodes]) !== JSON.stringify(before)) set({ workspaces, agents, nodes });
  } catch (error) {
    if (statusOf(error) !== UNAUTHORIZED && !state.workspaces) set({ problem: messageOf(error) });
  }
}
