// A question of the agent, with its answers.

import { api } from "../api.js";
import { harmless, line } from "../text.js";
import { html, useAct, useState, Wrong } from "../ui.js";
import { askWords, LATE_ANSWER } from "../words.js";

const CONFLICT = 409;

/**
 * Answer a question; `onLate(words)` is called where somebody else was first.
 *
 * The question is gone by then, or soon, so that the words cannot be said beside it.
 */
export async function giveAnswer(chat, hint, answer, onLate) {
  try {
    await api.answer(chat, hint.id, answer);
  } catch (error) {
    if (error.status !== CONFLICT) throw error;
    onLate(LATE_ANSWER);
    return false;
  }
  return true;
}

/** `ended`: the turn ended with the question, which then stands in its message already; the answer begins the next. */
export function Hint({ chat, hint, ended, onLate }) {
  const [given, setGiven] = useState("");
  const [busy, error, run] = useAct();
  const options = hint.options ?? [];
  const answer = async (option) => {
    setGiven(option.id);
    if ((await run(() => giveAnswer(chat, hint, option.id, onLate))) !== true) setGiven("");
  };
  const what = line(hint.title);
  const text = without(harmless(hint.text), what);
  return html`<section class="hint" aria-label="The agent asks" data-hint=${hint.id}>
    <h3>${ended ? "Your answer" : askWords(hint.ask)}</h3>
    ${!ended && text && html`<p class="hint-text" dir="auto">${text}</p>`}
    ${!ended && what && !text.includes(what) && html`<pre class="hint-what" tabindex="0" role="group"
        aria-label="What it is about"><code>${what}</code></pre>`}
    ${options.length > 0 && html`<div class="options" role="group" aria-label="Answers">
      ${options.map((option, i) => html`<${Option} key=${option.id} option=${option} number=${i + 1}
          disabled=${busy || Boolean(given)} pressed=${given === option.id} onClick=${() => answer(option)} />`)}
    </div>`}
    ${!options.length && html`<p class="side-note">Write your answer below.</p>`}
    ${given && !busy && html`<p class="status"><span class="flow"></span>Your answer is on its way…</p>`}
    <${Wrong}>${error}<//>
  </section>`;
}

/** A text without what it is about, which has a box of its own: of "bash: npm test" it is "bash". */
function without(text, what) {
  if (!what) return text;
  const rest = (it) => (line(it).endsWith(`: ${what}`) ? line(it).slice(0, -what.length - 2) : it);
  return text.split("\n").filter((it) => line(it) !== what).map(rest).join("\n").trim();
}

/** A button, by what it does: `allow_once` is the one to press first, and `allow_always` stands apart. */
function Option({ option, number, disabled, pressed, onClick }) {
  const style = option.kind === "allow_once" ? "button primary" : "button";
  return html`<button type="button" class=${style} data-kind=${option.kind} disabled=${disabled} aria-pressed=${pressed}
      dir="auto" onClick=${onClick}>${number < 10 && html`<kbd aria-hidden="true">${number}</kbd>`}${line(option.label)}</button>`;
}
