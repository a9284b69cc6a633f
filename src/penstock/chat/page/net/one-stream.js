// What this tab follows: over the connection of the shared worker, or its own where a browser has no such worker.

import { isLocal } from "../text/copy.js";
import { StreamHub } from "./hub.js";
import { ALIVE_MS } from "./tabs.js";

/** @import { Message } from "./hub.js" */

const DEAD_MS = 3 * ALIVE_MS; // a worker that has said nothing for so long has ended

/** The only address that the page makes a worker of. */
const WORKER = new URL("./stream-worker.js", import.meta.url).href;

/** @type {{ createScriptURL: (url: string) => string } | undefined} */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("penstock-stream", {
  createScriptURL(/** @type {string} */ url) {
    if (url !== WORKER) throw new TypeError("a worker of another address");
    return url;
  },
});

/** @typedef {{ name: string, after: number | null, at?: number, notify: (message: Message) => void }} Followed */

/** Everything that this tab follows. */
export class OneStream {
  /** @type {Map<number, Followed>} */
  #followed = new Map();
  #lastKey = 0;
  /** @type {StreamHub | null} */
  #hub = null;
  /** @type {MessagePort | null} */
  #port = null;
  #heardAt = 0;
  #makeWorker;

  /** @param {(() => SharedWorker) | null} makeWorker  null: the tab has a connection of its own. */
  constructor(makeWorker) {
    this.#makeWorker = makeWorker;
  }

  /**
   * Follow something after a number; `notify` gets what comes of it, until `close` is called.
   *
   * @param {string} name  As the hub has it.
   * @param {number | null} after
   * @param {(message: Message) => void} notify
   * @param {number} [at]  The time of the entry of this number.
   */
  follow(name, after, notify, at) {
    const key = ++this.#lastKey;
    this.#begin();
    this.#followed.set(key, { name, after, at, notify });
    this.#add(key);
    return {
      close: () => {
        if (!this.#followed.delete(key)) return;
        this.#hub?.remove(key);
        this.#say({ act: "leave", key });
      },
    };
  }

  /** Try at once: there may be a network again. */
  wake() {
    this.#hub?.wake();
    this.#say({ act: "wake" });
  }

  /** The network is gone. */
  drop() {
    this.#hub?.drop();
    this.#say({ act: "offline" });
  }

  /** Look whether the worker is there. */
  check() {
    if (this.#port && Date.now() - this.#heardAt > DEAD_MS) this.#restart();
  }

  /** @param {import("./tabs.js").Request} said */
  #say(said) {
    this.#port?.postMessage(said);
  }

  /** @param {number} key */
  #add(key) {
    const it = this.#followed.get(key);
    if (!it) return;
    this.#say({ act: "follow", key, name: it.name, after: it.after, at: it.at });
    this.#hub?.add(key, it.name, it.after, (message) => this.#receive(key, message), it.at);
  }

  #begin() {
    if (this.#hub || this.#port) return;
    if (!this.#makeWorker) {
      this.#hub = new StreamHub();
      return;
    }
    try {
      const worker = this.#makeWorker();
      worker.onerror = () => this.#doWithout();
      this.#listen(worker.port);
    } catch {
      this.#doWithout();
    }
  }

  /** @param {MessagePort} port */
  #listen(port) {
    this.#port = port;
    this.#heardAt = Date.now();
    port.onmessage = ({ data }) => {
      if (port !== this.#port) return;
      this.#heardAt = Date.now();
      if (data === "alive") port.postMessage({ act: "alive" });
      else this.#receive(data.key, data.message);
    };
  }

  /** The worker has ended, or never began: what this tab follows goes on where it was. */
  #restart() {
    this.#say({ act: "bye" }); // it may have been this tab that slept
    this.#port = null;
    this.#begin();
    for (const key of this.#followed.keys()) this.#add(key);
  }

  /** This browser makes no such worker: the tab has a connection of its own. */
  #doWithout() {
    this.#makeWorker = null;
    this.#restart();
  }

  /**
   * @param {number} key
   * @param {Message} message
   */
  #receive(key, message) {
    const it = this.#followed.get(key);
    if (!it) return;
    if ("frame" in message && message.number !== null) Object.assign(it, { after: message.number, at: message.at });
    if ("state" in message && (message.state === "missing" || message.state === "signed_out"))
      this.#followed.delete(key);
    it.notify(message);
  }
}

/** Whether this browser can share one connection over its tabs. */
const canShare = typeof SharedWorker === "function";

/** The stream of this tab. */
export const oneStream = new OneStream(
  canShare ? () => new SharedWorker(policy?.createScriptURL(WORKER) ?? WORKER, { type: "module" }) : null,
);

/** Follow the network, and the worker. */
export function watchConnection() {
  window.addEventListener("online", () => oneStream.wake());
  // Without a network this machine still reaches itself.
  if (!isLocal(location.hostname)) window.addEventListener("offline", () => oneStream.drop());
  document.addEventListener("visibilitychange", () => oneStream.check());
  const check = () => {
    oneStream.check();
    setTimeout(check, ALIVE_MS);
  };
  check();
}
