// The list of chats, documents and loops.

import {
  html,
  Icon,
  Mark,
  Menu,
  useAsync,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  withValue,
  Wrong,
} from "../components/ui.js";
import { api } from "../net/api.js";
import { archiveSelected } from "../state/actions.js";
import { groupByDirectory, groupsOf, isArchived, isByDirectory } from "../state/attention.js";
import { around, partsOf, rowsBetween } from "../state/list-window.js";
import { decidesAbout, isReader, otherPerson } from "../state/people.js";
import { chatPath, runPath } from "../state/router.js";
import { endSelecting, select, selected, startSelecting } from "../state/selection.js";
import { signOut } from "../state/session.js";
import { attempt, chatOf, machineOf, openDialog, set, state } from "../state/store.js";
import { isUnread } from "../state/unread.js";
import { ago, agoInShort, monograms, oneLine } from "../text/format.js";

const FILTER_FROM = 9; // fewer chats can be seen at a glance
const ROWS = 100; // more than a screen has; a list with more is drawn near what is seen only
const ROW_PIXELS = 36; // as in styles/shell.css, until one is drawn
const HEADING_PIXELS = 34;

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

/**
 * What a row says of an entry: in short for the eye, and whole for who points at it or listens.
 *
 * @param {{ title: string, mark: string, when: string, whole: string, other?: string }} props
 */
function Row({ title, mark, when, whole, other }) {
  return html`<bdi class="entry-title">${title}</bdi>
    <span class="entry-facts">
      <span class="offscreen">, <bdi>${whole}</bdi></span>
      ${other && html`<bdi class="entry-person" aria-hidden="true">${other}</bdi>`}
      <span class="entry-mark" aria-hidden="true">${mark}</span>
      <span class="entry-when" aria-hidden="true">${when}</span>
    </span>`;
}

/**
 * The place of a row in its group, for who listens where not all rows are drawn.
 *
 * @typedef {{ "aria-setsize"?: number, "aria-posinset"?: number }} Place
 */

/**
 * @param {{ chat: Api.ChatView, isCurrent: boolean, mark: string, isSelected: boolean | null, place: Place,
 *   order: string[] }} props
 */
function Entry({ chat, isCurrent, mark, isSelected, place, order }) {
  const [dot, text] = stateOf(chat);
  const other = otherPerson(chat.person);
  const title = oneLine(chat.title) || "New chat";
  const machine = machineOf(chat);
  const whole = [oneLine(chat.agent), text, other].filter(Boolean).join(" · ");
  const directory = `${oneLine(chat.cwd)}${machine && ` on ${machine}`}`;
  const when = dot === "queued" ? "waits" : agoInShort(chat.used_at);
  const row = html`<span class=${`dot ${dot}`} aria-hidden="true"></span>
    <${Row} title=${title} mark=${mark} when=${when} whole=${whole} other=${other} />`;
  const shared = { "data-chat": chat.id, "data-dot": dot, title: `${title}\n${whole}\n${directory}` };
  if (isSelected !== null) {
    return html`<li ...${place}>
      <label class="row-of-list" ...${shared}>
        <input
          type="checkbox"
          checked=${isSelected}
          disabled=${!decidesAbout(chat)}
          onClick=${(/** @type {MouseEvent} */ event) => selectByClick(event, chat.id, order)}
        />
        ${row}
      </label>
    </li>`;
  }
  return html`<li ...${place}>
    <a class="row-of-list" href=${chatPath(chat.id)} aria-current=${isCurrent ? "page" : undefined} ...${shared}>${row}</a>
  </li>`;
}

let lastClicked = ""; // where a range begins

/**
 * Select a chat by its box, or no longer; with Shift all chats from the one before to this one.
 *
 * @param {MouseEvent} event
 * @param {string} id
 * @param {string[]} order  The ids of the list.
 */
function selectByClick(event, id, order) {
  const box = /** @type {HTMLInputElement} */ (event.target);
  const [from, to] = [order.indexOf(event.shiftKey ? lastClicked : id), order.indexOf(id)];
  select(from < 0 ? [id] : order.slice(Math.min(from, to), Math.max(from, to) + 1), box.checked);
  lastClicked = id;
}

/** @type {Record<Api.RunView["kind"], string>} */
const KINDS = { document: "Document", loop: "Loop" };
/** @type {Record<Api.RunView["state"], string>} */
const DOTS = { running: "working", asks: "asks", idle: "" };

