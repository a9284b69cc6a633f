// The dialog that shares a chat: it makes a link, and lists those that there are.

import {
  Choice,
  CopyButton,
  Dialog,
  html,
  useAsync,
  useEffect,
  useState,
  withChecked,
  Wrong,
} from "../components/ui.js";
import { api } from "../net/api.js";
import { closeDialog } from "../state/store.js";
import { dayAndClock, plural } from "../text/format.js";

const DAYS = [1, 7, 30, 90];
const USUAL_DAYS = 7;

/** @param {{ chat: Api.ChatView }} props */
export function Share({ chat }) {
  const [shares, setShares] = useState(/** @type {Api.ShareView[]} */ ([]));
  const [days, setDays] = useState(String(USUAL_DAYS));
  const [isWhole, setWhole] = useState(false);
  const [hasDetails, setDetails] = useState(false);
  const [url, setUrl] = useState("");
  const [isBusy, error, run] = useAsync();
  const load = async () => setShares((await api.shares()).filter((it) => it.chat === chat.id));
  useEffect(() => {
    run(load);
  }, []);
  const until = isWhole || !chat.turns ? null : chat.turns;
  const share = (/** @type {Event} */ event) => {
    event.preventDefault();
    run(async () => {
      const made = await api.share(chat.id, { until, details: hasDetails, days: Number(days) });
      // The address that this browser uses reaches the server from elsewhere, if any does.
      setUrl(`${location.origin}/s#${made.url.split("#")[1]}`);
      await load();
    });
  };
  const revoke = (/** @type {string} */ id) =>
    run(async () => {
      await api.revokeShare(chat.id, id);
      setUrl("");
      await load();
    });
  const select = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).select();
  return html`<${Dialog} title="Share a link" name="share" onClose=${closeDialog}>
    <form onSubmit=${share}>
      <p>Whoever has the link can read this chat, without signing in. It shows what was asked and the replies.</p>
      <label class="switch">
        <input type="checkbox" checked=${isWhole} onChange=${withChecked(setWhole)} /><span
          >Also what is yet to come in this chat</span
        >
      </label>
      <label class="switch">
        <input type="checkbox" checked=${hasDetails} onChange=${withChecked(setDetails)} /><span
          >Also what the agent did: its thoughts, the files it read, commands and their output</span
        >
      </label>
      <label class="row">
        <span>Expires after</span>
        <${Choice}
          label="Expires after"
          value=${days}
          options=${DAYS.map((n) => ({ value: String(n), label: plural(n, "day") }))}
          onChange=${setDays}
        />
      </label>
      ${
        url &&
        html`<p class="link">
            <input readonly aria-label="Link" value=${url} onFocus=${select} />
            <${CopyButton} text=${url} label="Copy the link" plain />
          </p>
          <p class="side-note">Copy it now: it is shown this once.</p>`
      }
      <${Wrong}>${error}<//>
      <footer class="dialog-buttons">
        <button type="submit" class="button primary" disabled=${isBusy}>Make a link</button>
      </footer>
    </form>
    ${shares.length > 0 && html`<h3>Links of this chat</h3>`}
    <ul class="browsers">
      ${shares.map((it) => html`<${Shared} key=${it.id} share=${it} isBusy=${isBusy} onRevoke=${revoke} />`)}
    </ul>
  <//>`;
}

/** @param {{ share: Api.ShareView, isBusy: boolean, onRevoke: (id: string) => void }} props */
function Shared({ share, isBusy, onRevoke }) {
  const part = share.until === null ? "The whole chat" : `Up to turn ${share.until}`;
  const name = `${part}${share.details ? ", with details" : ""}`;
  return html`<li>
    <span>${name}<small>until ${dayAndClock(share.expires_at)}</small></span>
    <button
      type="button"
      class="button"
      disabled=${isBusy}
      aria-label=${`Revoke: ${name}, until ${dayAndClock(share.expires_at)}`}
      onClick=${() => onRevoke(share.id)}
    >
      Revoke
    </button>
  </li>`;
}
