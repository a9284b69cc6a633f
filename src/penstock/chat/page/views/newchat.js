// A new chat: what to do, by whom, where, and how far it may go.

import { keepFacts, keptFacts } from "../keeping.js";
import { startChat, trust } from "../state.js";
import { base, line } from "../text.js";
import { Choice, Coded, CopyButton, html, useAct, useEffect, useState, Wrong } from "../ui.js";
import { ALLOW, allowLabel, allowWords, sentence } from "../words.js";
import { Composer } from "./composer.js";
import { Loading, Missing } from "./states.js";

const LAST = "penstock.last"; // what was chosen for the last new chat
const OTHER = "\0other";

/** Whether an agent is there, and only something else is missing; else its program is. */
const isBlocked = (agent) => !agent.available && Boolean(agent.reason) && (agent.installed || !agent.install);

/** The directories to choose from, the last used first: each once. */
function places(workspaces) {
  const all = [...(workspaces?.recent ?? []), ...(workspaces?.roots ?? [])];
  return [...new Map(all.map((it) => [it.path, it])).values()];
}

export function NewChat({ app }) {
  const [chosen, setChosen] = useState(() => keptFacts(LAST));
  const [other, setOther] = useState("");
  const [model, setModel] = useState("");
  const [busy, error, run] = useAct();
  const ready = app.agents.filter((agent) => agent.available);
  const blocked = app.agents.filter(isBlocked);
  const missing = app.agents.filter((agent) => !agent.available && !isBlocked(agent));
  const known = (name) => ready.some((agent) => agent.name === name);
  const agent = [chosen.agent, app.about.default_agent, ready[0]?.name].find(known);
  const dirs = places(app.workspaces);
  const cwd = chosen.cwd === OTHER || dirs.some((it) => it.path === chosen.cwd) ? chosen.cwd : (dirs[0]?.path ?? OTHER);
  const allow = ALLOW.some((it) => it.value === chosen.allow) ? chosen.allow : "default";
  const choose = (change) => setChosen({ ...chosen, ...change });
  useEffect(() => {
    if (agent) keepFacts(LAST, { agent, allow, cwd: cwd === OTHER ? undefined : cwd });
  }, [agent, cwd, allow]);
  useEffect(() => setModel(""), [agent]); // the model of one agent is none of another's

  const path = cwd === OTHER ? other.trim() : cwd;
  const send = async (text) => {
    const chat = { agent, cwd: path, allow, ...(model.trim() && { model: model.trim() }) };
    return (await run(() => startChat(chat, text))) === true;
  };
  if (!app.workspaces) return app.trouble ? html`<${Missing} title="Something went wrong" words=${app.trouble} />` : html`<${Loading} />`;
  if (!ready.length) return html`<${NoAgent} missing=${missing} blocked=${blocked} roots=${app.workspaces.roots} />`;
  const facts = ready.find((it) => it.name === agent);
  return html`<section class="start" aria-labelledby="start-title">
    <h1 id="start-title">What would you like to do?</h1>
    <${Composer} draft="new" label="First message" placeholder=${`Message ${line(agent)}`}
        maxBytes=${app.about.max_prompt_bytes} onSend=${send}
      busy=${busy || !path}>
      <div class="choices" role="group" aria-label="For this chat">
        <${Choice} label="Agent" value=${agent} onChange=${(value) => choose({ agent: value })}
          options=${[...ready, ...blocked].map((it) => ({ value: it.name, label: line(it.name), disabled: !it.available }))} />
        <${Choice} label="Directory" value=${cwd} onChange=${(value) => choose({ cwd: value })}
          options=${[...dirs.map((it) => ({ value: it.path, label: short(it.path, dirs) })), { value: OTHER, label: "Another directory…" }]} />
        <${Choice} label="Permissions" value=${allow} onChange=${(value) => choose({ allow: value })}
            options=${ALLOW.map(({ value }) => ({ value, label: allowLabel(value, facts) }))} />
        <${Model} models=${facts.models} value=${model} onChange=${setModel} />
      </div>
      ${cwd === OTHER && html`<label class="other"><span>Its path</span>
        <input value=${other} placeholder=${app.workspaces?.roots[0]?.path ?? "/"} spellcheck=${false}
            autocapitalize="off" onInput=${(event) => setOther(event.target.value)} /></label>`}
    <//>
    <${Wrong}>${error}<//>
    <p class="start-note">${allowWords(allow, facts)}${cwd !== OTHER && html` It works in <bdi
        class="path">${line(path)}</bdi>.`}</p>
    ${blocked.length > 0 && html`<${Blocked} agents=${blocked} roots=${app.workspaces.roots} />`}
    ${missing.length > 0 && html`<${Installable} agents=${missing} />`}
  </section>`;
}

/** The model: one of those that the agent lists, or a name; without one the agent chooses. */
function Model({ models, value, onChange }) {
  if (models?.length) {
    return html`<${Choice} label="Model" value=${value || models[0]} onChange=${onChange}
      options=${models.map((name) => ({ value: name, label: line(name) }))} />`;
  }
  return html`<label class="choice model"><span class="offscreen">Model</span>
    <input value=${value} placeholder="Model: its own" spellcheck=${false} autocapitalize="off"
        onInput=${(event) => onChange(event.target.value)} /></label>`;
}

/** The agents that are there and cannot be started yet, and why; with a button where a directory has to be trusted. */
function Blocked({ agents, roots }) {
  const untrusted = (reason) => roots.find((it) => !it.trusted && reason.includes(it.path));
  const item = (it) => {
    const place = untrusted(it.reason);
    return html`<div key=${it.name}><dt><bdi>${line(it.name)}</bdi></dt>
      <dd><${Reason} text=${it.reason} />${place && html`<button type="button" class="button"
          onClick=${() => trust(place.path)}>Trust this directory</button>`}</dd></div>`;
  };
  return html`<section class="blocked"><h2>Cannot be started yet</h2><dl class="how-to">${agents.map(item)}</dl></section>`;
}

const Reason = ({ text }) => html`<span><${Coded} text=${sentence(line(text))} /></span>`;

/** A directory by its name, or by all of its path where another one is called the same. */
function short(path, dirs) {
  const same = dirs.filter((it) => base(it.path) === base(path));
  return same.length > 1 ? line(path) : base(path);
}

function Installable({ agents }) {
  return html`<details class="installable"><summary>${agents.length} more agents can be installed</summary>
    <${HowTo} agents=${agents} /></details>`;
}

function HowTo({ agents }) {
  return html`<dl class="how-to">${agents.map((it) => html`<div key=${it.name}><dt><bdi>${line(it.name)}</bdi></dt>
    <dd>${it.install ? html`<code>${line(it.install)}</code><${CopyButton} text=${it.install}
        label=${`Copy how to install ${line(it.name)}`} />` : "Its program is not on this machine."}</dd>
    ${it.reason && html`<dd class="why"><${Reason} text=${it.reason} /></dd>`}</div>`)}</dl>`;
}

function NoAgent({ missing, blocked, roots }) {
  return html`<section class="start"><h1>${blocked.length ? "No agent can be started yet" : "No agent is installed"}</h1>
    <p>Penstock runs the coding agents of this machine. Install one and sign in to it once in a terminal; this page then
      shows it by itself.</p>
    ${blocked.length > 0 && html`<${Blocked} agents=${blocked} roots=${roots} />`}
    <${HowTo} agents=${missing} /></section>`;
}
