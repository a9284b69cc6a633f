// One turn of a chat: what was asked, the quiet line, the reply that grows, and then only the reply.

import { api } from "../api.js";
import { Prose } from "../markdown.js";
import { clock, count, duration, harmless, line, money, plural } from "../text.js";
import { Component, CopyButton, html, useAct, useLayoutEffect, useRef, useState, Wrong } from "../ui.js";
import { outcomeWords } from "../words.js";
import { Hint } from "./hint.js";

const FOLD_CHARACTERS = 1800; // a prompt longer than that, or with more lines, is folded
const FOLD_LINES = 18;
const AGAIN = new Set(["error", "cancelled", "timed_out", "cut_off", "empty"]);

/** Drawn anew only when its turn changed. */
export class TurnView extends Component {
  shouldComponentUpdate(next) {
    const { turn, last, far, question } = this.props;
    return next.turn !== turn || next.last !== last || next.far !== far || next.question !== question;
  }

  render({ chat, turn, question, last, far, onEdit }) {
    const done = turn.state === "completed";
    const text = done ? turn.message : turn.reply;
    const words = done ? outcomeWords(turn) : "";
    return html`<article class="turn" data-turn=${turn.turn} data-state=${turn.state} data-outcome=${turn.outcome}
        data-far=${far || undefined}
        aria-label=${`Turn ${turn.turn}`}>
      <${Asked} turn=${turn} chat=${chat} />
      ${turn.state !== "queued" && html`<div class="answer" aria-live="off" aria-busy=${!done}>
        ${text ? html`<${Markdown} text=${text} growing=${!done} cut=${done && turn.outcome !== "ok"} />` : null}
        ${!done && turn.status && !question && html`<p class="status"><span
            class="flow"></span><bdi>${line(turn.status)}</bdi></p>`}
        ${question && html`<${Hint} key=${question.id} chat=${chat} hint=${question} ended=${done} />`}
        ${words && html`<p class="outcome" data-outcome=${turn.outcome}><bdi>${words}</bdi></p>`}
        ${done && html`<${Facts} chat=${chat} turn=${turn} last=${last} onEdit=${onEdit} />`}
      </div>`}
    </article>`;
  }
}

/** `cut`: it ends where it was cut off, so its end may be half written for good. */
function Markdown({ text, growing, cut }) {
  const root = useRef(null);
  const prose = useRef(null);
  useLayoutEffect(() => {
    prose.current ??= new Prose(root.current);
    prose.current.show(text, growing || cut);
  }, [text, growing, cut]);
  return html`<div class="prose reply" ref=${root} data-growing=${growing || undefined}></div>`;
}

function Asked({ turn, chat }) {
  if (turn.by === "heartbeat") {
    return html`<details class="beat">
        <summary><span class="beat-mark"
            aria-hidden="true"></span>Heartbeat<time>${clock(turn.asked_at)}</time></summary>
        <p class="prompt" dir="auto">${harmless(turn.prompt)}</p>
      </details>
      ${turn.state === "queued" && html`<${Queued} turn=${turn} chat=${chat} />`}`;
  }
  return html`<div class="asked" data-by=${turn.by}>
    <h2 class="offscreen">${turn.by === "answer" ? "Your answer" : "You"}</h2>
    <${Prompt} text=${turn.prompt} />
    ${turn.state === "queued" && html`<${Queued} turn=${turn} chat=${chat} />`}
  </div>`;
}

function Prompt({ text }) {
  const [open, setOpen] = useState(false);
  const shown = harmless(text);
  const long = shown.length > FOLD_CHARACTERS || shown.split("\n").length > FOLD_LINES;
  return html`<div class="prompt-box">
    <p class=${`prompt ${long && !open ? "folded" : ""}`} dir="auto">${shown}</p>
    ${long && html`<button type="button" class="quiet" aria-expanded=${open}
        onClick=${() => setOpen(!open)}>${open ? "Show less" : "Show all"}</button>`}
  </div>`;
}

function Queued({ turn, chat }) {
  const [busy, error, run] = useAct();
  return html`<div class="queued"><span>Waits for its turn</span>
    <button type="button" class="quiet" disabled=${busy}
        onClick=${(event) => (event.preventDefault(), run(() => api.stop(chat, turn.turn)))}>Take back</button>
    <${Wrong}>${error}<//></div>`;
}

/** A message that the chat's log does not have yet. */
export function Unsent({ it, onAgain, onEdit }) {
  return html`<article class="turn unsent" data-state=${it.state} data-key=${it.key} aria-label="Your message">
    <div class="asked">
      <${Prompt} text=${it.text} />
      ${it.state === "failed" && html`<div class="not-sent" role="alert"><p class="wrong">Not sent. ${it.why}</p>
        <button type="button" class="quiet" onClick=${() => onAgain(it)}>Try again</button>
        <button type="button" class="quiet" onClick=${() => onEdit(it)}>Edit</button></div>`}
    </div>
    ${it.state !== "failed" && html`<div class="answer"><p class="status"><span class="flow"></span>Sending…</p></div>`}
  </article>`;
}

function Facts({ chat, turn, last, onEdit }) {
  const took = turn.duration_ms ?? (turn.completed_at && turn.began_at ? turn.completed_at - turn.began_at : null);
  const steps = turn.steps ? plural(turn.steps, "step") : "Record";
  const { usage } = turn;
  const [input, output] = [usage?.input_tokens ?? 0, usage?.output_tokens ?? 0];
  const tokens = input || output ? `${count(input)} in, ${count(output)} out` : "";
  const cost = money(turn.cost_usd ?? usage?.cost_usd ?? 0);
  return html`<footer class="facts">
    ${turn.began_at !== null && turn.began_at !== undefined && html`<a
        href=${`/chats/${encodeURIComponent(chat)}/turns/${turn.turn}`} class="to-record">${took === null ? steps : `${steps}, ${duration(took)}`}</a>`}
    ${tokens && html`<span title="Tokens">${tokens}</span>`}
    ${cost && html`<span>${cost}</span>`}
    ${turn.completed_at && html`<time
        dateTime=${new Date(turn.completed_at).toISOString()}>${clock(turn.completed_at)}</time>`}
    ${turn.message && html`<${CopyButton} text=${turn.message} label="Copy the reply" />`}
    ${last && turn.by !== "heartbeat" && AGAIN.has(turn.outcome) && html`<button type="button" class="quiet"
        onClick=${() => onEdit(turn.prompt)}>Ask again</button>`}
  </footer>`;
}
