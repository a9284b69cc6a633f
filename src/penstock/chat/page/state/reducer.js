// A chat as this page knows it: (state, frame) → state, and nothing else. No DOM, no clock, no network.
//
// A turn that a frame does not change stays the same object, so what shows it need not look again. The same frame
// twice does no harm: after a cut, what stood before the last number comes again.

/** @import { CompletedFrame, FinalizedFrame, Frame, SnapshotFrame, StreamingFrame, TurnData } from "../net/wire.js" */

/**
 * @typedef {TurnData & Required<Pick<TurnData, "status" | "reply" | "question" | "message" | "outcome" | "reason"
 *   | "finalized" | "steps">> & { points: number }} Turn
 *   `points`: the length of `reply` in code points.
 * @typedef {object} Unsent  A message of this page that the server does not have yet.
 * @property {string} key
 * @property {string} text
 * @property {Api.AttachedFile[]} [attachments]
 * @property {"sending" | "waiting" | "accepted" | "failed"} state
 * @property {number} [turn]
 * @property {string} [why]
 * @typedef {object} Chat
 * @property {boolean} known  A snapshot came.
 * @property {number} number
 * @property {Turn[]} turns
 * @property {boolean} earlier  There are turns before these.
 * @property {boolean} deleted
 * @property {Api.StoreChanged | null} unkept  Why the server cannot keep anything now; null if it can.
 * @property {boolean} broken  A frame did not fit, and only a new snapshot helps.
 * @property {Unsent[]} unsent
 * @property {Stopping | null} stopping  A stop that the server does not have yet.
 * @property {Api.RunView | null} run  The document or loop whose turns these are; null if they are of a chat.
 * @property {Api.LoopView | null} loop
 * @typedef {{ turn: number, why?: string }} Stopping  It waits for the connection, or the server did not do it.
 * @typedef {{ type: "local_sending", key: string, text: string, attachments?: Api.AttachedFile[] }
 *   | { type: "local_accepted", key: string, turn: number }
 *   | { type: "local_waiting" | "local_dropped", key: string }
 *   | { type: "local_failed", key: string, why: string }
 *   | { type: "local_stopping", stopping: Stopping | null }
 *   | { type: "local_earlier", turns: TurnData[], earlier: boolean }} LocalFrame
 *   A frame of the page's own.
 */

/** @type {Chat} */
export const EMPTY = Object.freeze({
  known: false,
  number: 0,
  turns: [],
  earlier: false,
  deleted: false,
  unkept: null,
  broken: false,
  unsent: [],
  stopping: null,
  run: null,
  loop: null,
});

/**
 * The chat after a frame of the stream, or after one of the page's own.
 *
 * @param {Chat} chat
 * @param {Frame | LocalFrame} frame
 * @returns {Chat}
 */
export function reduce(chat, frame) {
  switch (frame.type) {
    case "snapshot":
      return snapshot(chat, frame);
    case "deleted":
      return { ...chat, deleted: true };
    case "goodbye":
      return chat;
    case "store":
      return frame.works && !chat.unkept ? chat : { ...chat, unkept: frame.works ? null : frame };
    case "run":
      return { ...chat, run: frame.run, loop: frame.loop ?? null };
    case "prompted":
      return prompted(chat, frame);
    case "held":
      return hold(chat, frame);
    case "queue":
      return reorder(chat, frame);
    case "local_sending":
      return sending(chat, frame);
    case "local_accepted":
      return accepted(chat, frame);
    case "local_waiting":
      return changeUnsent(chat, frame.key, { state: "waiting" });
    case "local_failed":
      return changeUnsent(chat, frame.key, { state: "failed", why: frame.why });
    case "local_dropped":
      return { ...chat, unsent: chat.unsent.filter((it) => it.key !== frame.key) };
    case "local_stopping":
      return { ...chat, stopping: frame.stopping };
    case "local_earlier":
      return earlier(chat, frame);
    default:
      return changeTurn(chat, frame);
  }
}

/**
 * The turn that runs, or undefined.
 *
 * @param {Chat} chat
 */
export function running(chat) {
  return chat.turns.findLast((turn) => turn.state === "running");
}

