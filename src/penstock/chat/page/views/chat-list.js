// The list of chats, documents and loops.

import { html, Icon, Mark, Menu, useEffect, useLayoutEffect, useRef, useState, withValue } from "../components/ui.js";
import { api } from "../net/api.js";
import { groupsOf } from "../state/attention.js";
import { isReader, otherPerson } from "../state/people.js";
import { chatPath, runPath } from "../state/router.js";
import { signOut } from "../state/session.js";
import { openDialog } from "../state/store.js";
import { isUnread } from "../state/unread.js";
import { ago, oneLine } from "../text/format.js";

const FILTER_FROM = 9; // fewer chats can be seen at a glance

/**
 * A chat's dot, and the same as text.
 *
 * @param {Api.ChatView} chat
 */
function stateOf(chat) {
  if (chat.asks) return ["asks", "asks you"];
  if (chat.state === "running") return ["working", "working"];
  if (chat.state === "queued")
    return [
      "queued",
      chat.is_away ? `waits for the machine ${oneLine(chat.home)}` : chat.held ? "waits for you" : "waits",
    ];
  if (isUnread(chat)) return ["unread", `${ago(chat.used_at)}, unread`];
  return ["", ago(chat.used_at)];
}

/** @param {{ chat: Api.ChatView, isCurrent: boolean }} props */
function Entry({ chat, isCurrent }) {
  const [dot, text] = stateOf(chat);
  const other = otherPerson(chat.person);
  return html`<li>
    <a href=${chatPath(chat.id)} aria-current=${isCurrent ? "page" : undefined} data-chat=${chat.id} data-dot=${dot}>
      <span class=${`dot ${dot}`} aria-hidden="true"></span>
      <span class="entry">
        <bdi class="entry-title">${oneLine(chat.title) || "New chat"}</bdi>
        <span class="entry-facts"><bdi>${oneLine(chat.agent)}</bdi> · ${text}${other && html` · <bdi>${other}</bdi>`}</span>
      </span>
    </a>
  </li>`;
}

/** @type {Record<Api.RunView["kind"], string>} */
const KINDS = { document: "Document", loop: "Loop" };
/** @type {Record<Api.RunView["state"], string>} */
const DOTS = { running: "working", asks: "asks", idle: "" };

/** @param {{ run: Api.RunView, isCurrent: boolean }} props */
function RunEntry({ run, isCurrent }) {
  const dot = DOTS[run.state];
  const when = run.state === "idle" && run.used_at ? ` · ${ago(run.used_at)}` : "";
  return html`<li>
    <a href=${runPath(run.id)} aria-current=${isCurrent ? "page" : undefined} data-run=${run.id} data-dot=${dot}>
      <span class=${`dot ${dot}`} aria-hidden="true"></span>
      <span class="entry">
        <bdi class="entry-title">${oneLine(run.title)}</bdi>
        <span class="entry-facts">${KINDS[run.kind]} · <bdi>${oneLine(run.note)}</bdi>${when}</span>
      </span>
    </a>
  </li>`;
}

/** @param {{ it: Api.ChatView | Api.RunView, openId: string | undefined }} props */
function ListEntry({ it, openId }) {
  const isCurrent = it.id === openId;
  if ("kind" in it) return html`<${RunEntry} run=${it} isCurrent=${isCurrent} />`;
  return html`<${Entry} chat=${it} isCurrent=${isCurrent} />`;
}

const MENU = [
  { label: "Link for another device", act: () => openDialog({ kind: "link" }) },
  { label: "Signed-in browsers", act: () => openDialog({ kind: "browsers" }) },
  { label: "Notifications", act: () => openDialog({ kind: "notifications" }) },
  { label: "Keyboard shortcuts", act: () => openDialog({ kind: "help" }) },
  { label: "Sign out", act: () => signOut().catch(() => {}) },
];

const NODES = { label: "Machines", act: () => openDialog({ kind: "nodes" }) };

