// One turn of a chat: what was asked, the quiet line, the reply that grows, and then only the reply.

import { api } from "../api.js";
import { Prose } from "../markdown.js";
import { count, duration, harmless, line, money, plural } from "../text.js";
import {
  Boundary, Coded, Component, CopyButton, html, Time, useAct, useEffect, useLayoutEffect, useRef, useState, Wrong,
} from "../ui.js";
import { atLimit, GO_ON, outcomeWords } from "../words.js";
import { Hint } from "./hint.js";

const FOLD_CHARACTERS = 1800; // a prompt longer than that, or with more lines, is folded
const FOLD_LINES = 18;
const AGAIN = new Set(["error", "cancelled", "timed_out", "cut_off", "empty"]);
const SLOW_MS = 2000; // a turn that nothing is in the way of begins sooner, unless all places for agents are taken

/** Drawn anew only when its turn changed. */
export class TurnView extends Component {
  shouldComponentUpdate(next) {
    return ["turn", "last", "far", "question", "waits"].some((name) => next[name] !== this.props[name]);
  }

  render(props) {
    return html`<${Boundary} of=${props.turn} plain=${() => html`<${PlainTurn} ...${props} />`}><${Turn} ...${props} /><//>`;
  }
}

function Turn({ chat, turn, waits, question, last, far, onEdit, onSend, onLate }) {
  const done = turn.state === "completed";
  const text = done ? turn.message : turn.reply;
  const words = done ? outcomeWords(turn) : "";
  return html`<article class="turn" data-turn=${turn.turn} data-state=${turn.state} data-outcome=${turn.outcome}
      data-far=${far || undefined}
      aria-label=${`Turn ${turn.turn}`}>
    <${Asked} turn=${turn} chat=${chat} waits=${waits} />
    ${turn.state === "queued" && !waits && html`<div class="answer"><p class="status"><span
        class="flow"></span>Sending…</p></div>`}
    ${turn.state !== "queued" && html`<div class="answer" aria-live="off" aria-busy=${!done}>
      ${text ? html`<${Boundary} of=${text} plain=${() => html`<${Plain} text=${text} growing=${!done} />`}><${Markdown}
          text=${text} growing=${!done} cut=${done && turn.outcome !== "ok"} /><//>` : null}
      ${!done && turn.status && !question && html`<p class="status"><span
          class="flow"></span><bdi>${line(turn.status)}</bdi></p>`}
      ${question && html`<${Hint} key=${question.id} chat=${chat} hint=${question} ended=${done} onLate=${onLate} />`}
      ${words && html`<p class="outcome" data-outcome=${turn.outcome}><bdi><${Coded} text=${words} /></bdi></p>`}
      ${done && html`<${Facts} chat=${chat} turn=${turn} last=${last} onEdit=${onEdit} onSend=${onSend} />`}
    </div>`}
  </article>`;
}

/** A turn that cannot be shown as it should be: its words, as they were written. */
function PlainTurn({ turn, far }) {
  const done = turn.state === "completed";
  const text = (done ? turn.message : turn.reply) ?? "";
  return html`<article class="turn" data-turn=${turn.turn} data-state=${turn.state} data-outcome=${turn.outcome}
      data-far=${far || undefined} data-plain aria-label=${`Turn ${turn.turn}`}>
    <div class="asked"><p class="prompt" dir="auto">${harmless(turn.prompt)}</p></div>
    ${turn.state !== "queued" && html`<div class="answer" aria-busy=${!done}>
      <${Plain} text=${text} growing=${!done} />
    </div>`}
  </article>`;
}

function Plain({ text, growing }) {
  return html`<div class="prose reply" data-growing=${growing || undefined}><p data-raw dir="auto">${harmless(text)}</p></div>`;
}

/** `cut`: it ends where it was cut off, so its end may be half written for good. */
function Markdown({ text, growing, cut }) {
  const root = useRef(null);
  const prose = useRef(null);
  useLayoutEffect(() => {
    prose.current ??= new Prose(root.current);
    prose.current.show(text, growing || cut, !growing);
  }, [text, growing, cut]);
  useLayoutEffect(() => () => prose.current.close(), []);
  return html`<div class="prose reply" ref=${root} data-growing=${growing || undefined}></div>`;
}

function Asked({ turn, chat, waits }) {
  if (turn.by === "heartbeat") {
    return html`<details class="beat">
        <summary><span class="beat-mark"
            aria-hidden="true"></span>Heartbeat<${Time} at=${turn.asked_at} /></summary>
        <p class="prompt" dir="auto">${harmless(turn.prompt)}</p>
      </details>
      ${turn.state === "queued" && html`<${Queued} turn=${turn} chat=${chat} waits=${waits} />`}`;
  }
  return html`<div class="asked" data-by=${turn.by}>
    <h2 class="offscreen">${turn.by === "answer" ? "Your answer" : "You"}</h2>
    <div class="said"><${Time} at=${turn.asked_at} /><${Prompt} text=${turn.prompt} /></div>
    ${turn.state === "queued" && html`<${Queued} turn=${turn} chat=${chat} waits=${waits} />`}
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

/** `waits`: for another turn. One that does not, and yet does not begin, waits for a place among all agents. */
function Queued({ turn, chat, waits }) {
  const [busy, error, run] = useAct();
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), SLOW_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!waits && !slow) return null;
  return html`<div class="queued"><span>${waits ? "Waits for its turn" : "Waits to begin"}</span>
    <button type="button" class="quiet" disabled=${busy}
        onClick=${(event) => (event.preventDefault(), run(() => api.stop(chat, turn.turn)))}>Take back</button>
    <${Wrong}>${error}<//></div>`;
}

/** A message that the chat's log does not have yet. */
export function Unsent({ it, onAgain, onEdit }) {
  const edit = html`<button type="button" class="quiet" onClick=${() => onEdit(it)}>Edit</button>`;
  return html`<article class="turn unsent" data-state=${it.state} data-key=${it.key} aria-label="Your message">
    <div class="asked">
      <div class="said"><${Prompt} text=${it.text} /></div>
      ${it.state === "waiting" && html`<div class="queued"><span>Waits for the connection</span>${edit}</div>`}
      ${it.state === "failed" && html`<div class="not-sent" role="alert"><p class="wrong">Not sent. ${it.why}</p>
        <button type="button" class="quiet" onClick=${() => onAgain(it)}>Try again</button>${edit}</div>`}
    </div>
    ${(it.state === "sending" || it.state === "accepted") && html`<div class="answer"><p class="status"><span class="flow"></span>Sending…</p></div>`}
  </article>`;
}

function Facts({ chat, turn, last, onEdit, onSend }) {
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
    ${turn.completed_at && html`<${Time} at=${turn.completed_at} />`}
    ${turn.message && html`<${CopyButton} text=${turn.message} label="Copy the reply" />`}
    ${last && turn.by !== "heartbeat" && AGAIN.has(turn.outcome) && html`<button type="button" class="quiet"
        onClick=${() => onEdit(turn.prompt)}>Ask again</button>`}
    ${last && atLimit(turn) && html`<button type="button" class="quiet"
        onClick=${() => onSend(GO_ON)}>Go on</button>`}
  </footer>`;
}
