// A question of the agent, with its answers.

import { api } from "../api.js";
import { harmless, line } from "../text.js";
import { html, useAct, useState, Wrong } from "../ui.js";

/** `ended`: the turn ended with the question, which then stands in its message already; the answer begins the next. */
export function Hint({ chat, hint, ended }) {
  const [text, setText] = useState("");
  const [given, setGiven] = useState("");
  const [busy, error, run] = useAct();
  const options = hint.options ?? [];
  const answer = (choice) => {
    setGiven(choice);
    run(() => api.answer(chat, hint.id, choice));
  };
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) answer(text.trim());
  };
  const sent = given && !error;
  return html`<section class="hint" aria-label="The agent asks" data-hint=${hint.id}>
    <h3>${ended ? "Your answer" : "The agent asks"}</h3>
    ${!ended && html`<p class="hint-text" dir="auto">${harmless(hint.text)}</p>`}
    ${options.length > 0 && html`<div class="options" role="group" aria-label="Answers">
      ${options.map((option) => html`<button type="button" class="button" key=${option.id} disabled=${busy || sent}
          aria-pressed=${given === option.id} dir="auto"
        onClick=${() => answer(option.id)}>${line(option.label)}</button>`)}
    </div>`}
    ${!options.length && html`<form onSubmit=${submit}>
      <input aria-label="Your answer" dir="auto" value=${text} disabled=${busy || sent}
          onInput=${(event) => setText(event.target.value)} />
      <button type="submit" class="button primary" disabled=${busy || sent || !text.trim()}>Answer</button>
    </form>`}
    ${sent && html`<p class="status"><span class="flow"></span>Your answer is on its way…</p>`}
    <${Wrong}>${error}<//>
  </section>`;
}
