// The page where there is no chat to show.

import { signIn } from "../state.js";
import { html, Mark, useAct, useState, Wrong } from "../ui.js";

export function Loading() {
  return html`<div class="alone"><p class="status"><span class="flow"></span>Loading…</p></div>`;
}

export function Missing({ title, words, children }) {
  return html`<div class="alone"><${Mark} />
    <h1>${title}</h1>
    <p>${words}</p>
    ${children ?? html`<p><a class="button" href="/">Start a new chat</a></p>`}
  </div>`;
}

export function SignedOut({ trouble }) {
  const [text, setText] = useState("");
  const [busy, error, run] = useAct();
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) run(() => signIn(text));
  };
  return html`<main class="alone" id="main"><${Mark} />
    <h1>Sign in</h1>
    <p>Open the link that <code>penstock serve</code> printed, or paste it here. Each link works once, for one browser; another
      device that is signed in can make a new one.</p>
    <form class="sign-in" onSubmit=${submit}>
      <label for="sign-in">Link or token</label>
      <input id="sign-in" type="password" autocomplete="off" spellcheck=${false} value=${text}
          onInput=${(event) => setText(event.target.value)} />
      <button type="submit" class="button primary" disabled=${busy || !text.trim()}>Sign in</button>
    </form>
    <${Wrong}>${error || trouble}<//>
  </main>`;
}
