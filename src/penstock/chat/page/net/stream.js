// The stream of a chat: server-sent events by fetch, which unlike EventSource tells a 401 from a lost connection.

import { isLocal } from "../text/copy.js";
import { EventParser } from "./event-parser.js";
import { frameFromWire } from "./wire.js";

const SILENCE_MS = 40_000; // the server sends something every 15 s; after more than two of these the connection is dead
const HIDDEN_MS = 30_000; // a page that nobody sees closes its connection, and resumes later
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 15_000;
const GOODBYE_MS = 500; // a server that stops is most likely restarted at once
const UNAVAILABLE = 503;
const SNAPSHOT_ATTEMPT = 2; // a frame that does not fit is no lost connection, but it is not to be asked again at once

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
 * @typedef {"connecting" | "open" | "waiting" | "resting" | "deleted" | "signed_out" | "missing"} Connection
 *   "waiting": it was lost, and is tried again by itself; reported once for each attempt. "resting": nobody sees the
 *   page. The last three are final.
 * @typedef {object} Handlers
 * @property {(frame: import("./wire.js").Frame, number: number | null) => "snapshot" | void} onFrame
 *   `number` is null if the frame has none. "snapshot" asks for a new one.
 * @property {(state: Connection) => void} onState
 */

/** Follows a chat until it is closed, and resumes after the last number whenever the connection is lost. */
export class ChatStream {
  #url;
  #onFrame;
  #onState;
  /** @type {number | null} */
  #after = null;
  #attempt = 0;
  /** @type {AbortController | null} */
  #abort = null;
  /** @type {Timer} */
  #retryTimer;
  /** @type {Timer} */
  #hiddenTimer;
  #isClosed = false;
  /** Why the server answers and serves no stream now, in its own words. */
  reason = "";
  /** @type {Connection | ""} */
  #state = "";
  #listeners = new AbortController();

  /**
   * @param {string} url
   * @param {Handlers} handlers
   */
  constructor(url, { onFrame, onState }) {
    this.#url = url;
    this.#onFrame = onFrame;
    this.#onState = onState;
    const { signal } = this.#listeners;
    document.addEventListener("visibilitychange", () => this.#visibilityChanged(), { signal });
    window.addEventListener("online", () => this.#connectNow(), { signal });
    // Without a network this machine still reaches itself.
    if (!isLocal(location.hostname)) {
      window.addEventListener("offline", () => this.#abort?.abort("offline"), { signal });
    }
    window.addEventListener("pagehide", () => this.#rest(), { signal });
    window.addEventListener("pageshow", () => this.#visibilityChanged(), { signal });
    this.#connectNow();
  }

  /** How many attempts in a row have failed. */
  get attempts() {
    return this.#attempt;
  }

  close() {
    this.#isClosed = true;
    this.#listeners.abort();
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#hiddenTimer);
    this.#abort?.abort();
  }

  /** @param {Connection} state */
  #setState(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#onState(state);
  }

  /** @param {Connection} state */
  #end(state) {
    this.close();
    this.#setState(state);
    return null;
  }

  #visibilityChanged() {
    clearTimeout(this.#hiddenTimer);
    if (document.visibilityState === "hidden") this.#hiddenTimer = setTimeout(() => this.#rest(), HIDDEN_MS);
    else if (!this.#abort) this.#connectNow();
  }

  #rest() {
    clearTimeout(this.#retryTimer);
    this.#abort?.abort();
    this.#abort = null;
    if (!this.#isClosed) this.#setState("resting");
  }

  #connectNow() {
    clearTimeout(this.#retryTimer);
    this.#attempt = 0;
    if (!this.#isClosed && !this.#abort) this.#connect();
  }

  /** @param {number} delay */
  #connectLater(delay) {
    if (this.#isClosed) return;
    this.#state = "waiting";
    this.#onState("waiting");
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.#connect(), delay);
  }

  async #connect() {
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#state !== "waiting") this.#setState("connecting");
    let delay = null;
    try {
      delay = await this.#read(abort);
    } catch {
      // The connection is lost: it is tried again below.
    }
    abort.abort();
    if (this.#abort !== abort || this.#isClosed) return; // it rests, or is closed
    this.#abort = null;
    this.#connectLater(delay ?? pause(this.#attempt++));
  }

  /**
   * Read until the stream ends; returns how soon to resume, or null for the usual delay.
   *
   * @param {AbortController} abort
   */
  async #read(abort) {
    this.reason = "";
    const url = this.#after === null ? `${this.#url}?delta=1` : `${this.#url}?delta=1&after=${this.#after}`;
    const response = await fetch(url, {
      signal: abort.signal,
      cache: "no-store",
      headers: { Accept: "text/event-stream" },
    });
    if (response.status === 401) return this.#end("signed_out");
    if (response.status === 404) return this.#end("missing");
    this.reason = response.status === UNAVAILABLE ? ((await response.json()).detail ?? "") : "";
    if (!response.ok || !response.body) return null;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    this.#setState("open");
    for (;;) {
      const silence = setTimeout(() => abort.abort("silence"), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || abort.signal.aborted) return null;
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) {
        const delay = this.#handle(event);
        if (delay !== null || this.#isClosed) return delay;
      }
    }
  }

  /** @param {import("./event-parser.js").ServerSentEvent} event */
  #handle({ data, id }) {
    const number = id === null ? null : Number(id);
    const frame = frameFromWire(JSON.parse(data));
    this.#attempt = 0;
    if (frame.type === "goodbye") return GOODBYE_MS * (0.5 + Math.random());
    if (this.#onFrame(frame, number) === "snapshot") {
      this.#after = null;
      return pause(SNAPSHOT_ATTEMPT);
    }
    if (number !== null) this.#after = number;
    if (frame.type === "deleted") this.#end("deleted");
    return null;
  }
}
