// A new chat: what to do, by whom, where, and how far it may go.

import { keepFacts, keptFacts } from "../keeping.js";
import { startChat } from "../state.js";
import { base, line } from "../text.js";
import { Choice, CopyButton, html, useAct, useEffect, useState, Wrong } from "../ui.js";
import { ALLOW, allowLabel, allowWords } from "../words.js";
import { Composer } from "./composer.js";
import { Loading, Missing } from "./states.js";

const LAST = "penstock.last"; // what was chosen for the last new chat
const OTHER = "\0other";

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
  const installed = app.agents.filter((agent) => agent.installed);
  const missing = app.agents.filter((agent) => !agent.installed);
  const known = (name) => installed.some((agent) => agent.name === name);
  const agent = [chosen.agent, app.about.default_agent, installed[0]?.name].find(known);
  const dirs = places(app.workspaces);
  const cwd = chosen.cwd === OTHER || dirs.some((it) => it.path === chosen.cwd) ? chosen.cwd : (dirs[0]?.path ?? OTHER);
  const allow = ALLOW.some((it) => it.value === chosen.allow) ? chosen.allow : "default";
  const choose = (change) => setChosen({ ...chosen, ...change });
  useEffect(() => {
    keepFacts(LAST, { agent, allow, cwd: cwd === OTHER ? undefined : cwd });
  }, [agent, cwd, allow]);

  const path = cwd === OTHER ? other.trim() : cwd;
  const send = async (text) => {
    const chat = { agent, cwd: path, allow, ...(model.trim() && { model: model.trim() }) };
    return (await run(() => startChat(chat, text))) === true;
  };
  if (!app.workspaces) return app.trouble ? html`<${Missing} title="Something went wrong" words=${app.trouble} />` : html`<${Loading} />`;
  if (!installed.length) return html`<${NoAgent} agents=${missing} />`;
  const facts = installed.find((it) => it.name === agent);
  return html`<section class="start" aria-labelledby="start-title">
    <h1 id="start-title">What would you like to do?</h1>
    <${Composer} draft="new" label="First message" placeholder=${`Message ${line(agent)}`}
        maxBytes=${app.about.max_prompt_bytes} onSend=${send}
      busy=${busy || !path}>
      <div class="choices" role="group" aria-label="For this chat">
        <${Choice} label="Agent" value=${agent} onChange=${(value) => choose({ agent: value })}
          options=${installed.map((it) => ({ value: it.name, label: line(it.name) }))} />
        <${Choice} label="Directory" value=${cwd} onChange=${(value) => choose({ cwd: value })}
          options=${[...dirs.map((it) => ({ value: it.path, label: short(it.path, dirs) })), { value: OTHER, label: "Another directory…" }]} />
        <${Choice} label="Permissions" value=${allow} onChange=${(value) => choose({ allow: value })}
            options=${ALLOW.map(({ value }) => ({ value, label: allowLabel(value, facts) }))} />
        <label class="choice model"><span class="offscreen">Model</span>
          <input value=${model} placeholder="Model: its own" spellcheck=${false} autocapitalize="off"
              onInput=${(event) => setModel(event.target.value)} /></label>
      </div>
      ${cwd === OTHER && html`<label class="other"><span>Its path</span>
        <input value=${other} placeholder=${app.workspaces?.roots[0]?.path ?? "/"} spellcheck=${false}
            autocapitalize="off" onInput=${(event) => setOther(event.target.value)} /></label>`}
    <//>
    <${Wrong}>${error}<//>
    <p class="start-note">${allowWords(allow, facts)}${cwd !== OTHER && html` It works in <bdi
        class="path">${line(path)}</bdi>.`}</p>
    ${missing.length > 0 && html`<${Installable} agents=${missing} />`}
  </section>`;
}

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
        label=${`Copy how to install ${line(it.name)}`} />` : "Its program is not on this machine"}</dd></div>`)}</dl>`;
}

function NoAgent({ agents }) {
  return html`<section class="start"><h1>No agent is installed</h1>
    <p>Penstock drives the coding agents of this machine. Install one, sign in to it once in a terminal, and load this page again.</p>
    <${HowTo} agents=${agents} /></section>`;
}
