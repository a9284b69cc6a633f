// Messages on their way: each is sent until the server has it, however long the line is cut, and over a reload.

import { api } from "./api.js";
import { keep, kept } from "./keeping.js";
import { pause } from "./stream.js";

const NAME = "penstock.unsent";
const AGAIN = new Set([0, 502, 503, 504]); // no line, or a server that comes back
const SIGNED_OUT = 401;

/**
 * A message has a key, by which it becomes one turn however often it is sent; those of a chat are sent in order.
 *
 * `watch(chat, call)`: from now on, `call(frame)` has what becomes of this chat's messages, as frames for the reducer.
 */
export class Outbox {
  #items = []; // {chat, key, text, state: "sending" | "waiting" | "failed", why?}
  #busy = new Set(); // the chats of which one is being sent
  #watchers = new Map();
  #sleepers = new Set();
  #prompt; #keep; #wait;

  constructor({ prompt = api.prompt, kept: before = kept, keep: write = keep, wait = sleep } = {}) {
    [this.#prompt, this.#keep, this.#wait] = [prompt, write, wait];
    this.#items = JSON.parse(before(NAME) || "[]").map((it) => ({ ...it, state: it.why ? "failed" : "sending" }));
  }

  /** The messages of a chat that the server does not have yet. */
  of(chat) {
    return this.#items.filter((it) => it.chat === chat).map(({ key, text, state, why }) => ({ key, text, state, why }));
  }

  watch(chat, call) {
    this.#watchers.set(chat, call);
  }

  unwatch(chat) {
    this.#watchers.delete(chat);
  }

  /** Send a message, or once more one that was not taken. */
  send(chat, key, text) {
    this.#items = [...this.#items.filter((it) => it.key !== key), { chat, key, text, state: "sending" }];
    this.#changed(chat, { type: "local_sending", key, text });
    this.#run(chat);
  }

  /** Forget a message. */
  drop(key) {
    const found = this.#items.find((it) => it.key === key);
    if (found) this.#remove(found, { type: "local_dropped", key });
  }

  /** Forget all messages of a chat that is gone. */
  forget(chat) {
    this.#items = this.#items.filter((it) => it.chat !== chat);
    this.#changed(chat);
  }

  /** The line is there, and somebody is signed in: try at once. */
  wake() {
    for (const call of this.#sleepers) call();
    for (const { chat } of this.#items) this.#run(chat);
  }

  async #run(chat) {
    if (this.#busy.has(chat)) return;
    this.#busy.add(chat);
    for (let tries = 0, item; (item = this.#items.find((it) => it.chat === chat && it.state !== "failed")); ) {
      try {
        const turn = await this.#prompt(chat, item.text, item.key);
        tries = 0;
        this.#remove(item, { type: "local_accepted", key: item.key, turn });
      } catch (error) {
        if (error.status === SIGNED_OUT) break;
        if (AGAIN.has(error.status)) await this.#later(chat, tries++);
        else this.#fail(item, error.words ?? String(error));
      }
    }
    this.#busy.delete(chat);
  }

  /** Wait for the line; all messages of the chat do. */
  async #later(chat, tries) {
    for (const item of this.#items.filter((it) => it.chat === chat && it.state === "sending")) {
      item.state = "waiting";
      this.#changed(chat, { type: "local_waiting", key: item.key });
    }
    await this.#wait(pause(tries), this.#sleepers);
  }

  #fail(item, why) {
    if (!this.#items.includes(item)) return; // it was taken back meanwhile
    Object.assign(item, { state: "failed", why });
    this.#changed(item.chat, { type: "local_failed", key: item.key, why });
  }

  #remove(item, frame) {
    this.#items = this.#items.filter((it) => it !== item);
    this.#changed(item.chat, frame);
  }

  #changed(chat, frame) {
    this.#keep(NAME, this.#items.length ? JSON.stringify(this.#items) : "");
    if (frame) this.#watchers.get(chat)?.(frame);
  }
}

/** Wait so long, or until one of `sleepers` is called, which this one joins. */
function sleep(ms, sleepers) {
  return new Promise((done) => {
    const up = () => {
      clearTimeout(timer);
      sleepers.delete(up);
      done();
    };
    const timer = setTimeout(up, ms);
    sleepers.add(up);
  });
}

/** The messages of this tab. */
export const outbox = new Outbox();
