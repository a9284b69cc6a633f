// A new chat: what to do, by which agent, in which directory, and what it may do.

import {
  Choice,
  Coded,
  CopyButton,
  html,
  useAsync,
  useEffect,
  useRef,
  useState,
  withChecked,
  withValue,
  Wrong,
} from "../components/ui.js";
import { api, messageOf, OFFLINE, statusOf } from "../net/api.js";
import { confirmLevel, LAST, trust } from "../state/actions.js";
import { keepsLevel } from "../state/branches.js";
import { freeOf, isReady, machineFor, machinesOf, offerOf } from "../state/machines.js";
import { effortsOf } from "../state/models.js";
import { isOwner, isReader } from "../state/people.js";
import { startChat } from "../state/start-chat.js";
import { readObject, writeObject } from "../state/storage.js";
import { openDialog } from "../state/store.js";
import { notKeptText, sentence } from "../text/copy.js";
import { ago, base, oneLine, plural } from "../text/format.js";
import { chosenLevel } from "../text/permissions.js";
import { Composer } from "./composer.js";
import { lazy } from "./lazy.js";
import { ModelField, useModels } from "./model-field.js";
import { Loading, Missing } from "./status-pages.js";

/** @typedef {import("../state/attachments.js").Item} Item */
/** @typedef {import("../state/store.js").State} State */
/** @typedef {import("../state/machines.js").Offer} Offer */
/** @typedef {{ agent?: string, cwd?: string, level?: string, home?: string }} Chosen
 *   `level`: the kind of a level, which is the person's, whatever agent is chosen. */

const RECENT = "penstock.recent"; // what was chosen for the new chats before
const MAX_RECENT = 3;
const OTHER = "\0other";
const DIRECTORY_MS = 300; // a path that is being written is asked for once it rests
const EXAMPLES = [
  "Explain what this project does, and how its parts work together.",
  "Run the tests, and find out why the first one fails.",
  "Find the code that is hardest to read, and say how it could be simpler.",
];

const DirectoryField = lazy(async () => (await import("./directory-field.js")).DirectoryField, { isBeside: true });

/**
 * Whether an agent is there, and only something else is missing; else its program is.
 *
 * @param {Api.AgentView} agent
 */
function isBlocked(agent) {
  return !agent.available && Boolean(agent.reason) && (agent.installed || !agent.install);
}

/**
 * The directories to choose from, the last used first: each once.
 *
 * @param {Api.WorkspaceList} workspaces
 */
function directoriesOf({ recent, roots }) {
  return [...new Map([...recent, ...roots].map((it) => [it.path, it])).values()];
}

/** @param {{ app: State }} props */
export function NewChat({ app }) {
  const [chosen, setChosen] = useState(/** @returns {Chosen} */ () => readObject(LAST));
  const shown = useRef(/** @type {string | undefined} */ (undefined));
  const choose = (/** @type {Chosen} */ change) => {
    if (change.home) shown.current = change.home;
    setChosen({ ...chosen, ...change });
  };
  const { about, nodes } = app;
  if (!app.workspaces || !about) {
    return app.problem ? html`<${Missing} title="Something went wrong" text=${app.problem} />` : html`<${Loading} />`;
  }
  if (isReader()) {
    return html`<${Missing} title="You can read the chats of the team" text="They are in the list. To write to agents, ask an owner of this server." />`;
  }
  const machine = machineFor(nodes, chosen.home, shown.current);
  shown.current = machine?.name;
  const offer = offerOf(app, machine);
  const { agents, workspaces } = offer;
  if (about.node && !machine && !nodes.some((it) => it.is_here && it.about.roots?.length)) {
    return html`<${NoMachine} nodes=${nodes} />`;
  }
  const blocked = agents.filter(isBlocked);
  const missing = agents.filter((agent) => !agent.available && !isBlocked(agent));
  const { roots } = workspaces;
  if (!agents.some((agent) => agent.available)) {
    return html`<${NoAgent} missing=${missing} blocked=${blocked} roots=${roots} />`;
  }
  return html`<section class="start" aria-labelledby="start-title">
    <h1 id="start-title">What would you like to do?</h1>
    <${Form}
      about=${about}
      nodes=${nodes}
      offer=${offer}
      chosen=${chosen}
      choose=${choose}
      isFirst=${app.chats?.length === 0}
    />
    ${blocked.length > 0 && html`<${Blocked} agents=${blocked} roots=${roots} />`}
    ${missing.length > 0 && html`<${Installable} agents=${missing} />`}
  </section>`;
}

