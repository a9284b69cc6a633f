// Messages on their way, however bad the line is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError } from "../../../src/penstock/chat/page/net/api.js";
import { Outbox } from "../../../src/penstock/chat/page/net/outbox.js";

const settle = () => new Promise((done) => setImmediate(done));
const status = (number) => new ApiError(number, { detail: `Answer ${number}.` });

/** An outbox on a line that answers as `answers` say, one after another: a turn, or the status of an error. */
function outbox(answers, stored = { text: "" }) {
  const [sent, waits, frames] = [[], [], []];
  const prompt = async (chat, text, key, now) => {
    sent.push(now ? [chat, text, key, now] : [chat, text, key]);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const wait = (ms) => (waits.push(ms), settle());
  const write = (_, text) => (stored.text = text);
  const box = new Outbox({ prompt, wait, write, read: () => stored.text });
  box.watch("c", (frame) => frames.push(frame));
  return { box, sent, waits, frames, stored };
}

test("a message is sent until the server has it, with one key, and waits longer each time up to a bound", async () => {
  const down = [0, 502, 503, 504];
  const { box, sent, waits, frames, stored } = outbox([
    ...Array.from({ length: 40 }, (_, n) => status(down[n % 4])),
    7,
  ]);
  box.send("c", "k", "hello");
  while (stored.text) await settle();
  assert.equal(sent.length, 41);
  assert.deepEqual(new Set(sent.map(String)), new Set(["c,hello,k"]));
  assert.ok(waits.every((ms) => ms <= 15_000) && waits.at(-1) > 5000);
  assert.deepEqual(
    frames.map((frame) => frame.type),
    ["local_sending", "local_waiting", "local_accepted"],
  );
  assert.equal(frames.at(-1).turn, 7);
});

test("a message for the agent of a turn is for that turn, also after a reload", async () => {
  const { box, stored } = outbox([7]);
  box.send("c", "k", "left", { steers: 3 });
  const again = outbox([7], { text: stored.text });
  again.box.wake();
  await settle();
  assert.deepEqual(again.sent, [["c", "left", "k", { steers: 3 }]]);
});

test("what stops a turn stops that one alone, also after a reload; sent again after an error, it only waits", async () => {
  const { box, stored } = outbox([7]);
  box.send("c", "k", "now", { stops: 3 });
  const again = outbox([status(409)], { text: stored.text });
  again.box.wake();
  await settle();
  assert.deepEqual(again.sent, [["c", "now", "k", { stops: 3 }]]);
  assert.equal(again.box.of("c")[0].state, "failed");
  again.box.send("c", "k", "now");
  await settle();
  assert.deepEqual(again.sent.at(-1), ["c", "now", "k"]);
});

test("messages of a chat are sent in order, each after the one before was taken", async () => {
  const { box, sent, frames } = outbox([status(0), 1, 2, 3]);
  for (const key of ["a", "b", "c"]) box.send("c", key, key);
  while (frames.filter((frame) => frame.type === "local_accepted").length < 3) await settle();
  assert.deepEqual(
    sent.map(([, text]) => text),
    ["a", "a", "b", "c"],
  );
});

test("what the server does not take fails with its words, and does not hold up the next", async () => {
  const { box, frames, stored } = outbox([status(429), 2]);
  box.send("c", "a", "a");
  box.send("c", "b", "b");
  await settle();
  assert.deepEqual(
    frames.filter(({ type }) => type === "local_failed"),
    [{ type: "local_failed", key: "a", why: "Answer 429." }],
  );
  assert.deepEqual(
    box.of("c").map(({ key, state }) => [key, state]),
    [["a", "failed"]],
  );
  const again = outbox([5], { text: stored.text });
  again.box.wake();
  await settle();
  assert.deepEqual(again.sent, [], "what failed waits for a person after a reload too");
  again.box.send("c", "a", "a");
  await settle();
  assert.deepEqual(again.box.of("c"), []);
});

test("a reload sends what was on its way, once somebody is signed in", async () => {
  const stored = { text: "" };
  const before = outbox([status(401)], stored);
  before.box.send("c", "k", "hello");
  await settle();
  assert.equal(before.sent.length, 1, "nobody is signed in: it is not asked again and again");
  const after = outbox([3], { text: stored.text });
  await settle();
  assert.deepEqual(after.sent, []);
  assert.equal(after.box.of("c")[0].text, "hello");
  after.box.wake();
  await settle();
  assert.deepEqual([after.sent.length, after.box.of("c")], [1, []]);
});

test("a message that is taken back, or whose chat is gone, is not sent any more", async () => {
  const { box, sent } = outbox([status(0)]);
  box.send("c", "k", "hello");
  box.send("d", "l", "hello");
  await settle();
  box.drop("k");
  box.forget("d");
  await settle();
  const { length } = sent;
  for (let n = 0; n < 5; n++) await settle();
  assert.equal(sent.length, length);
});

test("a stop is sent until the server has it, for its turn alone, and says meanwhile that it waits", async () => {
  const [sent, frames] = [[], []];
  const answers = [status(0), status(503), status(0), { turns: [4] }];
  const stop = async (...asked) => {
    sent.push(asked);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const box = new Outbox({ stop, wait: settle, write: () => {}, read: () => "" });
  box.watch("c", (frame) => frames.push(frame));
  const first = box.stop("c", 4);
  box.stop("c", 4); // a second press
  await first;
  assert.deepEqual(
    sent,
    Array.from({ length: 4 }, () => ["c", 4]),
  );
  const waits = { type: "local_stopping", stopping: { turn: 4 } };
  assert.deepEqual(frames, [waits, waits, waits, { type: "local_stopping", stopping: null }]);
});

test("a stop that the server rejects is not tried again, and says why; one of a chat that is gone ends", async () => {
  const [sent, frames] = [[], []];
  let answer = status(404);
  const stop = async (...asked) => {
    sent.push(asked);
    throw answer;
  };
  const box = new Outbox({ stop, wait: settle, write: () => {}, read: () => "" });
  box.watch("c", (frame) => frames.push(frame));
  await box.stop("c", 4);
  assert.deepEqual(frames, [{ type: "local_stopping", stopping: { turn: 4, why: "Answer 404." } }]);
  answer = status(0);
  const second = box.stop("c", 5);
  await settle();
  box.forget("c");
  await second;
  assert.deepEqual(sent[0], ["c", 4]);
  assert.deepEqual(new Set(sent.slice(1).map(String)), new Set(["c,5"]));
});

test("a stop of the next turn takes the place of one that still waits", async () => {
  const sent = [];
  let isUp = false;
  const stop = async (_, turn) => {
    sent.push(turn);
    if (!isUp) throw status(0);
  };
  const box = new Outbox({ stop, wait: settle, write: () => {}, read: () => "" });
  const first = box.stop("c", 4);
  await settle();
  isUp = true;
  const second = box.stop("c", 5);
  await Promise.all([first, second]);
  assert.equal(sent[0], 4);
  assert.deepEqual(sent.slice(sent.indexOf(5)), [5]);
});

test("a watcher that leaves late does not end the one that has its place", async () => {
  const { box, frames } = outbox([7]);
  const late = () => {};
  box.watch("c", late);
  box.watch("c", (frame) => frames.push(frame));
  box.unwatch("c", late);
  box.send("c", "k", "hello");
  await settle();
  assert.deepEqual(
    frames.map(({ type }) => type),
    ["local_sending", "local_accepted"],
  );
});
