// The commands of the agent and the stored prompts that are offered after a / at the beginning of a message.

import { useChoiceList, useFound } from "../components/choice-list.js";
import { html, useLayoutEffect, useRef, useState } from "../components/ui.js";
import { api } from "../net/api.js";
import { chatOf } from "../state/store.js";
import { oneLine, plural } from "../text/format.js";
import { filled, leftOf, meantBy, slashAt } from "../text/slash-commands.js";

/** @typedef {import("../text/slash-commands.js").Command} Command */
/** @typedef {{ current: HTMLTextAreaElement | null }} Field */
/** @typedef {{ agent: string, cwd: string }} Place  What is chosen for a new chat. */

/** The commands that were asked for last. @type {{ of: string, found: Promise<Api.AgentCommand[]> } | null} */
let last = null;

/** @type {(chat: string, place?: Place) => string} */
const nameOf = (chat, place) => (place ? `${place.agent} ${place.cwd}` : chat);

/**
 * The commands of a chat's agent, or of the one that is chosen for a new chat. They are asked for once, and again when a
 * turn has begun or ended since, or something else was chosen.
 *
 * @param {string} chat
 * @param {Place} [place]
 */
function commandsOf(chat, place) {
  const { turns, state } = chatOf(chat) ?? {};
  const of = `${nameOf(chat, place)} ${turns} ${state}`;
  if (last?.of !== of) last = { of, found: place ? api.agentCommands(place.agent, place.cwd) : api.commands(chat) };
  const { found } = last;
  found.catch(() => {
    if (last?.found === found) last = null;
  });
  return found;
}

/**
 * What is offered after the /: the prompts, and then the commands of the agent, each as far as it can be loaded.
 *
 * @param {string} chat
 * @param {Place} [place]
 * @returns {Promise<Command[]>}
 */
async function offered(chat, place) {
  const [prompts, commands] = await Promise.all([
    api.prompts().catch(() => []),
    commandsOf(chat, place).catch(() => []),
  ]);
  return [
    ...prompts.map((prompt) => ({ name: prompt.name, description: prompt.description, argument: "", prompt })),
    ...commands.map((it) => ({
      name: it.name,
      description: it.description ?? "",
      argument: it["hint"] ?? "",
      prompt: null,
    })),
  ];
}

/**
 * Return the list of commands for what is written, its attributes of the field, what the field does with keys, and what
 * to do if the caret may have moved. The list opens when the message is a / so far, and so not for a path that was pasted.
 *
 * @param {string | undefined} chat  "" for a new chat; without one, nothing is offered.
 * @param {Place | undefined} place  Of a new chat.
 * @param {Field} field
 * @param {string} text  What is written.
 */
export function useCommandChoice(chat, place, field, text) {
  const [slash, setSlash] = useState(/** @type {import("../text/slash-commands.js").Slash | null} */ (null));
  const variables = useVariables(field, text);
  const look = (canOpen = false) => {
    const { current } = field;
    const isWriting = current !== null && current === document.activeElement;
    const next = isWriting ? slashAt(current.value, current.selectionStart) : null;
    const isOpen = chat !== undefined && next && (slash !== null || (canOpen && !next.typed));
    if (next?.typed !== slash?.typed || !isOpen) setSlash(isOpen ? next : null);
  };
  useLayoutEffect(() => look(true), [text]);
  const found = useFound(slash && "", () => offered(chat ?? "", place), nameOf(chat ?? "", place));
  const choose = (/** @type {Command} */ { name, prompt }) => {
    const { current } = field;
    if (!current || !slash) return;
    const { text: made, variables: places } = prompt ? filled(prompt) : { text: `/${name} `, variables: [] };
    current.setRangeText(made, 0, slash.end, "end");
    current.dispatchEvent(new Event("input", { bubbles: true }));
    current.focus();
    variables.begin(places);
  };
  const items = slash && found ? meantBy(found.items, slash.typed) : [];
  const list = useChoiceList({
    id: "command-choice",
    label: "Commands",
    items,
    of: slash?.typed ?? "",
    isFirstMarked: !items.some((it) => !it.prompt && it.name === slash?.typed), // such a message can be sent as it is
    keyOf: ({ name, prompt }) => `${prompt ? "prompt" : "command"} ${name}`,
    draw: ({ name, description, argument, prompt }) =>
      html`<bdi>/${oneLine(name)}</bdi>
        ${(prompt || argument) && html`<span class="choice-note"><bdi>${prompt ? "stored prompt" : oneLine(argument)}</bdi></span>`}
        ${description && html`<span class="choice-more"><bdi>${oneLine(description)}</bdi></span>`}`,
    onChoose: choose,
    onClose: () => setSlash(null),
  });
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => list.onKeyDown(event) || variables.onKeyDown(event);
  return { ...list, onKeyDown, look: () => look(), note: variables.view };
}

/**
 * Return what to do with the variables of a prompt that was put into the field: Tab selects the next one that nobody has
 * changed, Shift+Tab the one before.
 *
 * @param {Field} field
 * @param {string} text
 */
function useVariables(field, text) {
  const [left, setLeft] = useState(/** @type {import("../text/slash-commands.js").Variable[]} */ ([]));
  const before = useRef(text);
  useLayoutEffect(() => {
    const now = field.current?.value ?? "";
    setLeft((places) => (places.length ? leftOf(places, before.current, now) : places));
    before.current = now;
  }, [text]);
  const select = (/** @type {import("../text/slash-commands.js").Variable | undefined} */ place) => {
    if (!place) return false;
    field.current?.focus();
    field.current?.setSelectionRange(place.start, place.end);
    return true;
  };
  const begin = (/** @type {import("../text/slash-commands.js").Variable[]} */ places) => {
    before.current = field.current?.value ?? "";
    setLeft(places);
    select(places[0]);
  };
  const nextOf = () => left.find((it) => it.start >= (field.current?.selectionEnd ?? 0));
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Tab" || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return false;
    const caret = field.current?.selectionStart ?? 0;
    if (!select(event.shiftKey ? left.findLast((it) => it.end <= caret) : nextOf())) return false;
    event.preventDefault();
    return true;
  };
  const view =
    left.length > 0 &&
    html`<p class="variables" role="status">
      ${plural(left.length, "variable")} left in this prompt.
      <button type="button" class="quiet" title="Tab" onClick=${() => select(nextOf() ?? left[0])}>Next</button>
    </p>`;
  return { begin, onKeyDown, view };
}
