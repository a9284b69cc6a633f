// The tabs that share one connection, as the shared worker knows them.

import { StreamHub } from "./hub.js";

export const ALIVE_MS = 5000; // how often the worker says that it is there, and each tab answers
const GONE_MS = 120_000; // a tab that has not answered for so long is closed, or does nothing any more

/**
 * @typedef {{ act: "follow", key: number, name: string, after: number | null, at?: number }
 *   | { act: "leave", key: number } | { act: "wake" | "offline" | "alive" | "bye" }} Request  What a tab says.
 * @typedef {{ key: number, message: import("./hub.js").Message } | "alive"} Answer  What it is told.
 */

export class Tabs {
  #hub;
  /** @type {Map<MessagePort, { keys: Map<number, object>, heardAt: number }>} */
  #tabs = new Map();

  constructor(hub = new StreamHub()) {
    this.#hub = hub;
    setTimeout(() => this.#sayAlive(), ALIVE_MS);
  }

  /** @param {MessagePort} port */
  connect(port) {
    this.#tabs.set(port, { keys: new Map(), heardAt: Date.now() });
    port.onmessage = ({ data }) => this.#heard(port, data);
    port.postMessage("alive");
  }

  /**
   * @param {MessagePort} port
   * @param {Request} said
   */
  #heard(port, said) {
    const tab = this.#tabs.get(port);
    if (!tab) return;
    tab.heardAt = Date.now();
    if (said.act === "follow") {
      const own = {}; // keys of two tabs are the same
      tab.keys.set(said.key, own);
      const notify = (/** @type {import("./hub.js").Message} */ message) =>
        port.postMessage({ key: said.key, message });
      this.#hub.add(own, said.name, said.after, notify, said.at);
    } else if (said.act === "leave") {
      this.#hub.remove(tab.keys.get(said.key));
      tab.keys.delete(said.key);
    } else if (said.act === "wake") this.#hub.wake();
    else if (said.act === "offline") this.#hub.drop();
    else if (said.act === "bye") this.#remove(port);
  }

  /** @param {MessagePort} port */
  #remove(port) {
    for (const own of this.#tabs.get(port)?.keys.values() ?? []) this.#hub.remove(own);
    this.#tabs.delete(port);
    port.close();
  }

  #sayAlive() {
    for (const [port, { heardAt }] of this.#tabs) {
      if (Date.now() - heardAt > GONE_MS) this.#remove(port);
      else port.postMessage("alive");
    }
    setTimeout(() => this.#sayAlive(), ALIVE_MS);
  }
}
