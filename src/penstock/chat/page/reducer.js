// A chat as this page knows it: (state, frame) → state, and nothing else. No DOM, no clock, no network.
//
// A turn that a frame does not change stays the same object, so what shows it need not look again. The same frame
// twice does no harm: after a cut, what stood before the last number comes again.

/**
 * @typedef {object} Turn  as in docs/gateway-api.md, and `points`: the length of `reply` in code points
 * @typedef {object} Unsent  a message of this page that the chat's log does not have yet:
 *   {key, text, state: "sending" | "waiting" | "accepted" | "failed", turn?, why?}
 * @typedef {{known: boolean, number: number, turns: Turn[], earlier: boolean, deleted: boolean, broken: boolean,
 *   unsent: Unsent[]}} Chat
 *   `known`: a snapshot came. `broken`: a frame did not fit, and only a new snapshot helps.
 */

/** @type {Chat} */
export const EMPTY = Object.freeze({
  known: false, number: 0, turns: [], earlier: false, deleted: false, broken: false, unsent: [],
});

/** The chat after a frame of the stream, or after one of the page's own (those that begin with `local`). */
export function reduce(chat, frame) {
  switch (frame.type) {
    case "snapshot": return snapshot(chat, frame);
    case "deleted": return { ...chat, deleted: true };
    case "goodbye": return chat;
    case "prompted": return prompted(chat, frame);
    case "local_sending": return sending(chat, frame);
    case "local_accepted": return accepted(chat, frame);
    case "local_waiting": return unsent(chat, frame.key, { state: "waiting" });
    case "local_failed": return unsent(chat, frame.key, { state: "failed", why: frame.why });
    case "local_dropped": return { ...chat, unsent: chat.unsent.filter((it) => it.key !== frame.key) };
    case "local_earlier": return earlier(chat, frame);
    default: return ofTurn(chat, frame);
  }
}

/** The turn that runs, or undefined. */
export function running(chat) {
  return chat.turns.findLast((turn) => turn.state === "running");
}

/** Whether another turn has to end before this one begins. */
export function waits(chat, turn) {
  return turn.state === "queued" && chat.turns.some((it) => it.turn < turn.turn && it.state !== "completed");
}

/** The question that waits for a person, with its turn, or null. One of a completed turn waits until the next turn. */
export function asked(chat) {
  const turn = running(chat) ?? chat.turns.at(-1);
  return turn?.hint && turn.state !== "queued" ? { turn, hint: turn.hint } : null;
}

function snapshot(chat, { number, turns, earlier = false }) {
  const known = turns.map(whole);
  const keys = new Set(known.map((turn) => turn.key).filter(Boolean));
  const last = known.at(-1)?.turn ?? 0;
  // What was accepted is in the snapshot, or was dropped from it since.
  const waits = (it) => !keys.has(it.key) && !(it.turn && it.turn <= last);
  return { ...EMPTY, known: true, number, turns: known, earlier, unsent: chat.unsent.filter(waits) };
}

function prompted(chat, { type: _, ...turn }) {
  const left = chat.unsent.filter((it) => it.key !== turn.key && it.turn !== turn.turn);
  const rest = left.length === chat.unsent.length ? chat : { ...chat, unsent: left };
  if (place(chat, turn.turn) >= 0) return rest;
  const turns = [...chat.turns, whole({ state: "queued", ...turn })];
  if (chat.turns.length && chat.turns.at(-1).turn > turn.turn) turns.sort((a, b) => a.turn - b.turn);
  return { ...rest, turns };
}

function ofTurn(chat, frame) {
  const change = CHANGES[frame.type];
  if (!change) return chat; // a kind that a newer server has
  const at = place(chat, frame.turn);
  if (at < 0) return frame.type === "recorded" ? chat : { ...chat, broken: true };
  const turn = chat.turns[at];
  if (turn.state === "completed" && frame.type !== "completed" && frame.type !== "recorded") return chat;
  const next = change(turn, frame);
  if (next === null) return { ...chat, broken: true };
  const turns = chat.turns.slice();
  turns[at] = next;
  return { ...chat, turns };
}

const CHANGES = {
  streaming: (turn, { status, hint = null, began_at = turn.began_at }) =>
    ({ ...turn, state: "running", status, hint, began_at }),
  // The words of a thought are shown nowhere but in the record.
  thinking: (turn) => ({ ...turn, status: THINKING }),
  final_message_start: (turn) => ({ ...turn, status: null, reply: "", points: 0 }),
  assistant: grown,
  completed: (turn, { message = "", outcome, reason = null, hint = null, completed_at = null }) => ({
    ...turn, state: "completed", status: null, reply: null, points: 0, message, outcome, reason, hint, completed_at,
  }),
  recorded: (turn, { type: _, ...facts }) => ({ ...turn, ...facts, recorded: true }),
};

/** The quiet line that stands for a thought. */
export const THINKING = "Thinking…";

function grown(turn, { content, delta, offset = 0 }) {
  if (delta === undefined) return { ...turn, status: null, reply: content, points: points(content) };
  const reply = turn.reply ?? "";
  if (offset > turn.points) return null;
  const kept = offset === turn.points ? reply : reply.slice(0, units(reply, offset));
  return { ...turn, status: null, reply: kept + delta, points: offset + points(delta) };
}

function sending(chat, { key, text }) {
  if (chat.unsent.some((it) => it.key === key)) return unsent(chat, key, { state: "sending", why: undefined });
  if (chat.turns.some((turn) => turn.key === key)) return chat;
  return { ...chat, unsent: [...chat.unsent, { key, text, state: "sending" }] };
}

function accepted(chat, { key, turn }) {
  if (place(chat, turn) >= 0) return { ...chat, unsent: chat.unsent.filter((it) => it.key !== key) };
  return unsent(chat, key, { state: "accepted", turn });
}

function unsent(chat, key, change) {
  return { ...chat, unsent: chat.unsent.map((it) => (it.key === key ? { ...it, ...change } : it)) };
}

function earlier(chat, { turns, earlier }) {
  const first = chat.turns[0]?.turn ?? Infinity;
  return { ...chat, turns: [...turns.filter((turn) => turn.turn < first).map(whole), ...chat.turns], earlier };
}

function whole(turn) {
  return {
    by: "person", status: null, reply: null, hint: null, message: "", outcome: null, reason: null, recorded: false,
    steps: 0, ...turn, points: turn.reply ? points(turn.reply) : 0,
  };
}

/** Where a turn stands in the list, or -1. It is asked for the newest ones. */
function place(chat, number) {
  return chat.turns.findLastIndex((turn) => turn.turn === number);
}

/** How many code points a text has. */
export function points(text) {
  let count = text.length;
  for (let i = 1; i < text.length; i++) if (pair(text, i)) count--;
  return count;
}

/** The index in UTF-16 units of a code point. */
function units(text, point) {
  let at = 0;
  for (; point > 0 && at < text.length; point--) at += pair(text, at + 1) ? 2 : 1;
  return at;
}

/** Whether the unit at an index is the second half of a character. */
function pair(text, i) {
  const low = text.charCodeAt(i);
  if (!(low >= 0xdc00 && low <= 0xdfff)) return false;
  const high = text.charCodeAt(i - 1);
  return high >= 0xd800 && high <= 0xdbff;
}
