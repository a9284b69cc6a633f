// Which version of a message a chat has, and what can be done with the others.

import { html, Icon } from "../components/ui.js";
import { changeChat, goToTurn } from "../state/actions.js";
import { closePane, openBeside } from "../state/beside.js";
import { decidesAbout } from "../state/people.js";
import { attempt, chatOf, useApp } from "../state/store.js";

/** @import { Version } from "../text/versions.js" */

/**
 * "2/3": which version of the message this chat has, with the ways to the chats of the others.
 *
 * @param {{ chat: string, versions: Version[] }} props
 */
export function Versions({ chat, versions }) {
  const { route } = useApp();
  const at = versions.findIndex((it) => it.chat === chat);
  if (at < 0) return null;
  const step = (/** @type {number} */ by, /** @type {string} */ label, /** @type {string} */ icon) => {
    const to = versions[at + by];
    return html`<button
      type="button"
      class="quiet move"
      aria-label=${label}
      title=${label}
      disabled=${!to}
      onClick=${() => goToTurn(to.chat, to.turn)}
    >
      <${Icon} name=${icon} />
    </button>`;
  };
  const other = (versions[at + 1] ?? versions[at - 1]).chat;
  const isBeside = versions.some((it) => it.chat === route.beside?.chat);
  const look = () => (isBeside ? closePane() : openBeside(chat, { kind: "chat", chat: other }));
  const label = `Version ${at + 1} of ${versions.length} of this message`;
  return html`<div class="versions" role="group" aria-label=${label}>
    ${step(-1, "Version before", "back")}<span aria-hidden="true">${at + 1}/${versions.length}</span>
    ${step(1, "Next version", "forward")}
    <button type="button" class="quiet wide-only" aria-pressed=${isBeside} onClick=${look}>Side by side</button>
    <${Keep} chat=${chat} versions=${versions} onKept=${() => isBeside && closePane()} />
  </div>`;
}

/**
 * The choice of one version: the chats of the others are archived, and can be brought back.
 *
 * @param {{ chat: string, versions: Version[], onKept: () => void }} props
 */
export function Keep({ chat, versions, onKept }) {
  const { chats } = useApp();
  const others = (chats ?? []).filter(
    (it) => it.id !== chat && decidesAbout(it) && versions.some((version) => version.chat === it.id),
  );
  if (!others.length || chatOf(chat)?.archived) return null;
  const isKept = others.every((it) => it.archived);
  const change = async () => {
    for (const { id, archived } of others) if (archived === isKept) await changeChat(id, { archived: !isKept });
    if (!isKept) onKept();
  };
  const label = isKept ? `Unarchive the ${others.length > 1 ? "others" : "other"}` : "Keep this one";
  return html`<button type="button" class="quiet" onClick=${() => attempt(change)}>${label}</button>`;
}
