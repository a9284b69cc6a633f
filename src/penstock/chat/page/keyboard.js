// The keys of the page, and what is selected; text/shortcuts.js is the list that a person sees.

import { LATEST, STEP } from "./components/scroll.js";
import { composerField } from "./components/ui.js";
import { outbox } from "./net/outbox.js";
import { chooseAnswer } from "./state/answering.js";
import { closePane } from "./state/beside.js";
import { isReader } from "./state/people.js";
import { running } from "./state/reducer.js";
import { go, goToNeighbour } from "./state/router.js";
import { endSelecting, startSelecting } from "./state/selection.js";
import { openDialog, set, state } from "./state/store.js";

const step = (/** @type {-1 | 1} */ by) => () => document.dispatchEvent(new CustomEvent(STEP, { detail: by }));

/** @type {Record<string, () => void>} With Alt, by the place of the key. */
const WITH_ALT = {
  KeyN: () => {
    go("/");
    focusComposer();
  },
  ArrowUp: () => goToNeighbour(-1),
  ArrowDown: () => goToNeighbour(1),
  PageUp: step(-1),
  PageDown: step(1),
  End: () => document.dispatchEvent(new Event(LATEST)),
};

/** @type {Record<string, () => void>} Outside of a field, by the character. */
const PLAIN = {
  "?": () => openDialog({ kind: "help" }),
  "/": () => focusComposer(),
  x: () => selectFocused(),
  j: step(1),
  k: step(-1),
  q: () => document.querySelector(/** @type {"button"} */ (".quote"))?.click(),
  F2: () => document.querySelector(/** @type {"button"} */ (".head h1 button"))?.click(),
};

/** Note which thread was clicked, until Tab moves the focus: it needs no ring for the keys that follow. */
export function listenForClicks() {
  document.addEventListener("pointerdown", ({ target }) => {
    if (target instanceof Element) target.closest(".thread")?.setAttribute("data-clicked", "");
  });
  const forget = () => document.querySelector(".thread[data-clicked]")?.removeAttribute("data-clicked");
  document.addEventListener("keydown", ({ key }) => key === "Tab" && forget(), { capture: true });
}

const SETTLED_MS = 150; // while somebody drags, nothing appears

/** Note whether text of a chat is selected: what quotes it is loaded then. */
export function listenForSelections() {
  /** @type {Timer} */
  let timer;
  const note = () => {
    const node = getSelection()?.isCollapsed === false ? getSelection()?.anchorNode : null;
    const element = node instanceof Element ? node : node?.parentElement;
    const hasSelection = Boolean(element?.closest(".thread, .side-pane"));
    if (hasSelection !== state.hasSelection) set({ hasSelection });
  };
  document.addEventListener("selectionchange", () => {
    clearTimeout(timer);
    timer = setTimeout(note, SETTLED_MS);
  });
}

export function listenForKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || !state.about) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
      event.preventDefault();
      set({ palette: "" });
      return;
    }
    const field = /** @type {Element} */ (event.target).closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && !event.altKey) {
      if (!field || field.closest(".composer")) escape(); // elsewhere Esc is the field's own
    } else if (!event.altKey && !field && /^[1-9]$/.test(event.key)) {
      if (!event.repeat) chooseAnswer(Number(event.key));
    } else {
      const act = event.altKey ? WITH_ALT[event.code] : field ? undefined : PLAIN[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }
  });
}

/** Begin to select chats of the list: with the one that has the focus, or else the one that is open. */
function selectFocused() {
  const focused = document.activeElement?.closest(".entries [data-chat]")?.getAttribute("data-chat");
  const id = focused ?? state.route.id ?? "";
  if (state.selection || isReader()) return;
  startSelecting(id);
  const isSeen = document.querySelector(".side")?.checkVisibility({ visibilityProperty: true });
  if (!isSeen) set({ drawer: true });
  requestAnimationFrame(() => {
    const box = `.entries [data-chat="${CSS.escape(id)}"] input`;
    document.querySelector(/** @type {"input"} */ (box))?.focus();
  });
}

/** End selecting, close the list of chats on a narrow screen, stop the agent, or close what is beside the thread. */
function escape() {
  if (state.selection) {
    endSelecting();
    return;
  }
  if (state.drawer) {
    set({ drawer: false });
    return;
  }
  const turn = state.route.page === "chat" && state.session && running(state.session.chat);
  if (turn && state.session) outbox.stop(state.session.id, turn.turn);
  else closePane();
}

function focusComposer() {
  requestAnimationFrame(() => composerField()?.focus());
}
