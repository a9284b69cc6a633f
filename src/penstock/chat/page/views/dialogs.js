// The dialogs.

import {
  Coded,
  CopyButton,
  Dialog,
  html,
  useAsync,
  useEffect,
  useState,
  withChecked,
  withValue,
  Wrong,
} from "../components/ui.js";
import { api } from "../net/api.js";
import { allowAndGoOn, changeChat, deleteChat, deleteSelected } from "../state/actions.js";
import { effortsOf, usualEffort } from "../state/models.js";
import { hasSound, notifying, setNotifying, setSound } from "../state/notifications.js";
import { canPush, pushedFor } from "../state/called.js";
import { setPushedFor } from "../state/push.js";
import { selected } from "../state/selection.js";
import { signOut } from "../state/session.js";
import { agentOf, chatOf, closeDialog, hasMachines, machineOf, openDialog, state } from "../state/store.js";
import { reachableUrl } from "../text/copy.js";
import { SHORTCUTS } from "../text/shortcuts.js";
import { ago, money, oneLine, plural } from "../text/format.js";
import { levelOf } from "../text/permissions.js";
import { PictureDialog } from "./attachments.js";
import { lazy } from "./lazy.js";
import { Machines } from "./machines.js";
import { ModelField, useModels } from "./model-field.js";
import { Share } from "./share.js";

const branch = () => import("./branch.js");
const EditInNewChat = lazy(async () => (await branch()).EditInNewChat, { isBeside: true });
const AskAnother = lazy(async () => (await branch()).AskAnother, { isBeside: true });
const LandChat = lazy(async () => (await import("./land-chat.js")).LandChat, { isBeside: true });
const Terminal = lazy(async () => (await import("./terminal.js")).Terminal, { isBeside: true });
const Sessions = lazy(async () => (await import("./sessions.js")).Sessions, { isBeside: true });
const Costs = lazy(async () => (await import("./costs.js")).Costs, { isBeside: true });
const QrCode = lazy(async () => (await import("./qr-code.js")).QrCode, { isBeside: true });

/** @typedef {import("preact").ComponentChildren} Children */
/** @typedef {{ chat: Api.ChatView }} OfChat */

const NEW_HEARTBEAT = { minutes: 60, prompt: "", quiet: null, on: false };
const USUAL_QUIET = "22:00-07:00";

/** @param {{ app: import("../state/store.js").State }} props */
export function Dialogs({ app }) {
  const { dialog } = app;
  if (!dialog) return null;
  const chat = chatOf(dialog.id);
  if (dialog.id && !chat) return null;
  const View = VIEWS[dialog.kind];
  return html`<${View} key=${dialog.kind} chat=${chat} dialog=${dialog} />`;
}

/** @param {{ children?: Children, careful?: boolean, onClose?: () => void }} props */
function Buttons({ children, careful = false, onClose = closeDialog }) {
  return html`<footer class="dialog-buttons">
    <button type="button" class="button" autofocus=${careful} onClick=${onClose}>Cancel</button>
    ${children}
  </footer>`;
}

/**
 * The form of a dialog, which is closed once `save` has done its work.
 *
 * @param {{ save: () => Promise<void>, children?: Children }} props
 */
function SavedForm({ save, children }) {
  const [isBusy, error, run] = useAsync();
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const isSaved = await run(async () => {
      await save();
      return true;
    });
    if (isSaved) closeDialog();
  };
  return html`<form onSubmit=${submit}>
    ${children}
    <${Wrong}>${error}<//>
    <${Buttons}><button type="submit" class="button primary" disabled=${isBusy}>Save</button><//>
  </form>`;
}

