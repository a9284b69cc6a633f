// The chat that is open: its stream, folded by the reducer, and the messages that are on their way.

import { announce, announceNow, announceStatus } from "../components/live-region.js";
import { api } from "../net/api.js";
import { outbox } from "../net/outbox.js";
import { ChatStream } from "../net/stream.js";
import { outcomeText, questionTitle } from "../text/copy.js";
import { harmless, oneLine } from "../text/format.js";
import { EMPTY, firstTurn, reduce, THINKING } from "./reducer.js";

/** @import { CompletedFrame, Frame } from "../net/wire.js" */
/** @import { Connection } from "../net/stream.js" */
/** @import { LocalFrame } from "./reducer.js" */

const LATE_MS = 3000; // a connection that is lost for less is not worth a word
const MAX_ANNOUNCED = 1500; // characters of a reply that are read out; the rest is there to be read
const HIDDEN_DRAW_MS = 100; // a page that nobody sees gets no animation frames

export class ChatSession {
  /** @type {import("./reducer.js").Chat} */
  chat = EMPTY;
  /** @type {Connection} */
  connection = "connecting";
  /** The connection has been lost for so long that a person is informed. */
  isLate = false;
  /** Name by which what is announced of it begins, if another chat is announced too. */
  speaker = "";
  #stream;
  #onChange;
  /** @type {Timer} */
  #lateTimer;
  #isDrawing = false;
  #isClosed = false;

  /**
   * @param {string} id
   * @param {() => void} onChange
   * @param {string} [name]  By which the stream has it, if it is not a chat.
   */
  constructor(id, onChange, name = id) {
    this.id = id;
    this.#onChange = onChange;
    this.chat = { ...EMPTY, unsent: outbox.of(id) };
    outbox.watch(id, this.#messageChanged);
    this.#stream = new ChatStream(name, {
      onFrame: (frame) => this.#received(frame),
      onState: (state) => this.#connectionChanged(state),
    });
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#lateTimer);
    outbox.unwatch(this.id, this.#messageChanged);
    this.#stream.close();
  }

  /** How many attempts to connect have failed in a row. */
  get attempts() {
    return this.#stream.attempts;
  }

  /** Why the server serves no stream now, if it says so. */
  get reason() {
    return this.#stream.reason;
  }

  /** Load the turns before those that are shown. */
  async loadEarlier() {
    const before = firstTurn(this.chat);
    const { turns, earlier = false } = await api.turns(this.id, Number.isFinite(before) ? before : undefined);
    if (firstTurn(this.chat) === before) this.#apply({ type: "local_earlier", turns, earlier });
  }

  #messageChanged = (/** @type {LocalFrame} */ frame) => {
    this.#apply(frame);
    if (frame.type === "local_failed") announceNow(this.#said(`Your message was not sent. ${frame.why}`));
  };

  /**
   * @param {Frame} frame
   * @returns {"snapshot" | undefined}
   */
  #received(frame) {
    this.#announce(frame);
    this.#apply(frame);
    return this.chat.broken ? "snapshot" : undefined;
  }

  /** @param {Frame | LocalFrame} frame */
  #apply(frame) {
    const before = this.chat;
    this.chat = reduce(before, frame);
    if (this.chat !== before) this.#draw();
  }

  /** @param {Connection} state */
  #connectionChanged(state) {
    const isLost = state === "waiting" || state === "connecting";
    if (state === "open") {
      outbox.wake();
      this.#apply({ type: "store", works: true }); // a server that cannot keep anything says so anew
    }
    if (!isLost) clearTimeout(this.#lateTimer);
    else if (this.connection !== "waiting") {
      clearTimeout(this.#lateTimer);
      this.#lateTimer = setTimeout(() => {
        this.isLate = true;
        this.#draw();
      }, LATE_MS);
    }
    this.isLate = this.isLate && isLost;
    this.connection = state;
    this.#draw();
  }

  /** However many frames came, the page is drawn once for each picture of the screen. */
  #draw() {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    const draw = () => {
      this.#isDrawing = false;
      if (!this.#isClosed) this.#onChange();
    };
    if (document.hidden) setTimeout(draw, HIDDEN_DRAW_MS);
    else requestAnimationFrame(draw);
  }

  /** @param {Frame} frame */
  #announce(frame) {
    if (frame.type === "streaming") {
      const { question } = frame;
      if (question) announceNow(this.#said(`${questionTitle(question.ask)}: ${oneLine(question.text)}`));
      else announceStatus(this.#said(oneLine(frame.status)));
    } else if (frame.type === "thinking") announceStatus(this.#said(THINKING));
    else if (frame.type === "final_message_start") announceStatus(this.#said("Writing the reply…"));
    else if (frame.type === "completed") this.#announceEnd(frame);
  }

  /** @param {CompletedFrame} frame */
  #announceEnd(frame) {
    const turn = this.chat.turns.find((it) => it.turn === frame.turn);
    const outcome = outcomeText({ ...turn, ...frame });
    if (outcome) announceNow(this.#said(outcome));
    const text = readable(frame.message ?? "");
    if (text) announce(this.#said(`The agent replied: ${text}`));
  }

  /** @param {string} text */
  #said(text) {
    return this.speaker ? `${this.speaker}: ${text}` : text;
  }
}

/**
 * A reply in Markdown as it is read out: without its code and its marks, and not without an end.
 *
 * @param {string} message
 */
function readable(message) {
  const text = harmless(message)
    .replace(/```[^]*?(```|$)/g, "(code)")
    .replace(/[#*_`|>]+/g, " ")
    .trim();
  return text.length > MAX_ANNOUNCED ? `${text.slice(0, MAX_ANNOUNCED)} … The reply is longer.` : text;
}
