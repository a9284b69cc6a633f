// Answers to the questions of agents: how they are given, and by which keys.

import { isInThreadBeside } from "../components/ui.js";
import { api, statusOf } from "../net/api.js";
import { LATE_ANSWER } from "../text/copy.js";

const CONFLICT = 409;
export const SAME_COMMAND = "same-command"; // an answer of Penstock's own, for the session; here it is kept with the chat
const EARLY_MS = 600; // a key that comes sooner was pressed before its question was seen

let shownAt = 0; // when the newest question appeared

/** Note that a question appears now. */
export function noteShown() {
  shownAt = performance.now();
}

/** Whether a question is on the page: it is loaded with the first one. @param {string} id */
export const isShown = (id) => Boolean(document.querySelector(`[data-hint="${CSS.escape(id)}"]`));

/**
 * Choose the answer with this number, if there is a question that could be seen: of two chats side by side, in the one that
 * has the focus.
 *
 * @param {number} number
 */
export function chooseAnswer(number) {
  if (performance.now() - shownAt < EARLY_MS) return;
  /** @type {NodeListOf<HTMLElement>} */
  const buttons = document.querySelectorAll(`${isInThreadBeside() ? ".side-pane" : "main"} .hint .options button`);
  buttons[number - 1]?.click();
}

/**
 * The answer that allows a command once, which is sent with `always` for the whole chat; undefined if that cannot be.
 *
 * @param {Api.OpenQuestion} question
 */
export const onceOf = ({ ask, options }) =>
  ask === "command" ? options?.find((it) => it.kind === "allow_once") : undefined;

/**
 * Answer a question; `onLate` is called with a text if somebody else was first.
 *
 * The question is gone by then, or soon, so that the text cannot be shown beside it.
 *
 * @param {string} chat
 * @param {Api.OpenQuestion} question
 * @param {string} answer
 * @param {(text: string) => void} onLate
 * @param {boolean} [always]  The command is allowed in the whole chat.
 */
export async function giveAnswer(chat, question, answer, onLate, always = false) {
  const once = answer === SAME_COMMAND ? onceOf(question) : undefined; // by its number or "a" too
  try {
    await api.answer(chat, question.id, once?.id ?? answer, always || Boolean(once));
  } catch (error) {
    if (statusOf(error) !== CONFLICT) throw error;
    onLate(LATE_ANSWER);
    return false;
  }
  return true;
}