/**
 * Whether another turn has to end before this one begins.
 *
 * @param {Chat} chat
 * @param {Turn} turn
 */
export function waits(chat, turn) {
  return turn.state === "queued" && chat.turns.find((it) => it.state !== "completed") !== turn;
}

/**
 * The turns that wait, in the order in which they begin.
 *
 * @param {Chat} chat
 */
export const queue = (chat) => chat.turns.filter((turn) => turn.state === "queued");

/**
 * The numbers of the turns that wait after one of them moved by so many places; null if it cannot.
 *
 * @param {Turn[]} queue
 * @param {Turn} turn
 * @param {number} by
 */
export function movedBy(queue, turn, by) {
  const numbers = queue.map((it) => it.turn);
  const from = numbers.indexOf(turn.turn);
  const to = from + by;
  if (from < 0 || to < 0 || to >= numbers.length) return null;
  return numbers.toSpliced(from, 1).toSpliced(to, 0, turn.turn);
}

/**
 * The turns that wait until a person releases them, as the turn before them was stopped.
 *
 * @param {Chat} chat
 */
export function held(chat) {
  return chat.turns.filter((turn) => turn.held && turn.state === "queued");
}

/**
 * Whether a turn was taken back before it began: nothing happened, and nothing of it is shown.
 *
 * @param {Pick<Turn, "state" | "outcome" | "began_at">} turn
 */
export function isTakenBack({ state, outcome, began_at: began }) {
  return state === "completed" && outcome === "cancelled" && typeof began !== "number";
}

/**
 * The number of the turn of which this one became a part, as its agent took the message while it worked; or undefined.
 *
 * @param {Pick<Turn, "steer">} turn
 */
export function wholeOf({ steer }) {
  return steer?.state === "taken" ? steer.into : undefined;
}

/**
 * The messages that the agent of a turn took while it worked.
 *
 * @param {Chat} chat
 * @param {Turn} turn
 */
export function partsOf(chat, { turn }) {
  return chat.turns.filter((it) => wholeOf(it) === turn);
}

/**
 * The question that waits for a person, with its turn, or null. One of a completed turn waits until the next turn.
 *
 * @param {Chat} chat
 */
export function openQuestion(chat) {
  const turn = running(chat) ?? chat.turns.at(-1);
  return turn?.question && turn.state !== "queued" ? { turn, question: turn.question } : null;
}

/**
 * @param {Chat} chat
 * @param {SnapshotFrame} frame
 * @returns {Chat}
 */
function snapshot(chat, { number, turns, earlier = false }) {
  const known = turns.map(toTurn);
  const keys = new Set(known.map((turn) => turn.key).filter(Boolean));
  const last = Math.max(0, ...known.map((turn) => turn.turn));
  // What was accepted is in the snapshot, or was removed since.
  const unsent = chat.unsent.filter((it) => !keys.has(it.key) && !(it.turn && it.turn <= last));
  const { unkept, run, loop, stopping } = chat;
  return { ...EMPTY, known: true, number, turns: known, earlier, unsent, stopping, unkept, run, loop };
}

/**
 * @param {Chat} chat
 * @param {Api.PromptedFrame} frame
 * @returns {Chat}
 */
function prompted(chat, { type: _, ...turn }) {
  const left = chat.unsent.filter((it) => it.key !== turn.key && it.turn !== turn.turn);
  const rest = left.length === chat.unsent.length ? chat : { ...chat, unsent: left };
  if (indexOf(chat, turn.turn) >= 0) return rest;
  return { ...rest, turns: [...chat.turns, toTurn({ state: "queued", ...turn })] };
}

/**
 * The order in which the turns that wait will begin.
 *
 * @param {Chat} chat
 * @param {Api.QueueFrame} frame
 * @returns {Chat}
 */
function reorder(chat, { turns }) {
  const place = (/** @type {Turn} */ turn) => turns.indexOf(turn.turn);
  const waiting = queue(chat).toSorted((a, b) => place(a) - place(b));
  return { ...chat, turns: [...chat.turns.filter((it) => it.state !== "queued"), ...waiting] };
}

/**
 * The turns with one of them changed. One that waits no more stands before those that still do, or before the turn of which
 * it became a part.
 *
 * @param {Turn[]} turns
 * @param {number} index
 * @param {Turn} next
 */
