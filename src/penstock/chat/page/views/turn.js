// One turn of a chat: what was asked, the quiet line, the reply that grows, and then only the reply.

import {
  Boundary,
  Coded,
  Component,
  CopyButton,
  html,
  Icon,
  Menu,
  Status,
  Time,
  useAsync,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  Wrong,
} from "../components/ui.js";
import { api } from "../net/api.js";
import { openBeside } from "../state/beside.js";
import { movedBy } from "../state/reducer.js";
import { Prose } from "../markdown/prose.js";
import { isReader, otherPerson } from "../state/people.js";
import { chatOf, openDialog } from "../state/store.js";
import { ALLOWED_NOW, canGoOn, GO_ON, outcomeText, refusedTexts } from "../text/copy.js";
import { countsOf, filesChanged, foundMeanwhile, undoneMark } from "../text/diff.js";
import { count, duration, harmless, money, oneLine, plural } from "../text/format.js";
import { SentFiles } from "./attachments.js";
import { Doing } from "./doing.js";
import { lazy } from "./lazy.js";

/** @import { Turn as TurnState, Unsent as UnsentMessage } from "../state/reducer.js" */
/** @import { Version } from "../text/versions.js" */

export const loadQuestion = async () => (await import("./question.js")).Question;
const Question = lazy(loadQuestion, { isBeside: true });
const EditQueued = lazy(async () => (await import("./edit-queued.js")).EditQueued, { isBeside: true });
const Versions = lazy(async () => (await import("./versions.js")).Versions, { isBeside: true });

const FOLD_CHARACTERS = 1800; // a prompt longer than that, or with more lines, is folded
const FOLD_LINES = 18;
const RETRIED = new Set(["error", "cancelled", "timed_out", "cut_off", "empty"]); // outcomes after which one asks again
const SLOW_MS = 2000; // a turn that has to wait for no other begins sooner, unless too many agents are at work

/**
 * @typedef {object} Props
 * @property {string} chat
 * @property {string} path  Of the page on which it is.
 * @property {TurnState} turn
 * @property {boolean} waits  For another turn.
 * @property {string} away  The machine that it waits for, or "".
 * @property {boolean} [isUnkept]  What its agent does cannot be kept, and so not be shown.
 * @property {boolean} isLast
 * @property {boolean} isFar  From the end of the thread.
 * @property {Api.OpenQuestion | null} question  It waits for an answer.
 * @property {Api.Level} [level]  To allow, as something was not allowed.
 * @property {boolean} resumes  The agent can know the turns before.
 * @property {boolean} remembers  It does know them.
 * @property {(text: string, files?: Api.AttachedFile[]) => void} [onEdit]  Put a message into the composer.
 * @property {(text: string) => void} [onSend]
 * @property {(turn: TurnState) => Promise<void>} [onTakeBack]
 * @property {TurnState[]} [queue]  The turns that wait, if this is one of them and a person may change it.
 * @property {number} [stops]  The turn that runs, if this one waits.
 * @property {boolean} [steers]  The agent of that turn takes messages while it works.
 * @property {Version[]} [versions]  Of its message, if there are several.
 * @property {TurnState[]} [parts]  Messages that the agent took while it worked on this turn.
 * @property {boolean} [canLook]  What the agent does now, and what it changed, can be asked for.
 * @property {(text: string) => void} onLate  An answer came too late.
 */

/**
 * Drawn anew only when its turn changed.
 *
 * @extends {Component<Props>}
 */
export class TurnView extends Component {
  /** @param {Props} next */
  shouldComponentUpdate(next) {
    const names = /** @type {const} */ ([
      "turn",
      "isUnkept",
      "isLast",
      "isFar",
      "question",
      "waits",
      "away",
      "level",
      "remembers",
      "stops",
      "steers",
    ]);
    if (numbersOf(next.queue) !== numbersOf(this.props.queue)) return true;
    if (numbersOf(next.parts) !== numbersOf(this.props.parts)) return true;
    if (chatsOf(next.versions) !== chatsOf(this.props.versions)) return true;
    return names.some((name) => next[name] !== this.props[name]);
  }

  /** @param {Props} props */
  render(props) {
    const plain = () => html`<${PlainTurn} ...${props} />`;
    return html`<${Boundary} of=${props.turn} plain=${plain}><${Turn} ...${props} /><//>`;
  }
}

