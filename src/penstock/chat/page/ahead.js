// Loads a view before it is drawn: the one that the address names at once, beside main.js; that of a chat, or of a new one,
// once a person is about to open it. Without that, the first page asks for nothing that it does not show.

import { readObject, writeObject } from "./state/storage.js";

/** Views by the address: the beginning of each address that has some. @type {[RegExp, string[]][]} */
const VIEWS = [
  [/^\/chats\/[^/]+\/turns\//, ["details", "chat"]],
  [/^\/runs\/[^/]+\/turns\//, ["details", "run"]],
  [/^\/chats\//, ["chat"]],
  [/^\/runs\//, ["run"]],
  [/^\/$/, ["new-chat"]],
];
const NAME = "penstock.ahead"; // the version of the files whose view of a chat this browser has loaded before
const SOON = ["pointerover", "pointerdown", "focusin", "input"];

/** What was asked for. @type {Set<string>} */
const asked = new Set();

/** @param {string} view */
function load(view) {
  if (asked.has(view)) return;
  asked.add(view);
  import(`./views/${view}.js`).then(
    () => view === "chat" && writeObject(NAME, { files: import.meta.url }),
    () => asked.delete(view), // it is loaded again when it is drawn
  );
}

/**
 * Load the view of a chat if the pointer or the focus is in the list, or a first message is being written; that of a new
 * chat if they are at its link.
 *
 * @param {Event} event
 */
function loadIfNear({ type, target }) {
  const place = type === "input" ? ".composer" : "#chats .entries"; // the field of a new chat has the focus by itself
  if (!(target instanceof Element)) return;
  if (target.closest(".new-chat")) load("new-chat");
  if (target.closest(place)) load("chat");
}

for (const view of VIEWS.find(([address]) => address.test(location.pathname))?.[1] ?? []) load(view);
for (const type of SOON) document.addEventListener(type, loadIfNear, { passive: true });
// From the browser's own cache it costs nothing: then it is there before anybody points at a chat.
if (readObject(NAME).files === import.meta.url)
  window.addEventListener("load", () => (window.requestIdleCallback ?? setTimeout)(() => load("chat")));
