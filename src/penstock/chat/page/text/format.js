// Texts for people: made harmless, made short, made of numbers.

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g;
// What has no width and no use in a text. Joiners of letters stay, and the tags that make the flag of a region.
const WIDTHLESS =
  /[\u00ad\u180e\u200b\u2060-\u2064\ufeff]|(\u{1f3f4}[\u{e0061}-\u{e007a}\u{e0030}-\u{e0039}]{3,6}\u{e007f})|[\u{e0000}-\u{e007f}]/gu;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/**
 * A text of someone else's with its line ends, without what moves, hides or reverses the text around it.
 *
 * @param {unknown} text
 */
export function harmless(text) {
  return String(text ?? "")
    .replace(/\r\n?/g, "\n")
    .replace(ESCAPES, "")
    .replace(CONTROLS, "")
    .replace(BIDI, "")
    .replace(WIDTHLESS, "$1");
}

/**
 * The same as one line.
 *
 * @param {unknown} text
 */
export function oneLine(text) {
  return harmless(text).replace(/\s+/g, " ").trim();
}

const HIDDEN =
  /[\u{e0000}-\u{e007f}\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu;

/**
 * A text of someone else's that a person decides about: what moves, hides or reverses text is shown by its number.
 *
 * @param {unknown} text
 */
export function exact(text) {
  const numbered = (/** @type {string} */ it) =>
    `\u27e8U+${(it.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  return String(text ?? "")
    .replace(/\r(?=\n|$)/g, "")
    .replace(HIDDEN, numbered);
}

/**
 * How a command ended that failed, "exit 1": the words of `exit_words` in the terminal.
 *
 * @param {number} status
 */
export function exitWords(status) {
  return `exit ${status}`;
}

/**
 * "3 min", "1.2 s": how long, to about two digits.
 *
 * @param {number} ms
 */
export function duration(ms) {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * "0:03.1": the time since a turn began.
 *
 * @param {number} ms
 */
export function elapsed(ms) {
  const seconds = ms / 1000;
  const [h, m] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const s = (seconds % 60).toFixed(1).padStart(4, "0");
  return h ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

/**
 * "12.4k": a count of tokens.
 *
 * @param {number} n
 */
export function count(n) {
  if (n < 1000) return String(n);
  return n < 999_500 ? `${trim(n / 1000)}k` : `${trim(n / 1e6)}M`;
}

const trim = (/** @type {number} */ n) => (n < 99.95 ? n.toFixed(1).replace(/\.0$/, "") : n.toFixed(0));

/**
 * "$0.04", "under $0.01".
 *
 * @param {number} usd
 */
export function money(usd) {
  if (usd <= 0) return "";
  return usd < 0.01 ? "under $0.01" : `$${usd.toFixed(2)}`;
}

/**
 * "just now", "5 min ago", "14:05", "Tue", "3 Nov": when, as short as it can be understood.
 *
 * @param {number} at
 */
export const ago = (at, now = Date.now()) => agoOr(at, now, "just now", " ago");

/**
 * "now", "5 min", "14:05": the same for a narrow place.
 *
 * @param {number} at
 */
export const agoInShort = (at, now = Date.now()) => agoOr(at, now, "now", "");

/**
 * @param {number} at
 * @param {number} now
 * @param {string} justNow
 * @param {string} suffix  Of minutes.
 */
function agoOr(at, now, justNow, suffix) {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return justNow;
  if (minutes < 60) return `${minutes} min${suffix}`;
  const [then, today] = [new Date(at), new Date(now)];
  if (then.toDateString() === today.toDateString()) return clock(at);
  if (minutes < 6 * 24 * 60) return then.toLocaleDateString(undefined, { weekday: "short" });
  const year = then.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

/**
 * "14:05".
 *
 * @param {number} at
 */
export function clock(at) {
  return new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

/**
 * "Today", "Yesterday", "Tuesday, 17 November": the day of a time, with its year where that is another one.
 *
 * @param {number} at
 */
export function day(at, now = Date.now()) {
  const [then, today, yesterday] = [new Date(at), new Date(now), new Date(now)];
  yesterday.setDate(yesterday.getDate() - 1);
  if (then.toDateString() === today.toDateString()) return "Today";
  if (then.toDateString() === yesterday.toDateString()) return "Yesterday";
  const year = then.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year });
}

/**
 * "14:05", "Tue 14:05": a time to come.
 *
 * @param {number} at
 */
export function dayAndClock(at, now = Date.now()) {
  if (day(at, now) === "Today") return clock(at);
  return `${new Date(at).toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short" })} ${clock(at)}`;
}

/**
 * All of a time, to the second.
 *
 * @param {number} at
 */
export function fullTime(at) {
  return new Date(at).toLocaleString(undefined, {
    weekday: "long",
    day: "numeric",
    month: "long",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

/**
 * "1 step", "31 steps".
 *
 * @param {number} n
 * @param {string} one
 */
export function plural(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

/**
 * "400 bytes", "12 KB".
 *
 * @param {number} n
 */
export function bytes(n) {
  return n < 1024 ? plural(n, "byte") : `${Math.ceil(n / 1024)} KB`;
}

/**
 * A path relative to a directory that it is below; one that leads out of it again stays whole.
 *
 * @param {string} path
 * @param {string | null | undefined} directory
 */
export function below(path, directory) {
  const above = `${(directory ?? "").replace(/\/+$/, "")}/`;
  const rest = path.slice(above.length);
  const isBelow = above !== "/" && path.startsWith(above) && rest !== "";
  return isBelow && !rest.split("/").includes("..") ? rest : path;
}

/**
 * Two letters for each name that no other of them has: "cl", "co".
 *
 * @param {string[]} names
 * @returns {Map<string, string>}
 */
export function monograms(names) {
  /** @type {Map<string, string>} */
  const marks = new Map();
  const taken = new Set();
  for (const name of [...new Set(names)].sort()) {
    const [first = "", ...rest] = oneLine(name).match(/[\p{L}\p{N}]/gu) ?? [];
    const mark = rest.map((it) => first + it).find((it) => !taken.has(it)) ?? first;
    taken.add(mark);
    marks.set(name, mark);
  }
  return marks;
}

/**
 * The last part of a path, and its whole where it has only one.
 *
 * @param {string} path
 */
export function base(path) {
  return oneLine(path).replace(/\/+$/, "").split("/").at(-1) || "/";
}
