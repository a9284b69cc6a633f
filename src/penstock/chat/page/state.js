// What the whole page knows, and what can be done: the views show the one and call the other.

import { api, newKey, onSignedOut } from "./api.js";
import { keep, keepFacts, keptFacts } from "./keeping.js";
import { outbox } from "./outbox.js";
import { asked, EMPTY, running } from "./reducer.js";
import { line } from "./text.js";
import { useLayoutEffect, useState } from "./ui.js";
import { Viewing } from "./viewing.js";

const SOON_MS = 3000; // how often the list of chats is asked for while one works
const LATER_MS = 15_000;
const REFRESH_MS = 150; // the list is written a moment after the thread

export const state = {
  /** null: not known yet. */
  signedIn: null,
  about: null,
  agents: null,
  workspaces: null,
  /** Newest use first; null: not loaded yet. */
  chats: null,
  /** Why the list could not be loaded. */
  trouble: "",
  route: { page: "home" },
  drawer: false,
  /** {kind, …}: the dialog that is open. */
  dialog: null,
  /** The chat that is open. */
  viewing: null,
};

const watchers = { page: new Set(), thread: new Set() };

export function set(change) {
  Object.assign(state, change);
  for (const call of watchers.page) call();
}

function useWatch(what) {
  const [, again] = useState(0);
  useLayoutEffect(() => {
    const call = () => again((n) => n + 1);
    watchers[what].add(call);
    return () => watchers[what].delete(call);
  }, []);
  return state;
}

/** The state, drawn again whenever it changes. */
export const useApp = () => useWatch("page");

/** The chat that is open, drawn again whenever it changes: while a reply grows, nothing else is. */
export const useThread = () => useWatch("thread").viewing;

export const chatOf = (id) => state.chats?.find((chat) => chat.id === id);
export const agentOf = (name) => state.agents?.find((agent) => agent.name === name);
export const openDialog = (dialog) => set({ dialog });
export const closeDialog = () => set({ dialog: null });

// --- who is there ---

/** Begin: take the code out of the address, and load what every page needs. */
export async function begin() {
  onSignedOut(() => {
    leave();
    set({ signedIn: false, dialog: null });
  });
  window.addEventListener("popstate", () => arrive());
  window.addEventListener("hashchange", () => enter());
  document.addEventListener("visibilitychange", () => document.hidden || seenAgain());
  window.addEventListener("online", () => refresh());
  await enter();
}

async function enter() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname); // before anything else: it is not to be seen, kept or sent
    try {
      await api.login({ code });
    } catch (error) {
      // An old link in a browser that is signed in already does no harm.
      set({ trouble: error.status === 401 ? "The link was used before, or is too old." : error.words });
    }
  }
  await load();
}

/** Sign in with a token or a link, as a person pasted it. */
export async function signIn(text) {
  const code = new URLSearchParams(text.split("#")[1] ?? "").get("code");
  await api.login(code ? { code } : { token: text.trim() });
  set({ trouble: "" });
  await load();
}

/** Sign out this browser, or all that there are. */
export async function signOut({ everywhere = false } = {}) {
  await api.logout(everywhere);
  leave();
  set({ signedIn: false, chats: null, dialog: null });
}

/** Close the chat that is open. */
function leave() {
  state.viewing?.close();
  set({ viewing: null });
}

async function load() {
  try {
    const [about, chats, agents] = await Promise.all([api.about(), api.chats(), api.agents()]);
    set({ signedIn: true, trouble: "", about, agents });
    listed(chats);
    later();
    outbox.wake();
    arrive(); // what the address asks for could not be asked for before
  } catch (error) {
    if (error.status === 401) return set({ signedIn: false });
    set({ signedIn: state.signedIn ?? true, trouble: error.words ?? String(error) });
    setTimeout(() => state.about || load(), SOON_MS);
  }
  return undefined;
}

// --- the list of chats ---

let timer = null;

function later() {
  clearTimeout(timer);
  const busy = state.chats?.some((chat) => chat.state !== "idle");
  timer = setTimeout(() => refresh(), busy ? SOON_MS : LATER_MS);
}

/** Somebody comes back, who may have installed an agent meanwhile. */
function seenAgain() {
  refresh();
  if (state.signedIn && state.route.page === "home") loadChoices();
}

/** Ask for the list again. */
export async function refresh() {
  clearTimeout(timer);
  if (state.signedIn === false || !state.about || document.hidden) return;
  try {
    listed(await api.chats());
    outbox.wake();
    if (state.trouble) set({ trouble: "" });
    const lacking = !state.workspaces || !state.agents.some((agent) => agent.available);
    if (lacking && state.route.page === "home") await loadChoices();
  } catch (error) {
    if (error.status !== 401 && error.status !== 0) set({ trouble: error.words });
  }
  later();
}

let drawn = 0; // the minute that the list was drawn in: it says how long ago things were

function listed(chats) {
  const minute = Math.floor(Date.now() / 60_000);
  const same = minute === drawn && JSON.stringify(chats) === JSON.stringify(state.chats);
  state.chats = chats;
  markSeen();
  drawn = minute;
  if (!same) set({});
}

function replaced(chat) {
  const rest = (state.chats ?? []).filter((it) => it.id !== chat.id);
  set({ chats: [chat, ...rest].sort((a, b) => b.used_at - a.used_at) });
}

// What was seen of each chat, kept by this browser: a chat that went on since then is unread.

const SEEN = "penstock.seen";
let seen = null;

function stamp(chat) {
  return { turns: chat.turns, idle: chat.state === "idle" };
}

