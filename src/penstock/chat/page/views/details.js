// The details of a turn: all that the agent did, as the server has it.

import { Boundary, html, Icon, Status, useEffect, useLayoutEffect, useRef, useState } from "../components/ui.js";
import { Plan } from "../components/plan.js";
import { Diffs } from "../components/diff.js";
import { useLive } from "../components/live.js";
import { listenForCopies, listenForPlaces } from "../markdown/blocks.js";
import { Prose } from "../markdown/prose.js";
import { api, messageOf, statusOf } from "../net/api.js";
import { openFileOf } from "../state/beside.js";
import { chatPath, runPath } from "../state/router.js";
import { chatOf, runOf, state } from "../state/store.js";
import { outcomeText, refusedTexts } from "../text/copy.js";
import { countsOf } from "../text/diff.js";
import {
  below,
  count,
  duration,
  elapsed,
  exitWords,
  fullTime,
  harmless,
  money,
  oneLine,
  plural,
} from "../text/format.js";
import { depthsOf, isTop, orderOf, roundsOf } from "../text/details-order.js";
import { Missing } from "./status-pages.js";

/** @import { Details, TurnData } from "../net/wire.js" */
/** @typedef {Details["items"][number]} DetailsItem */
/** @typedef {(path: string, line: number) => void} OpenFile */

const RUNS = "The turn still runs. What the agent does appears here.";
const LINGERS = "The reply is complete, but the agent's program has not ended yet. What it does appears here.";
const NEAR_PX = 24; // so near their end, details are read as they come
const FOLD_CHARACTERS = 400; // a thought that is longer is folded
const FOLDED_CHARACTERS = 120; // of its beginning are shown
const NOT_FOUND = 404;

/**
 * What is different for turns of chats and of others.
 *
 * @typedef {object} Place
 * @property {(id: string, turn: number) => Promise<Details>} load
 * @property {(id: string, turn: number) => string} eventsUrl
 * @property {(id: string) => string} path
 * @property {(id: string) => { title?: string | null, cwd?: string } | undefined} find
 * @property {string} back
 */

/** @type {Place} */
const CHAT = {
  load: api.details,
  eventsUrl: api.eventsOfTurnUrl,
  path: chatPath,
  find: chatOf,
  back: "Back to the chat",
};
/** @type {Place} */
const RUN = { load: api.runDetails, eventsUrl: api.eventsOfRunTurnUrl, path: runPath, find: runOf, back: "Back" };

/** @param {{ id: string, turn: number }} props */
export const DetailsPage = (props) => html`<${TurnDetails} place=${CHAT} ...${props} />`;

/** @param {{ id: string, turn: number }} props */
export const RunDetailsPage = (props) => html`<${TurnDetails} place=${RUN} ...${props} />`;

/** The place of what is open. */
const place = () => (state.route.page === "run" ? RUN : CHAT);

/**
 * The details of a turn, which are read again until it is over: its end may come between the turn and its events.
 *
 * @param {Place} place
 * @param {string} id
 * @param {number} turn
 */
const useDetails = ({ load }, id, turn) =>
  useLive(
    () => load(id, turn),
    (it) => it.whole && Boolean(it.turn.finalized),
    [id, turn],
  );

/** @param {{ place: Place, id: string, turn: number }} props */
function TurnDetails({ place, id, turn }) {
  const [details, error] = useDetails(place, id, turn);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const note = useEndInSight(box, details);
  useEffect(() => document.getElementById("main")?.focus(), []);
  if (error && !details) return html`<${Failed} error=${error} path=${place.path(id)} />`;
  return html`<section class="chat record" aria-labelledby="record-title">
    <header class="head">
      <a class="quiet round" href=${place.path(id)} aria-label=${place.back}><${Icon} name="back" /></a>
      <div class="head-text">
        <h1 id="record-title">Details of turn ${turn}</h1>
        <p><bdi>${oneLine(place.find(id)?.title)}</bdi></p>
      </div>
      <${Events} place=${place} id=${id} turn=${turn} />
    </header>
    <div class="thread" ref=${box} onScroll=${note} tabindex="0" role="region" aria-label="Details">
      <div class="column"><${Body} place=${place} id=${id} details=${details} /></div>
    </div>
  </section>`;
}

/**
 * The details of a turn beside its thread.
 *
 * @param {{ id: string, turn: number }} props
 */
