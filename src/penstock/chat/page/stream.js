// The stream of a chat: server-sent events by fetch, which unlike EventSource tells a 401 from a cut.

import { isLocal } from "./words.js";

const WATCH_MS = 40_000; // the server says something every 15 s; silence of more than two of these is a dead line
const HIDDEN_MS = 30_000; // a page that nobody sees lets its connection go; it comes back where it was
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 15_000;
const GOODBYE_MS = 500; // a server that ends is most likely started anew at once

/** Server-sent events out of text that may be cut anywhere. */
export class EventParser {
  #rest = "";
  #cr = false; // the piece before ended with CR: an LF that follows belongs to it
  #fields = { event: "", data: [], id: null };

  /** The events that are whole now: {event, data, id}; `id` is null where the event has none. */
  feed(text) {
    if (this.#cr && text) {
      this.#cr = false;
      if (text[0] === "\n") text = text.slice(1);
    }
    if (text.endsWith("\r")) this.#cr = true;
    const lines = (this.#rest + text).split(/\r\n|\r|\n/);
    this.#rest = lines.pop();
    return lines.map((line) => this.#line(line)).filter(Boolean);
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#fields.data.push(value);
    else if (name === "event") this.#fields.event = value;
    else if (name === "id" && !value.includes("\0")) this.#fields.id = value;
    return null;
  }

  #dispatch() {
    const { event, data, id } = this.#fields;
    this.#fields = { event: "", data: [], id: null };
    return data.length ? { event: event || "message", data: data.join("\n"), id } : null;
  }
}

/** How long to wait before attempt `n` (from 0): longer each time, and never two pages in step. */
export function pause(n, random = Math.random()) {
  const most = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** n);
  return most / 2 + (most / 2) * random;
}

/**
 * Follows a chat until it is closed, coming back after each cut with the last number.
 *
 * `onFrame(frame, number)`: number is null where the frame has none. It may return "again", which asks for a snapshot.
 * `onState(state)`: "connecting", "open", "waiting" (cut; it comes back by itself; once for each attempt), "resting"
 * (nobody looks), "deleted", "signed_out", "missing": these three are the end.
 */
export class ChatStream {
  #url; #onFrame; #onState;
  #after = null;
  #attempt = 0;
  #abort = null;
  #timer = null;
  #hidden = null;
  #over = false;
  #state = "";
  #listeners = new AbortController();

  constructor(url, { onFrame, onState }) {
    [this.#url, this.#onFrame, this.#onState] = [url, onFrame, onState];
    const { signal } = this.#listeners;
    document.addEventListener("visibilitychange", () => this.#seen(), { signal });
    window.addEventListener("online", () => this.#now(), { signal });
    // Without a network this machine still has itself.
    if (!isLocal(location.hostname)) window.addEventListener("offline", () => this.#cut(), { signal });
    window.addEventListener("pagehide", () => this.#rest(), { signal });
    window.addEventListener("pageshow", () => this.#seen(), { signal });
    this.#now();
  }

  /** How often in a row it could not be had. */
  get attempts() {
    return this.#attempt;
  }

  /** Let go of it. */
  close() {
    this.#over = true;
    this.#listeners.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#hidden);
    this.#abort?.abort();
  }

  #say(state) {
    if (state !== this.#state) this.#onState((this.#state = state));
  }

  #end(state) {
    this.close();
    this.#say(state);
  }

  #seen() {
    clearTimeout(this.#hidden);
    if (document.visibilityState === "hidden") this.#hidden = setTimeout(() => this.#rest(), HIDDEN_MS);
    else if (!this.#abort) this.#now();
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
    if (!this.#over) this.#say("resting");
  }

  #now() {
    clearTimeout(this.#timer);
    this.#attempt = 0;
    if (!this.#over && !this.#abort) this.#connect();
  }

  #cut() {
    this.#abort?.abort("offline");
  }

  #later(delay) {
    if (this.#over) return;
    this.#onState((this.#state = "waiting"));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), delay);
  }

  async #connect() {
    const abort = (this.#abort = new AbortController());
    if (this.#state !== "waiting") this.#say("connecting");
    let delay = null;
    try {
      delay = await this.#read(abort);
    } catch {
      // The line is cut: it comes back below.
    }
    abort.abort();
    if (this.#abort !== abort || this.#over) return; // it rests, or is closed
    this.#abort = null;
    this.#later(delay ?? pause(this.#attempt++));
  }

  /** Read until the stream ends; gives how soon to come back, or null for the usual. */
  async #read(abort) {
    const url = this.#after === null ? `${this.#url}?delta=1` : `${this.#url}?delta=1&after=${this.#after}`;
    const answer = await fetch(url, {
      signal: abort.signal, cache: "no-store", headers: { Accept: "text/event-stream" },
    });
    if (answer.status === 401) return this.#end("signed_out");
    if (answer.status === 404) return this.#end("missing");
    if (!answer.ok || !answer.body) return null;
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    this.#say("open");
    for (;;) {
      const watch = setTimeout(() => abort.abort("silence"), WATCH_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(watch));
      if (done || abort.signal.aborted) return null;
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) {
        const delay = this.#take(event);
        if (delay !== null || this.#over) return delay;
      }
    }
  }

  #take({ data, id }) {
    const number = id === null ? null : Number(id);
    const frame = JSON.parse(data);
    this.#attempt = 0;
    if (frame.type === "goodbye") return GOODBYE_MS * (0.5 + Math.random());
    if (this.#onFrame(frame, number) === "again") {
      this.#after = null;
      return pause(2);
    }
    if (number !== null) this.#after = number;
    if (frame.type === "deleted") this.#end("deleted");
    return null;
  }
}