/** @param {{ run: Api.RunView, isCurrent: boolean, place: Place }} props */
function RunEntry({ run, isCurrent, place }) {
  const dot = DOTS[run.state];
  const title = oneLine(run.title);
  const isOver = run.state === "idle" && run.used_at;
  const whole = [KINDS[run.kind], oneLine(run.note), isOver && ago(run.used_at)].filter(Boolean).join(" · ");
  return html`<li ...${place}>
    <a
      class="row-of-list"
      href=${runPath(run.id)}
      aria-current=${isCurrent ? "page" : undefined}
      title=${`${title}\n${whole}\n${oneLine(run.path)}`}
      data-run=${run.id}
      data-dot=${dot}
    >
      <span class=${`dot ${dot}`} aria-hidden="true"></span>
      <${Row}
        title=${title}
        mark=${KINDS[run.kind].toLowerCase()}
        when=${run.used_at ? agoInShort(run.used_at) : ""}
        whole=${whole}
      />
    </a>
  </li>`;
}

/**
 * @param {{ it: Api.ChatView | Api.RunView, app: import("../state/store.js").State, marks: Map<string, string>,
 *   place: Place, order: string[] }} props
 */
function ListEntry({ it, app, marks, place, order }) {
  const isCurrent = it.id === app.route.id;
  if ("kind" in it) return html`<${RunEntry} run=${it} isCurrent=${isCurrent} place=${place} />`;
  const shared = { isCurrent, place, order, mark: marks.get(it.agent) ?? "" };
  return html`<${Entry} chat=${it} ...${shared} isSelected=${app.selection && app.selection.has(it.id)} />`;
}

/**
 * The list as it is drawn: whole if it is short, else the rows near what is seen, the one with the focus and the one that
 * is open. The second value gives a row the focus, wherever it is.
 *
 * @param {import("../state/attention.js").Group[]} groups
 * @param {(string | null | undefined)[]} kept  Ids of rows that are drawn at any time.
 * @param {string} words  By which the list is filtered.
 * @param {{ current: HTMLElement | null }} list
 * @returns {[import("../state/list-window.js").Part[], (id: string | undefined) => void]}
 */
function useWindow(groups, kept, words, list) {
  const [drawn, setDrawn] = useState({ words, from: 0, to: ROWS });
  const heights = useRef({ heading: HEADING_PIXELS, row: ROW_PIXELS });
  const wanted = useRef("");
  const all = groups.reduce((sum, { items }) => sum + items.length, 0);
  const isLong = all > ROWS;
  const now = drawn.words === words ? drawn : { words, from: 0, to: ROWS };
  const look = () => {
    const { current } = list;
    if (!current?.clientHeight || !isLong) return; // on a narrow screen it may be hidden
    const heightOf = (/** @type {string} */ part) => current.querySelector(part)?.getBoundingClientRect().height;
    const before = heights.current;
    heights.current = { heading: heightOf("h2") ?? before.heading, row: heightOf(".row-of-list") ?? before.row };
    const isSame = before.heading === heights.current.heading && before.row === heights.current.row;
    const seen = rowsBetween(groups, heights.current, current.scrollTop, current.scrollTop + current.clientHeight);
    const next = around(now, seen, all);
    if (next !== now || !isSame) setDrawn({ words, from: next.from, to: next.to });
  };
  const looking = useRef(look);
  looking.current = look;
  useLayoutEffect(look);
  useEffect(() => {
    const again = () => looking.current();
    const { current } = list;
    current?.addEventListener("scroll", again, { passive: true });
    window.addEventListener("resize", again);
    return () => {
      current?.removeEventListener("scroll", again);
      window.removeEventListener("resize", again);
    };
  }, []);
  const focus = () => {
    const control = wanted.current && controlOf(rowOf(list.current, wanted.current));
    if (!control) return;
    wanted.current = "";
    control.focus();
  };
  useLayoutEffect(focus);
  const goTo = (/** @type {string | undefined} */ id) => {
    wanted.current = id ?? "";
    focus();
    if (wanted.current) setDrawn({ ...now }); // it is drawn now, as it is wanted
  };
  const isKept = new Set([...kept, wanted.current]);
  const isDrawn = (/** @type {number} */ row, /** @type {{ id: string }} */ { id }) =>
    !isLong || (row >= now.from && row < now.to) || isKept.has(id);
  return [partsOf(groups, isDrawn, heights.current), goTo];
}

