// What a tab sees of a chat, a document, a loop or the list: frames in their order, each once.

import { pause } from "./hub.js";
import { oneStream } from "./one-stream.js";
import { frameFromWire } from "./wire.js";

export { pause };

const HIDDEN_MS = 30_000; // a page that nobody sees follows nothing, and resumes later
const SNAPSHOT_ATTEMPT = 2; // a frame that does not fit is no lost connection, but it is not to be asked again at once

/**
 * @typedef {"connecting" | "open" | "waiting" | "resting" | "deleted" | "signed_out" | "missing"} Connection
 *   "waiting": it was lost, and is tried again by itself; reported once for each attempt. "resting": nobody sees the
 *   page. "open" is reported once for each connection. The last three are final.
 * @typedef {object} Handlers
 * @property {(frame: import("./wire.js").Frame, number: number | null) => "snapshot" | void} onFrame
 *   `number` is null if the frame has none. "snapshot" asks for a new one.
 * @property {(state: Connection) => void} onState
 */

/** Follows one thing until it is closed, and resumes after the last number whenever the connection is lost. */
export class ChatStream {
  #name;
  #onFrame;
  #onState;
  /** @type {number | null} */
  #after = null;
  /** @type {number | undefined} */
  #at;
  /** @type {{ close: () => void } | null} */
  #followed = null;
  /** @type {Timer} */
  #retryTimer;
  /** @type {Timer} */
  #hiddenTimer;
  #isClosed = false;
  /** How many attempts to connect have failed in a row. */
  attempts = 0;
  /** Why the server answers and serves no stream now, in its own words. */
  reason = "";
  /** @type {Connection | ""} */
  #state = "";
  #listeners = new AbortController();

  /**
   * @param {string} name  As the hub has it.
   * @param {Handlers} handlers
   * @param {number | null} [after]  The number that what is there already was read at.
   */
  constructor(name, { onFrame, onState }, after = null) {
    this.#name = name;
    this.#after = after;
    this.#onFrame = onFrame;
    this.#onState = onState;
    const { signal } = this.#listeners;
    document.addEventListener("visibilitychange", () => this.#visibilityChanged(), { signal });
    window.addEventListener("pagehide", () => this.#rest(), { signal });
    window.addEventListener("pageshow", () => this.#visibilityChanged(), { signal });
    this.#follow();
  }

  close() {
    this.#isClosed = true;
    this.#listeners.abort();
    clearTimeout(this.#hiddenTimer);
    this.#leave();
  }

  #leave() {
    clearTimeout(this.#retryTimer);
    this.#followed?.close();
    this.#followed = null;
  }

  #follow() {
    this.#leave();
    if (this.#isClosed) return;
    const receive = (/** @type {import("./hub.js").Message} */ message) => this.#receive(message);
    this.#followed = oneStream.follow(this.#name, this.#after, receive, this.#at);
  }

  /** @param {Connection} state */
  #setState(state) {
    if (state === this.#state && state !== "waiting" && state !== "open") return;
    if (state === "connecting" && this.#state === "waiting") return; // it is one of its attempts
    this.#state = state;
    this.#onState(state);
  }

  /** @param {Connection} state */
  #end(state) {
    this.close();
    this.#setState(state);
  }

  #visibilityChanged() {
    clearTimeout(this.#hiddenTimer);
    if (document.visibilityState === "hidden") this.#hiddenTimer = setTimeout(() => this.#rest(), HIDDEN_MS);
    else if (!this.#followed) this.#follow();
  }

  #rest() {
    this.#leave();
    if (!this.#isClosed) this.#setState("resting");
  }

  /** @param {import("./hub.js").Message} message */
  #receive(message) {
    if (this.#isClosed) return;
    if ("frame" in message) {
      this.#handle(frameFromWire(/** @type {Api.RunFrame} */ (message.frame)), message.number, message.at);
      return;
    }
    Object.assign(this, { attempts: message.attempts, reason: message.reason });
    if (message.state === "missing" || message.state === "signed_out") this.#end(message.state);
    else this.#setState(message.state);
  }

  /**
   * @param {import("./wire.js").Frame} frame
   * @param {number | null} number
   * @param {number} [at]
   */
  #handle(frame, number, at) {
    this.attempts = 0;
    if (this.#onFrame(frame, number) === "snapshot") {
      this.#leave();
      this.#after = null;
      this.#at = undefined;
      this.#setState("waiting");
      this.#retryTimer = setTimeout(() => this.#follow(), pause(SNAPSHOT_ATTEMPT));
      return;
    }
    if (number !== null) {
      this.#after = number;
      this.#at = at;
    }
    if (frame.type === "deleted") this.#end("deleted");
  }
}