export function DetailsBeside({ id, turn }) {
  const [details, error] = useDetails(place(), id, turn);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const note = useEndInSight(box, details);
  if (error && !details) return html`<p class="side-note" role="alert">${messageOf(error)}</p>`;
  return html`<div class="pane-body record-beside" ref=${box} onScroll=${note} tabindex="0" role="region" aria-label="Items">
    <${Body} place=${place()} id=${id} details=${details} openFile=${openFileOf(id)} />
  </div>`;
}

/** @param {{ id: string, turn: number }} props */
export const EventsOfTurn = (props) => html`<${Events} place=${place()} ...${props} />`;

/** @param {{ place: Place, id: string, turn: number }} props */
function Events({ place, id, turn }) {
  return html`<a class="button" href=${place.eventsUrl(id, turn)} download=${`turn-${turn}.ndjson`} title="Download the events"
    >Events</a
  >`;
}

/** @param {{ place: Place, id: string, details: Details | null, openFile?: OpenFile }} props */
function Body({ place, id, details, openFile }) {
  if (!details) return html`<${Status} loading>Loading…<//>`;
  const plain = () => html`<${PlainDetails} details=${details} />`;
  const content = html`<${Content} details=${details} directory=${place.find(id)?.cwd} openFile=${openFile} />`;
  return html`<${Boundary} of=${details} plain=${plain}>${content}<//>`;
}

/**
 * Keep the end of what grows in sight if it is; returns what notes that, for each scrolling.
 *
 * @param {{ current: HTMLElement | null }} box
 * @param {unknown} grown
 */
function useEndInSight(box, grown) {
  const isAtEnd = useRef(false);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [grown]);
  return () => {
    const { scrollTop, clientHeight, scrollHeight } = /** @type {HTMLElement} */ (box.current);
    isAtEnd.current = scrollTop > 0 && scrollTop + clientHeight > scrollHeight - NEAR_PX;
  };
}

/** @param {{ error: unknown, path: string }} props */
function Failed({ error, path }) {
  const title = statusOf(error) === NOT_FOUND ? "There is no such turn" : "The details cannot be shown";
  return html`<${Missing} title=${title} text=${messageOf(error)}>
    <p><a class="button" href=${path}>Go back</a></p>
  <//>`;
}

/** @param {{ details: Details, directory?: string, openFile?: OpenFile }} props  `directory`: paths below it are shown without it. */
function Content({ details, directory, openFile }) {
  const { turn, items } = details;
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const [isFailedOnly, setFailedOnly] = useState(false);
  useLayoutEffect(() => {
    if (!root.current) return;
    listenForCopies(root.current);
    listenForPlaces(root.current, openFile);
  }, []);
  const open = (/** @type {boolean} */ isOpen) => () => {
    for (const it of root.current?.querySelectorAll("details") ?? []) it.open = isOpen;
  };
  const failed = items.filter(hasFailed).length;
  return html`<div ref=${root}>
    <${Summary} turn=${turn} items=${items} />
    ${
      items.length > 1 &&
      html`<div class="show" role="group" aria-label="What is shown">
        <button type="button" class="quiet" onClick=${open(true)}>Open all</button>
        <button type="button" class="quiet" onClick=${open(false)}>Fold all</button>
        ${
          failed > 0 &&
          html`<button
            type="button"
            class="quiet"
            aria-pressed=${isFailedOnly}
            onClick=${() => setFailedOnly(!isFailedOnly)}
          >
            Failures only (${failed})
          </button>`
        }
      </div>`
    }
    ${!details.whole && html`<p class="banner">${turn.state === "completed" ? LINGERS : RUNS}</p>`}
    <ol class="items" data-failed-only=${isFailedOnly || undefined}>
      ${entriesOf(items, directory)}
    </ol>
    ${!items.length && html`<p class="side-note">Nothing was recorded.</p>`}
  </div>`;
}

/** Whether an item is a call that failed or was not allowed. @param {DetailsItem} item */
const hasFailed = (item) => item.kind === "call" && Boolean(item.is_error || item.refused || item.exit_code);

/**
 * The items as entries of a list, with a heading wherever a round begins.
 *
 * @param {DetailsItem[]} items
 * @param {string} [directory]  Paths below it are shown without it.
 */