/** What can be done with the list itself. */
function listMenu() {
  const byDirectory = isByDirectory();
  const group = {
    label: byDirectory ? "Group by day" : "Group by directory",
    act: () => groupByDirectory(!byDirectory),
  };
  return isReader() ? [group] : [{ label: "Select chats", act: () => startSelecting() }, group];
}

const MENU = [
  { label: "Link for another device", act: () => openDialog({ kind: "link" }) },
  { label: "Costs", act: () => openDialog({ kind: "costs" }) },
  { label: "Signed-in browsers", act: () => openDialog({ kind: "browsers" }) },
  { label: "Notifications", act: () => openDialog({ kind: "notifications" }) },
  { label: "Keyboard shortcuts", act: () => openDialog({ kind: "help" }) },
  { label: "Sign out", act: () => attempt(signOut) },
];

const NODES = { label: "Machines", act: () => openDialog({ kind: "nodes" }) };

const FIND_MS = 250; // somebody who types is not asked for at each letter
const FIND_FROM = 2; // fewer characters are in most texts

/**
 * The chats in which the server has found these words, of the newest hits, and whether it is still looking.
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
        ({ hits }) => keep(hits.map((hit) => hit.chat)),
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
 * Keep the focus on an entry that moves to another group, or becomes one to be selected, where it is a new element; returns
 * the id of the one that has the focus.
 *
 * @param {{ current: HTMLElement | null }} list
 */
function useKeptFocus(list) {
  const row = list.current?.contains(document.activeElement) && document.activeElement?.closest(".row-of-list");
  const id = row ? idOf(row) : null;
  useLayoutEffect(() => {
    if (!id || list.current?.contains(document.activeElement)) return;
    controlOf(rowOf(list.current, id))?.focus({ preventScroll: true });
  });
  return id;
}

const idOf = (/** @type {Element} */ row) => row.getAttribute("data-chat") ?? row.getAttribute("data-run");

/**
 * The row of an entry, if it is drawn.
 *
 * @param {HTMLElement | null} list
 * @param {string} id
 */
const rowOf = (list, id) => list?.querySelector(`[data-chat="${CSS.escape(id)}"], [data-run="${CSS.escape(id)}"]`);

/**
 * What of a row has the focus: its link or its box.
 *
 * @param {Element | null | undefined} row
 * @returns {HTMLElement | null}
 */
const controlOf = (row) =>
  row?.matches("a") ? /** @type {HTMLElement} */ (row) : (row?.querySelector("input") ?? null);

/**
 * Arrows go from row to row, Home and End to the first and the last one; Esc ends selecting.
 *
 * @param {KeyboardEvent} event
 * @param {string[]} order  The ids of the list.
 * @param {(id: string | undefined) => void} goTo
 */
function onListKey(event, order, goTo) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const target = /** @type {Element} */ (event.target);
  const row = target.closest(".row-of-list");
  const at = row ? order.indexOf(idOf(row) ?? "") : -1;
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: order.length - 1 }[event.key];
  if (next !== undefined && row) goTo(order[next]);
  else if (event.key === "Escape" && state.selection && !target.matches(".filter")) endSelecting();
  else return;
  event.preventDefault();
}

/**
 * What can be done with the chats that are selected; `ids` are those of the list.
 *
 * @param {{ ids: string[] }} props
 */
function Selection({ ids }) {
  const [isBusy, error, run] = useAsync();
  const chats = selected();
  const archive = (/** @type {boolean} */ isTo) => () => run(() => archiveSelected(isTo));
  const selectAll = () => select(ids, true);
  const isNone = isBusy || !chats.length;
  return html`<div class="selection" role="group" aria-label="Selected chats">
    <p role="status">${chats.length ? `${chats.length} selected` : "Select chats"}</p>
    <button type="button" class="quiet" onClick=${selectAll}>All</button>
    <button type="button" class="quiet" onClick=${endSelecting}>Done</button>
    <div class="selection-acts">
      <button
        type="button"
        class="button"
        disabled=${isNone || chats.every((it) => it.archived)}
        onClick=${archive(true)}
      >
        Archive
      </button>
      <button
        type="button"
        class="button"
        disabled=${isNone || !chats.some((it) => it.archived)}
        onClick=${archive(false)}
      >
        Unarchive
      </button>
      <button
        type="button"
        class="button"
        disabled=${isNone}
        onClick=${() => openDialog({ kind: "delete_selected" })}
      >
        Delete…
      </button>
    </div>
    <${Wrong}>${error}<//>
  </div>`;
}

