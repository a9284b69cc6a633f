// One connection for all that is followed: no frame is lost or comes twice as tabs come and go, and all come back.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, requests, reset, settle, timers } from "./browser.mjs";
import { StreamHub } from "../../../src/penstock/chat/page/net/hub.js";
import { OneStream } from "../../../src/penstock/chat/page/net/one-stream.js";
import { Tabs } from "../../../src/penstock/chat/page/net/tabs.js";

const encoder = new TextEncoder();

/** A server of chats: each has numbered frames, and each connection gets those after what it asks for. */
class Server {
  logs = new Map();
  connections = new Set();
  isDown = false;

  constructor() {
    answers.set("GET /api/events", (request) => this.#answer(request));
  }

  #answer({ path, signal }) {
    if (this.isDown) return new Error("no connection");
    const asked = new URLSearchParams(path.split("?")[1]).get("chats").split(",");
    const places = asked.map((it) => ({ name: it.split(":")[0], after: Number(it.split(":")[1] ?? -1) }));
    let connection;
    const body = new ReadableStream({
      start: (controller) => {
        connection = { places, controller };
        this.connections.add(connection);
        signal.addEventListener("abort", () => this.#end(connection, new Error("aborted")));
      },
    });
    this.#bring(connection);
    return new Response(body);
  }

  #end(connection, error) {
    if (this.connections.delete(connection)) connection.controller.error(error);
  }

  #bring(connection) {
    for (const [place, it] of connection.places.entries()) {
      const log = this.logs.get(it.name) ?? [];
      if (!this.logs.has(it.name)) this.#send(connection, { place, chat: it.name, frame: { type: "missing" } });
      if (it.after < 0) {
        it.after = log.length;
        const frame = { type: "snapshot", turns: log.map((turn) => ({ turn })) };
        this.#send(connection, { place, chat: it.name, number: it.after, frame });
      }
      for (; it.after < log.length; it.after++) {
        const frame = { type: "thinking", content: log[it.after] };
        const at = this.times?.get(it.name);
        this.#send(connection, { place, chat: it.name, number: it.after + 1, at, frame });
      }
    }
  }

  #send({ controller }, envelope) {
    const data = encoder.encode(`event: frame\ndata: ${JSON.stringify(envelope)}\n\n`);
    for (let i = 0; i < data.length; i += 7) controller.enqueue(data.slice(i, i + 7));
  }

  write(name, what) {
    if (!this.logs.has(name)) this.logs.set(name, []);
    if (what !== undefined) this.logs.get(name).push(what);
    for (const connection of this.connections) this.#bring(connection);
  }

  cut() {
    for (const connection of this.connections) this.#end(connection, new Error("cut"));
  }
}

/** What one tab sees of a chat: what it was told first, and what came after. */
class Seen {
  words = [];
  states = [];
  number = null;

  notify = (message) => {
    if ("state" in message) this.states.push(message.state);
    else if (message.frame.type === "snapshot") this.words = message.frame.turns.map(({ turn }) => turn);
    else this.words.push(message.frame.content);
    if (message.number) this.number = message.number;
  };
}

/** Let connections change, break and return. */
async function pass(ms = 20_000) {
  for (let i = 0; i < 4; i++) {
    timers.tick(i ? ms / 4 : 10);
    await settle();
  }
}

beforeEach(reset);

test("two chats come over one connection, each to who follows it", async () => {
  const server = new Server();
  server.write("a", "a1");
  server.write("b");
  const [hub, a, b] = [new StreamHub(), new Seen(), new Seen()];
  hub.add(1, "a", null, a.notify);
  hub.add(2, "b", null, b.notify);
  await pass(100);
  assert.equal(requests.length, 1);
  server.write("b", "b1");
  server.write("a", "a2");
  await settle();
  assert.deepEqual([a.words, b.words], [["a1", "a2"], ["b1"]]);
  hub.remove(1);
  hub.remove(2);
  await pass(100);
  assert.equal(server.connections.size, 0);
});

test("a tab that comes later is told all, and nothing comes twice to the one that was there", async () => {
  const server = new Server();
  server.write("a", "a1");
  const [hub, first, second] = [new StreamHub(), new Seen(), new Seen()];
  hub.add(1, "a", null, first.notify);
  await pass(100);
  server.write("a", "a2");
  hub.add(2, "a", null, second.notify);
  server.write("a", "a3");
  await pass(100);
  server.write("a", "a4");
  await settle();
  assert.deepEqual(first.words, ["a1", "a2", "a3", "a4"]);
  assert.deepEqual(second.words, first.words);
  // Once both know the same they have one place, when the connection changes the next time.
  hub.add(3, "b", null, () => {});
  await pass(100);
  assert.equal(requests.at(-1).path, "/api/events?delta=1&chats=a%3A4,b");
  hub.remove(1);
  hub.remove(2);
  hub.remove(3);
  await pass(100);
});

test("a chat is asked for again with the time of the last entry, also by a tab whose worker has ended", async () => {
  const server = new Server();
  server.times = new Map([["a", 1764000000000]]);
  server.write("a", "a1");
  server.write("b", "b1");
  const makeWorker = () => {
    const [port, other] = channel();
    new Tabs().connect(other);
    return { port };
  };
  const tab = new OneStream(makeWorker);
  const followed = ["b", "a"].map((name) => tab.follow(name, null, () => {}));
  await pass(100);
  server.write("a", "a2");
  await settle();
  server.cut();
  await pass();
  assert.equal(requests.at(-1).path, "/api/events?delta=1&chats=b%3A1,a%3A2&at=,1764000000000");
  // The tab itself knows it too: its next worker asks for the same.
  server.cut();
  const kept = Date.now;
  Date.now = () => kept() + 16_000;
  tab.check();
  Date.now = kept;
  await pass();
  assert.equal(requests.at(-1).path, "/api/events?delta=1&chats=b%3A1,a%3A2&at=,1764000000000");
  // After a snapshot the number alone is known.
  for (const it of followed) it.close();
  await pass(100);
});