function withTurn(turns, index, next) {
  if (turns[index].state !== "queued" || next.state === "queued") return turns.with(index, next);
  const others = turns.toSpliced(index, 1);
  const whole = wholeOf(next);
  const first = others.findIndex((it) => (whole === undefined ? it.state === "queued" : it.turn === whole));
  return others.toSpliced(first < 0 ? others.length : first, 0, next);
}

/**
 * @param {Chat} chat
 * @param {Api.HeldTurns} frame
 * @returns {Chat}
 */
function hold(chat, { turns }) {
  const changed = (/** @type {Turn} */ turn) => Boolean(turn.held) !== turns.includes(turn.turn);
  return {
    ...chat,
    turns: chat.turns.map((it) => (it.state === "queued" && changed(it) ? { ...it, held: !it.held } : it)),
  };
}

/**
 * @param {Chat} chat
 * @param {Exclude<Frame, SnapshotFrame | Api.PromptedFrame | Api.HeldTurns | Api.QueueFrame | Api.RunChanged | Api.Deleted
 *   | Api.StoreChanged | Api.Goodbye>} frame
 * @returns {Chat}
 */
function changeTurn(chat, frame) {
  if (!Object.hasOwn(CHANGES, frame.type)) return chat; // a kind that a newer server has
  const index = indexOf(chat, frame.turn);
  if (index < 0) return OVER.has(frame.type) ? chat : { ...chat, broken: true };
  const turn = chat.turns[index];
  if (turn.state === "completed" && frame.type !== "completed" && !OVER.has(frame.type)) return chat;
  const change = /** @type {(turn: Turn, frame: any) => Turn | null} */ (CHANGES[frame.type]);
  const next = change(turn, frame);
  if (next === null) return { ...chat, broken: true };
  return { ...chat, turns: withTurn(chat.turns, index, next) };
}

const OVER = new Set(["finalized", "undone"]); // frames of turns that are over, which may not be here any more

const CHANGES = {
  edited,
  steer: steered,
  steerable,
  streaming,
  thinking,
  plan: planned,
  final_message_start: replyBegins,
  assistant,
  completed,
  finalized,
  undone,
};

/**
 * @param {Turn} turn
 * @param {Api.EditedFrame} frame
 * @returns {Turn}
 */
function edited(turn, { prompt, edits }) {
  return { ...turn, prompt, edits };
}

/**
 * @param {Turn} turn
 * @param {Api.SteerFrame} frame
 * @returns {Turn}
 */
function steered(turn, { steer }) {
  return { ...turn, steer };
}

/**
 * @param {Turn} turn
 * @returns {Turn}
 */
function steerable(turn) {
  return { ...turn, steerable: true };
}

/** The quiet line that stands for a thought. */
export const THINKING = "Thinking…";

/**
 * @param {Turn} turn
 * @param {StreamingFrame} frame
 * @returns {Turn}
 */
function streaming(turn, { status, question = null, began_at = turn.began_at }) {
  return { ...turn, state: "running", status, question, began_at };
}

/**
 * The words of a thought are shown only in the details of the turn.
 *
 * @param {Turn} turn
 * @returns {Turn}
 */
function thinking(turn) {
  return { ...turn, status: THINKING };
}

/**
 * @param {Turn} turn
 * @param {Api.PlanFrame} frame
 * @returns {Turn}
 */
function planned(turn, { done = 0, all = 0 }) {
  return { ...turn, plan: all ? { done, all } : null };
}

/**
 * @param {Turn} turn
 * @returns {Turn}
 */
function replyBegins(turn) {
  return { ...turn, status: null, reply: "", points: 0 };
}

/**
 * @param {Turn} turn
 * @param {{ content?: string, delta?: string, offset?: number }} frame
 * @returns {Turn | null}
 */
function assistant(turn, { content = "", delta, offset = 0 }) {
  if (delta === undefined) return { ...turn, status: null, reply: content, points: points(content) };
  const reply = turn.reply ?? "";
  if (offset > turn.points) return null;
  const kept = offset === turn.points ? reply : reply.slice(0, units(reply, offset));
  return { ...turn, status: null, reply: kept + delta, points: offset + points(delta) };
}

