// The stream of a chat, with a server that answers as it is told: when it resumes, where, and when it ends.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, requests, reset, settle, timers } from "./browser.mjs";
import { ChatStream } from "../../../src/penstock/chat/page/net/stream.js";

const URL = "/api/events";
const at = (after) => `${URL}?delta=1&chats=c${after === undefined ? "" : `%3A${after}`}`;
const encoder = new TextEncoder();

beforeEach(reset);

/** A response that sends these frames, each {number?, …}, and then ends. */
function sends(...frames) {
  const text = frames.map(({ number, ...frame }) => {
    if (frame.type === "goodbye") return `event: goodbye\ndata: ${JSON.stringify(frame)}\n\n`;
    return `event: frame\ndata: ${JSON.stringify({ place: 0, chat: "c", number, frame })}\n\n`;
  });
  return () => new Response(encoder.encode(text.join("")));
}

/** A stream whose connections answer as `responses` say, one after another; the last one again and again. */
async function follow(responses, onFrame = () => undefined) {
  const [frames, states] = [[], []];
  answers.set(`GET ${URL}`, (request) => (responses.length > 1 ? responses.shift() : responses[0])(request));
  const stream = new ChatStream("c", {
    onFrame: (frame, number) => {
      frames.push([frame, number]);
      return onFrame(frame);
    },
    onState: (state) => states.push(state),
  });
  await begin();
  return { stream, frames, states };
}

/** Let a changed connection begin. */
async function begin() {
  timers.tick(10);
  await settle();
}

const waits = () => new Promise(() => {}); // a connection that says nothing

test("a stream resumes after the last number, and says how its connection is", async () => {
  const { stream, frames, states } = await follow([
    sends({ number: 4, type: "snapshot", turns: [] }, { number: 5, type: "prompted", turn: 1 }, { type: "thinking" }),
    waits,
  ]);
  await settle();
  assert.deepEqual(states, ["connecting", "open", "waiting"]);
  assert.deepEqual(
    frames.map(([frame, number]) => [frame.type, number]),
    [
      ["snapshot", 4],
      ["prompted", 5],
      ["thinking", null],
    ],
  );
  timers.tick(15_000);
  await settle();
  assert.deepEqual(
    requests.map(({ path }) => path),
    [at(), at(5)],
  );
  stream.close();
});

test("frames come with the names of the page, whatever those of the wire are", async () => {
  const question = { id: "q", text: "May I?", ask: "tool" };
  const { stream, frames } = await follow([
    sends(
      { type: "snapshot", turns: [{ turn: 1, prompt: "p", question, finalized: true }] },
      { type: "streaming", turn: 1, status: "", question },
      { type: "completed", turn: 1, message: "" },
      { type: "finalized", turn: 1, steps: 2 },
    ),
  ]);
  await settle();
  const shown = { turn: 1, prompt: "p", question, finalized: true };
  assert.deepEqual(
    frames.map(([frame]) => frame),
    [
      { type: "snapshot", turns: [shown] },
      { type: "streaming", turn: 1, status: "", question },
      { type: "completed", turn: 1, message: "", question: null },
      { type: "finalized", turn: 1, steps: 2 },
    ],
  );
  stream.close();
});

test("a frame that does not fit leads to a new snapshot: nothing after it is read, and no number is given", async () => {
  const { stream, frames } = await follow(
    [sends({ number: 9, type: "assistant", turn: 3 }, { number: 10, type: "assistant", turn: 3 }), waits],
    () => "snapshot",
  );
  await settle();
  assert.equal(frames.length, 1);
  timers.tick(15_000);
  await settle();
  assert.equal(requests.at(-1).path, at());
  stream.close();
});

for (const [status, state] of [[401, "signed_out"]]) {
  test(`an answer ${status} is the end: ${state}`, async () => {
    const { states } = await follow([() => status]);
    await settle();
    timers.tick(60_000);
    await settle();
    assert.deepEqual(states, ["connecting", state]);
    assert.equal(requests.length, 1);
  });
}

test("a chat that is not there, or is no longer to be seen, is the end", async () => {
  const { states } = await follow([sends({ type: "missing" })]);
  timers.tick(60_000);
  await settle();
  assert.deepEqual(states, ["connecting", "open", "missing"]);
  assert.equal(requests.length, 1);
});

test("a chat that was deleted is the end", async () => {
  const { states } = await follow([sends({ number: 3, type: "deleted" })]);
  await settle();
  timers.tick(60_000);
  await settle();
  assert.equal(states.at(-1), "deleted");
  assert.equal(requests.length, 1);
});

test("a server that says goodbye is asked again within a second, one that is gone ever later", async () => {
  const { stream } = await follow([sends({ type: "goodbye" }), () => 503]);
  await settle();
  timers.tick(1000);
  await settle();
  assert.equal(requests.length, 2);
  for (let i = 0; i < 12; i++) {
    timers.tick(15_000);
    await settle();
  }
  assert.equal(stream.attempts, 13);
  timers.tick(5_000); // by now it waits for 7.5 to 15 seconds
  await settle();
  assert.equal(requests.length, 14);
  stream.close();
});

test("the reason of a server that serves no stream is kept until the next attempt", async () => {
  const busy = () => new Response(JSON.stringify({ detail: "no database" }), { status: 503 });
  const { stream } = await follow([busy, waits]);
  await settle();
  assert.equal(stream.reason, "no database");
  timers.tick(1000);
  await settle();
  assert.equal(stream.reason, "");
  stream.close();
});

test("a connection that says nothing for long is cut, and tried again", async () => {
  const silent = ({ signal }) => {
    const body = new ReadableStream({
      start: (controller) => signal.addEventListener("abort", () => controller.error(new Error("aborted"))),
    });
    return new Response(body);
  };
  const { stream, states } = await follow([silent, waits]);
  await settle();
  timers.tick(39_000);
  await settle();
  assert.deepEqual(states, ["connecting", "open"]);
  timers.tick(1_000);
  await settle();
  assert.equal(states.at(-1), "waiting");
  stream.close();
});

test("a page that nobody sees lets its connection go after a while, and has it back once it is seen", async () => {
  const { stream, states } = await follow([waits]);
  await settle();
  document.visibilityState = "hidden";
  document.dispatchEvent(new Event("visibilitychange"));
  timers.tick(30_000);
  await begin();
  assert.equal(states.at(-1), "resting");
  assert.ok(requests[0].signal.aborted);
  document.visibilityState = "visible";
  document.dispatchEvent(new Event("visibilitychange"));
  await begin();
  assert.equal(requests.length, 2);
  stream.close();
});