/** @param {OfChat} props */
function Settings({ chat }) {
  const [title, setTitle] = useState(chat.title ?? "");
  const [model, setModel] = useState(chat.model ?? "");
  const [effort, setEffort] = useState(chat.effort ?? "");
  const [allow, setAllow] = useState(chat.allow);
  const [budget, setBudget] = useState(chat.budget === null ? "" : String(chat.budget));
  const save = async () => {
    /** @type {Api.Changes} */
    const changes = {};
    if (title.trim() !== (chat.title ?? "")) changes.title = title.trim();
    if (model.trim() !== (chat.model ?? "")) changes.model = model.trim() || null;
    if (effort.trim() !== (chat.effort ?? "")) changes.effort = effort.trim() || null;
    if (allow !== chat.allow) changes.allow = allow;
    const most = budget.trim() ? Number(budget) : null;
    if (most !== chat.budget) changes.budget = most;
    if (Object.keys(changes).length) await changeChat(chat.id, changes);
  };
  const agent = agentOf(chat.agent);
  const isHere = state.nodes.find((it) => it.name === chat.home)?.is_here ?? true;
  const [models, loadModels] = useModels(chat.agent, isHere);
  const efforts = effortsOf(models, model, agent?.efforts ?? []);
  const current = levelOf(agent, allow);
  const machine = machineOf(chat);
  const level = (/** @type {Api.Level} */ it) =>
    html`<label>
      <input
        type="radio"
        name="allow"
        value=${it.allow}
        checked=${it === current}
        onChange=${() => setAllow(it.allow)}
      />
      <span><b data-level=${it.kind}>${it.label}</b><small><${Coded} text=${it.text} /></small></span>
    </label>`;
  return html`<${Dialog} title="Settings of this chat" name="settings" onClose=${closeDialog}>
    <${SavedForm} save=${save}>
      <label class="row">
        <span>Title</span>
        <input autofocus value=${title} maxlength="200" dir="auto" onInput=${withValue(setTitle)} />
      </label>
      <label class="row">
        <span>Model</span>
        <${ModelField}
          id="models"
          models=${models}
          value=${model}
          placeholder="The agent's own choice"
          onChange=${setModel}
          onFocus=${loadModels}
        />
      </label>
      ${
        (efforts.length > 0 || chat.effort || effort) &&
        html`<label class="row">
          <span>Effort</span>
          <input
            value=${effort}
            list="efforts"
            placeholder=${usualEffort(models, model)}
            spellcheck=${false}
            autocapitalize="off"
            onFocus=${loadModels}
            onInput=${withValue(setEffort)}
          />
          <datalist id="efforts">${efforts.map((it) => html`<option key=${it} value=${it}></option>`)}</datalist>
        </label>`
      }
      <label class="row">
        <span>Budget</span>
        <input
          value=${budget}
          type="number"
          min="0.01"
          step="any"
          inputmode="decimal"
          placeholder="US dollars; no limit"
          aria-describedby="spent"
          onInput=${withValue(setBudget)}
        />
      </label>
      <p class="side-note" id="spent">
        ${chat.spent > 0 ? `It has cost ${money(chat.spent)} so far.` : "Its agent has reported no cost so far."} At the
        budget a turn is stopped, and none begins.
      </p>
      <fieldset class="levels">
        <legend>Permission</legend>
        ${agent?.allows.map(level)}
      </fieldset>
      <p class="side-note">
        From the next turn on. It works in <bdi class="path">${oneLine(chat.cwd)}</bdi>${machine && ` on ${machine}`}.
      </p>
    <//>
  <//>`;
}

