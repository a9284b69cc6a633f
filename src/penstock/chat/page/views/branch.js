// The dialogs of new chats that begin before a message: one to change it, and one to ask another agent the same.

import {
  Dialog,
  html,
  useAsync,
  useEffect,
  useRef,
  useState,
  withChecked,
  withValue,
  Wrong,
} from "../components/ui.js";
import { api, newKey } from "../net/api.js";
import { branchChat, keepsLevel } from "../state/branches.js";
import { loadChoices } from "../state/chats.js";
import { offerOf, sourceOf } from "../state/machines.js";
import { agentOf, closeDialog, machineOf, state } from "../state/store.js";
import { base, oneLine } from "../text/format.js";
import { levelOf } from "../text/permissions.js";

/** @typedef {{ chat: Api.ChatView, dialog: import("../state/store.js").OpenDialog }} Props */

/** @param {Props} props */
function useBranch({ chat, dialog }) {
  const key = useRef(newKey()); // what is tried again makes no second chat
  const [isBusy, error, run] = useAsync();
  const make = (/** @type {Api.NewBranch} */ branch) =>
    run(() => branchChat(chat, dialog.turn ?? 0, key.current, branch));
  return { isBusy, error, run, make };
}

/**
 * The message is put into the field of a new chat at once. Only what goes wrong is shown.
 *
 * @param {Props} props
 */
export function EditInNewChat(props) {
  const { isBusy, error, make } = useBranch(props);
  useEffect(() => {
    make({});
  }, []);
  if (!error) return null;
  return html`<${Dialog} title="Edit in a new chat" name="branch" onClose=${closeDialog}>
    <${Wrong}>${error}<//>
    <footer class="dialog-buttons">
      <button type="button" class="button" onClick=${closeDialog}>Cancel</button>
      <button type="button" class="button primary" disabled=${isBusy} onClick=${() => make({})}>Try again</button>
    </footer>
  <//>`;
}

/**
 * The choice of another agent that is asked the same.
 *
 * @param {Props} props
 */
export function AskAnother(props) {
  const { chat } = props;
  const { isBusy, error, run, make } = useBranch(props);
  const [chosen, setChosen] = useState("");
  useEffect(() => {
    run(loadChoices);
  }, []);
  const [canBeApart, setCanBeApart] = useState(false);
  const [isApart, setApart] = useState(false);
  const source = sourceOf(chat);
  useEffect(() => {
    api.directory(source).then(
      (found) => setCanBeApart(Boolean(found.tree) && !machineOf(chat)),
      () => {}, // then it is not offered
    );
  }, [source]);
  const level = levelOf(agentOf(chat.agent), chat.allow);
  const machine = state.nodes.find((it) => it.name === chat.home);
  const others = offerOf(state, machine).agents.filter((it) => it.available && it.name !== chat.agent);
  const able = others.filter((it) => keepsLevel(level, it) !== false);
  const agent = able.find((it) => it.name === chosen) ?? able[0];
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (agent) make({ agent: agent.name, send: true, ...(isApart && { tree: true }) });
  };
  const option = (/** @type {Api.AgentView} */ it) =>
    html`<label key=${it.name}>
      <input
        type="radio"
        name="agent"
        value=${it.name}
        checked=${it === agent}
        disabled=${!able.includes(it)}
        onChange=${withValue(setChosen)}
      />
      <span><b><bdi>${oneLine(it.name)}</bdi></b>${!able.includes(it) && html`<small>It has no level like “${level?.label.toLowerCase()}”.</small>`}</span>
    </label>`;
  return html`<${Dialog} title="Ask another agent" name="ask-another" onClose=${closeDialog}>
    <form onSubmit=${submit}>
      <p>
        A new chat begins with the conversation before this message, and the agent gets the same message and its files.
        It works in <bdi>${base(chat.cwd)}</bdi>${level && ` with the same permission: ${level.label.toLowerCase()}`}.
        This chat stays as it is.
      </p>
      <fieldset class="levels">
        <legend class="offscreen">Agent</legend>
        ${others.map(option)}
      </fieldset>
      ${
        canBeApart &&
        html`<label class="switch">
          <input type="checkbox" checked=${isApart} onChange=${withChecked(setApart)} />
          <span>In a worktree of its own, which begins with the last commit</span>
        </label>`
      }
      ${!others.length && !isBusy && html`<p class="side-note">There is no other agent here.</p>`}
      <${Wrong}>${error}<//>
      <footer class="dialog-buttons">
        <button type="button" class="button" onClick=${closeDialog}>Cancel</button>
        <button type="submit" class="button primary" disabled=${isBusy || !agent}>Ask</button>
      </footer>
    </form>
  <//>`;
}
