// A loop: its rounds with what the agents did, the checks and the changes, and how to stop it and write to it.

import { Diffs } from "../components/diff.js";
import { Coded, html, Status, useAsync, useEffect, useRef, useState, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";
import { decidesAbout, isReader } from "../state/people.js";
import { runPath } from "../state/router.js";
import { bytes, dayAndClock, duration, exitWords, harmless, money, oneLine, plural } from "../text/format.js";
import { ConnectionLost, Latest, useStickToEnd } from "./chat.js";
import { Composer } from "./composer.js";
import { Landing } from "./landing.js";
import { Prompt, TurnView } from "./turn.js";

/** @typedef {import("../state/chat-session.js").ChatSession} ChatSession */
/** @typedef {import("../state/reducer.js").Turn} Turn */
/** @typedef {{ session: ChatSession, run: Api.RunView, loop: Api.LoopView }} Props */

const STOPPED = 130; // the exit status of a loop that was stopped
/** @type {Record<number, string>} */
const OUTCOMES = { 0: "ok", 4: "asks", [STOPPED]: "cancelled" };
const MAX_MESSAGE_BYTES = 100_000; // the server accepts as many characters

/** @type {Record<Api.LoopStepView["kind"], string>} */
const KINDS = {
  tree: "Tree",
  setup: "Setup",
  check: "Check",
  plan: "Plan",
  work: "Work",
  review: "Review",
  judge: "Judge",
  choose: "Chosen",
  merge: "Merge",
  commit: "Commit",
  publish: "Branch",
};

/** @param {Props} props */
export function LoopThread({ session, run, loop }) {
  const [isPinned, setPinned] = useState(true);
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const [pin] = useStickToEnd(run.id, scroller, content, setPinned);
  const isLive = run.state === "running";
  const isOpen = isLive || run.state === "asks";
  return html`
    <div class="thread" ref=${scroller} tabindex="0" role="region" aria-label="Rounds" data-ready=${session.chat.known}>
      <div class="column" ref=${content}>
        <div class="asked">
          <div class="said"><${Prompt} text=${loop.prompt} /></div>
        </div>
        <${Summary} loop=${loop} />
        <${Tasks} loop=${loop} />
        ${[0, ...loop.rounds.map((it) => it.round)].map(
          (number) =>
            html`<${RoundSection} key=${number} session=${session} loop=${loop} number=${number} isLive=${isLive} />`,
        )}
        ${!isLive && html`<${Ending} run=${run} loop=${loop} />`}
        ${isLive && loop.waits_until && html`<${Status}>Waits until ${dayAndClock(loop.waits_until)}<//>`}
        ${isLive && !loop.steps.length && html`<${Status}>Begins…<//>`}
      </div>
    </div>
    <div class="foot">
      ${!isPinned && html`<${Latest} onClick=${pin} />`}
      ${session.isLate && html`<${ConnectionLost} attempts=${session.attempts} reason=${session.reason} />`}
      ${isLive && !isReader() && html`<${StopButtons} id=${run.id} isStopping=${loop.is_stopping ?? false} />`}
      ${isOpen && !isReader() && html`<${MessageField} id=${run.id} loop=${loop} isLive=${isLive} pin=${pin} />`}
    </div>
  `;
}

/** @param {{ loop: Api.LoopView }} props */
function Summary({ loop }) {
  const cost = `${loop.is_cost_known ? "" : "≥ "}${money(loop.cost_usd) || "$0"}`;
  const rows = [
    ["Rounds", `${loop.charged_rounds} of ${loop.max_rounds}`],
    ["Cost", loop.max_cost_usd ? `${cost} of ${money(loop.max_cost_usd)}` : cost],
    ["Time", loop.max_ms ? `${duration(loop.ms)} of ${duration(loop.max_ms)}` : duration(loop.ms)],
    ["Branch", loop.branch],
  ];
  return html`<dl class="summary loop-summary">
    ${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${oneLine(value)}</bdi></dd></div>`)}
  </dl>`;
}

/** @param {{ loop: Api.LoopView }} props */
function Tasks({ loop }) {
  const tasks = loop.tasks ?? [];
  if (!tasks.length) return null;
  const statusOf = (/** @type {string} */ task) => (loop.finished_tasks?.includes(task) ? "completed" : "pending");
  return html`<ul class="plan loop-tasks" aria-label="Tasks">
    ${tasks.map(
      (task) =>
        html`<li data-status=${statusOf(task)} dir="auto">
          <span class="offscreen">${statusOf(task)}: </span>${oneLine(task)}
        </li>`,
    )}
  </ul>`;
}

/**
 * A round, or what came before the first one.
 *
 * @param {{ session: ChatSession, loop: Api.LoopView, number: number, isLive: boolean }} props
 */
function RoundSection({ session, loop, number, isLive }) {
  const round = loop.rounds.find((it) => it.round === number);
  const steps = loop.steps.filter((it) => (it.round ?? 0) === number);
  const messages = (loop.messages ?? []).filter((it) => (it.round ?? 0) === number);
  if (!steps.length && !messages.length) return null;
  const facts = round && [round.ms ? duration(round.ms) : "", money(round.cost_usd ?? 0)].filter(Boolean).join(" · ");
  const result = round && (round.is_over || !isLive ? round.result : "under way");
  return html`<section class="loop-round" data-round=${number}>
    <h2>
      ${round ? `Round ${number}` : "Before the first round"}
      ${round && html`<span class="loop-result"><bdi>${oneLine(result)}</bdi></span>`}
      ${facts && html`<span class="loop-facts">${facts}</span>`}
    </h2>
    ${round?.task && html`<p class="loop-task"><bdi>${oneLine(round.task)}</bdi></p>`}
    ${steps.map((step) => html`<${StepEntry} key=${step.step} session=${session} step=${step} isLive=${isLive} />`)}
    ${(round?.candidates ?? []).map(
      (it, i) =>
        html`<${Candidate} key=${`${it.name} ${it.changes}`} id=${session.id} round=${number} number=${i + 1} it=${it} />`,
    )}
    ${round?.has_changes && html`<${RoundChanges} key=${round.commit ?? ""} id=${session.id} number=${number} />`}
    ${messages.map((it, i) => html`<${MessageEntry} key=${`m${i}`} message=${it} />`)}
  </section>`;
}

/** @param {{ session: ChatSession, step: Api.LoopStepView, isLive: boolean }} props */
function StepEntry({ session, step, isLive }) {
  const { turn: number, kind, agent, candidate, text, note, remarks = [] } = step;
  const turn = session.chat.turns.find((it) => it.turn === number);
  const isRunning = step.state === "running" && isLive;
  const state = step.state === "running" && !isLive ? "failed" : step.state;
  const facts = [
    typeof step.ms === "number" && step.ms > 0 && duration(step.ms),
    step.status && exitWords(step.status),
    number && money(step.cost_usd ?? 0),
  ].filter(Boolean);
  const line = html`<span class="step-mark" aria-hidden="true"></span>
    <span class="step-kind">${KINDS[kind]}</span>
    ${candidate && kind !== "work" && html`<bdi class="step-agent">${oneLine(candidate)}</bdi>`}
    <bdi class=${number ? "step-agent" : "step-text"}>${oneLine(number ? (kind === "work" && candidate) || agent : text)}</bdi>
    ${note && html`<bdi class="step-note">${oneLine(note)}</bdi>`}
    <span class="call-facts">${facts.map((it) => html`<span>${it}</span>`)}</span>
    <span class="offscreen">${state}</span>`;
  return html`<div class="loop-step" data-kind=${kind} data-state=${state}>
    ${step.has_output ? html`<${Output} id=${session.id} step=${step.step} line=${line} />` : html`<p class="step-line">${line}</p>`}
    ${turn && html`<${StepTurn} session=${session} turn=${turn} />`}
    ${number && !turn && html`<p class="side-note"><a href=${`${runPath(session.id)}/turns/${number}`}>Details</a></p>`}
    ${isRunning && !number && html`<${Status}>${KINDS[kind]}…<//>`}
    ${
      remarks.length > 0 &&
      html`<ul class="remarks">
        ${remarks.map((it) => html`<li dir="auto">${harmless(it)}</li>`)}
      </ul>`
    }
  </div>`;
}

/** @param {{ session: ChatSession, turn: Turn }} props */
function StepTurn({ session, turn }) {
  return html`<${TurnView}
    chat=${session.id}
    path=${runPath(session.id)}
    turn=${turn}
    waits=${false}
    isLast=${false}
    isFar=${false}
    question=${null}
    resumes=${true}
  />`;
}

/**
 * A command with its output, which is loaded once it is opened.
 *
 * @param {{ id: string, step: number, line: import("preact").ComponentChildren }} props
 */
function Output({ id, step, line }) {
  const [found, error, open] = useLoadedOnce(() => api.stepOutput(id, step));
  return html`<details class="fold" onToggle=${open}>
    <summary class="step-line">${line}</summary>
    ${!found && !error && html`<${Status}>Loading…<//>`}
    ${found?.shortened ? html`<p class="side-note">${bytes(found.shortened)} before this are left out.</p>` : null}
    ${found && html`<pre tabindex="0" role="group" aria-label="Output"><code>${harmless(found.output)}</code></pre>`}
    <${Wrong}>${error}<//>
  </details>`;
}

/** @param {{ id: string, number: number }} props */
function RoundChanges({ id, number }) {
  const [found, error, open] = useLoadedOnce(() => api.roundChanges(id, number));
  const files = found ? plural(found.changes.length + (found.more_changes ?? 0), "file") : "";
  const line = html`<bdi>Changes of this round</bdi><span class="call-facts">${files}</span>`;
  return html`<${Changes} line=${line} found=${found} error=${error} open=${open} />`;
}

/**
 * A candidate of a round with its result, and what it has changed.
 *
 * @param {{ id: string, round: number, number: number, it: Api.LoopCandidateView }} props
 */
function Candidate({ id, round, number, it }) {
  const [found, error, open] = useLoadedOnce(() => api.candidateChanges(id, round, number));
  const facts = [it.changes, it.ms && duration(it.ms), money(it.cost_usd ?? 0)].filter(Boolean);
  const line = html`<span class="step-kind">Candidate</span>
    <bdi class="step-agent">${oneLine(it.name)}</bdi>
    <bdi class="step-note">${oneLine([it.result, it.chosen && `chosen: ${it.chosen}`].filter(Boolean).join(", "))}</bdi>
    <span class="call-facts">${facts.map((fact) => html`<span>${fact}</span>`)}</span>`;
  if (!it.ref) return html`<p class="step-line loop-changes">${line}</p>`;
  return html`<${Changes} line=${line} found=${found} error=${error} open=${open} />`;
}

/** @param {{ line: import("preact").ComponentChildren, found: Api.RoundChanges | null, error: string, open: () => void }} props */
function Changes({ line, found, error, open }) {
  return html`<details class="fold loop-changes" onToggle=${open}>
    <summary class="step-line">${line}</summary>
    ${!found && !error && html`<${Status}>Loading…<//>`}
    ${found && html`<${Diffs} changes=${found.changes} more=${found.more_changes} />`}
    <${Wrong}>${error}<//>
  </details>`;
}

/**
 * What is loaded when it is opened for the first time: the result, what went wrong, and the handler that loads.
 *
 * @template T
 * @param {() => Promise<T>} load
 * @returns {[T | null, string, () => void]}
 */
function useLoadedOnce(load) {
  const [found, setFound] = useState(/** @type {T | null} */ (null));
  const [isBusy, error, run] = useAsync();
  const open = async () => {
    if (found || isBusy) return;
    const loaded = await run(load);
    if (loaded !== undefined) setFound(loaded);
  };
  return [found, error, open];
}

/** @param {{ message: Api.LoopMessageView }} props */
function MessageEntry({ message }) {
  return html`<div class="asked loop-message">
    <div class="said"><${Prompt} text=${message.text} /></div>
    ${!message.is_read && html`<div class="queued"><span>Waits to be read</span></div>`}
  </div>`;
}

/** @param {{ run: Api.RunView, loop: Api.LoopView }} props */
function Ending({ run, loop }) {
  const name = oneLine(run.title);
  const isDone = loop.status === 0;
  const reason = loop.reason ?? "It was interrupted: no process runs it.";
  const next = isDone
    ? `In the terminal: \`penstock loop land ${name}\``
    : `To go on: \`penstock loop resume ${name}\``;
  return html`<div class="loop-end">
    ${loop.question && html`<div class="hint"><h3>The agent asks</h3><p class="hint-text" dir="auto">${harmless(loop.question)}</p></div>`}
    ${loop.plan && html`<h3>The plan waits for you. Answer <code>yes</code>, or say what to change.</h3><ol>${loop.plan.map((it) => html`<li dir="auto">${oneLine(it)}</li>`)}</ol>`}
    <p class="outcome" data-outcome=${OUTCOMES[loop.status ?? STOPPED] ?? "error"}><bdi>${loop.status === undefined ? reason : `Ended: ${oneLine(reason)}`}</bdi></p>
    ${loop.can_land && decidesAbout(run) && html`<${Landing} run=${run} loop=${loop} />`}
    ${loop.landed ? html`<p class="side-note">Its work is in <bdi>${oneLine(loop.landed)}</bdi>.</p>` : html`<p class="side-note"><${Coded} text=${next} /></p>`}
  </div>`;
}

/** @param {{ id: string, isStopping: boolean }} props */
function StopButtons({ id, isStopping }) {
  const [isBusy, error, run] = useAsync();
  const stop = (/** @type {boolean} */ now) => run(() => api.stopRun(id, now));
  return html`<div class="loop-stop">
    ${
      isStopping
        ? html`<span>Ends after this step.</span>`
        : html`<button type="button" class="button" disabled=${isBusy} onClick=${() => stop(false)}>
            Stop after this step
          </button>`
    }
    <button type="button" class="button" disabled=${isBusy} onClick=${() => stop(true)}>Stop now</button>
    <${Wrong}>${error}<//>
  </div>`;
}

/** @param {{ id: string, loop: Api.LoopView, isLive: boolean, pin: () => void }} props */
function MessageField({ id, loop, isLive, pin }) {
  const [isBusy, error, run] = useAsync();
  const [note, setNote] = useState("");
  useEffect(() => setNote(""), [isLive]);
  const send = async (/** @type {string} */ text) => {
    const sent = await run(() => api.messageRun(id, text));
    if (!sent) return false;
    pin();
    setNote(isLive ? "" : "Kept for the loop. It reads it when you resume it in the terminal.");
    return true;
  };
  const isAnswer = !isLive && (loop.question || loop.plan);
  return html`<${Composer}
    draft=${id}
    label=${isAnswer ? "Your answer" : "Message to the agents"}
    placeholder=${isAnswer ? "Your answer" : "Message to the agents, for the next round"}
    maxBytes=${MAX_MESSAGE_BYTES}
    onSend=${send}
    busy=${isBusy}
  >
    <${Wrong}>${error}<//>
    ${note && html`<p class="banner" role="status">${note}</p>`}
  <//>`;
}