/** @param {OfChat} props */
function Heartbeat({ chat }) {
  const before = chat.heartbeat ?? NEW_HEARTBEAT;
  const [isOn, setOn] = useState(before.on ?? true);
  const [minutes, setMinutes] = useState(String(before.minutes));
  const [prompt, setPrompt] = useState(before.prompt);
  const [hasQuiet, setHasQuiet] = useState(Boolean(before.quiet));
  const [quiet, setQuiet] = useState(before.quiet ?? USUAL_QUIET);
  const save = async () => {
    const changed = { on: isOn, minutes: Number(minutes), prompt: prompt.trim(), quiet: hasQuiet ? quiet : null };
    await changeChat(chat.id, { heartbeat: isOn || chat.heartbeat ? changed : null });
  };
  return html`<${Dialog} title="Heartbeat" name="heartbeat" onClose=${closeDialog}>
    <${SavedForm} save=${save}>
      <p>
        Asks the agent the same thing again and again while it has nothing else to do. Your own message always goes
        first.
      </p>
      <label class="switch">
        <input type="checkbox" autofocus checked=${isOn} onChange=${withChecked(setOn)} /><span>On</span>
      </label>
      <fieldset disabled=${!isOn} class="plain">
        <legend class="offscreen">When and what</legend>
        <label class="row">
          <span>Every</span>
          <span class="with-unit">
            <input
              type="number"
              min="1"
              max="10080"
              required
              value=${minutes}
              onInput=${withValue(setMinutes)}
            />minutes
          </span>
        </label>
        <label class="row">
          <span>Ask</span>
          <textarea
            rows="3"
            required
            placeholder="Is there anything new that I should know?"
            value=${prompt}
            onInput=${withValue(setPrompt)}
          ></textarea>
        </label>
        <label class="switch">
          <input type="checkbox" checked=${hasQuiet} onChange=${withChecked(setHasQuiet)} /><span>Except in quiet hours</span>
        </label>
        ${hasQuiet && html`<${QuietHours} value=${quiet} onChange=${setQuiet} />`}
      </fieldset>
    <//>
  <//>`;
}

/** @param {{ value: string, onChange: (value: string) => void }} props */
function QuietHours({ value, onChange }) {
  const [from, to] = value.split("-");
  const field = (
    /** @type {string} */ label,
    /** @type {string} */ time,
    /** @type {(value: string) => void} */ change,
  ) => html`<input type="time" aria-label=${label} required value=${time} onInput=${withValue(change)} />`;
  return html`<div class="row">
    <span>Quiet hours</span>
    <span class="with-unit">
      ${field("Quiet from", from, (changed) => onChange(`${changed}-${to}`))}to
      ${field("Quiet until", to, (changed) => onChange(`${from}-${changed}`))}
    </span>
  </div>`;
}

/** @param {OfChat} props */
function Delete({ chat }) {
  const [isBusy, error, run] = useAsync();
  const remove = () => run(() => deleteChat(chat.id));
  return html`<${Dialog} title="Delete this chat?" name="delete" onClose=${closeDialog}>
    <p>
      <bdi>${oneLine(chat.title) || "This chat"}</bdi> and its details go for good.${" "}
      ${chat.state === "idle" ? "" : "What runs now is stopped. "}The files in its directory stay as they are.
    </p>
    ${
      chat.tree &&
      html`<p>
        What has not landed is kept on the branch <bdi>${oneLine(chat.tree.branch)}</bdi>, and in${" "}
        <bdi class="path">${oneLine(chat.cwd)}</bdi>. <code>penstock trees</code> lists it.
      </p>`
    }
    <${Wrong}>${error}<//>
    <${Buttons} careful>
      <button type="button" class="button danger" disabled=${isBusy} onClick=${remove}>Delete</button>
    <//>
  <//>`;
}

const NAMED = 5; // of more chats, the number is clearer

function DeleteSelected() {
  const [isBusy, error, run] = useAsync();
  const [chats] = useState(selected); // as they were shown when one decided
  const remove = async () => {
    const isDone = await run(async () => {
      await deleteSelected();
      return true;
    });
    if (isDone) closeDialog();
  };
  const number = plural(chats.length, "chat");
  return html`<${Dialog} title=${`Delete ${number}?`} name="delete_selected" onClose=${closeDialog}>
    <ul class="named">
      ${chats.slice(0, NAMED).map((it) => html`<li key=${it.id}><bdi>${oneLine(it.title) || "New chat"}</bdi></li>`)}
      ${chats.length > NAMED && html`<li>and ${chats.length - NAMED} more</li>`}
    </ul>
    <p>
      They and their details go for good.${" "}
      ${chats.every((it) => it.state === "idle") ? "" : "What runs now is stopped. "}The files in their directories stay as
      they are.
    </p>
    <${Wrong}>${error}<//>
    <${Buttons} careful>
      <button type="button" class="button danger" disabled=${isBusy} onClick=${remove}>Delete ${number}</button>
    <//>
  <//>`;
}

