// The palette: a search of all chats, and everything that can be done, by the keyboard.

import { LATEST } from "../components/scroll.js";
import { Dialog, html, useEffect, useLayoutEffect, useRef, useState, withValue } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { changeChat, goToTurn } from "../state/actions.js";
import { decidesAbout, isOwner, isReader } from "../state/people.js";
import { chatPath, detailsPath, go, goToNeighbour, openListed } from "../state/router.js";
import { attempt, chatOf, openDialog, set } from "../state/store.js";
import { ago, base, harmless, oneLine } from "../text/format.js";
import { hasWords, KINDS, partsOf } from "../text/hits.js";

/** @typedef {import("../state/store.js").State} State */
/** @typedef {{ id: string, label: string, act: () => void, note?: string, keys?: string, hit?: Api.Hit }} Item */
/** @typedef {{ name: string, items: Item[] }} Group */

const FIND_MS = 200; // somebody who types is not asked for at each letter
const FIND_FROM = 2; // fewer characters are in most texts
const MOST_CHATS = 6;

const close = () => set({ palette: null });

/**
 * What the server has found of these words, whether it still looks, and what went wrong.
 *
 * @param {string} words
 * @returns {[Api.SearchResult | null, boolean, string]}
 */
function useHits(words) {
  const [found, setFound] = useState({ words: "", result: /** @type {Api.SearchResult | null} */ (null), error: "" });
  const isAsked = words.length >= FIND_FROM;
  useEffect(() => {
    if (!isAsked) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      api.find(words).then(
        (result) => isOld || setFound({ words, result, error: "" }),
        (error) => isOld || setFound({ words, result: null, error: messageOf(error) }),
      );
    }, FIND_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [words]);
  const isNow = isAsked && found.words === words;
  return [isNow ? found.result : null, isAsked && !isNow, isNow ? found.error : ""];
}

/**
 * What can be done here and now.
 *
 * @param {State} app
 * @returns {Item[]}
 */
function actionsOf({ route, about }) {
  const chat = route.page === "chat" || route.page === "details" ? chatOf(route.id) : undefined;
  const change = (/** @type {Api.Changes} */ changes) => () => chat && attempt(() => changeChat(chat.id, changes));
  const dialog = (/** @type {import("../state/store.js").OpenDialog["kind"]} */ kind) => () =>
    openDialog({ kind, id: chat?.id });
  const decides = decidesAbout(chat);
  /** @type {[boolean, string, () => void, string?][]} */
  const all = [
    [!isReader(), "New chat", () => go("/"), "Alt + N"],
    [isOwner(), "Continue from a terminal", dialog("sessions")],
    [Boolean(chat?.turns), "Details of the last turn", () => chat && go(detailsPath(chat.id, chat.turns))],
    [Boolean(chat) && !isReader(), "Rename and settings", dialog("settings")],
    [Boolean(chat) && decides, chat?.pinned ? "Unpin" : "Pin", change({ pinned: !chat?.pinned })],
    [Boolean(chat) && decides, chat?.archived ? "Unarchive" : "Archive", change({ archived: !chat?.archived })],
    [Boolean(chat), "Save as a file", dialog("save")],
    [Boolean(chat), "Jump to the latest", () => document.dispatchEvent(new Event(LATEST)), "Alt + End"],
    [true, "Chat above", () => goToNeighbour(-1), "Alt + ↑"],
    [true, "Chat below", () => goToNeighbour(1), "Alt + ↓"],
    [Boolean(about?.node), "Machines", () => openDialog({ kind: "nodes" })],
    [true, "Notifications", () => openDialog({ kind: "notifications" })],
    [true, "Link for another device", () => openDialog({ kind: "link" })],
    [true, "Costs", () => openDialog({ kind: "costs" })],
    [true, "Signed-in browsers", () => openDialog({ kind: "browsers" })],
    [true, "Keyboard shortcuts", () => openDialog({ kind: "help" }), "?"],
  ];
  return all.filter(([isThere]) => isThere).map(([, label, act, keys]) => ({ id: `do ${label}`, label, act, keys }));
}

/**
 * @param {State} app
 * @param {string} words
 * @param {Api.Hit[]} hits
 * @returns {Group[]}
 */
