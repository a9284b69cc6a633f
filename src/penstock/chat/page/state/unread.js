// Which chats went on since the person read them. The server keeps that for each person (`ChatView.read`); what this browser
// has not sent to it yet is kept here, so that nothing is lost without a connection.

import { api } from "../net/api.js";
import { read, write } from "./storage.js";
import { chatOf, set, state } from "./store.js";

const NAME = "penstock.read."; // with the name of the person, as several may use this browser one after another
const OLD_NAME = "penstock.seen"; // what a page noted before the server kept it
const MAX_SENT = 500; // chats of one request, as the server has it

/** @typedef {Record<string, number>} Marks  Newest turn that was read, by the ids of chats. */

/** Whose marks these are; "" before that is known. */
let person = "";
/** Marks that the server does not have yet. @type {Marks} */
let waiting = {};
/** Marks that the server has, whose chats the list still shows as before. @type {Marks} */
let sent = {};
let written = "";
let isSending = false;

/** Note that the chats which are open were read, and send what waits. */
export function markSeen() {
  takeOver();
  for (const id of document.hidden ? [] : [state.route.id, state.route.beside?.chat]) {
    const open = chatOf(id);
    if (open?.state === "idle") note(open.id, open.turns);
  }
  for (const { id, read } of state.chats ?? []) if (read >= sent[id]) delete sent[id];
  send();
}

/**
 * Note that what the thread shows was read, even if the list of chats does not have it yet.
 *
 * @param {string} id
 * @param {import("./reducer.js").Chat} chat
 */
export function markThreadSeen(id, { turns }) {
  if (document.hidden || !turns.length) return;
  takeOver();
  const left = turns.filter((turn) => turn.state !== "completed").map(({ turn }) => turn);
  note(id, left.length ? Math.min(...left) - 1 : Math.max(...turns.map(({ turn }) => turn)));
  send();
}

/** Show at once what was read in another tab. */
export function listenForSeen() {
  window.addEventListener("storage", ({ key }) => {
    if (key !== NAME + person) return;
    takeOver();
    set({});
  });
}

/**
 * Whether a chat went on since the person read it.
 *
 * @param {Api.ChatView} chat
 */
export function isUnread(chat) {
  const { id, beside } = state.route;
  const isRead = (chat.id === id || chat.id === beside?.chat) && !document.hidden;
  return !isRead && chat.state === "idle" && chat.turns > readOf(chat.id, chat);
}

/**
 * The newest turn of a chat that the person has read, as far as this page knows.
 *
 * @param {string} id
 * @param {Api.ChatView} [chat]
 */
function readOf(id, chat = chatOf(id)) {
  const known = chat ? (chat.read ?? chat.turns) : 0; // the machine that has sent the list may be of an older version
  return Math.max(known, waiting[id] ?? 0, sent[id] ?? 0);
}

/**
 * @param {string} id
 * @param {number} turn
 */
function note(id, turn) {
  if (turn <= readOf(id)) return;
  waiting[id] = turn;
  keep();
}

function keep() {
  const text = Object.keys(waiting).length ? JSON.stringify(waiting) : "";
  if (text === written) return;
  written = text;
  if (person) write(NAME + person, text, "localStorage");
}

/** Take over what other tabs of this browser have noted for the same person meanwhile, or an earlier visit. */
function takeOver() {
  const now = state.about?.person?.name ?? "";
  if (now !== person) {
    if (person) [waiting, sent] = [{}, {}];
    person = now;
    written = "";
  }
  const text = read(NAME + person, "localStorage");
  if (text === written) return;
  written = text;
  for (const [id, turn] of Object.entries(marksIn(text))) if (turn > readOf(id)) waiting[id] = turn;
}

/** Send what waits. What cannot be sent now is sent when the list of chats has changed, or was asked for again. */
async function send() {
  if (isSending || !person) return;
  isSending = true;
  const whose = person;
  try {
    await handOver();
    for (let batch = firstOf(waiting); batch.length; batch = firstOf(waiting)) {
      await api.markRead(Object.fromEntries(batch));
      if (whose !== person) break; // what they had waiting is still kept for them
      for (const [id, turn] of batch) {
        sent[id] = turn;
        if (waiting[id] === turn) delete waiting[id];
      }
      keep();
    }
  } catch {
    // There is no connection, nobody is signed in, or the machine is of an older version.
  } finally {
    isSending = false;
  }
}

/** Give the server what an older page has noted in this browser, also of chats that were read up to an earlier turn only. */
async function handOver() {
  const text = read(OLD_NAME, "localStorage");
  if (!text) return;
  const marks = Object.entries(marksOfOld(text));
  for (let at = 0; at < marks.length; at += MAX_SENT) {
    await api.markRead(Object.fromEntries(marks.slice(at, at + MAX_SENT)));
  }
  write(OLD_NAME, "", "localStorage");
}

const firstOf = (/** @type {Marks} */ marks) => Object.entries(marks).slice(0, MAX_SENT);

/**
 * @param {string} text
 * @returns {Marks}
 */
function marksIn(text) {
  const found = Object.entries(parsed(text));
  return Object.fromEntries(found.filter(([, turn]) => Number.isSafeInteger(turn) && turn >= 0));
}

/**
 * The marks in a text of an older page: it had a chat's turns, and whether the newest had ended.
 *
 * @param {string} text
 * @returns {Marks}
 */
function marksOfOld(text) {
  const found = parsed(text);
  const chats = Object.entries("since" in found ? (found.chats ?? {}) : found);
  const marks = chats.map(([id, seen]) => [id, seen?.idle ? seen.turns : seen?.turns - 1]);
  return marksIn(JSON.stringify(Object.fromEntries(marks)));
}

/**
 * @param {string} text
 * @returns {Record<string, any>}
 */
function parsed(text) {
  try {
    const found = JSON.parse(text);
    return typeof found === "object" && found ? found : {};
  } catch {
    return {};
  }
}
