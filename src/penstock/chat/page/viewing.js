// The chat that is open: its stream, folded by the reducer, and the messages that are on their way.

import { saySoon, say, sayNow } from "./announce.js";
import { api } from "./api.js";
import { outbox } from "./outbox.js";
import { EMPTY, reduce, THINKING } from "./reducer.js";
import { ChatStream } from "./stream.js";
import { harmless, line } from "./text.js";
import { askWords, outcomeWords } from "./words.js";

const LATE_MS = 3000; // a cut this short is not worth a word
const MAX_SAID = 1500; // characters of a reply that are read out; the rest is there to be read

export class Viewing {
  chat = EMPTY;
  /** As `ChatStream` says. */
  line = "connecting";
  /** The line has been cut for so long that a person is told. */
  late = false;
  #stream; #onChange; #lateTimer;
  #drawing = false;
  #over = false;

  constructor(id, onChange) {
    this.id = id;
    this.#onChange = onChange;
    this.chat = { ...EMPTY, unsent: outbox.of(id) };
    outbox.watch(id, (frame) => this.#sent(frame));
    this.#stream = new ChatStream(api.eventsUrl(id), {
      onFrame: (frame) => this.#frame(frame),
      onState: (state) => this.#lineIs(state),
    });
  }

  close() {
    this.#over = true;
    clearTimeout(this.#lateTimer);
    outbox.unwatch(this.id);
    this.#stream.close();
  }

  /** How often in a row the stream could not be had. */
  get attempts() {
    return this.#stream.attempts;
  }

  #sent(frame) {
    this.#take(frame);
    if (frame.type === "local_failed") sayNow(`Your message was not sent. ${frame.why}`);
  }

  /** Load the turns before those that are shown. */
  async earlier() {
    const before = this.chat.turns[0]?.turn;
    const { turns, earlier = false } = await api.turns(this.id, before);
    if (this.chat.turns[0]?.turn === before) this.#take({ type: "local_earlier", turns, earlier });
  }

  #frame(frame) {
    this.#announce(frame);
    this.#take(frame);
    return this.chat.broken ? "again" : undefined;
  }

  #take(frame) {
    const before = this.chat;
    this.chat = reduce(before, frame);
    if (this.chat !== before) this.#draw();
  }

  #lineIs(state) {
    const cut = state === "waiting" || state === "connecting";
    if (state === "open") outbox.wake();
    if (!cut) clearTimeout(this.#lateTimer);
    else if (this.line !== "waiting") {
      clearTimeout(this.#lateTimer);
      this.#lateTimer = setTimeout(() => {
        this.late = true;
        this.#draw();
      }, LATE_MS);
    }
    this.late = this.late && cut;
    this.line = state;
    this.#draw();
  }

  /** However many frames came, the page is drawn once for each that the screen shows. */
  #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    const draw = () => {
      this.#drawing = false;
      if (!this.#over) this.#onChange();
    };
    if (document.hidden) setTimeout(draw, 100);
    else requestAnimationFrame(draw);
  }

  #announce(frame) {
    if (frame.type === "streaming" && frame.hint) sayNow(`${askWords(frame.hint.ask)}: ${line(frame.hint.text)}`);
    else if (frame.type === "streaming") saySoon(line(frame.status));
    else if (frame.type === "thinking") saySoon(THINKING);
    else if (frame.type === "final_message_start") saySoon("Writing the reply…");
    else if (frame.type === "completed") {
      const text = harmless(frame.message ?? "").replace(/```[^]*?(```|$)/g, "(code)").replace(/[#*_`|>]+/g, " ").trim();
      const short = text.length > MAX_SAID ? `${text.slice(0, MAX_SAID)} … The reply is longer.` : text;
      const turn = this.chat.turns.find((it) => it.turn === frame.turn);
      const words = outcomeWords({ ...turn, ...frame });
      if (words) sayNow(words);
      if (short) say(`The agent replied: ${short}`);
    }
  }
}
