// What the agent of a chat may do: the level, and the commands that are always allowed, at the field for a message.

import { Choice, html, Icon, useAsync, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";
import { changeChat } from "../state/actions.js";
import { putChat } from "../state/chats.js";
import { agentOf } from "../state/store.js";
import { oneLine, plural } from "../text/format.js";
import { levelOf } from "../text/permissions.js";

/**
 * The level of a chat, which holds from the next message on, and its rules.
 *
 * @param {{ chat: Api.ChatView }} props
 */
export function Permission({ chat }) {
  const [isBusy, error, run] = useAsync();
  const agent = agentOf(chat.agent);
  const level = levelOf(agent, chat.allow);
  if (!agent || !level) return null;
  const change = (/** @type {string} */ value) => {
    const chosen = agent.allows.find((it) => it.allow === value);
    if (!chosen || isBusy) return;
    run(() => changeChat(chat.id, { allow: chosen.allow }));
  };
  return html`<div class="choices permission" role="group" aria-label="What the agent may do">
    <${Choice}
      label="Permissions"
      value=${level.allow}
      level=${level.kind}
      options=${agent.allows.map((it) => ({ value: it.allow, label: it.label }))}
      onChange=${change}
    />
    ${(chat.rules ?? []).length > 0 && html`<${Rules} chat=${chat} />`}
    <${Wrong}>${error}<//>
  </div>`;
}

/** @param {{ chat: Api.ChatView }} props */
function Rules({ chat: { id, rules = [] } }) {
  const [isBusy, error, run] = useAsync();
  const item = (/** @type {Api.ChatRule} */ rule) => {
    const command = oneLine(rule.command);
    const remove = () => run(async () => putChat(await api.removeRule(id, rule.id)));
    return html`<li key=${rule.id}>
      <code title=${command}>${command}</code>
      <button
        type="button"
        class="quiet round"
        aria-label=${`Ask again for ${command}`}
        title="Ask again for this command"
        disabled=${isBusy}
        onClick=${remove}
      >
        <${Icon} name="close" />
      </button>
    </li>`;
  };
  return html`<details class="rules">
    <summary>${plural(rules.length, "command", "commands")} always allowed in this chat</summary>
    <ul>
      ${rules.map(item)}
    </ul>
    <${Wrong}>${error}<//>
  </details>`;
}