const numbersOf = (/** @type {TurnState[]} */ queue = []) => queue.map(({ turn }) => turn).join();
const chatsOf = (/** @type {Version[]} */ versions = []) => versions.map(({ chat }) => chat).join();

/** @param {Props} props */
function Turn(props) {
  const { turn, waits, isFar, parts = [] } = props;
  return html`<article
    class="turn"
    data-turn=${turn.turn}
    data-state=${turn.state}
    data-outcome=${turn.outcome}
    data-far=${isFar || undefined}
    aria-label=${`Turn ${turn.turn}`}
  >
    ${(turn.prompt !== "" || turn.attachments?.length) && html`<${Asked} ...${props} />`}
    ${parts.map((part) => html`<${Given} key=${part.turn} part=${part} />`)}
    ${turn.state === "queued" && !waits && !turn.held && html`<div class="answer"><${Status}>Sending…<//></div>`}
    ${turn.state !== "queued" && html`<${Answer} ...${props} />`}
  </article>`;
}

/**
 * A message that the agent took while it worked.
 *
 * @param {{ part: TurnState }} props
 */
function Given({ part }) {
  const other = otherPerson(part.person);
  return html`<div class="asked given" data-part=${part.turn}>
    <p class="given-note">${other ? html`<bdi>${other}</bdi>, while` : "While"} it worked</p>
    <div class="said"><${Time} at=${part.asked_at} /><${Prompt} text=${part.prompt} /></div>
  </div>`;
}

/** @param {Props} props */
function Answer({
  chat,
  path,
  turn,
  question,
  isUnkept,
  isLast,
  level,
  resumes,
  remembers,
  onEdit,
  onSend,
  onLate,
  canLook,
}) {
  const isDone = turn.state === "completed";
  const text = isDone ? turn.message : turn.reply;
  const outcome = isDone ? outcomeText(turn) : "";
  return html`<div class="answer" aria-live="off" aria-busy=${!isDone}>
    ${text ? html`<${Reply} text=${text} isGrowing=${!isDone} isCut=${isDone && turn.outcome !== "ok"} chat=${chat} />` : null}
    ${!isDone && isUnkept && html`<p class="outcome" data-outcome="unkept">This cannot be kept now.</p>`}
    ${
      !isDone &&
      html`<${Doing} chat=${chat} turn=${turn} status=${isUnkept || question ? null : turn.status} canLook=${canLook} />`
    }
    ${
      question &&
      html`<${Question}
        key=${question.id}
        chat=${chat}
        question=${question}
        isEnded=${isDone}
        hasField=${Boolean(onEdit)}
        onLate=${onLate}
      />`
    }
    ${outcome && html`<p class="outcome" data-outcome=${turn.outcome}><bdi><${Coded} text=${outcome} /></bdi></p>`}
    ${isDone && turn.refused && html`<${RefusedActions} chat=${chat} turn=${turn} level=${level} resumes=${resumes} />`}
    ${isDone && canLook && Boolean(turn.changed || turn.found) && html`<${Changed} chat=${chat} turn=${turn} />`}
    ${
      isDone &&
      html`<${Facts}
        path=${path}
        turn=${turn}
        isLast=${isLast}
        remembers=${remembers}
        onEdit=${onEdit}
        onSend=${onSend}
      />`
    }
  </div>`;
}

/**
 * How many files the turn changed, and how many others were changed meanwhile; the button shows them beside the thread.
 *
 * @param {{ chat: string, turn: TurnState }} props
 */
function Changed({ chat, turn: { turn, changed, found, undone } }) {
  const mark = undoneMark(undone);
  const more = foundMeanwhile(found, changed);
  return html`<p class="changed">
    <button type="button" class="quiet" onClick=${() => openBeside(chat, { kind: "changes", turn })}>
      ${changed && html`${filesChanged(changed.files)} <span class="diff-counts">${countsOf(changed)}</span>`}${mark && ` · ${mark}`}${more}
    </button>
  </p>`;
}

/**
 * That something was not allowed, with a button that allows it from now on. An agent that knows nothing of the turns
 * before gets the prompt again.
 *
 * @param {Pick<Props, "chat" | "turn" | "level" | "resumes">} props
 */
function RefusedActions({ chat, turn, level, resumes }) {
  const text = resumes ? ALLOWED_NOW : turn.prompt;
  const allow = () => openDialog({ kind: "allow", id: chat, level, text });
  const label = ALLOW_BUTTONS[level?.allow ?? ""];
  return html`<p class="outcome refused" data-refused=${turn.refused}>
    <bdi><${Coded} text=${refusedTexts(turn, chatOf(chat)?.cwd).join(" ")} /></bdi>
    ${label && html`<button type="button" class="button" onClick=${allow}>${label}…</button>`}
  </p>`;
}

/** @type {Record<string, string>} */
const ALLOW_BUTTONS = { edits: "Allow edits and go on", all: "Allow everything and go on" };

/**
 * A turn that cannot be shown as it should be: its texts, as they were written.
 *
 * @param {Props} props
 */
function PlainTurn({ turn, isFar }) {
  const isDone = turn.state === "completed";
  const text = (isDone ? turn.message : turn.reply) ?? "";
  return html`<article
    class="turn"
    data-turn=${turn.turn}
    data-state=${turn.state}
    data-outcome=${turn.outcome}
    data-far=${isFar || undefined}
    data-plain
    aria-label=${`Turn ${turn.turn}`}
  >
    <div class="asked"><p class="prompt" dir="auto">${harmless(turn.prompt)}</p></div>
    ${
      turn.state !== "queued" &&
      html`<div class="answer" aria-busy=${!isDone}><${Plain} text=${text} isGrowing=${!isDone} /></div>`
    }
  </article>`;
}

/** @param {{ text: string, isGrowing: boolean, isCut: boolean, chat?: string }} props */
export function Reply({ text, isGrowing, isCut, chat = "" }) {
  const plain = () => html`<${Plain} text=${text} isGrowing=${isGrowing} />`;
  return html`<${Boundary} of=${text} plain=${plain}>
    <${Markdown} text=${text} isGrowing=${isGrowing} isCut=${isCut} chat=${chat} />
  <//>`;
}