test("whatever is cut, added and removed, each tab has each word once", async () => {
  const server = new Server();
  const names = ["a", "b", "c"];
  for (const name of names) server.write(name);
  const hub = new StreamHub();
  const tabs = [];
  let seed = 11;
  const dice = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let step = 0; step < 300; step++) {
    const name = names[dice(3)];
    const what = dice(10);
    if (what < 5) server.write(name, `${name}${step}`);
    else if (what < 7) {
      const tab = { name, seen: new Seen() };
      tabs.push(tab);
      hub.add(tab, name, null, tab.seen.notify);
    } else if (what < 8 && tabs.length) hub.remove(...tabs.splice(dice(tabs.length), 1));
    else if (what < 9) server.cut();
    if (dice(3) === 0) timers.tick(dice(400));
    if (dice(2) === 0) await settle();
  }
  await pass();
  assert.ok(tabs.length > 5);
  for (const { name, seen } of tabs) assert.deepEqual(seen.words, server.logs.get(name));
  for (const tab of tabs) hub.remove(tab);
  await pass(100);
});

test("a chat that may no longer be seen ends, and the others go on", async () => {
  const server = new Server();
  server.write("a", "a1");
  const [hub, a, gone] = [new StreamHub(), new Seen(), new Seen()];
  hub.add(1, "a", null, a.notify);
  hub.add(2, "secret", null, gone.notify);
  await pass(100);
  server.write("a", "a2");
  await settle();
  assert.equal(gone.states.at(-1), "missing");
  assert.deepEqual(a.words, ["a1", "a2"]);
  server.cut();
  await pass();
  assert.equal(requests.at(-1).path, "/api/events?delta=1&chats=a%3A2"); // it is not asked for again
  hub.remove(1);
  await pass(100);
});

test("more than a stream may have wait until there is a place", async () => {
  const server = new Server();
  const hub = new StreamHub();
  const seen = Array.from({ length: 101 }, () => new Seen());
  for (const [i, it] of seen.entries()) {
    server.write(`c${i}`, "word");
    hub.add(i, `c${i}`, null, it.notify);
  }
  await pass(100);
  assert.deepEqual([seen[99].words, seen[100].words], [["word"], []]);
  hub.remove(0);
  await pass(100);
  assert.deepEqual(seen[100].words, ["word"]);
  for (let i = 1; i <= 100; i++) hub.remove(i);
  await pass(100);
});

/** Ports of a worker and of tabs, whose messages arrive in their order and not at once. */
function channel() {
  const made = [{}, {}].map((port) => Object.assign(port, { onmessage: null, close: () => (port.isClosed = true) }));
  for (const [i, port] of made.entries()) {
    port.postMessage = (data) => {
      const copy = structuredClone(data);
      setImmediate(() => made[1 - i].isClosed || port.isClosed || made[1 - i].onmessage?.({ data: copy }));
    };
  }
  return made;
}

test("tabs share the worker's connection, and come back where they were when it ends", async () => {
  const server = new Server();
  server.write("a", "a1");
  let worker = new Tabs();
  const makeWorker = () => {
    const [port, other] = channel();
    worker?.connect(other);
    return { port };
  };
  const [one, two] = [new OneStream(makeWorker), new OneStream(makeWorker)];
  const [first, second] = [new Seen(), new Seen()];
  one.follow("a", null, first.notify);
  const followed = two.follow("a", null, second.notify);
  await pass(100);
  assert.equal(server.connections.size, 1);
  // The worker's process is gone with its connection, and says nothing.
  worker.connect = () => {};
  const dead = worker;
  server.cut();
  server.isDown = true;
  server.write("a", "a2");
  worker = null;
  const kept = Date.now;
  Date.now = () => kept() + 16_000;
  worker = new Tabs();
  server.isDown = false;
  one.check();
  two.check();
  await pass(100);
  Date.now = kept;
  server.write("a", "a3");
  await settle();
  assert.deepEqual(first.words, ["a1", "a2", "a3"]);
  assert.deepEqual(second.words, first.words);
  followed.close();
  await pass(100);
  server.write("a", "a4");
  await settle();
  assert.deepEqual([first.words.length, second.words.length], [4, 3]);
  assert.ok(dead);
});

test("a tab that has ended without a word is forgotten", async () => {
  const server = new Server();
  server.write("a", "a1");
  const worker = new Tabs();
  const [port, other] = channel();
  worker.connect(other);
  port.postMessage({ act: "follow", key: 1, name: "a", after: null });
  await settle();
  await pass(100);
  assert.equal(server.connections.size, 1);
  const kept = Date.now;
  Date.now = () => kept() + 121_000;
  timers.tick(5000);
  Date.now = kept;
  await pass(100);
  assert.equal(server.connections.size, 0);
});

test("a browser without such a worker has a connection in each tab", async () => {
  const server = new Server();
  server.write("a", "a1");
  const tries = [
    null,
    () => {
      throw new Error("no module workers");
    },
  ];
  for (const makeWorker of tries) {
    const seen = new Seen();
    const stream = new OneStream(makeWorker);
    const followed = stream.follow("a", null, seen.notify);
    await pass(100);
    assert.deepEqual(seen.words, ["a1"]);
    followed.close();
    await pass(100);
  }
  assert.equal(requests.length, 2);
});
