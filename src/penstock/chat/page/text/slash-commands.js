// Commands after a / at the beginning of a message: which of them are meant, and the variables of a prompt that was put
// into the message.

/**
 * @typedef {{ end: number, typed: string }} Slash  Where the name ends, and what it is so far.
 * @typedef {{ name: string, description: string, argument: string, prompt: Api.StoredPrompt | null }} Command
 *   Of the agent, or a stored prompt. `argument`: what follows the name, for people.
 * @typedef {{ start: number, end: number }} Variable  Place of a variable in a message that nobody has changed yet.
 */

const MAX_NAME = 200; // characters that are looked at: a longer name is not typed
const MAX_SHOWN = 100;
const BOUNDARY = /[$:/_.-]/; // within the names of commands: before a word, and before the whole name of a skill
const PLACE = /\{\{([A-Za-z0-9_][A-Za-z0-9_-]*)\}\}/g;

/**
 * Return the name of a command that is being written before the caret.
 *
 * @param {string} text
 * @param {number} caret
 * @returns {Slash | null}
 */
export function slashAt(text, caret) {
  if (caret < 1 || caret > MAX_NAME || text[0] !== "/") return null;
  const typed = text.slice(1, caret);
  return /\s/.test(typed) ? null : { end: caret, typed };
}

/**
 * Return the commands of which a name, or a word of it, begins as what is typed; those first whose name does.
 *
 * @param {Command[]} commands
 * @param {string} typed
 */
export function meantBy(commands, typed) {
  const wanted = typed.toLowerCase();
  const begins = (/** @type {Command} */ it) => it.name.toLowerCase().startsWith(wanted);
  const hasWord = (/** @type {Command} */ { name }) =>
    [...name.matchAll(new RegExp(BOUNDARY, "g"))].some(({ index }) => name.toLowerCase().startsWith(wanted, index + 1));
  const others = commands.filter((it) => !begins(it) && hasWord(it));
  return [...commands.filter(begins), ...others].slice(0, MAX_SHOWN);
}

/**
 * Return the text of a prompt with the values that its profile gives, and the places of all variables in it.
 *
 * @param {Api.StoredPrompt} prompt
 * @returns {{ text: string, variables: Variable[] }}
 */
export function filled({ text, variables }) {
  const values = new Map(variables.map(({ name, value }) => [name, value]));
  /** @type {Variable[]} */
  const places = [];
  let made = "";
  let after = 0;
  for (const { 0: place, 1: name, index } of text.matchAll(PLACE)) {
    made += text.slice(after, index);
    const start = made.length;
    made += values.get(name) || place;
    places.push({ start, end: made.length });
    after = index + place.length;
  }
  return { text: made + text.slice(after), variables: places };
}

/**
 * Return the variables that a change of the text has left as they were, at their new places.
 *
 * @param {Variable[]} variables
 * @param {string} before
 * @param {string} now
 */
export function leftOf(variables, before, now) {
  const shorter = Math.min(before.length, now.length);
  let start = 0;
  while (start < shorter && before[start] === now[start]) start += 1;
  let tail = 0;
  while (tail < shorter - start && before.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const end = before.length - tail;
  const moved = now.length - before.length;
  return variables
    .filter((it) => it.end <= start || it.start >= end)
    .map((it) => (it.start >= end ? { start: it.start + moved, end: it.end + moved } : it));
}