/** @param {{ text: string, isGrowing: boolean }} props */
function Plain({ text, isGrowing }) {
  return html`<div class="prose reply" data-growing=${isGrowing || undefined}>
    <p data-raw dir="auto">${harmless(text)}</p>
  </div>`;
}

/**
 * `isCut`: it ends where it was cut off, so its end may be half written for good. `chat`: "" where files are not shown.
 *
 * @param {{ text: string, isGrowing: boolean, isCut: boolean, chat: string }} props
 */
function Markdown({ text, isGrowing, isCut, chat }) {
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const prose = useRef(/** @type {Prose | null} */ (null));
  useLayoutEffect(() => {
    prose.current ??= new Prose(
      /** @type {HTMLElement} */ (root.current),
      chat ? (path) => api.pictureUrl(chat, path) : null,
    );
    prose.current.show(text, isGrowing || isCut, !isGrowing);
  }, [text, isGrowing, isCut]);
  useLayoutEffect(() => () => prose.current?.close(), []);
  return html`<div class="prose reply" ref=${root} data-growing=${isGrowing || undefined}></div>`;
}

/** @param {Props} props */
function Asked(props) {
  const { chat, turn } = props;
  const [isEdited, setEdited] = useState(false);
  const isQueued = turn.state === "queued";
  const queued = isQueued && html`<${Queued} ...${props} onEditHere=${() => setEdited(true)} />`;
  if (isQueued && isEdited) return html`<${EditQueued} ...${props} onClose=${() => setEdited(false)} />`;
  if (turn.by === "heartbeat") {
    return html`<details class="beat">
        <summary>
          <span class="beat-mark" aria-hidden="true"></span>Heartbeat<${Time} at=${turn.asked_at} />
        </summary>
        <p class="prompt" dir="auto">${harmless(turn.prompt)}</p>
      </details>
      ${queued}`;
  }
  const other = otherPerson(turn.person);
  const own = turn.by === "answer" ? "Your answer" : "You";
  const isBranched = props.onEdit && !isReader();
  const heading = other ? html`<bdi>${other}</bdi>` : own;
  return html`<div class="asked" data-by=${turn.by}>
    <h2 class=${other ? "said-by" : "offscreen"}>${heading}</h2>
    <${SentFiles} chat=${chat} files=${turn.attachments} />
    <div class="said">
      <${Time} at=${turn.asked_at} />${turn.prompt !== "" && html`<${Prompt} text=${turn.prompt} />`}
      ${isBranched && html`<${Menu} label=${`More with message ${turn.turn}`} items=${branchItems(chat, turn.turn)} />`}
    </div>
    ${props.versions?.length ? html`<${Versions} chat=${chat} versions=${props.versions} />` : null}
    ${!isQueued && turn.steer?.state === "late" && html`<p class="given-note">It came too late for the turn before</p>`}
    ${queued}
  </div>`;
}

