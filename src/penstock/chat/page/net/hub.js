// One connection for all that a browser follows: its tabs say what they want to see, and get what it brings of that.

import { EventParser } from "./event-parser.js";

const SILENCE_MS = 40_000; // the server sends something every 15 s; after more than two of these the connection is dead
const CHANGE_MS = 10; // a tab that leaves one chat for another changes the connection once
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 15_000;
const GOODBYE_MS = 500; // a server that stops is most likely restarted at once
const UNREADABLE_MS = 2000; // one chat cannot be read; the others go on
const UNAUTHORIZED = 401;
const UNAVAILABLE = 503;
const MAX_PLACES = 100; // as the server allows

/**
 * How long to wait before attempt `n` (from 0): longer each time, and never two pages in step.
 *
 * @param {number} n
 */
export function pause(n, random = Math.random()) {
  const most = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** n);
  return most / 2 + (most / 2) * random;
}

/**
 * @typedef {"connecting" | "open" | "waiting" | "signed_out" | "missing"} HubState
 *   "waiting": the connection was lost, and is tried again; reported once for each attempt. The last two are final.
 * @typedef {{ state: HubState, attempts: number, reason: string }} StateMessage
 *   `attempts` have failed in a row; `reason`: why the server serves no stream now, in its own words.
 * @typedef {{ frame: import("./wire.js").WireFrame, number: number | null, at?: number }} FrameMessage
 *   `number` is null if the frame has none; `at`: the time of the entry of this number.
 * @typedef {StateMessage | FrameMessage} Message
 * @typedef {object} Subscriber
 * @property {string} name  `list`, the id of a chat, or `runs/` and the id of a document or loop.
 * @property {number | null} after  The last number that it knows.
 * @property {number | undefined} at  The time of the entry of this number: another entry may have it after a restore.
 * @property {(message: Message) => void} notify
 * @property {HubState | ""} state
 */

/** Follows what its subscribers name, and resumes each after its own last number whenever the connection is lost. */
export class StreamHub {
  /** @type {Map<unknown, Subscriber>} */
  #subscribers = new Map();
  /** @type {AbortController | null} */
  #abort = null;
  /** @type {Timer} */
  #timer;
  #attempt = 0;
  #isOffline = false;
  #reason = "";

