// The dialogs.

import { api } from "../api.js";
import { agentOf, changeChat, chatOf, closeDialog, deleteChat, signOut } from "../state.js";
import { ago, line } from "../text.js";
import { CopyButton, Dialog, html, useAct, useEffect, useState, Wrong } from "../ui.js";
import { ALLOW, allowLabel, allowWords, SHORTCUTS } from "../words.js";

export function Dialogs({ app }) {
  const { dialog } = app;
  if (!dialog) return null;
  const chat = dialog.id && chatOf(dialog.id);
  if (dialog.id && !chat) return null;
  const View = VIEWS[dialog.kind];
  return html`<${View} key=${dialog.kind} chat=${chat} dialog=${dialog} />`;
}

function Buttons({ children, careful = false, onClose = closeDialog }) {
  return html`<footer class="dialog-buttons"><button type="button" class="button" autofocus=${careful}
      onClick=${onClose}>Cancel</button>${children}</footer>`;
}

function Settings({ chat }) {
  const [title, setTitle] = useState(chat.title ?? "");
  const [model, setModel] = useState(chat.model ?? "");
  const [allow, setAllow] = useState(chat.allow);
  const [busy, error, run] = useAct();
  const submit = async (event) => {
    event.preventDefault();
    const changes = {};
    if (title.trim() !== (chat.title ?? "")) changes.title = title.trim();
    if (model.trim() !== (chat.model ?? "")) changes.model = model.trim() || null;
    if (allow !== chat.allow) changes.allow = allow;
    const done = await run(async () => {
      if (Object.keys(changes).length) await changeChat(chat.id, changes);
      return true;
    });
    if (done) closeDialog();
  };
  return html`<${Dialog} title="This chat" name="settings" onClose=${closeDialog}><form onSubmit=${submit}>
    <label class="row"><span>Title</span><input autofocus value=${title} maxlength="200" dir="auto"
        onInput=${(event) => setTitle(event.target.value)} /></label>
    <label class="row"><span>Model</span><input value=${model} placeholder="The agent's own choice" spellcheck=${false}
        autocapitalize="off" onInput=${(event) => setModel(event.target.value)} /></label>
    <fieldset class="levels"><legend>What it may do</legend>
      ${ALLOW.map((it) => html`<label><input type="radio" name="allow" value=${it.value} checked=${allow === it.value}
          onChange=${() => setAllow(it.value)} />
        <span><b>${allowLabel(it.value, agentOf(chat.agent))}</b><small>${allowWords(it.value, agentOf(chat.agent))}</small></span></label>`)}
    </fieldset>
    <p class="side-note">From the next turn on. It works in <bdi class="path">${line(chat.cwd)}</bdi>.</p>
    <${Wrong}>${error}<//>
    <${Buttons}><button type="submit" class="button primary" disabled=${busy}>Save</button><//>
  </form><//>`;
}

function Heartbeat({ chat }) {
  const beat = chat.heartbeat ?? { minutes: 60, prompt: "", quiet: null, on: false };
  const [on, setOn] = useState(beat.on);
  const [minutes, setMinutes] = useState(String(beat.minutes));
  const [prompt, setPrompt] = useState(beat.prompt);
  const [quiet, setQuiet] = useState(Boolean(beat.quiet));
  const [from, to] = (beat.quiet ?? "22:00-07:00").split("-");
  const [hours, setHours] = useState({ from, to });
  const [busy, error, run] = useAct();
  const submit = async (event) => {
    event.preventDefault();
    const heartbeat = { on, minutes: Number(minutes), prompt: prompt.trim(), quiet: quiet ? `${hours.from}-${hours.to}` : null };
    const value = on || chat.heartbeat ? heartbeat : null;
    if (await run(async () => (await changeChat(chat.id, { heartbeat: value }), true))) closeDialog();
  };
  return html`<${Dialog} title="Heartbeat" name="heartbeat" onClose=${closeDialog}><form onSubmit=${submit}>
    <p>Asks the agent the same thing again and again, while nobody else asks it something. Your own message always goes first.</p>
    <label class="switch"><input type="checkbox" autofocus checked=${on}
        onChange=${(event) => setOn(event.target.checked)} /><span>On</span></label>
    <fieldset disabled=${!on} class="plain">
      <legend class="offscreen">When and what</legend>
      <label class="row"><span>Every</span><span class="with-unit"><input type="number" min="1" max="10080" required
          value=${minutes} onInput=${(event) => setMinutes(event.target.value)} />minutes</span></label>
      <label class="row"><span>Ask</span><textarea rows="3" required
          placeholder="Is there anything new that I should know?" value=${prompt}
          onInput=${(event) => setPrompt(event.target.value)}></textarea></label>
      <label class="switch"><input type="checkbox" checked=${quiet}
          onChange=${(event) => setQuiet(event.target.checked)} /><span>Not at night</span></label>
      ${quiet && html`<div class="row"><span>Quiet</span><span class="with-unit">
        <input type="time" aria-label="Quiet from" required value=${hours.from}
            onInput=${(event) => setHours({ ...hours, from: event.target.value })} />to
        <input type="time" aria-label="Quiet until" required value=${hours.to}
            onInput=${(event) => setHours({ ...hours, to: event.target.value })} /></span></div>`}
    </fieldset>
    <${Wrong}>${error}<//>
    <${Buttons}><button type="submit" class="button primary" disabled=${busy}>Save</button><//>
  </form><//>`;
}

