// Messages on their way: each is sent until the server has it, however long the connection is lost, and over a reload.
// And stops of turns, over a reload not.

import { read, write } from "../state/storage.js";
import { api, messageOf, statusOf } from "./api.js";
import { pause } from "./stream.js";

const NAME = "penstock.unsent";
const TRANSIENT = new Set([0, 502, 503, 504]); // no connection, or a server that is about to be back
const UNAUTHORIZED = 401;

/**
 * @typedef {{ stops?: number, steers?: number }} Now  A message goes before those that wait; `stops`: the turn that is
 *   stopped for it; `steers`: the turn whose agent gets it while it works.
 * @typedef {{ chat: string, key: string, text: string, now?: Now, attachments?: Api.AttachedFile[],
 *   state: "sending" | "waiting" | "failed", why?: string }} Item
 * @typedef {(frame: import("../state/reducer.js").LocalFrame) => void} Watcher
 */

/** A message has a key, by which it becomes one turn however often it is sent; those of a chat are sent in order. */
export class Outbox {
  /** @type {Item[]} */
  #items = [];
  /** @type {Set<string>} The chats of which a message is being sent. */
  #busy = new Set();
  /** @type {Map<string, Watcher>} */
  #watchers = new Map();
  /** @type {Set<() => void>} */
  #sleepers = new Set();
  /** @type {Map<string, number>} The turn of a chat that is being stopped. */
  #stops = new Map();
  #prompt;
  #stop;
  #write;
  #wait;

  /**
   * Tests give another way to the server, another store and another clock.
   *
   * @param {object} [parts]
   * @param {typeof api.prompt} [parts.prompt]
   * @param {typeof api.stop} [parts.stop]
   * @param {(name: string) => string} [parts.read]
   * @param {(name: string, text: string) => void} [parts.write]
   * @param {(ms: number, sleepers: Set<() => void>) => Promise<void>} [parts.wait]
   */
  constructor({ prompt = api.prompt, stop = api.stop, read: stored = read, write: store = write, wait = sleep } = {}) {
    this.#prompt = prompt;
    this.#stop = stop;
    this.#write = store;
    this.#wait = wait;
    const items = JSON.parse(stored(NAME) || "[]");
    this.#items = items.map((/** @type {Item} */ it) => ({ ...it, state: it.why ? "failed" : "sending" }));
  }

  /**
   * The messages of a chat that the server does not have yet.
   *
   * @param {string} chat
   */
  of(chat) {
    const own = this.#items.filter((it) => it.chat === chat);
    return own.map(({ key, text, state, why, attachments }) => ({
      key,
      text,
      state,
      why,
      ...(attachments && { attachments }),
    }));
  }

  /**
   * Call `watcher` from now on with what becomes of this chat's messages, as frames for the reducer.
   *
   * @param {string} chat
   * @param {Watcher} watcher
   */
  watch(chat, watcher) {
    this.#watchers.set(chat, watcher);
  }

