// Two chats side by side: the thread of the other one, in the pane beside the open one, and what goes to both.

import { html, useLayoutEffect, useState, withChecked } from "../components/ui.js";
import { chatPath, go, startSession } from "../state/router.js";
import { chatOf, useApp } from "../state/store.js";
import { oneLine } from "../text/format.js";
import { versionsOf } from "../text/versions.js";
import { GONE, Thread } from "./chat.js";
import { Keep } from "./versions.js";

/** @import { ChatSession } from "../state/chat-session.js" */

/** The thread of a chat, live, without a composer. @param {{ id: string }} props */
export function SideBySide({ id }) {
  const { about } = useApp();
  const chat = chatOf(id);
  const session = useSession(id, oneLine(chat?.agent));
  if (!session || !about) return null;
  const gone = GONE[session.connection];
  if (gone) return html`<p class="side-note">${gone.join(". ")}</p>`;
  return html`<${Thread} session=${session} chat=${chat} about=${about} isBeside />`;
}

/**
 * Follow a chat for as long as it is shown.
 *
 * @param {string} id
 * @param {string} agent
 */
function useSession(id, agent) {
  const [session, setSession] = useState(/** @type {ChatSession | null} */ (null));
  const [, setVersion] = useState(0);
  useLayoutEffect(() => {
    const made = startSession(id, () => setVersion((version) => version + 1));
    setSession(made);
    return () => made.close();
  }, []);
  if (session) session.speaker = agent;
  return session;
}

/** The choice between the two: the other one is kept, or opened. @param {{ id: string, other: string }} props */
export function Decide({ id, other }) {
  const { chats } = useApp();
  const open = () => go(chatPath(other));
  // One of the two begins before a message of the other one, or both begin before the same message.
  const versions = [other, id]
    .map((chat) => versionsOf(chats, chat, 1))
    .find((all) => [id, other].every((chat) => all.some((it) => it.chat === chat)));
  return html`
    ${versions && html`<${Keep} chat=${other} versions=${versions} onKept=${open} />`}
    <button type="button" class="quiet" onClick=${open}>Open</button>
  `;
}

/**
 * The switch by which a message goes to both chats. `isDisabled`: the open chat asks something.
 *
 * @param {{ id: string, isOn: boolean, isDisabled: boolean, onChange: (isOn: boolean) => void }} props  `id`: the other chat.
 */
export function Both({ id, isOn, isDisabled, onChange }) {
  const title = isDisabled ? "An answer goes to this chat only" : `Also send to ${oneLine(chatOf(id)?.agent)}`;
  return html`<label class="both" title=${title}>
    <input type="checkbox" checked=${isOn} disabled=${isDisabled} onChange=${withChecked(onChange)} />Both
  </label>`;
}