/**
 * @param {Turn} turn
 * @param {CompletedFrame} frame
 * @returns {Turn}
 */
function completed(turn, { type: _, message = "", reason = null, question = null, ...facts }) {
  const ended = {
    ...turn,
    state: /** @type {const} */ ("completed"),
    status: null,
    reply: null,
    plan: null,
    points: 0,
  };
  return { ...ended, ...facts, message, reason, question };
}

/**
 * @param {Turn} turn
 * @param {FinalizedFrame} frame
 * @returns {Turn}
 */
function finalized(turn, { type: _, ...facts }) {
  return { ...turn, ...facts, finalized: true };
}

/**
 * @param {Turn} turn
 * @param {Api.UndoneFrame} frame
 * @returns {Turn}
 */
function undone(turn, { undone = null }) {
  return { ...turn, undone };
}

/**
 * @param {Chat} chat
 * @param {{ key: string, text: string, attachments?: Api.AttachedFile[] }} message
 * @returns {Chat}
 */
function sending(chat, { key, text, attachments }) {
  if (chat.unsent.some((it) => it.key === key)) return changeUnsent(chat, key, { state: "sending", why: undefined });
  if (chat.turns.some((turn) => turn.key === key)) return chat;
  return { ...chat, unsent: [...chat.unsent, { key, text, ...(attachments && { attachments }), state: "sending" }] };
}

/**
 * @param {Chat} chat
 * @param {{ key: string, turn: number }} message
 * @returns {Chat}
 */
function accepted(chat, { key, turn }) {
  if (indexOf(chat, turn) >= 0) return { ...chat, unsent: chat.unsent.filter((it) => it.key !== key) };
  return changeUnsent(chat, key, { state: "accepted", turn });
}

/**
 * @param {Chat} chat
 * @param {string} key
 * @param {Partial<Unsent>} change
 * @returns {Chat}
 */
function changeUnsent(chat, key, change) {
  return { ...chat, unsent: chat.unsent.map((it) => (it.key === key ? { ...it, ...change } : it)) };
}

/**
 * @param {Chat} chat
 * @param {{ turns: TurnData[], earlier: boolean }} page
 * @returns {Chat}
 */
function earlier(chat, { turns, earlier }) {
  const first = firstTurn(chat);
  return { ...chat, turns: [...turns.filter((turn) => turn.turn < first).map(toTurn), ...chat.turns], earlier };
}

/**
 * The lowest number of a turn that is known; Infinity without one.
 *
 * @param {Chat} chat
 */
export const firstTurn = (chat) => Math.min(...chat.turns.map((turn) => turn.turn));

/**
 * A turn with the values that stand for what the server leaves out.
 *
 * @param {TurnData} turn
 * @returns {Turn}
 */
function toTurn(turn) {
  const running = { status: null, reply: null, question: null };
  const ended = { message: "", outcome: null, reason: null, finalized: false, steps: 0 };
  return { ...running, ...ended, ...turn, points: turn.reply ? points(turn.reply) : 0 };
}

/**
 * The index of a turn, or -1. The search begins at the newest, which most frames are of.
 *
 * @param {Chat} chat
 * @param {number} number
 */
function indexOf(chat, number) {
  return chat.turns.findLastIndex((turn) => turn.turn === number);
}

/**
 * The length of a text in code points.
 *
 * @param {string} text
 */
export function points(text) {
  let count = text.length;
  for (let i = 1; i < text.length; i++) if (isLowHalf(text, i)) count--;
  return count;
}

/**
 * The index in UTF-16 units of a code point.
 *
 * @param {string} text
 * @param {number} point
 */
function units(text, point) {
  let at = 0;
  for (; point > 0 && at < text.length; point--) at += isLowHalf(text, at + 1) ? 2 : 1;
  return at;
}

/**
 * Whether the unit at an index is the second half of a character.
 *
 * @param {string} text
 * @param {number} i
 */
function isLowHalf(text, i) {
  const low = text.charCodeAt(i);
  if (!(low >= 0xdc00 && low <= 0xdfff)) return false;
  const high = text.charCodeAt(i - 1);
  return high >= 0xd800 && high <= 0xdbff;
}