function markSeen() {
  const first = seen === null;
  seen ??= keptFacts(SEEN);
  const known = Object.keys(seen).length > 0;
  const looked = document.hidden ? null : state.route.id;
  const now = {};
  for (const chat of state.chats) {
    const old = chat.id === looked || (first && !known) ? stamp(chat) : seen[chat.id];
    if (old) now[chat.id] = old;
  }
  seen = now;
  keepFacts(SEEN, seen);
}

/** What the thread showed was seen, even if the list does not know of it yet. */
function sawThread(id, { turns }) {
  if (document.hidden || !seen || !turns.length) return;
  seen[id] = { turns: turns.at(-1).turn, idle: turns.every((turn) => turn.state === "completed") };
  keepFacts(SEEN, seen);
}

/** Whether a chat went on since a person looked at it. */
export function unread(chat) {
  const old = seen?.[chat.id];
  if (chat.id === state.route.id || chat.state !== "idle" || !chat.turns) return false;
  return !old || chat.turns > old.turns || !old.idle;
}

// --- where we are ---

const CHAT_PATH = /^\/chats\/([^/]+)(?:\/turns\/(\d+))?\/?$/;

function routeOf(path) {
  if (path === "/") return { page: "home" };
  const found = CHAT_PATH.exec(path);
  if (!found) return { page: "missing" };
  const [id, turn] = [decodeURIComponent(found[1]), found[2]];
  return turn ? { page: "record", id, turn: Number(turn) } : { page: "chat", id };
}

/** Go to an address of the page. */
export function go(path, { replace = false } = {}) {
  if (path !== location.pathname) history[replace ? "replaceState" : "pushState"](null, "", path);
  arrive();
}

function arrive() {
  const route = routeOf(location.pathname);
  Object.assign(state, { route, drawer: false });
  const { viewing } = state;
  // A record is read beside its chat, which goes on meanwhile.
  if (viewing && viewing.id !== route.id) leave();
  if (route.id && state.viewing === null && state.signedIn) open(route.id);
  if (state.chats) markSeen();
  set({});
  if (route.page === "home" && state.signedIn) loadChoices();
}

/** The list has all chats; one that was made elsewhere a moment ago is in it once it is asked for again. */
async function open(id) {
  if (!chatOf(id)) await refresh();
  if (state.route.id !== id || state.viewing) return;
  if (chatOf(id) || !state.chats) view(id);
  else set({ viewing: { id, chat: EMPTY, line: "missing", close() {} } });
}

function view(id) {
  let busy = null;
  const viewing = new Viewing(id, () => {
    if (viewing.line === "signed_out") return (leave(), set({ signedIn: false }));
    if (viewing.line === "deleted") set({ chats: state.chats.filter((chat) => chat.id !== id), dialog: null });
    // The list says the same of this chat as the thread does, at once.
    const { chat } = viewing;
    const now = [running(chat)?.turn, chat.turns.at(-1)?.turn, asked(chat)?.hint.id].join("/");
    if (busy !== now) sawThread(id, viewing.chat);
    if (busy !== null && busy !== now) setTimeout(refresh, REFRESH_MS);
    busy = now;
    for (const call of watchers.thread) call();
    return undefined;
  });
  set({ viewing });
}

/** To the chat above (-1) or below (1) in the list. */
export function step(by) {
  const at = state.chats?.findIndex((chat) => chat.id === state.route.id) ?? -1;
  const to = state.chats?.[at < 0 ? 0 : at + by];
  if (to) go(`/chats/${encodeURIComponent(to.id)}`);
}

// --- what is done ---

/** Load what a new chat can be made of: both may have changed while nobody looked. */
async function loadChoices() {
  try {
    const [workspaces, agents] = await Promise.all([api.workspaces(), api.agents()]);
    const same = JSON.stringify([workspaces, agents]) === JSON.stringify([state.workspaces, state.agents]);
    if (!same) set({ workspaces, agents });
  } catch (error) {
    if (error.status !== 401 && !state.workspaces) set({ trouble: error.words });
  }
}

/** Make a chat, and send its first message. A directory that is not trusted yet is asked about once. */
export async function startChat(chat, text) {
  const place = [...state.workspaces.roots, ...state.workspaces.recent].find((it) => it.path === chat.cwd);
  if (place && !place.trusted && !(await trust(chat.cwd))) return false;
  let made;
  try {
    made = await api.create(chat);
  } catch (error) {
    if (error.code !== "untrusted") throw error;
    if (!(await trust(chat.cwd))) return false;
    made = await api.create(chat);
  }
  replaced(made);
  go(`/chats/${encodeURIComponent(made.id)}`);
  if (text) outbox.send(made.id, newKey(), text);
  return true;
}

/** Ask whether a directory is trusted, and tell the server if so. */
export async function trust(path) {
  const trusted = await new Promise((answer) => {
    const close = (said) => {
      closeDialog();
      answer(said);
    };
    openDialog({ kind: "trust", path, close });
  });
  if (!trusted) return false;
  await api.trust(path);
  await loadChoices();
  return true;
}

export async function changeChat(id, changes) {
  replaced(await api.change(id, changes));
}

export async function deleteChat(id) {
  await api.remove(id);
  keep(`penstock.draft.${id}`, "");
  outbox.forget(id);
  set({ chats: state.chats.filter((chat) => chat.id !== id), dialog: null });
  if (state.route.id === id) go("/");
}

/** The title of the window: which chat, and whether others wait. */
export function windowTitle() {
  const waiting = (state.chats ?? []).some((chat) => unread(chat) || (chat.asks && chat.id !== state.route.id));
  const chat = chatOf(state.route.id);
  return `${waiting ? "• " : ""}${chat ? `${line(chat.title) || "New chat"} – Penstock` : "Penstock"}`;
}
