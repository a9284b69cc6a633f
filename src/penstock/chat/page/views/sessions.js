// The conversations of this machine's terminals that a chat can continue.

import { Dialog, html, Status, useAsync, useEffect, useState, withValue, Wrong } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { confirmLevel, LAST } from "../state/actions.js";
import { chatPath, go } from "../state/router.js";
import { startChat } from "../state/start-chat.js";
import { readObject } from "../state/storage.js";
import { agentOf, closeDialog } from "../state/store.js";
import { ago, base, harmless, oneLine } from "../text/format.js";
import { chosenLevel } from "../text/permissions.js";

const FIND_MS = 200; // somebody who types is not asked for at each letter
const MOST = 50; // that the server lists

export function Sessions() {
  const [words, setWords] = useState("");
  const [found, setFound] = useState(/** @type {Api.ConversationView[] | null} */ (null));
  const [error, setError] = useState("");
  const [isBusy, problem, run] = useAsync();
  useEffect(() => {
    let isOld = false;
    const timer = setTimeout(
      () => {
        api.sessions(words.trim()).then(
          (sessions) => {
            if (isOld) return;
            setFound(sessions);
            setError("");
          },
          (failure) => isOld || setError(messageOf(failure)),
        );
      },
      found ? FIND_MS : 0,
    );
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [words]);
  return html`<${Dialog} title="Continue from a terminal" name="sessions" onClose=${closeDialog}>
    <input
      type="search"
      aria-label="Find a conversation"
      placeholder="Words of its messages"
      maxlength="200"
      autofocus
      spellcheck=${false}
      autocomplete="off"
      value=${words}
      onInput=${withValue(setWords)}
    />
    <${Wrong}>${error || problem}<//>
    ${found ? html`<${Found} sessions=${found} words=${words} isBusy=${isBusy} onChoose=${(/** @type {Api.ConversationView} */ it) => run(() => open(it))} />` : !error && html`<${Status} loading>Loading…<//>`}
    <p class="note">
      These are conversations of <code>penstock run</code> on this machine. The agent knows what was said there; the
      chat shows what is said from now on.
    </p>
  <//>`;
}

/**
 * @param {{ sessions: Api.ConversationView[], words: string, isBusy: boolean,
 *   onChoose: (it: Api.ConversationView) => void }} props
 */
function Found({ sessions, words, isBusy, onChoose }) {
  if (!sessions.length) {
    return html`<p role="status">
      ${words.trim() ? "No conversation has these words." : "There is no conversation in the directories of this server yet."}
    </p>`;
  }
  const row = (/** @type {Api.ConversationView} */ it) =>
    html`<li key=${`${it.agent} ${it.session_id}`}>
      <button type="button" class="session" disabled=${isBusy} onClick=${() => onChoose(it)}>
        <bdi class="session-title" title=${harmless(it.title)}>${oneLine(it.title) || "Without a message"}</bdi>
        <span class="side-note" title=${oneLine(it.cwd)}>
          <bdi>${oneLine(it.agent)}</bdi> · <bdi>${base(it.cwd)}</bdi> · ${ago(it.at)}${stateOf(it)}
        </span>
      </button>
    </li>`;
  return html`<ul class="sessions" aria-label="Conversations">
      ${sessions.map(row)}
    </ul>
    ${sessions.length >= MOST && html`<p class="note">These are the newest ${MOST}. Words find others.</p>`}`;
}

/** @param {Api.ConversationView} session */
function stateOf({ chat, outcome }) {
  if (chat) return " · is a chat";
  return outcome ? "" : " · may still run";
}

/**
 * Open the chat that has a conversation, or begin one. The person's own level holds, as far as the agent continues the
 * conversation at it.
 *
 * @param {Api.ConversationView} session
 */
async function open({ agent, session_id: session, cwd, chat, allows }) {
  if (chat) {
    closeDialog();
    go(chatPath(chat));
    return;
  }
  const view = agentOf(agent);
  const levels = (view?.allows ?? []).filter((it) => allows.includes(it.allow));
  const { level, wanted, isKept } = view
    ? chosenLevel({ ...view, allows: levels }, readObject(LAST).level)
    : { level: undefined, wanted: /** @type {Api.Level["kind"]} */ ("asks"), isKept: true };
  if (level && !isKept && !(await confirmLevel(agent, wanted, level))) return;
  if (await startChat({ agent, cwd, allow: level?.allow ?? allows[0], session }, "")) closeDialog();
}