export function entriesOf(items, directory) {
  const depths = depthsOf(items);
  const rounds = roundsOf(items);
  const hasRounds = (rounds.at(-1) ?? 1) > 1;
  let round = 0;
  return orderOf(items).map((i) => {
    const item = items[i];
    const isFirst = hasRounds && isTop(item) && rounds[i] !== round;
    if (isFirst) round = rounds[i];
    const plain = () => html`<${PlainItem} item=${item} />`;
    return html`${isFirst && html`<li class="round" key=${`r${i}`}><h2>Round ${rounds[i]}</h2></li>`}
      <li
        key=${i}
        class=${`item depth-${depths[i]}`}
        data-kind=${item.kind}
        data-given-up=${item.given_up || undefined}
        data-failed=${hasFailed(item) || undefined}
      >
        <time>${elapsed(item.at ?? 0)}</time>
        <div class="item-body">
          <${Boundary} of=${item} plain=${plain}><${Item} item=${item} directory=${directory} /><//>
        </div>
      </li>`;
  });
}

/** @param {{ turn: TurnData, items: DetailsItem[] }} props */
function Summary({ turn, items }) {
  const { usage } = turn;
  const calls = items.filter((it) => it.kind === "call").length;
  const by = turn.by === "heartbeat" ? " by the heartbeat" : "";
  const rows = [
    ["Asked", turn.asked_at && `${fullTime(turn.asked_at)}${by}`],
    ["Agent", [oneLine(turn.agent), oneLine(turn.model)].filter(Boolean).join(" · ")],
    ["Took", turn.duration_ms ? duration(turn.duration_ms) : ""],
    ["Steps", [turn.steps || items.length, calls && `${plural(calls, "call")} among them`].filter(Boolean).join(", ")],
    ["Input", tokens(usage?.input_tokens, usage?.cached_tokens, "from the cache")],
    ["Output", tokens(usage?.output_tokens, usage?.reasoning_tokens, "for thinking")],
    ["Cost", money(turn.cost_usd ?? usage?.cost_usd ?? 0)],
    ["Not allowed", refusedTexts(turn).join(" ").replaceAll("`", "")],
    ["Outcome", turn.state === "completed" ? outcomeText(turn) || "Completed" : ""],
  ].filter(([, value]) => value);
  return html`<p class="prompt record-prompt" dir="auto">${harmless(turn.prompt)}</p>
    <dl class="summary">
      ${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${value}</bdi></dd></div>`)}
    </dl>`;
}

/**
 * @param {number | null | undefined} all
 * @param {number | null | undefined} part
 * @param {string} meaning
 */
function tokens(all, part, meaning) {
  if (all === undefined || all === null) return "";
  return `${count(all)} tokens${part ? `, ${count(part)} ${meaning}` : ""}`;
}

/** @type {Record<string, string>} */
const KINDS = { thinking: "Thought", text: "Text", call: "Call", notice: "Notice", plan: "Plan", question: "Question" };

/** @param {{ item: DetailsItem, directory?: string }} props */
function Item({ item, directory }) {
  const isRefused = item.kind === "call" && item.refused;
  const isError = item.kind === "call" && item.is_error && !isRefused;
  const marks = [
    item.given_up && "given up",
    item.cut && "cut off",
    isRefused && "not allowed",
    isError && "failed",
  ].filter(Boolean);
  const body = BODIES[item.kind];
  if (!body) return null;
  return html`<p class="kind">${KINDS[item.kind]}${marks.length > 0 && html`<span class="marks">, ${marks.join(", ")}</span>`}</p>
    ${body(item, directory)}
    ${item.shortened ? html`<${Shortened} characters=${item.shortened} />` : null}`;
}

/** @param {{ characters: number }} props */
function Shortened({ characters }) {
  return html`<p class="side-note">
    ${characters.toLocaleString()} characters are left out here; the events have them.
  </p>`;
}

/**
 * Details that cannot be shown as they should be: all that there is, as it came.
 *
 * @param {{ details: Details }} props
 */
function PlainDetails({ details }) {
  return html`<${Code} label="Details" text=${JSON.stringify(details, null, 2)} />`;
}

/**
 * An item that cannot be shown as it should be: its text, as it was written.
 *
 * @param {{ item: DetailsItem }} props
 */
function PlainItem({ item }) {
  const text = ("text" in item && item.text) || JSON.stringify(item, null, 2);
  return html`<p class="kind">${KINDS[item.kind] ?? "Item"}</p>
    <${Code} label="Item" text=${text} />`;
}

/** @param {{ label: string, text: string }} props */
function Code({ label, text }) {
  return html`<pre tabindex="0" role="group" aria-label=${label}><code>${harmless(text)}</code></pre>`;
}

/** @type {Record<string, (item: any, directory?: string) => import("preact").ComponentChildren>} */
const BODIES = {
  thinking: (item) => html`<${Thought} text=${item.text} />`,
  text: (item) => html`<${Static} text=${item.text} />`,
  call: (item, directory) => html`<${Call} item=${item} directory=${directory} />`,
  notice: (item) => html`<p class=${`notice ${item.level}`} dir="auto">${harmless(item.text)}</p>`,
  plan: (item) => html`<${Plan} items=${item.items} />`,
  question: (item, directory) => html`<${AskedItem} item=${item} directory=${directory} />`,
};

/** @param {{ item: Api.Asked, directory?: string }} props */
function AskedItem({ item, directory }) {
  const { text, options, answer, changes } = item;
  const isAnswered = answer !== undefined && answer !== null;
  return html`<p class="prompt" dir="auto">${harmless(text)}</p>
    ${changes?.length ? html`<${Diffs} changes=${changes} more=${item.more_changes} directory=${directory} />` : null}
    ${options?.length ? html`<p class="side-note"><bdi>${options.map(oneLine).join(" · ")}</bdi></p>` : null}
    ${isAnswered && html`<p class="answered">Answer: <bdi>${oneLine(answer)}</bdi></p>`}`;
}

/** @param {{ text: string | undefined }} props */
function Static({ text }) {
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const prose = useRef(/** @type {Prose | null} */ (null));
  useLayoutEffect(() => {
    prose.current ??= new Prose(/** @type {HTMLElement} */ (root.current));
    prose.current.show(text ?? "", false);
  }, [text]);
  useLayoutEffect(() => () => prose.current?.close(), []);
  return html`<div class="prose" ref=${root}></div>`;
}

/** @param {{ text: string | undefined }} props */
function Thought({ text }) {
  const shown = harmless(text).trim();
  const whole = html`<p class="thought" dir="auto">${shown}</p>`;
  if (shown.length < FOLD_CHARACTERS) return whole;
  const first = oneLine(shown).slice(0, FOLDED_CHARACTERS);
  return html`<details class="fold">
    <summary><bdi>${first}…</bdi><span class="offscreen"> (all of the thought)</span></summary>
    ${whole}
  </details>`;
}

/** @param {{ item: Api.Called, directory?: string }} props */
function Call({ item, directory }) {
  const { name, until, at, exit_code: status, input, output, changes, duration_ms: took } = item;
  const ran = took ?? (typeof until === "number" ? Math.max(0, until - at) : null);
  const whole = oneLine(item.title);
  const title =
    (whole.includes(" ") ? whole : below(whole, directory)) || // a command stays as it is
    oneLine(name) ||
    "Call";
  const facts = [
    oneLine(name) !== title && oneLine(name),
    changes?.length === 1 && countsOf(changes[0]),
    ran !== null && duration(ran),
    status && exitWords(status),
    item.status_unreported && "exit status not reported",
  ].filter(Boolean);
  const hasDiff = changes?.some((change) => change.diff);
  return html`<details class="fold call" data-failed=${item.is_error || undefined} open=${hasDiff || undefined}>
    <summary>
      <bdi class="call-title">${title}</bdi>
      <span class="call-facts">${facts.map((it) => html`<bdi>${it}</bdi>`)}</span>
    </summary>
    ${changes?.length ? html`<${Changes} item=${item} directory=${directory} />` : null}
    ${input && !hasDiff && html`<h3>Input</h3><${Code} label="Input" text=${indented(input)} />`}
    ${
      input &&
      hasDiff &&
      html`<details class="fold">
        <summary><bdi>Input</bdi></summary>
        <${Code} label="Input" text=${indented(input)} />
      </details>`
    }
    ${
      output
        ? html`<h3>Output</h3><${Code} label="Output" text=${output} />`
        : html`<p class="side-note">${item.output_unreported ? "The agent does not report the output." : "No output."}</p>`
    }
  </details>`;
}

/**
 * The changes that a call made, or would have made.
 *
 * @param {{ item: Api.Called, directory?: string }} props
 */
function Changes({ item, directory }) {
  const isMade = typeof item.until === "number" && !item.is_error && !item.refused && !item.cut;
  return html`<h3>${isMade ? "Changes" : "Changes that were proposed"}</h3>
    <${Diffs} changes=${item.changes ?? []} more=${item.more_changes} directory=${directory} />`;
}

/** @param {string} input */
function indented(input) {
  try {
    return JSON.stringify(JSON.parse(input), null, 2);
  } catch {
    return input;
  }
}