  /**
   * End a `watch`; nothing changes if another watcher has its place.
   *
   * @param {string} chat
   * @param {Watcher} watcher
   */
  unwatch(chat, watcher) {
    if (this.#watchers.get(chat) === watcher) this.#watchers.delete(chat);
  }

  /**
   * Send a message, or once more one that was not accepted.
   *
   * @param {string} chat
   * @param {string} key
   * @param {string} text
   * @param {Now} [now]
   * @param {Api.AttachedFile[]} [files]
   */
  send(chat, key, text, now, files) {
    const message = { key, text, ...(files?.length && { attachments: files }) };
    this.#items = [...this.#items.filter((it) => it.key !== key), { chat, ...message, now, state: "sending" }];
    this.#changed(chat, { type: "local_sending", ...message });
    this.#run(chat);
  }

  /**
   * Stop a turn as soon as the server can be reached. It is this turn that is stopped, and no other one that runs by then.
   *
   * @param {string} chat
   * @param {number} turn
   */
  async stop(chat, turn) {
    this.wake();
    if (this.#stops.get(chat) === turn) return; // it is tried until the server has answered
    this.#stops.set(chat, turn);
    const isWanted = () => this.#stops.get(chat) === turn;
    const report = (/** @type {import("../state/reducer.js").Stopping | null} */ stopping) =>
      this.#watchers.get(chat)?.({ type: "local_stopping", stopping });
    for (let tries = 0; isWanted(); tries++) {
      try {
        await this.#stop(chat, turn);
        if (isWanted()) report(null);
        this.#endStop(chat, turn);
      } catch (error) {
        if (!isWanted()) return;
        report(isTransient(error) ? { turn } : { turn, why: messageOf(error) });
        if (isTransient(error)) await this.#wait(pause(tries), this.#sleepers);
        else this.#endStop(chat, turn);
      }
    }
  }

  /**
   * @param {string} chat
   * @param {number} turn
   */
  #endStop(chat, turn) {
    if (this.#stops.get(chat) === turn) this.#stops.delete(chat);
  }

  /**
   * Forget a message.
   *
   * @param {string} key
   */
  drop(key) {
    const found = this.#items.find((it) => it.key === key);
    if (found) this.#remove(found, { type: "local_dropped", key });
  }

  /**
   * Forget all messages of a chat that is gone.
   *
   * @param {string} chat
   */
  forget(chat) {
    this.#stops.delete(chat);
    this.#items = this.#items.filter((it) => it.chat !== chat);
    this.#changed(chat);
  }

  /** Try at once: there is a connection, and somebody is signed in. */
  wake() {
    for (const call of this.#sleepers) call();
    for (const { chat } of this.#items) this.#run(chat);
  }

  /** @param {string} chat */
  async #run(chat) {
    if (this.#busy.has(chat)) return;
    this.#busy.add(chat);
    let tries = 0;
    for (let item = this.#next(chat); item; item = this.#next(chat)) {
      try {
        const turn = await this.#prompt(chat, item.text, item.key, item.now, item.attachments);
        tries = 0;
        this.#remove(item, { type: "local_accepted", key: item.key, turn });
      } catch (error) {
        if (statusOf(error) === UNAUTHORIZED) break;
        if (isTransient(error)) await this.#retryLater(chat, tries++);
        else this.#fail(item, messageOf(error));
      }
    }
    this.#busy.delete(chat);
  }

  /** @param {string} chat */
  #next(chat) {
    return this.#items.find((it) => it.chat === chat && it.state !== "failed");
  }

  /**
   * Wait for the connection; all messages of the chat do.
   *
   * @param {string} chat
   * @param {number} tries
   */
  async #retryLater(chat, tries) {
    for (const item of this.#items.filter((it) => it.chat === chat && it.state === "sending")) {
      item.state = "waiting";
      this.#changed(chat, { type: "local_waiting", key: item.key });
    }
    await this.#wait(pause(tries), this.#sleepers);
  }

  /**
   * @param {Item} item
   * @param {string} why
   */
  #fail(item, why) {
    if (!this.#items.includes(item)) return; // it was dropped meanwhile
    Object.assign(item, { state: "failed", why });
    this.#changed(item.chat, { type: "local_failed", key: item.key, why });
  }

  /**
   * @param {Item} item
   * @param {import("../state/reducer.js").LocalFrame} frame
   */
  #remove(item, frame) {
    this.#items = this.#items.filter((it) => it !== item);
    this.#changed(item.chat, frame);
  }

  /**
   * @param {string} chat
   * @param {import("../state/reducer.js").LocalFrame} [frame]
   */
  #changed(chat, frame) {
    this.#write(NAME, this.#items.length ? JSON.stringify(this.#items) : "");
    if (frame) this.#watchers.get(chat)?.(frame);
  }
}

/** Whether a request is to be made again. @param {unknown} error */
function isTransient(error) {
  const status = statusOf(error);
  return status !== undefined && TRANSIENT.has(status);
}

/**
 * Wait so long, or until the function that this adds to `sleepers` is called.
 *
 * @param {number} ms
 * @param {Set<() => void>} sleepers
 * @returns {Promise<void>}
 */
function sleep(ms, sleepers) {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      sleepers.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    sleepers.add(wake);
  });
}

/** The messages of this tab. */
export const outbox = new Outbox();
