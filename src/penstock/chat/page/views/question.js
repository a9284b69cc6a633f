// A question of the agent, with its answers.

import { Diffs } from "../components/diff.js";
import { html, Status, useAsync, useLayoutEffect, useState, Wrong } from "../components/ui.js";
import { giveAnswer, noteShown, onceOf, SAME_COMMAND } from "../state/answering.js";
import { chatOf } from "../state/store.js";
import { questionTitle } from "../text/copy.js";
import { below, exact, oneLine } from "../text/format.js";
import { labelOf, remarkOf, subjectOf } from "../text/subject.js";

const ALWAYS = "Always in this chat";
const ALWAYS_MEANS = "This command, word for word, is not asked for again in this chat";
const NUMBERED = 9; // answers that a key chooses

/**
 * `isEnded`: the turn ended with the question, which then is in its message already; the answer begins the next.
 * `hasField`: there is a field for an answer in words.
 *
 * @param {{ chat: string, question: Api.OpenQuestion, isEnded: boolean, hasField: boolean,
 *   onLate: (text: string) => void }} props
 */
export function Question({ chat, question, isEnded, hasField, onLate }) {
  const [given, setGiven] = useState("");
  const [isBusy, error, run] = useAsync();
  useLayoutEffect(noteShown, [question.id]);
  const options = question.options ?? [];
  const answer = async (/** @type {Api.Option} */ option, always = false) => {
    setGiven(option.id);
    if ((await run(() => giveAnswer(chat, question, option.id, onLate, always))) !== true) setGiven("");
  };
  const once = isEnded ? undefined : onceOf(question);
  const directory = chatOf(chat)?.cwd ?? "";
  const remark = isEnded ? "" : remarkOf(question, directory);
  const button = (/** @type {Api.Option} */ option, /** @type {number} */ i) =>
    html`<${Option}
      key=${option.id}
      option=${once && option.id === SAME_COMMAND ? { ...option, label: ALWAYS } : option}
      title=${once && option.id === SAME_COMMAND ? ALWAYS_MEANS : undefined}
      number=${i + 1}
      isDisabled=${isBusy || Boolean(given)}
      isPressed=${given === option.id}
      onClick=${() => answer(option)}
    />`;
  const label = hasField ? "The agent asks" : `${oneLine(chatOf(chat)?.agent)} asks`; // two at once differ
  return html`<section class="hint" aria-label=${label} data-hint=${question.id}>
    <h3>${isEnded ? "Your answer" : questionTitle(question.ask)}</h3>
    ${remark && html`<p class="hint-text" dir="auto">${remark}</p>`}
    ${!isEnded && html`<${About} question=${question} directory=${directory} />`}
    ${
      options.length > 0
        ? html`<div class="options" role="group" aria-label="Answers">${options.map(button)}</div>`
        : html`<p class="side-note">${hasField ? "Write your answer below." : "Open this chat to write your answer."}</p>`
    }
    ${
      once &&
      !options.some((it) => it.id === SAME_COMMAND) &&
      html`<button
        type="button"
        class="quiet always"
        title=${ALWAYS_MEANS}
        disabled=${isBusy || Boolean(given)}
        onClick=${() => answer(once, true)}
      >
        ${ALWAYS}
      </button>`
    }
    ${given && !isBusy && html`<${Status}>Your answer is on its way…<//>`}
    <${Wrong}>${error}<//>
  </section>`;
}

/**
 * What is decided about: the changes, the whole command, or what the title names.
 *
 * @param {{ question: Api.OpenQuestion, directory: string }} props
 */
function About({ question, directory }) {
  const { changes, more_changes: more, ask } = question;
  if (changes?.length) return html`<${Diffs} changes=${changes} more=${more} directory=${directory} />`;
  const subject = subjectOf(question);
  return subject ? html`<${Subject} text=${ask === "edit" ? below(subject, directory) : subject} />` : null;
}

/** @param {{ text: string }} props */
function Subject({ text }) {
  return html`<pre class="hint-what" tabindex="0" role="group" aria-label="What it is about"><code>${exact(text)}</code></pre>`;
}

/**
 * A button, by what it does: `allow_once` is the one to press first, and `allow_always` is set apart.
 *
 * @param {{ option: Api.Option, title?: string, number: number, isDisabled: boolean, isPressed: boolean, onClick: () => void }} props
 */
function Option({ option, title, number, isDisabled, isPressed, onClick }) {
  return html`<button
    type="button"
    class=${option.kind === "allow_once" ? "button primary" : "button"}
    data-kind=${option.kind}
    disabled=${isDisabled}
    aria-pressed=${isPressed}
    title=${title}
    dir="auto"
    onClick=${onClick}
  >
    ${number <= NUMBERED && html`<kbd aria-hidden="true">${number}</kbd>`}${oneLine(labelOf(option))}
  </button>`;
}
