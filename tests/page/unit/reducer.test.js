// The fold of a chat's frames: node --test tests/page/unit

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  EMPTY,
  firstTurn,
  held,
  isTakenBack,
  movedBy,
  openQuestion,
  partsOf,
  points,
  queue,
  reduce,
  running,
  waits,
  wholeOf,
} from "../../../src/penstock/chat/page/state/reducer.js";

const fold = (frames, chat = EMPTY) => frames.reduce(reduce, chat);
const snapshot = (turns = [], more = {}) => ({ type: "snapshot", number: 0, turns, ...more });
const prompted = (turn, more = {}) => ({
  type: "prompted",
  turn,
  prompt: `p${turn}`,
  by: "person",
  asked_at: turn,
  ...more,
});
const delta = (turn, offset, text, more = {}) => ({ type: "assistant", turn, offset, delta: text, ...more });
const LIFE = [
  snapshot(),
  prompted(1),
  { type: "streaming", turn: 1, status: "Working…", began_at: 5 },
  { type: "thinking", turn: 1, content: "a secret plan" },
  { type: "final_message_start", turn: 1 },
  delta(1, 0, "Looking."),
  { type: "streaming", turn: 1, status: "Reading…" },
  delta(1, 0, "All ", { replace: true }),
  delta(1, 4, "good 🌍."),
  { type: "completed", turn: 1, message: "All good 🌍.", outcome: "ok", completed_at: 9 },
  { type: "finalized", turn: 1, steps: 3, duration_ms: 4 },
];

test("the state of a document or loop is replaced, and a snapshot keeps it until the next one comes", () => {
  const state = (note, more = {}) => ({ type: "run", run: { id: "loop-a", note }, ...more });
  const loop = { rounds: [] };
  const first = fold([snapshot(), state("round 1", { loop })]);
  assert.deepEqual([first.run.note, first.loop], ["round 1", loop]);
  const again = fold([snapshot()], first);
  assert.deepEqual([again.run.note, again.loop], ["round 1", loop]);
  const document = fold([state("answered")], again);
  assert.deepEqual([document.run.note, document.loop], ["answered", null]);
});

test("a store that fails is shown until it works, whatever comes between", () => {
  const fails = { type: "store", works: false, reason: "the disk is full", help: "free some space" };
  const chat = fold([snapshot(), prompted(1), fails]);
  assert.equal(chat.unkept.reason, "the disk is full");
  assert.equal(fold([snapshot()], chat).unkept.help, "free some space");
  assert.equal(fold([{ type: "store", works: true }], chat).unkept, null);
  assert.equal(reduce(EMPTY, { type: "store", works: true }), EMPTY);
});

test("what a stop holds is what the newest frame names, and a snapshot has it", () => {
  const numbers = (chat) => held(chat).map((turn) => turn.turn);
  const chat = fold([...LIFE, prompted(2), prompted(3), { type: "held", turns: [2, 3] }]);
  assert.deepEqual(numbers(chat), [2, 3]);
  assert.deepEqual(numbers(reduce(chat, { type: "held", turns: [3] })), [3]);
  assert.deepEqual(numbers(reduce(chat, { type: "streaming", turn: 2, status: "Working…", began_at: 3 })), [3]);
  assert.equal(chat.turns[0].held, undefined);
  assert.deepEqual(numbers(fold([snapshot([{ turn: 4, by: "person", state: "queued", held: true }])])), [4]);
});

test("a turn was taken back if it was cancelled and never began", () => {
  const back = (turn) => ({ type: "completed", turn, message: "", outcome: "cancelled", completed_at: 9 });
  const [began, waited] = fold([...LIFE.slice(0, 3), prompted(2), back(2), back(1)]).turns;
  assert.deepEqual([isTakenBack(began), isTakenBack(waited)], [false, true]);
  assert.equal(isTakenBack(fold([...LIFE.slice(0, 2)]).turns[0]), false);
});

test("a turn keeps why it failed, and what was refused in it", () => {
  const facts = { outcome: "error", reason: "no", cause: "usage_limit", resets_at: 7, completed_at: 9 };
  const [turn] = fold([
    ...LIFE.slice(0, -2),
    { type: "completed", turn: 1, message: "x", ...facts },
    { type: "finalized", turn: 1, steps: 3, refused: 2, needs_allow: "edits" },
  ]).turns;
  const { cause, resets_at, refused, needs_allow } = turn;
  assert.deepEqual([cause, resets_at, refused, needs_allow], ["usage_limit", 7, 2, "edits"]);
});