/** @param {{ app: import("../state/store.js").State }} props */
export function ListedChats({ app }) {
  const [filter, setFilter] = useState("");
  const [hasArchived, setHasArchived] = useState(false);
  const all = [...(app.chats ?? []), ...app.runs];
  const wanted = filter.trim().toLowerCase();
  const [found, isSearching] = useFound(wanted);
  const matches = (/** @type {Api.ChatView | Api.RunView} */ it) =>
    `${it.title} ${it.agent} ${"kind" in it ? it.path : `${it.cwd} ${it.home ?? ""}`}`.toLowerCase().includes(wanted) ||
    found.has(it.id);
  const isShown = (/** @type {Api.ChatView | Api.RunView} */ it) => hasArchived || !isArchived(it);
  const shown = all.filter(wanted ? matches : isShown);
  const archived = all.filter(isArchived).length;
  const isHome = app.route.page === "home";
  const agents = [...(app.agents ?? []).map((it) => it.name), ...(app.chats ?? []).map((it) => it.agent)];
  const marks = monograms([...new Set(agents)]);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const groups = groupsOf(shown);
  const order = groups.flatMap(({ items }) => items.map(({ id }) => id));
  const focused = useKeptFocus(list);
  const [parts, goTo] = useWindow(groups, [focused, app.route.id], wanted, list);
  const isLong = shown.length > ROWS;
  const isListed = shown.some((it) => it.id === app.route.id);
  const turns = chatOf(app.route.id)?.turns;
  // Once for each that is opened, when all chats are there, and when a message has moved it: others move as they go on.
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [app.route.id, isListed, app.isWhole, turns]);
  const menu = [...(app.about?.node ? [NODES] : []), ...listMenu(), ...MENU];
  return html`<nav id="chats" class="side" aria-label="Chats" onKeyDown=${(/** @type {KeyboardEvent} */ event) => onListKey(event, order, goTo)}>
    <header>
      <a class="wordmark" href="/" aria-label="Penstock, new chat"><${Mark} /><span>penstock</span></a>
      <button
        type="button"
        class="quiet round search"
        aria-label="Search"
        title="Search (Ctrl + K)"
        onClick=${() => set({ palette: "" })}
      >
        <${Icon} name="search" />
      </button>
      <${Menu} label="More" items=${menu} />
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
    ${app.chats && !all.length && html`<p class="side-note">No chats yet. What asks you will stand here first.</p>`}
    ${wanted && !shown.length && html`<p class="side-note">${isSearching ? "Searching…" : "Nothing has these words."}</p>`}
    <div class="entries" ref=${list}>
      ${parts.map((part, i) => {
        if ("gap" in part) return html`<div key=${`gap ${i}`} style=${{ height: `${part.gap}px` }}></div>`;
        const { name, path, items } = part.group;
        return html`<section key=${path ?? name} aria-label=${name}>
          <h2 title=${path}><bdi>${oneLine(name)}</bdi></h2>
          <ul>
            ${part.rows.map((row, k) => {
              if ("gap" in row)
                return html`<li key=${`gap ${k}`} aria-hidden="true" style=${{ height: `${row.gap}px` }}></li>`;
              const place = isLong ? { "aria-setsize": items.length, "aria-posinset": row.place + 1 } : {};
              const given = { it: row.it, app, marks, place, order };
              return html`<${ListEntry} key=${row.it.id} ...${given} />`;
            })}
          </ul>
        </section>`;
      })}
      ${
        archived > 0 &&
        !wanted &&
        html`<button
          type="button"
          class="quiet archived"
          aria-expanded=${hasArchived}
          onClick=${() => setHasArchived(!hasArchived)}
        >
          ${hasArchived ? "Hide what is archived" : `Archived (${archived})`}
        </button>`
      }
    </div>
    ${app.selection && html`<${Selection} ids=${shown.map((it) => it.id)} />`}
    <footer class="side-note">${app.about && html`<span>${app.about.several && html`<bdi>${oneLine(app.about.person.name)}</bdi>, ${app.about.person.role} · `}Version ${app.about.version}</span>`}</footer>
  </nav>`;
}