/** @param {{ dialog: import("../state/store.js").OpenDialog }} props */
function RemoveMachine({ dialog }) {
  const { home = "" } = dialog;
  const [isBusy, error, run] = useAsync();
  const back = () => openDialog({ kind: "nodes" });
  const remove = () =>
    run(async () => {
      await api.removeNode(home);
      back();
    });
  return html`<${Dialog} title="Remove this machine?" name="remove_node" onClose=${back}>
    <p>
      Its token no longer works, and browsers that signed in at <bdi>${oneLine(home)}</bdi> are signed out. Its chats can
      still be read, and go on if a machine of this name comes back.
    </p>
    <${Wrong}>${error}<//>
    <${Buttons} careful onClose=${back}>
      <button type="button" class="button danger" disabled=${isBusy} onClick=${remove}>Remove</button>
    <//>
  <//>`;
}

/** @param {{ dialog: import("../state/store.js").OpenDialog }} props */
function Trust({ dialog }) {
  const answer = (/** @type {boolean} */ isTrusted) => () => dialog.close?.(isTrusted);
  const on = dialog.home && hasMachines() && html` on <bdi>${oneLine(dialog.home)}</bdi>`;
  return html`<${Dialog} title="Do you trust this directory?" name="trust" onClose=${answer(false)}>
    <p><bdi class="path">${oneLine(dialog.path)}</bdi>${on}</p>
    <p>
      An agent that works here reads and follows the files in it, and may run what they configure: hooks, tools and
      commands. Trust it only if you know where its files come from. You are asked once${on && " for this machine"}.
    </p>
    <${Buttons} careful onClose=${answer(false)}>
      <button type="button" class="button primary" onClick=${answer(true)}>Trust</button>
    <//>
  <//>`;
}

/** @param {{ dialog: import("../state/store.js").OpenDialog }} props */
function ConfirmLevel({ dialog }) {
  const answer = (/** @type {boolean} */ isConfirmed) => () => dialog.close?.(isConfirmed);
  return html`<${Dialog} title="Send it nevertheless?" name="level" onClose=${answer(false)}>
    <p class="not-kept"><${Coded} text=${dialog.text ?? ""} /></p>
    <p>You are asked once for this agent.</p>
    <${Buttons} careful onClose=${answer(false)}>
      <button type="button" class="button primary" onClick=${answer(true)}>Send</button>
    <//>
  <//>`;
}

/**
 * Allow an agent more than before, once it was not enough, and let it go on.
 *
 * @param {OfChat & { dialog: import("../state/store.js").OpenDialog }} props
 */
function AllowMore({ chat, dialog }) {
  const [isBusy, error, run] = useAsync();
  const { level, text = "" } = dialog;
  if (!level) return null;
  const allow = async () => {
    const isSent = await run(async () => {
      await allowAndGoOn(chat.id, level.allow, text);
      return true;
    });
    if (isSent) closeDialog();
  };
  return html`<${Dialog} title="Allow this agent more?" name="allow" onClose=${closeDialog}>
    <p><b>${level.label}</b>: <${Coded} text=${level.text} /></p>
    <p>
      That applies to this chat from now on, until you change it in its settings. It works in${" "}
      <bdi class="path">${oneLine(chat.cwd)}</bdi>.
    </p>
    <p class="side-note">Then it gets this message: <bdi>${oneLine(text)}</bdi></p>
    <${Wrong}>${error}<//>
    <${Buttons} careful>
      <button type="button" class="button primary" disabled=${isBusy} onClick=${allow}>Allow and go on</button>
    <//>
  <//>`;
}

function Link() {
  const [link, setLink] = useState(/** @type {Api.Link | null} */ (null));
  const [, error, run] = useAsync();
  useEffect(() => {
    run(async () => setLink(await api.link()));
  }, []);
  const url = link && reachableUrl(link);
  return html`<${Dialog} title="Link for another device" name="link" onClose=${closeDialog}>
    ${link && !url && html`<${Unreachable} link=${link} />`}
    <p>
      ${link && !url ? "The link" : "It"} signs one browser in, once, within 15 minutes. Whoever has it can do what you
      can, so keep it to yourself.
    </p>
    ${link && html`<${LinkField} url=${url ?? link.url} />`}
    ${url && html`<${QrCode} text=${url} />`}
    <${Wrong}>${error}<//>
  <//>`;
}

