// What a thread offers above the field for a message: to send what waits, and to call the person.

import { html, useAsync, useSeconds, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";
import { isUndecided, setNotifying } from "../state/notifications.js";
import { plural } from "../text/format.js";

/** @import { Turn } from "../state/reducer.js" */

const LONG_S = 30; // a turn that takes longer is not waited for

/**
 * What a stop holds back, and how it goes on.
 *
 * @param {{ id: string, turns: Turn[], onTakeBack?: (...turns: Turn[]) => Promise<void> }} props
 */
export function HeldTurns({ id, turns, onTakeBack }) {
  const [isBusy, error, run] = useAsync();
  const send = () => run(() => api.release(id));
  const takeBack = onTakeBack && (() => run(() => onTakeBack(...turns)));
  return html`<div class="banner held" role="group" aria-label="Messages that wait">
    <p role="status">${plural(turns.length, "message waits", "messages wait")}</p>
    <button type="button" class="button" disabled=${isBusy} onClick=${send}>Send</button>
    ${takeBack && html`<button type="button" class="button" disabled=${isBusy} onClick=${takeBack}>Take back</button>`}
    <${Wrong}>${error}<//>
  </div>`;
}

/**
 * Offers to call the person, once a turn takes long. It is asked until somebody decides.
 *
 * @param {{ since: number | null | undefined }} props
 */
export function OfferNotifications({ since }) {
  const isLong = useSeconds(since) >= LONG_S;
  const [isBusy, error, run] = useAsync();
  if (!isLong || !isUndecided()) return null;
  const decide = (/** @type {boolean} */ isOn) => () => run(() => setNotifying(isOn));
  return html`<div class="banner offer" role="group" aria-label="Notifications">
    <p role="status">This takes a while. Get a notification when it asks or ends?</p>
    <button type="button" class="button" disabled=${isBusy} onClick=${decide(true)}>Notify me</button>
    <button type="button" class="button" disabled=${isBusy} onClick=${decide(false)}>No</button>
    <${Wrong}>${error}<//>
  </div>`;
}
