// The whole page: the list of chats, and what the address names.

import { Coded, html, Icon, useEffect } from "../components/ui.js";
import { showAttention } from "../state/attention.js";
import { set, useApp } from "../state/store.js";
import { ListedChats } from "./chat-list.js";
import { lazy } from "./lazy.js";
import { Loading, Missing, SignedOut } from "./status-pages.js";

const NewChat = lazy(async () => (await import("./new-chat.js")).NewChat);
const ChatPage = lazy(async () => (await import("./chat.js")).ChatPage);
const DetailsPage = lazy(async () => (await import("./details.js")).DetailsPage);
const RunDetailsPage = lazy(async () => (await import("./details.js")).RunDetailsPage);
const RunPage = lazy(async () => (await import("./run.js")).RunPage);
const Beside = lazy(async () => (await import("./beside.js")).Beside, { isBeside: true });
const Quote = lazy(async () => (await import("./quote.js")).Quote, { isBeside: true });
const Palette = lazy(async () => (await import("./palette.js")).Palette, { isBeside: true });
const Dialogs = lazy(async () => (await import("./dialogs.js")).Dialogs, { isBeside: true });

/** @typedef {import("../state/store.js").State} State */

/** @param {{ app: State }} props */
function Page({ app }) {
  const { page, id, turn } = app.route;
  if (!app.about && app.problem) {
    const text = `${app.problem} It is tried again by itself.`;
    return html`<${Missing} title="Penstock cannot be reached" text=${text}><span></span><//>`;
  }
  if (!app.about) return html`<${Loading} />`;
  switch (page) {
    case "home":
      return html`<${NewChat} app=${app} />`;
    case "details":
      return html`<${DetailsPage} key=${`${id}/${turn}`} id=${id} turn=${turn} />`;
    case "run_details":
      return html`<${RunDetailsPage} key=${`${id}/${turn}`} id=${id} turn=${turn} />`;
    case "run":
      return html`<${RunPage} key=${id} id=${id} />`;
    case "chat":
      return html`<${ChatPage} key=${id} id=${id} about=${app.about} />`;
    default:
      return html`<${Missing} title="There is nothing here" text="There is no page at this address." />`;
  }
}

export function App() {
  const app = useApp();
  useEffect(showAttention);
  useEffect(() => {
    if (!app.drawer) return undefined;
    focus("#chats a[aria-current], #chats .new-chat");
    return () => focus(".drawer-button");
  }, [app.drawer]);
  if (app.signedIn === false) return html`<${SignedOut} problem=${app.problem} />`;
  if (app.signedIn === null) return html`<${Loading} />`;
  const { page, id, beside } = app.route;
  return html`
    <a class="skip" href="#main" onClick=${skipToConversation}>Skip to the conversation</a>
    <div class=${`shell ${app.drawer ? "drawer-open" : ""} ${beside ? `has-pane has-${beside.kind}` : ""}`}>
      <${ListedChats} app=${app} />
      <div class="veil" onClick=${() => set({ drawer: false })}></div>
      <main id="main" tabindex="-1" inert=${app.drawer}>
        <button
          type="button"
          class="quiet round drawer-button"
          aria-label="Chats"
          aria-expanded=${app.drawer}
          aria-controls="chats"
          onClick=${() => set({ drawer: !app.drawer })}
        >
          <${Icon} name="menu" />
        </button>
        <${Page} app=${app} />
      </main>
      ${beside && html`<${Beside} key=${id} id=${id} beside=${beside} />`}
    </div>
    ${app.notice && html`<${Notice} text=${app.notice} />`}
    ${app.hasSelection && page === "chat" && html`<${Quote} />`}
    ${app.palette !== null && html`<${Palette} app=${app} />`}
    ${app.dialog && html`<${Dialogs} app=${app} />`}
  `;
}

/** What was not done, until it is closed or something else is. @param {{ text: string }} props */
function Notice({ text }) {
  return html`<div class="notice" role="alert">
    <p>That was not done. <${Coded} text=${text} /></p>
    <button type="button" class="quiet round" aria-label="Close this notice" onClick=${() => set({ notice: "" })}>
      <${Icon} name="close" />
    </button>
  </div>`;
}

/** @param {Event} event */
function skipToConversation(event) {
  event.preventDefault();
  focus(document.querySelector(".thread") ? ".thread" : "#main");
}

/** @param {string} selector */
function focus(selector) {
  /** @type {HTMLElement | null} */
  const found = document.querySelector(selector);
  found?.focus();
}