test("a turn goes from queued over status and reply to the message alone", () => {
  const states = LIFE.map((_, i) => fold(LIFE.slice(0, i + 1)).turns[0]);
  assert.deepEqual(
    states.slice(1).map((turn) => [turn.state, turn.status, turn.reply, turn.message]),
    [
      ["queued", null, null, ""],
      ["running", "Working…", null, ""],
      ["running", "Thinking…", null, ""],
      ["running", null, "", ""],
      ["running", null, "Looking.", ""],
      ["running", "Reading…", "Looking.", ""],
      ["running", null, "All ", ""],
      ["running", null, "All good 🌍.", ""],
      ["completed", null, null, "All good 🌍."],
      ["completed", null, null, "All good 🌍."],
    ],
  );
  assert.equal(states.at(-1).steps, 3);
});

test("no word of a thought is kept", () => {
  for (let i = 0; i <= LIFE.length; i++) assert.ok(!JSON.stringify(fold(LIFE.slice(0, i))).includes("secret"));
});

test("frames that come again after a cut change nothing in the end", () => {
  const whole = fold(LIFE);
  for (let cut = 1; cut < LIFE.length; cut++) {
    for (let back = 1; back <= cut; back++) {
      const seen = fold(LIFE.slice(0, cut));
      const again = fold(LIFE.slice(back), seen);
      // A delta behind the reply's end cannot come again: the server sends the offset that fits.
      if (!again.broken) assert.deepEqual(again.turns, whole.turns, `cut ${cut}, back to ${back}`);
    }
  }
});

test("a snapshot takes the place of all that was known, wherever it comes", () => {
  const turns = [{ turn: 7, prompt: "p", state: "running", status: null, reply: "So far 🌍" }];
  for (let i = 0; i <= LIFE.length; i++) {
    const chat = reduce(fold(LIFE.slice(0, i)), snapshot(turns, { number: 40, earlier: true }));
    assert.deepEqual(
      chat.turns.map((it) => [it.turn, it.reply]),
      [[7, "So far 🌍"]],
    );
    assert.deepEqual([chat.number, chat.earlier, chat.known, chat.broken], [40, true, true, false]);
    assert.equal(reduce(chat, delta(7, 8, " and on")).turns[0].reply, "So far 🌍 and on");
  }
});

test("offsets are code points, and an earlier one cuts the reply", () => {
  const chat = fold([snapshot(), prompted(1), delta(1, 0, "a🌍b🌍c")]);
  assert.equal(reduce(chat, delta(1, 2, "X")).turns[0].reply, "a🌍X");
  assert.equal(reduce(chat, delta(1, 4, "Y")).turns[0].reply, "a🌍b🌍Y");
  assert.equal(reduce(chat, delta(1, 5, "Z")).turns[0].reply, "a🌍b🌍cZ");
});

test("any cutting of a text into deltas gives the text", () => {
  const text = [..."Ünïcode 🌍🌏 👨‍👩‍👧 مرحبا end"];
  for (let size = 1; size < text.length; size++) {
    let chat = fold([snapshot(), prompted(1)]);
    for (let at = 0; at < text.length; at += size)
      chat = reduce(chat, delta(1, at, text.slice(at, at + size).join("")));
    assert.equal(chat.turns[0].reply, text.join(""));
    assert.equal(chat.turns[0].points, text.length);
  }
});

test("what was taken back is marked, also of a turn that is over, and the mark goes away", () => {
  const over = fold([snapshot(), prompted(1), { type: "completed", turn: 1, outcome: "ok" }]);
  const undone = { files: 2, at: 1, person: "owner" };
  const chat = reduce(over, { type: "undone", turn: 1, undone });
  assert.deepEqual(chat.turns[0].undone, undone);
  assert.equal(chat.turns[0].state, "completed");
  assert.equal(reduce(chat, { type: "undone", turn: 1 }).turns[0].undone, null);
});

test("a delta that does not join on, or a turn that nobody knows, asks for a snapshot", () => {
  const chat = fold([snapshot(), prompted(1)]);
  assert.equal(reduce(chat, delta(1, 3, "x")).broken, true);
  assert.equal(reduce(chat, { type: "streaming", turn: 2, status: "Working…" }).broken, true);
  assert.equal(reduce(chat, { type: "finalized", turn: 2, steps: 1 }), chat);
  assert.equal(reduce(chat, { type: "undone", turn: 2 }), chat);
  assert.equal(reduce(reduce(chat, delta(1, 3, "x")), snapshot()).broken, false);
});

test("the whole content is taken as well as deltas", () => {
  const chat = fold([snapshot(), prompted(1), { type: "assistant", turn: 1, content: "one 🌍" }]);
  assert.equal(chat.turns[0].reply, "one 🌍");
  assert.equal(reduce(chat, delta(1, 5, "!")).turns[0].reply, "one 🌍!");
});

