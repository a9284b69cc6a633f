// The record of a turn: everything that happened, from the log.

import { api } from "../api.js";
import { listenForCopies, Prose } from "../markdown.js";
import { chatOf, useThread } from "../state.js";
import { count, duration, fullTime, harmless, line, moment, money, plural } from "../text.js";
import { Boundary, html, Icon, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { outcomeWords } from "../words.js";
import { Missing } from "./states.js";

const RUNS = "The turn still runs: this is what there is so far.";
const TRIMMED = "The first events of this turn are no longer kept.";
const DEPTH = 6; // sub-agents deeper than that are not moved in further

export function RecordPage({ app }) {
  const { id, turn } = app.route;
  const [record, setRecord] = useState(null);
  const [error, setError] = useState(null);
  const load = () => api.record(id, turn).then(setRecord, setError);
  useEffect(() => {
    load();
    document.getElementById("main").focus();
  }, []);
  // A turn that was still running is read again once it is over.
  const live = useThread()?.chat.turns.find((it) => it.turn === turn);
  useEffect(() => {
    if (live?.recorded && record && !record.whole) load();
  }, [live?.recorded, record]);
  const back = `/chats/${encodeURIComponent(id)}`;
  if (error) {
    const title = error.status === 404 ? "There is no such turn" : "The record cannot be shown";
    return html`<${Missing} title=${title} words=${error.words ?? String(error)}><p><a class="button"
        href=${back}>To the chat</a></p><//>`;
  }
  return html`<section class="chat record" aria-labelledby="record-title">
    <header class="head">
      <a class="quiet round" href=${back} aria-label="Back to the chat"><${Icon} name="back" /></a>
      <div class="head-text"><h1
          id="record-title">Record of turn ${turn}</h1><p><bdi>${line(chatOf(id)?.title)}</bdi></p></div>
      <a class="button" href=${api.recordUrl(id, turn)} download=${`turn-${turn}.ndjson`}>NDJSON</a>
    </header>
    <div class="thread" tabindex="0" role="region" aria-label="Record">
      <div class="column">${record ? html`<${Boundary} of=${record} plain=${() => html`<${PlainRecord}
          record=${record} />`}><${Record} record=${record} load=${load} /><//>` : html`<p
          class="status loading"><span class="flow"></span>Loading…</p>`}</div>
    </div>
  </section>`;
}

function Record({ record, load }) {
  const { turn, items } = record;
  const root = useRef(null);
  useLayoutEffect(() => listenForCopies(root.current), []);
  const depths = depthsOf(items);
  const rounds = roundsOf(items);
  return html`<div ref=${root}>
    <${Summary} turn=${turn} items=${items} />
    ${!record.whole && html`<p
        class="banner">${turn.state === "running" ? RUNS : TRIMMED}
      ${turn.state === "running" && html` <button type="button" class="quiet"
          onClick=${load}>Load again</button>`}</p>`}
    <ol class="items">
      ${items.map((item, i) => {
        const head = rounds.at(-1) > 1 && rounds[i] !== rounds[i - 1];
        return html`${head && html`<li class="round" key=${`r${i}`}><h2>Round ${rounds[i]}</h2></li>`}
          <li key=${i} class=${`item depth-${depths[i]}`} data-kind=${item.kind}
              data-given-up=${item.given_up || undefined}>
            <time>${moment(item.at ?? 0)}</time>
            <div class="item-body"><${Boundary} of=${item} plain=${() => html`<${PlainItem} item=${item} />`}><${Item}
                item=${item} /><//></div>
          </li>`;
      })}
    </ol>
    ${!items.length && html`<p class="side-note">Nothing was recorded.</p>`}
  </div>`;
}

function Summary({ turn, items }) {
  const { usage = {} } = turn;
  const calls = items.filter((it) => it.kind === "call").length;
  const by = turn.by === "heartbeat" ? " by the heartbeat" : "";
  const rows = [
    ["Asked", turn.asked_at && `${fullTime(turn.asked_at)}${by}`],
    ["Agent", [line(turn.agent), line(turn.model)].filter(Boolean).join(" · ")],
    ["Took", turn.duration_ms ? duration(turn.duration_ms) : ""],
    ["Steps", `${turn.steps || items.length}, of these ${plural(calls, "call")}`],
    ["Input", tokens(usage?.input_tokens, usage?.cached_tokens, "from the cache")],
    ["Output", tokens(usage?.output_tokens, usage?.reasoning_tokens, "for thinking")],
    ["Cost", money(turn.cost_usd ?? usage?.cost_usd ?? 0)],
    ["Outcome", turn.state === "completed" ? outcomeWords(turn) || "Completed" : ""],
  ];
  return html`<p class="prompt record-prompt" dir="auto">${harmless(turn.prompt)}</p>
    <dl class="summary">
      ${rows.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${value}</bdi></dd></div>`)}
    </dl>`;
}

function tokens(all, part, words) {
  if (all === undefined || all === null) return "";
  return `${count(all)} tokens${part ? `, ${count(part)} ${words}` : ""}`;
}

/** The round of each item. What has none, as a thought, belongs to what comes after it. */
function roundsOf(items) {
  const rounds = [];
  let round = items.findLast((item) => isTop(item) && item.round)?.round ?? 1;
  for (let i = items.length - 1; i >= 0; i--) {
    if (isTop(items[i]) && items[i].round) ({ round } = items[i]);
    rounds[i] = round;
  }
  return rounds;
}

const isTop = (item) => item.parent === undefined || item.parent === null;

/** How deep an item stands: below the call of the sub-agent that it is of. */
function depthsOf(items) {
  const depths = [];
  items.forEach((item, i) => {
    const { parent } = item;
    depths[i] = isTop(item) || parent >= i ? 0 : Math.min(DEPTH, depths[parent] + 1);
  });
  return depths;
}

const KINDS = { thinking: "Thought", text: "Text", call: "Call", notice: "Notice", plan: "Plan", question: "Question" };

function Item({ item }) {
  const marks = [item.given_up && "given up", item.cut && "cut off", item.is_error && "failed"].filter(Boolean).join(", ");
  const shortened = item.shortened ? html`<p
      class="side-note">${item.shortened.toLocaleString()} characters are left out here; the NDJSON has them.</p>` : null;
  const body = BODIES[item.kind];
  if (!body) return null;
  return html`<p class="kind">${KINDS[item.kind]}${marks && html`<span
      class="marks">, ${marks}</span>`}</p>${body(item)}${shortened}`;
}

/** A record that cannot be shown as it should be: all that is known, as it came. */
function PlainRecord({ record }) {
  return html`<pre tabindex="0" role="group" aria-label="Record"><code>${harmless(JSON.stringify(record, null, 2))}</code></pre>`;
}

/** An item that cannot be shown as it should be: what it says, as it was written. */
function PlainItem({ item }) {
  const facts = JSON.stringify(item, null, 2);
  return html`<p class="kind">${KINDS[item.kind] ?? "Item"}</p><pre tabindex="0" role="group"
      aria-label="Item"><code>${harmless(item.text ?? facts)}</code></pre>`;
}

const BODIES = {
  thinking: (item) => html`<${Long} text=${item.text} name="thought" />`,
  text: (item) => html`<${Static} text=${item.text} />`,
  call: (item) => html`<${Call} item=${item} />`,
  notice: (item) => html`<p class=${`notice ${item.level}`} dir="auto">${harmless(item.text)}</p>`,
  plan: (item) => html`<ul class="plan">${(item.items ?? []).map((it) => html`<li data-status=${it.status}
      dir="auto"><span class="offscreen">${it.status.replace("_", " ")}: </span>${line(it.text)}</li>`)}</ul>`,
  question: (item) => html`<p class="prompt" dir="auto">${harmless(item.text)}</p>
    ${item.options?.length ? html`<p class="side-note"><bdi>${item.options.map(line).join(" · ")}</bdi></p>` : null}
    ${item.answer !== undefined && item.answer !== null && html`<p
        class="answered">Answer: <bdi>${line(item.answer)}</bdi></p>`}`,
};

function Static({ text }) {
  const root = useRef(null);
  useLayoutEffect(() => {
    const prose = new Prose(root.current);
    prose.show(text ?? "", false);
    return () => prose.close();
  }, [text]);
  return html`<div class="prose" ref=${root}></div>`;
}

function Long({ text, name }) {
  const shown = harmless(text).trim();
  if (shown.length < 400) return html`<p class="thought" dir="auto">${shown}</p>`;
  const first = line(shown).slice(0, 120);
  return html`<details class="fold"><summary><bdi>${first}…</bdi><span
      class="offscreen"> (all of the ${name})</span></summary><p class="thought" dir="auto">${shown}</p></details>`;
}

function Call({ item }) {
  const title = line(item.title) || line(item.name) || "Call";
  const facts = [
    line(item.name) !== title && line(item.name),
    item.until !== undefined && item.until !== null && duration(Math.max(0, item.until - item.at)),
    item.exit_code !== undefined && item.exit_code !== null && item.exit_code !== 0 && `exit ${item.exit_code}`,
  ].filter(Boolean);
  return html`<details class="fold call" data-failed=${item.is_error || undefined}>
    <summary><bdi class="call-title">${title}</bdi><span
        class="call-facts">${facts.map((it) => html`<bdi>${it}</bdi>`)}</span></summary>
    ${item.input && html`<h3>Input</h3><pre tabindex="0" role="group"
        aria-label="Input"><code>${pretty(item.input)}</code></pre>`}
    ${item.output ? html`<h3>Output</h3><pre tabindex="0" role="group"
        aria-label="Output"><code>${harmless(item.output)}</code></pre>` : html`<p class="side-note">No output.</p>`}
  </details>`;
}

function pretty(input) {
  try {
    return harmless(JSON.stringify(typeof input === "string" ? JSON.parse(input) : input, null, 2));
  } catch {
    return harmless(input);
  }
}
