// The pages where there is no chat to show.

import { html, Mark, Status, useAsync, useState, withValue, Wrong } from "../components/ui.js";
import { isReader } from "../state/people.js";
import { signIn } from "../state/session.js";

export function Loading() {
  return html`<div class="alone"><${Status}>Loading…<//></div>`;
}

/** @param {{ title: string, text: string, children?: import("preact").ComponentChildren }} props */
export function Missing({ title, text, children }) {
  return html`<div class="alone">
    <${Mark} />
    <h1>${title}</h1>
    <p>${text}</p>
    ${children ?? (isReader() ? null : html`<p><a class="button" href="/">Start a new chat</a></p>`)}
  </div>`;
}

/** @param {{ problem: string }} props */
export function SignedOut({ problem }) {
  const [text, setText] = useState("");
  const [isBusy, error, run] = useAsync();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim()) run(() => signIn(text));
  };
  return html`<main class="alone" id="main">
    <${Mark} />
    <h1>Sign in</h1>
    <p>
      Open the link that <code>penstock serve</code> printed, or paste it here. Each link works once, for one browser; another
      device that is signed in can make a new one.
    </p>
    <form class="sign-in" onSubmit=${submit}>
      <label for="sign-in">Link or token</label>
      <input
        id="sign-in"
        type="password"
        autocomplete="off"
        spellcheck=${false}
        value=${text}
        onInput=${withValue(setText)}
      />
      <button type="submit" class="button primary" disabled=${isBusy || !text.trim()}>Sign in</button>
    </form>
    <${Wrong}>${error || problem}<//>
  </main>`;
}
