// Calls a person who does not look at the page: a notification when a chat asks, or when its turn has ended.
//
// Each tab may see the same news. Notifications with one tag replace each other, so the person is called once.

import { oneLine } from "../text/format.js";
import { asks, rests } from "./attention.js";
import { read, write } from "./storage.js";
import { set, state } from "./store.js";

/** @typedef {Api.ChatView | Api.RunView} Listed */
/** @typedef {"asks" | "ended"} News */
/** @typedef {"on" | "off" | "blocked" | "unsupported"} Notifying */

const NAME = "penstock.notifications"; // "on", "off", or "" as long as nobody decided
const SOUND = "penstock.notifications.sound";
const PRESENT = "penstock.present"; // the lock that every tab has while a person looks at it

const RUNS = { document: "A document", loop: "A loop" };

/** Some browsers of phones have the name, and refuse to notify without a service worker. */
let isRefused = false;
/** @type {Map<string, { news: News, notification: Notification }>} What this tab shows, by chat. */
const shown = new Map();
let open = (/** @type {Listed} */ _) => {};

/** Whether this browser notifies, and if not, why. @returns {Notifying} */
export function notifying() {
  if (isRefused || !("Notification" in window) || !navigator.locks) return "unsupported";
  if (Notification.permission === "denied") return "blocked";
  return Notification.permission === "granted" && read(NAME, "localStorage") === "on" ? "on" : "off";
}

/** Whether the person can be asked, and was not. */
export const isUndecided = () => notifying() === "off" && !read(NAME, "localStorage");

export const hasSound = () => read(SOUND, "localStorage") === "on";

/** @param {boolean} isOn */
export function setSound(isOn) {
  write(SOUND, isOn ? "on" : "", "localStorage");
  set({});
}

/**
 * Notify from now on, or no more. A person has to be at the page: the browser asks for the permission.
 *
 * @param {boolean} isOn
 */
export async function setNotifying(isOn) {
  const isGranted = isOn && (await Notification.requestPermission()) === "granted";
  write(NAME, isGranted ? "on" : "off", "localStorage");
  // What a notification looks like is seen at once, or that this browser shows none.
  if (isGranted)
    show("Penstock calls you like this", "When a chat asks you, or its turn has ended.", "penstock/example");
  set({});
}

/**
 * Begin to note whether a person is at this tab. `whenClicked` opens what a notification is about.
 *
 * @param {(it: Listed) => void} whenClicked
 */
export function beginNotifications(whenClicked) {
  open = whenClicked;
  if (notifying() === "unsupported") return;
  /** @type {(() => void) | null} */
  let leave = null;
  const note = () => {
    const isHere = !document.hidden && document.hasFocus();
    if (isHere) close(state.route.id);
    if (isHere === Boolean(leave)) return;
    if (leave) {
      leave();
      leave = null;
      return;
    }
    const left = new Promise((resolve) => (leave = () => resolve(undefined)));
    navigator.locks.request(PRESENT, { mode: "shared" }, () => left);
  };
  window.addEventListener("focus", note);
  window.addEventListener("blur", note);
  document.addEventListener("visibilitychange", note);
  note();
}

/** Whether a person looks at a tab of Penstock in this browser. */
async function isPresent() {
  const { held = [] } = await navigator.locks.query();
  return held.some(({ name }) => name === PRESENT);
}

/**
 * Call for what is new in the lists; withdraw the calls for what was answered meanwhile.
 *
 * @param {Listed[]} before
 * @param {Listed[]} now
 */
export async function callFor(before, now) {
  if (notifying() !== "on") return;
  const old = new Map(before.map((it) => [it.id, it]));
  const current = new Map(now.map((it) => [it.id, it]));
  for (const [id, { news }] of shown) {
    const it = current.get(id);
    if (!it || (news === "asks" && !asks(it))) close(id);
  }
  const calls = now.flatMap((it) => {
    const news = newsOf(old.get(it.id), it);
    return news ? [{ it, news }] : [];
  });
  if (!calls.length || (await isPresent())) return;
  for (const { it, news } of calls) call(it, news);
}

/**
 * What became of a chat, a document or a loop that a person wants to know at once.
 *
 * @param {Listed | undefined} before
 * @param {Listed} now
 * @returns {News | null}
 */
export function newsOf(before, now) {
  if (asks(now)) return before && asks(before) ? null : "asks";
  if (!before || !rests(now)) return null;
  const wasSeenAtWork = !rests(before);
  const wasQuick = "turns" in now && "turns" in before && now.turns > before.turns;
  return wasSeenAtWork || wasQuick ? "ended" : null;
}

/**
 * Show a notification with the agent and the title of a chat, never the action: other people may see the screen.
 *
 * @param {Listed} it
 * @param {News} news
 */
function call(it, news) {
  const who = "kind" in it ? RUNS[it.kind] : oneLine(it.agent);
  const text = news === "asks" ? `${who} asks you` : `${who} has ended its turn`;
  const notification = show(text, oneLine(it.title) || "New chat", `penstock/${it.id}`);
  if (!notification) return;
  shown.set(it.id, { news, notification });
  notification.addEventListener("click", () => {
    window.focus();
    close(it.id);
    open(it);
  });
}

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag
 */
function show(title, body, tag) {
  try {
    return new Notification(title, { body, tag, silent: !hasSound() });
  } catch {
    isRefused = true;
    set({});
    return null;
  }
}

/** @param {string | undefined} id */
function close(id = "") {
  shown.get(id)?.notification.close();
  shown.delete(id);
}
