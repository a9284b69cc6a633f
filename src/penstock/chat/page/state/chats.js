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
const FIRST_CHATS = 200; // more than a screen shows: the list is there, and the rest follows
const MORE_CHATS = 1000;
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

/**
 * Follow what changes in the list, which was just loaded.
 *
 * @param {number} [number]  The number of the list's stream at which it was loaded.
 */
export function followList(number) {
  leaveList();
  let isJustLoaded = number === undefined; // then the first frame says no more than that the stream begins
  const handlers = {
    onFrame(/** @type {unknown} */ given) {
      const frame = /** @type {import("../net/wire.js").ListFrame} */ (given);
      if (frame.type === "listed") setLists(withChat(frame.chat), state.runs);
      else if (frame.type === "unlisted") removeChat(frame.id);
      else if (isJustLoaded) isJustLoaded = false;
      else refresh({ isLost: true });
    },
    onState(/** @type {import("../net/stream.js").Connection} */ connection) {
      isOpen = connection === "open";
      if (connection === "signed_out") refresh();
      else if (connection === "open" || connection === "waiting") scheduleRefresh();
    },
  };
  listStream = new ChatStream("list", handlers, number ?? null);
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

/** Ids of the chats that changed since the newest request for the list: what they became is newer than its answer. */
let changed = new Set();

/**
 * The first chats of the list, with what changed while they were asked for: `show` puts them into the list.
 *
 * @param {string} [open]  A chat that has to be among them if it is there.
 */
export async function firstChats(open) {
  const since = new Set();
  changed = since;
  const page = await api.chats(FIRST_CHATS, open);
  return {
    number: page.number,
    /**
     * @param {Api.RunView[]} runs
     * @param {boolean} [isRestKnown]  Changes of all the others have come by the stream.
     */
    show(runs, isRestKnown = false) {
      if (changed !== since) return; // a newer request has its answer soon
      const isAll = !page.next;
      state.isWhole = isAll || (isRestKnown && state.isWhole);
      setLists(merged(page.chats, since, isAll), runs);
      if (page.next && !state.isWhole) loadRest(page, since);
    },
  };
}

/**
 * Load the chats after the first page, and put all of them into the list together: to draw it again for each page costs more.
 *
 * @param {Api.ChatPage} first
 * @param {Set<unknown>} since
 */
async function loadRest(first, since) {
  const all = new Map(first.chats.map((it) => [it.id, it]));
  try {
    for (let cursor = first.next; cursor;) {
      const page = await api.chats(MORE_CHATS, undefined, cursor);
      if (changed !== since) return;
      for (const it of page.chats) if (!all.has(it.id)) all.set(it.id, it);
      cursor = page.next;
    }
    state.isWhole = true;
    setLists(merged([...all.values()], since, true), state.runs);
  } catch {
    scheduleRefresh(); // it begins anew
  }
}

/**
 * Chats as the server has them, without those that changed meanwhile, which are as the list has them.
 *
 * @param {Api.ChatView[]} chats
 * @param {Set<unknown>} since
 * @param {boolean} isAll  There are no others.
 */
function merged(chats, since, isAll) {
  const given = new Set(chats.map((it) => it.id));
  const kept = (state.chats ?? []).filter((it) => since.has(it.id) || (!isAll && !given.has(it.id)));
  return sorted([...chats.filter((it) => !since.has(it.id)), ...kept]);
}

const sorted = (/** @type {Api.ChatView[]} */ chats) => chats.sort((a, b) => b.used_at - a.used_at);

/**
 * Ask for the list again: for its first chats only while the stream tells of all others.
 *
 * @param {{ isLost?: boolean }} [how]  `isLost`: the stream has lost the changes of a while.
 */
export async function refresh({ isLost = false } = {}) {
  clearTimeout(timer);
  if (state.signedIn === false || !state.about) return;
  try {
    const isRestKnown = isListFollowed() && !isLost && !state.about.node; // of machines that are away it says nothing
    const [first, runs] = await Promise.all([firstChats(state.route.id), api.runs()]);
    first.show(runs, isRestKnown);
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
  const isSame = minute === drawnMinute && areEqual(chats, state.chats ?? []) && areEqual(runs, state.runs);
  const wasLoaded = Boolean(state.chats);
  Object.assign(state, { chats, runs });
  markSeen();
  if (before) callFor(before, [...chats, ...runs]);
  drawnMinute = minute;
  if (!isSame || !wasLoaded) set({});
}

/**
 * @param {object[]} some
 * @param {object[]} others
 */
const areEqual = (some, others) =>
  some.length === others.length &&
  some.every((it, i) => it === others[i] || JSON.stringify(it) === JSON.stringify(others[i]));

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
  changed.add(chat.id);
  return sorted([chat, ...(state.chats ?? []).filter((it) => it.id !== chat.id)]);
}

/** @param {string} id */
export function removeChat(id) {
  changed.add(id);
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