const FIND_MS = 250; // somebody who types is not asked for at each letter
const FIND_FROM = 2; // fewer characters are in most prompts

/**
 * The chats with a prompt that has these words, as the server finds them, and whether it is still looking.
 *
 * @param {string} words
 * @returns {[Set<string>, boolean]}
 */
function useFound(words) {
  const [found, setFound] = useState({ words: "", ids: /** @type {Set<string>} */ (new Set()) });
  const isAsked = words.length >= FIND_FROM;
  useEffect(() => {
    if (!isAsked) return undefined;
    let isOld = false;
    const keep = (/** @type {string[]} */ ids) => isOld || setFound({ words, ids: new Set(ids) });
    const timer = setTimeout(() => {
      api.find(words).then(
        ({ chats }) => keep(chats),
        () => keep([]),
      );
    }, FIND_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [words, isAsked]);
  // What was found for the beginning of the words stays until there is better.
  const isShown = isAsked && words.startsWith(found.words);
  return [isShown ? found.ids : new Set(), isAsked && found.words !== words];
}

/**
 * Keep the focus on an entry that moves to another group, where it is a new element.
 *
 * @param {{ current: HTMLElement | null }} list
 */
function useKeptFocus(list) {
  const href = list.current?.contains(document.activeElement) && document.activeElement?.getAttribute("href");
  useLayoutEffect(() => {
    if (!href || list.current?.contains(document.activeElement)) return;
    /** @type {HTMLElement | undefined | null} */ (list.current?.querySelector(`a[href="${CSS.escape(href)}"]`))?.focus(
      { preventScroll: true },
    );
  });
}

/** @param {{ app: import("../state/store.js").State }} props */
export function ChatList({ app }) {
  const [filter, setFilter] = useState("");
  const all = [...(app.chats ?? []), ...app.runs];
  const wanted = filter.trim().toLowerCase();
  const [found, isSearching] = useFound(wanted);
  const matches = (/** @type {Api.ChatView | Api.RunView} */ it) =>
    `${it.title} ${it.agent} ${"kind" in it ? it.path : `${it.cwd} ${it.home ?? ""}`}`.toLowerCase().includes(wanted) ||
    found.has(it.id);
  const shown = wanted ? all.filter(matches) : all;
  const isHome = app.route.page === "home";
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useKeptFocus(list);
  const isListed = all.some((it) => it.id === app.route.id);
  // Once for each that is opened: the list moves as others go on.
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [app.route.id, isListed]);
  return html`<nav id="chats" class="side" aria-label="Chats">
    <header>
      <a class="wordmark" href="/" aria-label="Penstock, new chat"><${Mark} /><span>penstock</span></a>
      <${Menu} label="More" items=${app.about?.node ? [NODES, ...MENU] : MENU} />
    </header>
    ${!isReader() && html`<a class="new-chat" href="/" aria-current=${isHome ? "page" : undefined}><${Icon} name="plus" />New chat</a>`}
    ${
      all.length >= FILTER_FROM &&
      html`<input
        class="filter"
        type="search"
        aria-label="Find a chat"
        placeholder="Find a chat"
        value=${filter}
        onInput=${withValue(setFilter)}
      />`
    }
    ${app.chats && !all.length && html`<p class="side-note">No chats yet.</p>`}
    ${all.length > 0 && !shown.length && html`<p class="side-note">${isSearching ? "Searching…" : "No title and no prompt has this."}</p>`}
    <div class="entries" ref=${list}>
      ${groupsOf(shown).map(
        ({ name, items }) =>
          html`<section key=${name} aria-label=${name}>
            <h2>${name}</h2>
            <ul>
              ${items.map((it) => html`<${ListEntry} key=${it.id} it=${it} openId=${app.route.id} />`)}
            </ul>
          </section>`,
      )}
    </div>
    <footer class="side-note">${app.about && html`<span>${app.about.several && html`<bdi>${oneLine(app.about.person.name)}</bdi>, ${app.about.person.role} · `}Version ${app.about.version}</span>`}</footer>
  </nav>`;
}
