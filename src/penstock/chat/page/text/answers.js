// What a person's words mean as the answer to a question of the agent.

const ALLOW_ONCE = ["allow_once"];
const ALLOW_ALWAYS = ["allow_always"];
const REJECT = ["reject_once", "reject_always"];

/** @type {Record<string, string[]>} A short answer → the kinds of options that it means. */
const SHORT_ANSWERS = {
  y: ALLOW_ONCE,
  yes: ALLOW_ONCE,
  a: ALLOW_ALWAYS,
  always: ALLOW_ALWAYS,
  n: REJECT,
  no: REJECT,
};

/**
 * The option that the words name: by yes, no and always, by its label or id, by its number from 1; or undefined.
 * A short word never means an option that allows more than what is asked for.
 *
 * @param {Api.OpenQuestion} question
 * @param {string} text
 */
export function optionOf({ options }, text) {
  if (!options) return undefined;
  const word = plain(text);
  const numbered = /^\d+$/.test(word) ? options[Number(word) - 1] : undefined;
  if (isPermission({ options }) && Object.hasOwn(SHORT_ANSWERS, word)) {
    return SHORT_ANSWERS[word].map((kind) => options.find((it) => it.kind === kind && !it.wide)).find(Boolean);
  }
  return options.find((it) => plain(it.label) === word || it.id === text.trim()) ?? numbered;
}

/**
 * What to send as the answer: `answer`, or `why` the words are none.
 *
 * @param {Api.OpenQuestion} question
 * @param {string} text
 * @returns {{ answer: string, why?: undefined } | { answer?: undefined, why: string }}
 */
export function answerOf(question, text) {
  const option = optionOf(question, text);
  if (option) return { answer: option.id };
  const isShort = isPermission(question) && Object.hasOwn(SHORT_ANSWERS, plain(text));
  if ((question.free_text && !isShort) || !question.options?.length) return { answer: text.trim() };
  const numbers = question.options.length > 1 ? `1 to ${question.options.length}` : "1";
  return {
    why: `This question takes only the answers above: press one, or write its number (${numbers}) or its words.`,
  };
}

/** @param {{ options?: Api.OpenQuestion["options"] }} question */
function isPermission({ options }) {
  return (options ?? []).some((it) => it.kind !== "choice");
}

/**
 * Words as they are compared: without case, marks and spaces that nobody would type the same twice.
 *
 * @param {string} text
 */
function plain(text) {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