function Delete({ chat }) {
  const busyNow = chat.state === "idle" ? "" : "What runs now is stopped. ";
  const [busy, error, run] = useAct();
  return html`<${Dialog} title="Delete this chat?" name="delete" onClose=${closeDialog}>
    <p><bdi>${line(chat.title) || "This chat"}</bdi> and its records go for good. ${busyNow}The files in its directory stay as they are.</p>
    <${Wrong}>${error}<//>
    <${Buttons} careful><button type="button" class="button danger" disabled=${busy}
        onClick=${() => run(() => deleteChat(chat.id))}>Delete</button><//>
  <//>`;
}

function Trust({ dialog }) {
  const no = () => dialog.close(false);
  return html`<${Dialog} title="Do you trust this directory?" name="trust" onClose=${no}>
    <p><bdi class="path">${line(dialog.path)}</bdi></p>
    <p>An agent that works here reads and follows the files in it, and may run what they configure: hooks, tools and commands.
      Trust it only if you know where its files come from. You are asked once.</p>
    <${Buttons} careful onClose=${no}><button type="button" class="button primary"
        onClick=${() => dialog.close(true)}>Trust</button><//>
  <//>`;
}

function Link() {
  const [url, setUrl] = useState("");
  const [, error, run] = useAct();
  useEffect(() => {
    run(async () => setUrl((await api.link()).url));
  }, []);
  return html`<${Dialog} title="Link for another device" name="link" onClose=${closeDialog}>
    <p>It signs one browser in, once, within the next minutes. Whoever has it can do what you can: hand it on with care.</p>
    ${url && html`<p class="link"><input readonly aria-label="Link" value=${url}
        onFocus=${(event) => event.target.select()} />
      <${CopyButton} text=${url} label="Copy the link" plain /></p>`}
    <${Wrong}>${error}<//>
  <//>`;
}

function Browsers() {
  const [browsers, setBrowsers] = useState(null);
  const [busy, error, run] = useAct();
  const load = async () => setBrowsers(await api.browsers());
  useEffect(() => {
    run(load);
  }, []);
  const dismiss = (id) => run(async () => (await api.dismiss(id), load()));
  return html`<${Dialog} title="Signed-in browsers" name="browsers" onClose=${closeDialog}>
    <p>Each of these can do what you can. One that is signed out needs a new link.</p>
    <ul class="browsers">${(browsers ?? []).map((it) => html`<li key=${it.id}>
      <span><bdi>${line(it.name)}</bdi><small>${it.current ? "this browser" : `last used ${ago(it.used_at)}`}</small></span>
      <button type="button" class="button" disabled=${busy} aria-label=${`Sign out ${line(it.name)}`}
        onClick=${() => (it.current ? run(() => signOut()) : dismiss(it.id))}>Sign out</button></li>`)}
    </ul>
    <${Wrong}>${error}<//>
    <footer class="dialog-buttons"><button type="button" class="button danger" disabled=${busy}
        onClick=${() => run(() => signOut({ everywhere: true }))}>Sign out everywhere</button></footer>
  <//>`;
}

function Help() {
  const drawn = (key) => (key === "+" ? " + " : html`<kbd>${key}</kbd> `);
  return html`<${Dialog} title="Keyboard shortcuts" name="help" onClose=${closeDialog}>
    <dl class="keys">
      ${SHORTCUTS.map(([keys, what]) => html`<div><dt>${keys.split(" ").map(drawn)}</dt><dd>${what}</dd></div>`)}
    </dl>
  <//>`;
}

const VIEWS = {
  settings: Settings, heartbeat: Heartbeat, delete: Delete, link: Link, browsers: Browsers, help: Help, trust: Trust,
};
