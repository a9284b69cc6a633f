// The dialog of the machines: which are there, how much they can still do, and what runs on each.

import { Dialog, html, useAsync, useEffect, useState, Wrong } from "../components/ui.js";
import { listNodes } from "../state/chats.js";
import { chatPath } from "../state/router.js";
import { closeDialog, openDialog, state, useApp } from "../state/store.js";
import { ago, oneLine } from "../text/format.js";

const REFRESH_MS = 2000; // a machine reports as often what it does

export function Machines() {
  const { chats } = useApp();
  const [nodes, setNodes] = useState(state.nodes);
  const [, error, run] = useAsync();
  useEffect(() => {
    const load = () => run(async () => setNodes(await listNodes(state.about)));
    load();
    const timer = setInterval(load, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<${Dialog} title="Machines" name="nodes" onClose=${closeDialog}>
    <p>The agent of a chat works on one of these. You see and do the same at all of them.</p>
    <ul class="browsers machines">
      ${nodes.map((node) => html`<${Machine} key=${node.name} node=${node} chats=${chats ?? []} />`)}
    </ul>
    <${Wrong}>${error}<//>
  <//>`;
}

/** @param {{ node: Api.NodeView, chats: Api.ChatView[] }} props */
function Machine({ node, chats }) {
  const { name, is_live: isLive, is_here: isHere, chats: working } = node;
  const busy = new Set(working.map((it) => it.id));
  const waiting = chats.filter((it) => it.home === name && it.state === "queued" && !busy.has(it.id));
  return html`<li data-node=${name} data-live=${isLive}>
    <div>
      <bdi>${oneLine(name)}</bdi>${isHere && " (this one)"}
      <small>${stateOf(node)} · version ${oneLine(node.about.version)}</small>
      ${isLive && working.map((it) => html`<${Work} key=${it.id} id=${it.id} title=${it.title} />`)}
      ${waiting.map((it) => html`<${Work} key=${it.id} id=${it.id} title=${it.title} note="waits" />`)}
    </div>
    ${!isLive && html`<${Remove} name=${name} />`}
  </li>`;
}

/** @param {{ name: string }} props */
function Remove({ name }) {
  const open = () => openDialog({ kind: "remove_node", home: name });
  return html`<button type="button" class="button" aria-label=${`Remove ${oneLine(name)}`} onClick=${open}>Remove…</button>`;
}

/** @param {Api.NodeView} node */
function stateOf({ is_live: isLive, seen_seconds: seen, about: { busy = 0, slots = 0, roots = [] } }) {
  if (!isLive) return `Away, last seen ${ago(Date.now() - seen * 1000)}`;
  return roots.length ? `${busy} of ${slots} agents at work` : "Only serves this page";
}

/** @param {{ id: string, title: string | null, note?: string }} props */
function Work({ id, title, note }) {
  return html`<div class="work">
    <a href=${chatPath(id)} onClick=${closeDialog}><bdi>${oneLine(title) || "New chat"}</bdi></a>
    ${note && html`${" "}<span>${note}</span>`}
  </div>`;
}
