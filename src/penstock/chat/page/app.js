// The page: who is there, where we are, and the keys.

import { api } from "./api.js";
import { running } from "./reducer.js";
import { begin, go, openDialog, set, state, step, useApp, windowTitle } from "./state.js";
import { html, Icon, render, useEffect } from "./ui.js";
import { ChatPage } from "./views/chat.js";
import { Chats } from "./views/chats.js";
import { Dialogs } from "./views/dialogs.js";
import { NewChat } from "./views/newchat.js";
import { RecordPage } from "./views/record.js";
import { Loading, Missing, SignedOut } from "./views/states.js";

function Page({ app }) {
  const { route } = app;
  if (!app.about && app.trouble) {
    const words = `${app.trouble} It is tried again by itself.`;
    return html`<${Missing} title="Penstock cannot be reached" words=${words}><span></span><//>`;
  }
  if (!app.about) return html`<${Loading} />`;
  if (route.page === "home") return html`<${NewChat} app=${app} />`;
  if (route.page === "missing") return html`<${Missing} title="There is nothing here" words="The address leads nowhere." />`;
  if (route.page === "record") return html`<${RecordPage} key=${`${route.id}/${route.turn}`} app=${app} />`;
  return html`<${ChatPage} key=${route.id} app=${app} />`;
}

function App() {
  const app = useApp();
  useEffect(() => {
    document.title = windowTitle();
  });
  const closeDrawer = () => set({ drawer: false });
  useEffect(() => {
    if (!app.drawer) return undefined;
    document.querySelector("#chats a[aria-current], #chats .new-chat").focus();
    return () => document.querySelector(".drawer-button")?.focus();
  }, [app.drawer]);
  if (app.signedIn === false) return html`<${SignedOut} trouble=${app.trouble} />`;
  if (app.signedIn === null) return html`<${Loading} />`;
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the conversation</a>
    <div class=${`shell ${app.drawer ? "drawer-open" : ""}`}>
      <${Chats} app=${app} />
      <div class="veil" onClick=${closeDrawer}></div>
      <main id="main" tabindex="-1" inert=${app.drawer}>
        <button type="button" class="quiet round drawer-button" aria-label="Chats" aria-expanded=${app.drawer}
            aria-controls="chats"
          onClick=${() => set({ drawer: !app.drawer })}><${Icon} name="menu" /></button>
        <${Page} app=${app} />
      </main>
    </div>
    <${Dialogs} app=${app} />
  `;
}

function skip(event) {
  event.preventDefault();
  (document.querySelector(".thread") ?? document.getElementById("main")).focus();
}

window.matchMedia("(max-width: 46rem)").addEventListener("change", () => set({ drawer: false }));

/** A plain click on a link of the page stays in the page. */
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || !state.about) return;
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const elsewhere = typing && !typing.closest(".composer"); // there Esc is the field's own
  const plain = /^[1-9]$/.test(event.key) ? choose : PLAIN[event.key];
  const act = event.altKey ? ALT[event.code] : event.key === "Escape" ? !elsewhere && escape : !typing && plain;
  if (act) act(event);
});

const ALT = {
  KeyN: (event) => (event.preventDefault(), go("/"), focusComposer()),
  ArrowUp: (event) => (event.preventDefault(), step(-1)),
  ArrowDown: (event) => (event.preventDefault(), step(1)),
  End: (event) => (event.preventDefault(), document.dispatchEvent(new Event("penstock:latest"))),
};

const PLAIN = {
  "?": (event) => (event.preventDefault(), openDialog({ kind: "help" })),
  "/": (event) => (event.preventDefault(), focusComposer()),
};

/** Choose the answer with this number, if a question is there. */
function choose(event) {
  document.querySelectorAll(".hint .options button")[Number(event.key) - 1]?.click();
}

function escape() {
  if (state.drawer) return set({ drawer: false });
  const turn = state.route.page === "chat" && state.viewing && running(state.viewing.chat);
  if (turn) api.stop(state.viewing.id, turn.turn).catch(() => {});
  return undefined;
}

function focusComposer() {
  requestAnimationFrame(() => document.querySelector(".composer textarea")?.focus());
}

render(html`<${App} />`, document.getElementById("app"));
begin();