function groupsOf(app, words, hits) {
  const listed = [...(app.chats ?? []), ...app.runs].filter((it) =>
    hasWords(`${it.title ?? ""} ${"kind" in it ? it.path : it.cwd}`, words),
  );
  listed.sort((a, b) => b.used_at - a.used_at);
  const chats = listed.slice(0, MOST_CHATS).map((it) => ({
    id: `open ${it.id}`,
    label: oneLine(it.title) || "New chat",
    note: `${base("kind" in it ? it.path : it.cwd)} · ${ago(it.used_at)}`,
    act: () => openListed(it),
  }));
  const isShown = (/** @type {Api.Hit} */ hit) =>
    hit.turn !== null || !chats.some((it) => it.id === `open ${hit.chat}`);
  const groups = KINDS.map(([kind, name]) => ({
    name,
    items: hits.filter((hit) => hit.kind === kind && isShown(hit)).map(itemOf),
  }));
  const actions = actionsOf(app).filter((it) => hasWords(it.label, words));
  return [{ name: "Chats", items: chats }, ...groups, { name: "Actions", items: actions }].filter(
    (group) => group.items.length,
  );
}

/**
 * @param {Api.Hit} hit
 * @returns {Item}
 */
const itemOf = (hit) => ({
  id: `hit ${hit.chat} ${hit.turn}`,
  label: oneLine(hit.title) || "New chat",
  note: `${oneLine(hit.agent)} · ${ago(hit.at)}`,
  act: () => (hit.turn === null ? go(chatPath(hit.chat)) : goToTurn(hit.chat, hit.turn)),
  hit,
});

/** @param {{ hit: Api.Hit }} props */
function Context({ hit }) {
  const parts = partsOf(hit.text, hit.marks);
  return html`<bdi class="palette-context"
    >${parts.map(({ text, isMarked }) => (isMarked ? html`<mark>${harmless(text)}</mark>` : harmless(text)))}</bdi
  >`;
}

/** @param {{ app: State }} props */
export function Palette({ app }) {
  const [text, setText] = useState(app.palette ?? "");
  const [chosen, setChosen] = useState(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const words = text.trim();
  const [result, isSearching, error] = useHits(words);
  const groups = groupsOf(app, words, result?.hits ?? []);
  const items = groups.flatMap((group) => group.items);
  const at = Math.min(chosen, items.length - 1);
  useLayoutEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const choose = (/** @type {Item | undefined} */ item) => {
    if (!item) return;
    close();
    item.act();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    /** @type {Record<string, number>} */
    const targets = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 8, PageUp: at - 8 };
    const target = targets[event.key];
    if (target !== undefined) {
      const isStep = Math.abs(target - at) === 1;
      const last = items.length - 1;
      setChosen(isStep ? (target + items.length) % Math.max(1, items.length) : Math.max(0, Math.min(last, target)));
    } else if (event.key === "Enter") choose(items[at]);
    else return;
    event.preventDefault();
  };
  const type = (/** @type {string} */ value) => {
    setText(value);
    setChosen(0);
  };
  const optionId = (/** @type {number} */ index) => `palette-${index}`;
  const option = (/** @type {Item} */ item) => {
    const index = items.indexOf(item);
    return html`<li
      key=${item.id}
      id=${optionId(index)}
      role="option"
      aria-selected=${index === at}
      data-item=${item.id}
      onClick=${() => choose(item)}
    >
      <bdi class="palette-label">${item.label}</bdi>
      ${item.note && html`<span class="palette-note">${item.note}</span>`}
      ${item.keys && html`<kbd>${item.keys}</kbd>`}
      ${item.hit && item.hit.kind !== "title" && html`<${Context} hit=${item.hit} />`}
    </li>`;
  };
  return html`<${Dialog} title="Search" name="palette" onClose=${close}>
    <input
      class="palette-words"
      type="search"
      role="combobox"
      aria-label="Search chats and actions"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-autocomplete="list"
      aria-activedescendant=${items.length ? optionId(at) : undefined}
      placeholder="Words of a title, message, reply, command or path"
      maxlength="200"
      autofocus
      spellcheck=${false}
      autocomplete="off"
      value=${text}
      onInput=${withValue(type)}
      onKeyDown=${onKeyDown}
    />
    <p class="side-note" role="status">${statusOf(words, items.length, result, isSearching, error)}</p>
    <div id="palette-list" class="palette-list" role="listbox" aria-label="Found" ref=${list}>
      ${groups.map(
        ({ name, items: own }) =>
          html`<ul key=${name} role="group" aria-label=${name}>
            <li role="presentation" class="palette-name">${name}</li>
            ${own.map(option)}
          </ul>`,
      )}
    </div>
  <//>`;
}

/**
 * @param {string} words
 * @param {number} count
 * @param {Api.SearchResult | null} result
 * @param {boolean} isSearching
 * @param {string} error
 */
function statusOf(words, count, result, isSearching, error) {
  if (error) return `The texts cannot be searched: ${error}`;
  if (isSearching) return "Searching…";
  if (words.length < FIND_FROM) return "Arrows choose, Enter opens.";
  if (!count) return "Nothing has these words.";
  const isMore = result && (result.next !== null || !result.complete);
  return isMore ? "The newest are shown. More words find less." : "Arrows choose, Enter opens.";
}