/**
 * How another device can reach a server that listens on this machine only.
 *
 * @param {{ link: Api.Link }} props
 */
function Unreachable({ link }) {
  const { port, protocol } = new URL(link.url);
  const at = port || (protocol === "https:" ? "443" : "80");
  return html`<p>No other device can open this address: it is this machine's own. There are two ways.</p>
    <p><b>Another computer</b>: run this there, and open the link while it runs.</p>
    <${Command} text=${`ssh -L ${at}:127.0.0.1:${at} ${oneLine(link.host)}`} />
    <p>
      <b>A phone, or for good</b>: start Penstock with the name by which others reach it, behind a proxy with TLS, and make
      the link there. The documentation has the proxy's settings: Deploying the chat.
    </p>
    <${Command} text="penstock serve --allow-host chat.example.org" />`;
}

/** @param {{ text: string }} props */
function Command({ text }) {
  return html`<p class="command">
    <code>${text}</code>
    <${CopyButton} text=${text} label="Copy the command" />
  </p>`;
}

/** @param {{ url: string }} props */
function LinkField({ url }) {
  const select = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).select();
  return html`<p class="link">
    <input readonly aria-label="Link" value=${url} onFocus=${select} />
    <${CopyButton} text=${url} label="Copy the link" plain />
  </p>`;
}

function Browsers() {
  const [browsers, setBrowsers] = useState(/** @type {Api.BrowserView[]} */ ([]));
  const [isBusy, error, run] = useAsync();
  const load = async () => setBrowsers(await api.browsers());
  useEffect(() => {
    run(load);
  }, []);
  const signOutBrowser = (/** @type {Api.BrowserView} */ { id, current }) =>
    run(async () => {
      if (current) return signOut();
      await api.signOutBrowser(id);
      return load();
    });
  const signOutAll = () => run(() => signOut({ everywhere: true }));
  const item = (/** @type {Api.BrowserView} */ browser) => {
    const name = oneLine(browser.name);
    const used = browser.current ? "this browser" : `last used ${ago(browser.used_at)}`;
    return html`<li key=${browser.id}>
      <span><bdi>${name}</bdi><small>${used}</small></span>
      <button
        type="button"
        class="button"
        disabled=${isBusy}
        aria-label=${`Sign out ${name}`}
        onClick=${() => signOutBrowser(browser)}
      >
        Sign out
      </button>
    </li>`;
  };
  return html`<${Dialog} title="Signed-in browsers" name="browsers" onClose=${closeDialog}>
    <p>Each of these can do what you can. One that is signed out needs a new link.</p>
    <ul class="browsers">${browsers.map(item)}</ul>
    <${Wrong}>${error}<//>
    <footer class="dialog-buttons">
      <button type="button" class="button danger" disabled=${isBusy} onClick=${signOutAll}>Sign out everywhere</button>
    </footer>
  <//>`;
}

const FORMS = [
  ["html", "HTML", "One page for any browser, without scripts"],
  ["markdown", "Markdown", "A text file, for an editor or another program"],
];

/** @param {OfChat} props */
function Save({ chat }) {
  const [form, setForm] = useState(FORMS[0][0]);
  const [hasDetails, setDetails] = useState(false);
  return html`<${Dialog} title="Save this chat" name="save" onClose=${closeDialog}>
    <form>
      <fieldset class="levels">
        <legend>File</legend>
        ${FORMS.map(
          ([value, label, text]) =>
            html`<label>
              <input
                type="radio"
                name="form"
                autofocus=${value === form}
                checked=${value === form}
                onChange=${() => setForm(value)}
              />
              <span><b>${label}</b><small>${text}</small></span>
            </label>`,
        )}
      </fieldset>
      <label class="switch">
        <input type="checkbox" checked=${hasDetails} onChange=${withChecked(setDetails)} /><span
          >With the details of each turn: thoughts, calls and their output</span
        >
      </label>
      <${Buttons}>
        <a class="button primary" href=${api.exportUrl(chat.id, form, hasDetails)} download onClick=${closeDialog}>
          Save
        </a>
      <//>
    </form>
  <//>`;
}