test("only the turn that a frame is of becomes another object", () => {
  const chat = fold([snapshot(), prompted(1), prompted(2), prompted(3)]);
  const next = reduce(chat, { type: "streaming", turn: 1, status: "Working…" });
  assert.notEqual(next.turns[0], chat.turns[0]);
  assert.equal(next.turns[1], chat.turns[1]);
  assert.equal(next.turns[2], chat.turns[2]);
});

test("a frame of a kind that is not known changes nothing", () => {
  const chat = fold(LIFE);
  assert.equal(reduce(chat, { type: "news", turn: 1 }), chat);
});

test("a message of the page gives way to the turn with its key, in any order", () => {
  const sent = { type: "local_sending", key: "k", text: "p1" };
  const accepted = { type: "local_accepted", key: "k", turn: 1 };
  const came = prompted(1, { key: "k" });
  for (const order of [
    [sent, accepted, came],
    [sent, came, accepted],
    [sent, came],
    [sent, accepted, snapshot([{ ...came, state: "queued" }])],
  ]) {
    const chat = fold(order, fold([snapshot()]));
    assert.deepEqual([chat.unsent.length, chat.turns.length], [0, 1], JSON.stringify(order));
  }
});

test("a message that was not sent stays through snapshots, until it is sent again or dropped", () => {
  const failed = fold([
    snapshot(),
    { type: "local_sending", key: "k", text: "p" },
    { type: "local_failed", key: "k", why: "no line" },
    snapshot([prompted(1)]),
  ]);
  assert.deepEqual(failed.unsent, [{ key: "k", text: "p", state: "failed", why: "no line" }]);
  assert.equal(reduce(failed, { type: "local_sending", key: "k", text: "p" }).unsent[0].state, "sending");
  assert.deepEqual(reduce(failed, { type: "local_dropped", key: "k" }).unsent, []);
});

test("earlier turns come before those that are known, none twice", () => {
  const chat = fold([
    snapshot([prompted(5), prompted(6)], { earlier: true }),
    { type: "local_earlier", turns: [prompted(4), prompted(5)], earlier: false },
  ]);
  assert.deepEqual(
    chat.turns.map((turn) => turn.turn),
    [4, 5, 6],
  );
  assert.equal(chat.earlier, false);
});

test("a question is asked until the next status, and that of a completed turn until the next turn", () => {
  const question = { id: "h", text: "Which?", ask: "choice", options: [{ id: "a", label: "a", kind: "choice" }] };
  const open = fold([
    snapshot(),
    prompted(1),
    { type: "streaming", turn: 1, status: "Waiting for your answer…", question },
  ]);
  assert.equal(openQuestion(open).question.id, "h");
  assert.equal(openQuestion(reduce(open, { type: "streaming", turn: 1, status: "Working…" })), null);
  const ended = reduce(open, {
    type: "completed",
    turn: 1,
    message: "Which?",
    outcome: "ok",
    completed_at: 1,
    question,
  });
  assert.equal(running(ended), undefined);
  assert.equal(openQuestion(ended).turn.turn, 1);
  assert.equal(openQuestion(reduce(ended, prompted(2))), null);
});

test("a deleted chat keeps nothing open", () => {
  assert.equal(reduce(fold(LIFE), { type: "deleted" }).deleted, true);
});

test("code points are counted, also of halves that stand alone", () => {
  assert.deepEqual(["", "a", "🌍", "a🌍b", "\ud83c", "\udf0d"].map(points), [0, 1, 1, 3, 1, 1]);
});

test("a turn waits for another only where one before it is not over", () => {
  const chat = fold([snapshot(), prompted(1), prompted(2)]);
  assert.deepEqual(
    chat.turns.map((turn) => waits(chat, turn)),
    [false, true],
  );
  const over = fold(
    [
      { type: "streaming", turn: 1, status: "Working…" },
      { type: "completed", turn: 1, message: "x", outcome: "ok" },
    ],
    chat,
  );
  assert.deepEqual(
    over.turns.map((turn) => waits(over, turn)),
    [false, false],
  );
});

test("a message that waits for the connection stays through snapshots", () => {
  const chat = fold([
    snapshot(),
    { type: "local_sending", key: "k", text: "p" },
    { type: "local_waiting", key: "k" },
    snapshot([prompted(1)]),
  ]);
  assert.deepEqual(chat.unsent, [{ key: "k", text: "p", state: "waiting" }]);
});

