// The list of chats.

import { line, ago } from "../text.js";
import { openDialog, signOut, unread } from "../state.js";
import { html, Icon, Mark, Menu, useState } from "../ui.js";

const FILTER_FROM = 9; // fewer can be seen at a glance

/** A chat's dot, and what it says in words. */
function dotOf(chat) {
  if (chat.asks) return ["asks", "asks you"];
  if (chat.state === "running") return ["working", "working"];
  if (chat.state === "queued") return ["queued", "waits"];
  if (unread(chat)) return ["unread", `${ago(chat.used_at)}, unread`];
  return ["", ago(chat.used_at)];
}

function Entry({ chat, current }) {
  const [dot, words] = dotOf(chat);
  return html`<li>
    <a href=${`/chats/${encodeURIComponent(chat.id)}`} aria-current=${current ? "page" : undefined}
        data-chat=${chat.id} data-dot=${dot}>
      <span class=${`dot ${dot}`} aria-hidden="true"></span>
      <span class="entry">
        <bdi class="entry-title">${line(chat.title) || "New chat"}</bdi>
        <span class="entry-facts">
          <bdi>${line(chat.agent)}</bdi> · ${words}
        </span>
      </span>
    </a>
  </li>`;
}

export function Chats({ app }) {
  const [filter, setFilter] = useState("");
  const all = app.chats ?? [];
  const wanted = filter.trim().toLowerCase();
  const shown = wanted ? all.filter((chat) => `${chat.title} ${chat.agent} ${chat.cwd}`.toLowerCase().includes(wanted)) : all;
  const items = [
    { label: "Link for another device", act: () => openDialog({ kind: "link" }) },
    { label: "Signed-in browsers", act: () => openDialog({ kind: "browsers" }) },
    { label: "Keyboard shortcuts", act: () => openDialog({ kind: "help" }) },
    { label: "Sign out", act: () => signOut().catch(() => {}) },
  ];
  return html`<nav id="chats" class="side" aria-label="Chats">
    <header>
      <a class="wordmark" href="/" aria-label="Penstock, new chat"><${Mark} /><span>penstock</span></a>
      <${Menu} label="More" items=${items} />
    </header>
    <a class="new-chat" href="/" aria-current=${app.route.page === "home" ? "page" : undefined}><${Icon}
        name="plus" />New chat</a>
    ${all.length >= FILTER_FROM && html`<input class="filter" type="search" aria-label="Find a chat"
        placeholder="Find a chat"
      value=${filter} onInput=${(event) => setFilter(event.target.value)} />`}
    ${app.chats && !all.length && html`<p class="side-note">No chats yet.</p>`}
    ${all.length > 0 && !shown.length && html`<p class="side-note">No chat matches.</p>`}
    <ul class="entries">
      ${shown.map((chat) => html`<${Entry} key=${chat.id} chat=${chat} current=${chat.id === app.route.id} />`)}
    </ul>
    <footer class="side-note">${app.about && html`<span>Version ${app.about.version}</span>`}</footer>
  </nav>`;
}