/**
 * The new chats that can begin before a message.
 *
 * @param {string} id
 * @param {number} turn
 */
const branchItems = (id, turn) => [
  { label: "Edit in a new chat", act: () => openDialog({ kind: "branch", id, turn }) },
  { label: "Ask another agent…", act: () => openDialog({ kind: "ask_another", id, turn }) },
];

/** @param {{ text: string }} props */
export function Prompt({ text }) {
  const [isOpen, setOpen] = useState(false);
  const shown = harmless(text);
  const isLong = shown.length > FOLD_CHARACTERS || shown.split("\n").length > FOLD_LINES;
  return html`<div class="prompt-box">
    <p class=${`prompt ${isLong && !isOpen ? "folded" : ""}`} dir="auto">${shown}</p>
    ${
      isLong &&
      html`<button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? "Show less" : "Show all"}
      </button>`
    }
  </div>`;
}

/**
 * `waits`: for another turn; `away`: for this machine. One that waits for neither, and yet does not begin, waits until
 * fewer agents are at work.
 *
 * @param {Props & { onEditHere: () => void }} props
 */
function Queued({ chat, turn, waits, away, queue = [], stops, steers, onEdit, onTakeBack, onEditHere }) {
  const [isBusy, error, run] = useAsync();
  const [isSlow, setSlow] = useState(false);
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  const moved = useRef(/** @type {{ button: HTMLButtonElement, place: number } | null} */ (null));
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), SLOW_MS);
    return () => clearTimeout(timer);
  }, []);
  const place = queue.indexOf(turn);
  // A button that moves with its message keeps the focus, and gives it to the other one at the end of the way. The server's
  // answer may come before its frame, which moves the message.
  useLayoutEffect(() => {
    if (!moved.current || isBusy) return;
    const { button, place: before } = moved.current;
    if (place !== before || error) moved.current = null;
    if (document.activeElement !== document.body && !row.current?.contains(document.activeElement)) return;
    const other = row.current?.querySelector(/** @type {"button"} */ (".move:enabled"));
    (button.disabled ? other : button)?.focus();
  }, [place, isBusy, error]);
  if (turn.steer?.state === "given") {
    const given = "Given to the agent, which takes it at its next step";
    return html`<div class="queued" role="group" aria-label=${given}><span>${given}</span></div>`;
  }
  if (!waits && !away && !turn.held && !isSlow) return null;
  const act = (/** @type {() => Promise<unknown> | undefined} */ task) => (/** @type {Event} */ event) => {
    event.preventDefault();
    run(async () => task());
  };
  const text = turn.held
    ? "Waits until you send it"
    : turn.steer && waits
      ? "Came too late for the turn, and waits"
      : away
        ? `Waits for the machine ${away}`
        : waits
          ? "Waits for the turn before it"
          : "Waits to begin";
  const seen = queue.map((it) => it.turn);
  const mover = (/** @type {number} */ by, /** @type {string} */ label, /** @type {string} */ icon) => {
    const turns = movedBy(queue, turn, by);
    const move = (/** @type {Event} */ event) => {
      moved.current = { button: /** @type {HTMLButtonElement} */ (event.currentTarget), place };
      run(async () => turns && api.move(chat, { seen, turns }));
    };
    return html`<button
      type="button"
      class="quiet move"
      aria-label=${label}
      title=${label}
      disabled=${isBusy || !turns}
      onClick=${move}
    >
      <${Icon} name=${icon} />
    </button>`;
  };
  const isOwn = turn.by !== "heartbeat" && !otherPerson(turn.person);
  const canSteer = steers && stops !== undefined && !turn.attachments?.length;
  return html`<div class="queued" ref=${row} role="group" aria-label=${text}>
    <span>${text}</span>
    ${queue.length > 1 && [mover(-1, "Move up", "up"), mover(1, "Move down", "down")]}
    ${
      place >= 0 &&
      canSteer &&
      html`<button type="button" class="quiet" disabled=${isBusy} onClick=${act(() => api.steer(chat, turn.turn, stops))}>
        Give to the agent now
      </button>`
    }
    ${
      place >= 0 &&
      html`<button type="button" class="quiet" disabled=${isBusy} onClick=${act(() => api.sendNow(chat, turn.turn, stops))}>
        ${stops === undefined ? "Send now" : "Stop and send"}
      </button>`
    }
    ${place >= 0 && isOwn && onEdit && html`<button type="button" class="quiet" disabled=${isBusy} onClick=${onEditHere}>Edit</button>`}
    ${
      onTakeBack &&
      html`<button type="button" class="quiet" disabled=${isBusy} onClick=${act(() => onTakeBack(turn))}>Take back</button>`
    }
    <${Wrong}>${error}<//>
  </div>`;
}