test("the progress of a plan is that of the newest, while the turn runs", () => {
  const plan = (more) => ({ type: "plan", turn: 1, ...more });
  const chat = fold([...LIFE.slice(0, 3), plan({ done: 1, all: 3 })]);
  assert.deepEqual(chat.turns[0].plan, { done: 1, all: 3 });
  assert.deepEqual(fold([plan({ all: 2 })], chat).turns[0].plan, { done: 0, all: 2 });
  assert.equal(fold([plan({})], chat).turns[0].plan, null);
  assert.equal(fold(LIFE.slice(9), chat).turns[0].plan, null);
  assert.equal(fold([...LIFE, plan({ all: 2 })]).turns[0].plan, null);
});

test("the turns that wait follow the order of the server, and one that begins stands before them", () => {
  const queued = fold([snapshot(), prompted(1), { type: "streaming", turn: 1, status: "…", began_at: 5 }, prompted(2)]);
  const numbers = (chat) => chat.turns.map(({ turn }) => turn);
  const moved = fold([prompted(3), prompted(4), { type: "queue", turns: [4, 2, 3] }], queued);
  assert.deepEqual(numbers(moved), [1, 4, 2, 3]);
  assert.equal(waits(moved, moved.turns[1]), true);
  const over = { type: "completed", turn: 1, message: "", outcome: "ok", completed_at: 9 };
  const later = fold([over, { type: "queue", turns: [3, 4, 2] }], moved);
  assert.deepEqual(numbers(later), [1, 3, 4, 2]);
  assert.deepEqual(
    later.turns.map((turn) => waits(later, turn)),
    [false, false, true, true],
  );
  const began = fold([{ type: "streaming", turn: 3, status: "…", began_at: 12 }, prompted(5)], later);
  assert.deepEqual(numbers(began), [1, 3, 4, 2, 5]);
  // One that is taken back is over too; what is asked is what the last one asks.
  const back = fold([{ type: "completed", turn: 2, message: "", outcome: "cancelled", completed_at: 13 }], began);
  assert.deepEqual(numbers(back), [1, 3, 2, 4, 5]);
  assert.equal(firstTurn(back), 1);
  assert.equal(firstTurn(EMPTY), Infinity);
  const older = reduce(began, { type: "local_earlier", turns: [{ turn: 0 }, { turn: 4 }], earlier: false });
  assert.deepEqual(numbers(older), [0, 1, 3, 4, 2, 5]);
});

test("a message that waits has its new text; what has begun keeps the text that the agent got", () => {
  const chat = fold([snapshot(), prompted(1), { type: "edited", turn: 1, prompt: "new", edits: 1 }]);
  assert.deepEqual([chat.turns[0].prompt, chat.turns[0].edits, chat.turns[0].state], ["new", 1, "queued"]);
});

test("a message moves by one place, and not past an end", () => {
  const chat = fold([snapshot(), prompted(1), prompted(2), prompted(3)]);
  const [first, second, third] = queue(chat);
  assert.deepEqual(movedBy(queue(chat), second, -1), [2, 1, 3]);
  assert.deepEqual(movedBy(queue(chat), second, 1), [1, 3, 2]);
  assert.equal(movedBy(queue(chat), first, -1), null);
  assert.equal(movedBy(queue(chat), third, 1), null);
  assert.equal(movedBy([], third, 1), null);
});

test("a message that the agent took is a part of its turn, and stands before it", () => {
  const given = (turn, state) => ({ type: "steer", turn, steer: { into: 1, state } });
  const chat = fold([...LIFE.slice(0, 3), { type: "steerable", turn: 1 }, prompted(2), prompted(3), given(2, "given")]);
  assert.equal(running(chat).steerable, true);
  assert.equal(wholeOf(chat.turns[1]), undefined);
  const over = { type: "completed", turn: 2, message: "", outcome: "ok", completed_at: 7 };
  const taken = fold([given(2, "taken"), over, { type: "finalized", turn: 2, steps: 0 }], chat);
  assert.deepEqual(
    taken.turns.map(({ turn }) => turn),
    [2, 1, 3],
  );
  assert.deepEqual(
    taken.turns.map((turn) => partsOf(taken, turn).map((it) => it.turn)),
    [[], [2], []],
  );
  assert.equal(isTakenBack(taken.turns[0]), false);
  const question = { id: "q", text: "?" };
  const asks = fold([given(3, "late"), { ...LIFE[9], question }, prompted(4, { key: "k" })], taken);
  assert.equal(wholeOf(asks.turns[2]), undefined);
  assert.equal(openQuestion(fold([{ ...LIFE[9], question }], fold(LIFE.slice(0, 3)))).turn.turn, 1);
});