/**
 * @param {{ about: Api.About, nodes: Api.NodeView[], offer: Offer, chosen: Chosen,
 *   choose: (change: Chosen) => void, isFirst: boolean }} props  `isFirst`: there is no chat yet.
 */
function Form({ about, nodes, offer, chosen, choose, isFirst }) {
  const { machine, agents, workspaces } = offer;
  const directories = directoriesOf(workspaces);
  const { agent, cwd } = useUsable(chosen, about, offer, directories);
  const { level, wanted, isKept } = chosenLevel(agent, chosen.level);
  /** @type {Api.ChatView["allow"]} */
  const allow = level?.allow ?? "default";
  const machines = machinesOf(nodes);
  const [other, setOther] = useState("");
  const [model, setModel] = useState("");
  const [chosenEffort, setEffort] = useState("");
  const [listed, loadModels] = useModels(agent.name, machine?.is_here ?? true);
  const efforts = effortsOf(listed, model, []); // those of a model that is known
  const effort = efforts.includes(chosenEffort) ? chosenEffort : "";
  const [isBusy, error, run] = useAsync();
  const [given, setGiven] = useState(/** @type {{ text: string } | null} */ (null));
  useEffect(() => setModel(""), [agent.name, machine?.name]); // the model of one agent is none of another's

  const on = machine && machines.length > 1 && html` on <bdi>${oneLine(machine.name)}</bdi>`;
  const path = cwd === OTHER ? other.trim() : cwd;
  const isHere = machine?.is_here ?? true;
  const { state, problem } = useDirectory(path, isHere);
  const [isApart, setApart] = useState(false);
  const [chosenAlso, setAlso] = useState("");
  useEffect(() => {
    setApart(false); // it is chosen for one directory, and never by default
    setAlso("");
  }, [path]);
  const canAlso = (/** @type {Api.AgentView} */ it) =>
    it.available && it.name !== agent.name && keepsLevel(level, it) !== false;
  const able = state?.tree ? agents.filter(canAlso) : [];
  const also = able.find((it) => it.name === chosenAlso)?.name ?? "";
  const send = async (/** @type {string} */ text, /** @type {unknown} */ _, /** @type {Item[]} */ items) => {
    if (!isKept && level && !(await confirmLevel(agent.name, wanted, level))) return false;
    const home = machine && { home: machine.name };
    const chat = {
      agent: agent.name,
      cwd: path,
      allow,
      ...home,
      ...(model.trim() && { model: model.trim() }),
      ...(effort && { effort }),
      ...((isApart || also) && { tree: true }),
    };
    const isStarted = (await run(() => startChat(chat, text, items, also))) === true;
    if (isStarted && cwd !== OTHER) remember({ agent: agent.name, cwd, level: wanted, home: machine?.name });
    return isStarted;
  };
  return html`<${Composer}
      draft="new"
      label="First message"
      placeholder=${`Message ${oneLine(agent.name)}`}
      maxBytes=${about.max_prompt_bytes}
      chat=""
      place=${{ agent: agent.name, cwd: path }}
      maxFileBytes=${about.max_attachment_bytes}
      onSend=${send}
      busy=${isBusy || !path}
      text=${given}
    >
      <div class="choices" role="group" aria-label="For this chat">
        ${
          machine &&
          machines.length > 1 &&
          html`<${Labelled} name="Machine">
            <${Choice}
              label="Machine"
              value=${machine.name}
              options=${machines.map(machineOption)}
              onChange=${(/** @type {string} */ value) => choose({ home: value })}
            />
          <//>`
        }
        <${Labelled} name="Agent">
          <${Choice}
            label="Agent"
            value=${agent.name}
            options=${agentOptions(agents)}
            onChange=${(/** @type {string} */ value) => choose({ agent: value })}
          />
        <//>
        <${Labelled} name="Directory">
          <${Choice}
            label="Directory"
            value=${cwd}
            options=${directoryOptions(directories)}
            onChange=${(/** @type {string} */ value) => choose({ cwd: value })}
          />
        <//>
        <${Labelled} name="Permissions">
          <${Choice}
            label="Permissions"
            value=${allow}
            level=${level?.kind}
            options=${agent.allows.map((it) => ({ value: it.allow, label: it.label }))}
            onChange=${(/** @type {string} */ value) => choose({ level: agent.allows.find((it) => it.allow === value)?.kind })}
          />
        <//>
        <${Labelled} name="Model">
          <${Model} offered=${agent.models} listed=${listed} value=${model} onChange=${setModel} onFocus=${loadModels} />
        <//>
        ${
          efforts.length > 0 &&
          html`<${Labelled} name="Effort">
            <${Choice} label="Effort" value=${effort} options=${effortOptions(efforts)} onChange=${setEffort} />
          <//>`
        }
      </div>
      ${
        cwd === OTHER &&
        html`<${DirectoryField}
        value=${other}
        roots=${workspaces.roots}
        canOffer=${isHere}
        isChosen=${chosen.cwd === OTHER}
        onChange=${setOther}
      />`
      }
    <//>
    <${Wrong}>${error}<//>
    ${cwd === OTHER && html`<p class="start-note" role="status">${!error && problem}</p>`}
    <p class="start-note" data-kept=${isKept}>
      <${Coded} text=${level ? (isKept ? level.text : notKeptText(agent.name, wanted, level)) : ""} />${cwd !== OTHER && html` It works in <bdi class="path">${oneLine(path)}</bdi>${on}.`}<${GitState} state=${state} />
    </p>
    ${
      state?.tree &&
      html`<label class="switch start-tree">
        <input type="checkbox" checked=${isApart || also !== ""} disabled=${also !== ""} onChange=${withChecked(setApart)} />
        <span>In a worktree of its own<small>A directory beside the repository, with a new branch that lands when you say so</small></span>
      </label>`
    }
    ${
      able.length > 0 &&
      html`<div class="start-also">
        <${Labelled} name="Also ask">
          <${Choice} label="Also ask" value=${also} options=${alsoOptions(able)} onChange=${setAlso} />
        <//>
        ${also && html`<p class="start-note">Both get this message, each in a chat and a worktree of its own. Keep the better one.</p>`}
      </div>`
    }
    <${Recent} agents=${agents} directories=${directories} now=${{ agent: agent.name, cwd, level: wanted }} choose=${choose} />
    ${
      isOwner() &&
      isHere &&
      html`<p class="start-more">
        <button type="button" class="quiet" onClick=${() => openDialog({ kind: "sessions" })}>Continue from a terminal…</button>
      </p>`
    }
    ${isFirst && html`<${Examples} onChoose=${(/** @type {string} */ text) => setGiven({ text })} />`}`;
}

/** A choice with its name above, which its control has too. @param {{ name: string, children?: import("preact").ComponentChildren }} props */
function Labelled({ name, children }) {
  return html`<div class="labelled"><span aria-hidden="true">${name}</span>${children}</div>`;
}

/** @returns {Chosen[]} */
function recent() {
  const { list } = readObject(RECENT);
  return Array.isArray(list) ? list.filter((it) => typeof it?.agent === "string" && typeof it.cwd === "string") : [];
}

/** @param {Chosen} chosen */
function remember(chosen) {
  const others = recent().filter((it) => JSON.stringify(it) !== JSON.stringify(chosen));
  writeObject(RECENT, { list: [chosen, ...others].slice(0, MAX_RECENT + 1) });
}

/**
 * What was chosen before, each as one click, as far as it is still there and is not chosen now.
 *
 * @param {{ agents: Api.AgentView[], directories: Api.Workspace[], now: Chosen, choose: (change: Chosen) => void }} props
 */
function Recent({ agents, directories, now, choose }) {
  const labelOf = (/** @type {Chosen} */ { agent, cwd = "", level }) => {
    const found = agents.find((it) => it.name === agent && it.available);
    if (!found || !directories.some((it) => it.path === cwd)) return "";
    const allowed = found.allows.find((it) => it.kind === level)?.label.toLowerCase();
    return [oneLine(agent), shortPath(cwd, directories), allowed].filter(Boolean).join(" · ");
  };
  const isNow = (/** @type {Chosen} */ it) => it.agent === now.agent && it.cwd === now.cwd && it.level === now.level;
  const shown = recent()
    .filter((it) => !isNow(it) && labelOf(it))
    .slice(0, MAX_RECENT);
  if (!shown.length) return null;
  return html`<div class="offers" role="group" aria-label="Used before">
    <span aria-hidden="true">As before:</span>
    ${shown.map(
      (it) =>
        html`<button type="button" class="button" key=${labelOf(it)} onClick=${() => choose(it)}>
          <bdi>${labelOf(it)}</bdi>
        </button>`,
    )}
  </div>`;
}

/** @param {{ onChoose: (text: string) => void }} props */
function Examples({ onChoose }) {
  return html`<div class="offers examples" role="group" aria-label="Examples">
    <span aria-hidden="true">To begin with:</span>
    ${EXAMPLES.map(
      (text) => html`<button type="button" class="button" key=${text} onClick=${() => onChoose(text)}>${text}</button>`,
    )}
  </div>`;
}

/**
 * What is chosen, as far as it is still there; this browser keeps it for the next new chat.
 *
 * @param {Chosen} chosen
 * @param {Api.About} about
 * @param {Offer} offer
 * @param {Api.Workspace[]} directories
 * @returns {{ agent: Api.AgentView, cwd: string }}
 */
function useUsable(chosen, about, { machine, agents }, directories) {
  const { level, home } = chosen;
  const ready = agents.filter((agent) => agent.available);
  const byDefault = machine ? machine.about.agents?.[0] : about.default_agent;
  const named = [chosen.agent, byDefault].map((name) => ready.find((agent) => agent.name === name));
  const agent = named.find(Boolean) ?? ready[0];
  const isThere = chosen.cwd === OTHER || directories.some((it) => it.path === chosen.cwd);
  const cwd = isThere && chosen.cwd ? chosen.cwd : (directories[0]?.path ?? OTHER);
  useEffect(() => {
    writeObject(LAST, { agent: agent.name, level, cwd: cwd === OTHER ? undefined : cwd, home });
  }, [agent.name, cwd, level, home]);
  return { agent, cwd };
}

/**
 * A machine, with how many agents can begin there at once, or why none can.
 *
 * @param {Api.NodeView} node
 */
function machineOption(node) {
  const state = isReady(node) ? `${freeOf(node)} free` : node.is_live ? "no agents" : "away";
  return { value: node.name, label: `${oneLine(node.name)} · ${state}`, disabled: !isReady(node) };
}

/** @param {Api.AgentView[]} agents */
function agentOptions(agents) {
  const shown = [...agents.filter((agent) => agent.available), ...agents.filter(isBlocked)];
  return shown.map((it) => ({ value: it.name, label: oneLine(it.name), disabled: !it.available }));
}

/** @param {Api.AgentView[]} agents */
const alsoOptions = (agents) => [
  { value: "", label: "No other agent" },
  ...agents.map((it) => ({ value: it.name, label: oneLine(it.name) })),
];

/** @param {Api.Workspace[]} directories */
function directoryOptions(directories) {
  const options = directories.map((it) => ({ value: it.path, label: shortPath(it.path, directories) }));
  return [...options, { value: OTHER, label: "Another directory…" }];
}

/**
 * What is known of a directory once somebody has begun to write or choose: its branch and changes, or why no chat can
 * begin there. A directory of another machine is not asked for.
 *
 * @param {string} path
 * @param {boolean} isHere
 * @returns {{ state?: Api.DirectoryState, problem?: string }}
 */
function useDirectory(path, isHere) {
  const [isUsed, setUsed] = useState(false);
  const [known, setKnown] = useState(
    /** @type {{ path: string, state?: Api.DirectoryState, problem?: string }} */ ({ path: "" }),
  );
  useEffect(() => {
    const use = () => setUsed(true);
    document.addEventListener("input", use, { once: true });
    return () => document.removeEventListener("input", use);
  }, []);
  useEffect(() => {
    if (!isUsed || !isHere || !path) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      api.directory(path).then(
        (state) => isOld || setKnown({ path, state }),
        (error) => isOld || setKnown({ path, problem: statusOf(error) === OFFLINE ? "" : messageOf(error) }),
      );
    }, DIRECTORY_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [path, isHere, isUsed]);
  return known.path === path ? known : {};
}

/**
 * The branch of a directory and how many files are changed there.
 *
 * @param {{ state: Api.DirectoryState | undefined }} props
 */
function GitState({ state }) {
  if (!state?.branch && !state?.changes) return null;
  const { branch, changes } = state;
  return html`<span class="git-state">
    ${branch && html` Branch <bdi class="path">${oneLine(branch)}</bdi>${changes === null && "."}`}${
      typeof changes === "number" &&
      `${branch ? ", " : " "}${changes ? plural(changes, "changed file") : "no changes"}.`
    }
  </span>`;
}

/**
 * The model: one of those that the agent lists, or a name; without one the agent chooses.
 *
 * @param {{ offered: string[] | undefined, listed: Api.AgentModel[], value: string, onChange: (value: string) => void,
 *   onFocus: () => void }} props  `offered`: the only ones that there are; `listed`: those that the agent knows.
 */
function Model({ offered, listed, value, onChange, onFocus }) {
  if (offered?.length) {
    const options = offered.map((name) => ({ value: name, label: oneLine(name) }));
    return html`<${Choice} label="Model" value=${value || offered[0]} onChange=${onChange} options=${options} />`;
  }
  return html`<label class="choice model">
    <span class="offscreen">Model</span>
    <${ModelField}
      id="new-models"
      models=${listed}
      value=${value}
      placeholder="The agent's own"
      onChange=${onChange}
      onFocus=${onFocus}
    />
  </label>`;
}

/** The levels of effort of a model, after its own choice. @param {string[]} efforts */
const effortOptions = (efforts) => [
  { value: "", label: "Its own" },
  ...efforts.map((it) => ({ value: it, label: oneLine(it) })),
];

/**
 * The agents that are there and cannot be started yet, and why; with a button where a directory has to be trusted.
 *
 * @param {{ agents: Api.AgentView[], roots: Api.Workspace[] }} props
 */
function Blocked({ agents, roots }) {
  const item = (/** @type {Api.AgentView} */ { name, reason }) => {
    const untrusted = roots.find((it) => !it.trusted && reason?.includes(it.path));
    return html`<div key=${name}>
      <dt><bdi>${oneLine(name)}</bdi></dt>
      <dd>
        <${Reason} text=${reason} />
        ${
          untrusted &&
          html`<button type="button" class="button" onClick=${() => trust(untrusted.path)}>Trust this directory</button>`
        }
      </dd>
    </div>`;
  };
  return html`<section class="blocked">
    <h2>Cannot be started yet</h2>
    <dl class="how-to">${agents.map(item)}</dl>
  </section>`;
}

const Reason = (/** @type {{ text: string }} */ { text }) =>
  html`<span><${Coded} text=${sentence(oneLine(text))} /></span>`;

/**
 * A directory by its name, or by all of its path if another one has the same name.
 *
 * @param {string} path
 * @param {Api.Workspace[]} directories
 */
function shortPath(path, directories) {
  const same = directories.filter((it) => base(it.path) === base(path));
  return same.length > 1 ? oneLine(path) : base(path);
}

/** @param {{ agents: Api.AgentView[] }} props */
function Installable({ agents }) {
  return html`<details class="installable">
    <summary>${agents.length} more agents can be installed</summary>
    <${HowTo} agents=${agents} />
  </details>`;
}

/** @param {{ agents: Api.AgentView[] }} props */
function HowTo({ agents }) {
  const item = (/** @type {Api.AgentView} */ { name, install, reason }) =>
    html`<div key=${name}>
      <dt><bdi>${oneLine(name)}</bdi></dt>
      <dd>
        ${
          install
            ? html`<code>${oneLine(install)}</code>
                <${CopyButton} text=${install} label=${`Copy how to install ${oneLine(name)}`} />`
            : "Its program is not on this machine."
        }
      </dd>
      ${reason && html`<dd class="why"><${Reason} text=${reason} /></dd>`}
    </div>`;
  return html`<dl class="how-to">${agents.map(item)}</dl>`;
}

/** @param {{ nodes: Api.NodeView[] }} props */
function NoMachine({ nodes }) {
  const item = (/** @type {Api.NodeView} */ { name, seen_seconds: seen, is_live: isLive }) =>
    html`<div key=${name}>
      <dt><bdi>${oneLine(name)}</bdi></dt>
      <dd>${isLive ? "no agent is installed" : `away, last seen ${ago(Date.now() - seen * 1000)}`}</dd>
    </div>`;
  const text =
    "Agents work on machines that share this store and where `penstock serve` was started with `--root`. " +
    "Once one is there, this page shows it by itself.";
  return html`<section class="start">
    <h1>No machine with agents is there</h1>
    <p><${Coded} text=${text} /></p>
    <dl class="how-to">
      ${machinesOf(nodes).map(item)}
    </dl>
  </section>`;
}

/** @param {{ missing: Api.AgentView[], blocked: Api.AgentView[], roots: Api.Workspace[] }} props */
function NoAgent({ missing, blocked, roots }) {
  return html`<section class="start">
    <h1>${blocked.length ? "No agent can be started yet" : "No agent is installed"}</h1>
    <p>
      Penstock runs the coding agents of this machine. Install one and sign in to it once in a terminal; this page then
      shows it by itself. Those that were tested most come first.
    </p>
    ${blocked.length > 0 && html`<${Blocked} agents=${blocked} roots=${roots} />`}
    <${HowTo} agents=${missing} />
  </section>`;
}