  /**
   * Follow something from now on; `notify` gets what comes of it.
   *
   * @param {unknown} key  By which it is removed.
   * @param {string} name
   * @param {number | null} after
   * @param {(message: Message) => void} notify
   * @param {number} [at]
   */
  add(key, name, after, notify, at) {
    if (!this.#subscribers.size) this.#attempt = 0;
    this.#subscribers.set(key, { name, after, at, notify, state: "" });
    this.#connectIn(CHANGE_MS);
  }

  /** @param {unknown} key */
  remove(key) {
    if (!this.#subscribers.delete(key)) return;
    this.#connectIn(CHANGE_MS);
  }

  /** Try at once: there may be a network again. */
  wake() {
    this.#attempt = 0;
    this.#isOffline = false;
    if (!this.#abort) this.#connectIn(0);
  }

  /** The network is gone, so no end of the connection will be heard of, and to try soon is of no use. */
  drop() {
    this.#isOffline = true;
    this.#abort?.abort("offline");
  }

  /** @param {number} ms */
  #connectIn(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), ms);
  }

  /**
   * @param {Iterable<Subscriber>} subscribers
   * @param {HubState} state
   */
  #notifyState(subscribers, state) {
    for (const it of subscribers) {
      it.state = state;
      it.notify({ state, attempts: this.#attempt, reason: this.#reason });
    }
  }

  /** What is asked for: subscribers that know the same of the same chat have one place. */
  #places() {
    /** @type {Map<string, Subscriber[]>} */
    const places = new Map();
    for (const it of this.#subscribers.values()) {
      const key = `${it.name}:${it.after}:${it.at}`;
      const place = places.get(key);
      if (place) place.push(it);
      else if (places.size < MAX_PLACES) places.set(key, [it]);
    }
    return [...places.values()];
  }

  /** Replace the connection by one for those who subscribe now. */
  async #connect() {
    clearTimeout(this.#timer);
    this.#abort?.abort("changed");
    this.#abort = null;
    if (!this.#subscribers.size) return;
    const abort = new AbortController();
    this.#abort = abort;
    const places = this.#places();
    this.#reason = "";
    this.#notifyState(
      [...this.#subscribers.values()].filter((it) => it.state !== "open"),
      "connecting",
    );
    let delay = null;
    try {
      delay = await this.#read(abort, places);
    } catch {
      // The connection is lost: it is tried again below.
    }
    abort.abort();
    if (this.#abort !== abort) return; // another one has its place
    this.#abort = null;
    if (!this.#subscribers.size) return;
    const wait = delay ?? (this.#isOffline ? MAX_RETRY_MS : pause(this.#attempt++));
    this.#notifyState([...this.#subscribers.values()], "waiting");
    this.#connectIn(wait);
  }

  /**
   * Read until the stream ends; returns how soon to resume, or null for the usual delay.
   *
   * @param {AbortController} abort
   * @param {Subscriber[][]} asked
   */
  async #read(abort, asked) {
    const names = asked.map(([{ name, after }]) => encodeURIComponent(after === null ? name : `${name}:${after}`));
    const times = asked.map(([{ at = "" }]) => at).join(",");
    const query = `delta=1&chats=${names.join(",")}${/\d/.test(times) ? `&at=${times}` : ""}`;
    const response = await fetch(`/api/events?${query}`, {
      signal: abort.signal,
      cache: "no-store",
      headers: { Accept: "text/event-stream" },
    });
    if (response.status === UNAUTHORIZED) {
      const all = [...this.#subscribers.values()];
      this.#subscribers.clear();
      this.#notifyState(all, "signed_out");
      return null;
    }
    this.#reason = response.status === UNAVAILABLE ? ((await response.json()).detail ?? "") : "";
    if (!response.ok || !response.body) return null;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    if (!abort.signal.aborted) this.#notifyState(this.#still(asked.flat()), "open");
    for (;;) {
      const silence = setTimeout(() => abort.abort("silence"), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || abort.signal.aborted) return null;
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) {
        const delay = this.#handle(event, asked);
        if (delay !== null || abort.signal.aborted) return delay;
      }
    }
  }

  /**
   * Those who have not left.
   *
   * @param {Subscriber[]} subscribers
   */
  #still(subscribers) {
    const all = new Set(this.#subscribers.values());
    return subscribers.filter((it) => all.has(it));
  }

  /**
   * @param {import("./event-parser.js").ServerSentEvent} event
   * @param {Subscriber[][]} asked
   */
  #handle({ event, data }, asked) {
    this.#attempt = 0;
    const found = JSON.parse(data);
    if (event !== "frame") {
      if (found.type === "goodbye") return GOODBYE_MS * (0.5 + Math.random());
      for (const it of this.#still(asked.flat())) if (it.name !== "list") it.notify({ frame: found, number: null });
      return null;
    }
    const { frame, number = null, at } = found;
    const subscribers = this.#still(asked[found.place] ?? []);
    if (frame.type === "missing" || frame.type === "deleted") this.#forget(subscribers);
    if (frame.type === "missing") this.#notifyState(subscribers, "missing");
    else if (frame.type === "goodbye") {
      this.#notifyState(subscribers, "waiting");
      this.#connectIn(UNREADABLE_MS);
    } else {
      for (const it of subscribers) {
        if (number !== null) Object.assign(it, { after: number, at });
        it.notify({ frame, number, at });
      }
    }
    return null;
  }

  /** @param {Subscriber[]} subscribers */
  #forget(subscribers) {
    for (const [key, it] of this.#subscribers) if (subscribers.includes(it)) this.#subscribers.delete(key);
  }
}