/** @type {Record<import("../state/notifications.js").Notifying, string>} */
const NOTIFYING = {
  on: "The text has the agent and the title of the chat, never a command. It comes while you look elsewhere.",
  off: "The browser asks for your permission.",
  blocked: "The browser does not permit it: permit notifications in its settings for this page.",
  unsupported: "This browser does not notify here. Most do over https, or on the machine where Penstock runs.",
};

function Notifications() {
  const [isBusy, error, run] = useAsync();
  const state = notifying();
  const change = (/** @type {boolean} */ isOn) => run(() => setNotifying(isOn));
  return html`<${Dialog} title="Notifications" name="notifications" onClose=${closeDialog}>
    <label class="switch">
      <input
        type="checkbox"
        autofocus
        checked=${state === "on"}
        disabled=${isBusy || state === "blocked" || state === "unsupported"}
        onChange=${withChecked(change)}
      /><span>When a chat asks you, or its turn has ended</span>
    </label>
    <p class="side-note" role="status">${NOTIFYING[state]}</p>
    <label class="switch">
      <input
        type="checkbox"
        checked=${hasSound()}
        disabled=${state !== "on"}
        onChange=${withChecked(setSound)}
      /><span>With the system's sound</span>
    </label>
    <${Pushed} />
    <${Wrong}>${error}<//>
  <//>`;
}

/** The switches for calls while the page is closed. */
function Pushed() {
  const [isBusy, error, run] = useAsync();
  const on = pushedFor();
  if (!canPush()) return html`<p class="side-note">${NO_PUSH}</p>`;
  const change = (/** @type {import("../state/called.js").Occasion} */ occasion) => (/** @type {boolean} */ isOn) =>
    run(() => setPushedFor(isOn ? [...on, occasion] : on.filter((it) => it !== occasion)));
  const choice = (/** @type {import("../state/called.js").Occasion} */ occasion, /** @type {string} */ text) =>
    html`<label class="switch">
      <input
        type="checkbox"
        checked=${on.includes(occasion)}
        disabled=${isBusy}
        onChange=${withChecked(change(occasion))}
      /><span>${text}</span>
    </label>`;
  return html`<fieldset class="plain">
    <legend>While the page is closed, call this device</legend>
    ${choice("asks", "When a chat of yours asks you")}${choice("ended", "When its turn has ended")}
    <p class="side-note">The call has the agent and the directory, and goes through your browser's maker, who cannot read it.</p>
    <${Wrong}>${error}<//>
  </fieldset>`;
}

const NO_PUSH =
  "This browser cannot be called while the page is closed. Most can over https; on an iPhone, add the page to the home screen first.";

function Help() {
  const key = (/** @type {string} */ name) => (name === "+" ? " + " : html`<kbd>${name}</kbd> `);
  return html`<${Dialog} title="Keyboard shortcuts" name="help" onClose=${closeDialog}>
    <dl class="keys">
      ${SHORTCUTS.map(([keys, use]) => html`<div><dt>${keys.split(" ").map(key)}</dt><dd>${use}</dd></div>`)}
    </dl>
  <//>`;
}

const VIEWS = {
  settings: Settings,
  heartbeat: Heartbeat,
  save: Save,
  share: Share,
  delete: Delete,
  delete_selected: DeleteSelected,
  link: Link,
  browsers: Browsers,
  sessions: Sessions,
  costs: Costs,
  nodes: Machines,
  remove_node: RemoveMachine,
  notifications: Notifications,
  help: Help,
  trust: Trust,
  allow: AllowMore,
  level: ConfirmLevel,
  picture: PictureDialog,
  branch: EditInNewChat,
  ask_another: AskAnother,
  terminal: Terminal,
  land: LandChat,
};