/**
 * A message that the server does not have yet.
 *
 * @param {{ chat: string, message: UnsentMessage, onRetry: (message: UnsentMessage) => void,
 *   onEdit?: (message: UnsentMessage) => void }} props
 */
export function Unsent({ chat, message, onRetry, onEdit }) {
  const { key, state, text, why, attachments } = message;
  const edit = onEdit && html`<button type="button" class="quiet" onClick=${() => onEdit(message)}>Edit</button>`;
  const isOnItsWay = state === "sending" || state === "accepted";
  return html`<article class="turn unsent" data-state=${state} data-key=${key} aria-label="Your message">
    <div class="asked">
      <${SentFiles} chat=${chat} files=${attachments} />
      ${text !== "" && html`<div class="said"><${Prompt} text=${text} /></div>`}
      ${state === "waiting" && html`<div class="queued"><span>Waits for the connection</span>${edit}</div>`}
      ${
        state === "failed" &&
        html`<div class="not-sent" role="alert">
          <p class="wrong">Not sent. ${why}</p>
          <button type="button" class="quiet" onClick=${() => onRetry(message)}>Try again</button>${edit}
        </div>`
      }
    </div>
    ${isOnItsWay && html`<div class="answer"><${Status}>Sending…<//></div>`}
  </article>`;
}

/** @param {Pick<Props, "path" | "turn" | "isLast" | "remembers" | "onEdit" | "onSend">} props */
function Facts({ path, turn, isLast, remembers, onEdit, onSend }) {
  const { usage, began_at: began, completed_at: completed, message } = turn;
  const took = turn.duration_ms ?? (completed && began ? completed - began : null);
  const steps = turn.steps ? plural(turn.steps, "step") : "Details";
  const [input, output] = [usage?.input_tokens ?? 0, usage?.output_tokens ?? 0];
  const cost = money(turn.cost_usd ?? usage?.cost_usd ?? 0);
  const canRetry = onEdit && isLast && turn.by !== "heartbeat" && RETRIED.has(turn.outcome ?? "");
  return html`<footer class="facts">
    ${
      typeof began === "number" &&
      html`<a href=${`${path}/turns/${turn.turn}`} class="to-record">
        ${took === null ? steps : `${steps}, ${duration(took)}`}
      </a>`
    }
    ${(input > 0 || output > 0) && html`<span class="tokens" title="Tokens">${count(input)} in, ${count(output)} out</span>`}
    ${cost && html`<span>${cost}</span>`}
    ${completed && html`<${Time} at=${completed} />`}
    ${message && html`<${CopyButton} text=${message} label="Copy the reply" />`}
    ${canRetry && html`<button type="button" class="quiet" onClick=${() => onEdit(turn.prompt, turn.attachments ?? [])}>Ask again</button>`}
    ${
      onSend &&
      isLast &&
      canGoOn(turn, remembers) &&
      html`<button type="button" class="quiet" onClick=${() => onSend(GO_ON)}>Go on</button>`
    }
  </footer>`;
}
