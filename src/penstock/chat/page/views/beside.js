// What is open beside a thread: one pane with the changes and details of turns, and files, or with the thread of another chat.

import { SidePane } from "../components/side-pane.js";
import { html, useRef } from "../components/ui.js";
import { besidePath, closePane } from "../state/beside.js";
import { isReader } from "../state/people.js";
import { chatOf, state, useThread } from "../state/store.js";
import { oneLine } from "../text/format.js";
import { lazy } from "./lazy.js";

const Changes = lazy(async () => (await import("./changes.js")).Changes, { isBeside: true });
const DetailsBeside = lazy(async () => (await import("./details.js")).DetailsBeside, { isBeside: true });
const EventsOfTurn = lazy(async () => (await import("./details.js")).EventsOfTurn, { isBeside: true });
const SideBySide = lazy(async () => (await import("./side-by-side.js")).SideBySide, { isBeside: true });
const Decide = lazy(async () => (await import("./side-by-side.js")).Decide, { isBeside: true });
const Files = lazy(async () => (await import("./files.js")).Files, { isBeside: true });

/** @import { Beside as Shown } from "../state/beside.js" */

/** @type {Record<Shown["kind"], { name: string, close: string, title: (shown: Shown) => string }>} */
const KINDS = {
  changes: {
    name: "Changes",
    close: "Close the changes",
    title: ({ turn }) => (turn ? `Changes of turn ${turn}` : "Changes of this chat"),
  },
  details: { name: "Details", close: "Close the details", title: ({ turn }) => `Details of turn ${turn}` },
  files: { name: "Files", close: "Close the file", title: ({ path }) => oneLine(path) || "Files" },
  chat: {
    name: "Side by side",
    close: "Close the other chat",
    title: ({ chat }) => oneLine(chatOf(chat)?.agent) || "The other chat",
  },
};

/** @param {{ id: string, beside: Shown }} props  `id`: the chat, document or loop. */
export function Beside({ id, beside }) {
  const { kind, turn, path, chat } = beside;
  const isChat = state.route.page === "chat";
  const last = useThread()?.chat.turns.at(-1)?.turn;
  const seen = useRef(/** @type {Record<string, Shown>} */ ({})); // what was shown last of each kind
  seen.current[kind] = beside;
  const shownTurn = turn || (seen.current.details ?? seen.current.changes)?.turn || last;
  const { name, close, title } = KINDS[kind];
  const text = title(beside);
  return html`<${SidePane}
    of=${beside}
    label=${path ? `File ${text}` : chat ? `${name}: ${text}` : name}
    title=${html`<bdi class=${path ? "path" : undefined} title=${text}>${text}</bdi>`}
    close=${close}
    actions=${
      (kind === "details" && turn && html`<${EventsOfTurn} id=${id} turn=${turn} />`) ||
      (chat && html`<${Decide} id=${id} other=${chat} />`)
    }
    isQuiet=${kind === "chat"}
    onClose=${closePane}
  >
    ${isChat && !chat && html`<${Tabs} id=${id} kind=${kind} turn=${shownTurn} file=${seen.current.files} other=${seen.current.chat} />`}
    ${kind === "changes" && html`<${Changes} id=${id} beside=${beside} turn=${shownTurn} />`}
    ${kind === "details" && html`<${DetailsBeside} key=${`${id}/${turn}`} id=${id} turn=${turn} />`}
    ${kind === "files" && html`<${Files} chat=${id} beside=${beside} />`}
    ${chat && html`<${SideBySide} key=${chat} id=${chat} />`}
  <//>`;
}

/**
 * The ways to the other things that can be beside the thread: of the same turn, and the file and the chat that were shown last.
 *
 * @param {{ id: string, kind: Shown["kind"], turn?: number, file?: Shown, other?: Shown }} props
 */
function Tabs({ id, kind, turn, file = { kind: "files" }, other }) {
  /** @type {Shown[]} */
  const all = [
    ...(turn
      ? [
          { kind: /** @type {const} */ ("changes"), turn },
          { kind: /** @type {const} */ ("details"), turn },
        ]
      : []),
    ...(isReader() ? [] : [file]), // somebody who only reads cannot open files
    ...(other ? [other] : []),
  ];
  const tab = (/** @type {Shown} */ to) =>
    html`<a href=${besidePath(id, to)} aria-current=${to.kind === kind ? "true" : undefined}>${KINDS[to.kind].name}</a>`;
  return html`<nav class="pane-tabs" aria-label="Beside the thread">${all.map(tab)}</nav>`;
}
