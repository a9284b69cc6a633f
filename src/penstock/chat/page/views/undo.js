// Undo of a turn: what would happen to each of its files, the button that does it, and what has happened.

import { html, useAsync, useLayoutEffect, useRef, useState, Wrong } from "../components/ui.js";
import { api, newKey } from "../net/api.js";
import { useThread } from "../state/store.js";
import { undoneMark } from "../text/diff.js";
import { oneLine, plural } from "../text/format.js";
import { isDone, undoneText, whatHappens } from "../text/undo.js";

/** @param {{ chat: string, turn: number }} props */
export function Undo({ chat, turn }) {
  const thread = useThread()?.chat.turns;
  const view = thread?.find((it) => it.turn === turn);
  const [plan, setPlan] = useState(/** @type {Api.TurnFiles | null} */ (null));
  const [said, setSaid] = useState("");
  const [isBusy, error, run] = useAsync();
  const key = useRef("");
  const [root, isUsed] = [useRef(/** @type {HTMLElement | null} */ (null)), useRef(false)];
  useLayoutEffect(() => {
    // The button that had the focus is gone, was disabled, or is another one by now. The thread gives a focus that is lost
    // to the field for messages, when it is drawn the next time.
    const { activeElement } = document;
    if (isUsed.current && !isBusy && (activeElement === document.body || root.current?.contains(activeElement)))
      root.current?.querySelector("button")?.focus();
  }, [plan, isBusy]);
  if (!view?.finalized) return null;
  const mark = undoneMark(view.undone);
  const isRunning = thread?.some((it) => it.state === "running");

  const look = (/** @type {boolean} */ redo) =>
    run(async () => {
      isUsed.current = true;
      setSaid("");
      key.current = newKey(); // of this look: a click that is tried again does nothing twice
      setPlan(await api.undoPlan(chat, turn, redo));
    });
  const close = () => setPlan(null);
  const make = ({ redo = false }) =>
    run(async () => {
      const { files } = await api.undo(chat, turn, key.current, redo);
      setSaid(undoneText(files, redo));
      setPlan(null);
    });

  const count = plan?.files.filter(isDone).length ?? 0;
  const verb = (/** @type {boolean | undefined} */ redo) => (redo ? "Redo" : "Undo");
  const file = (/** @type {Api.FileUndo} */ it) =>
    html`<li data-does=${it.does}><bdi>${oneLine(it.to ?? it.path)}</bdi> ${whatHappens(it, plan?.redo ?? false)}</li>`;
  return html`<section class="undo" aria-label="Undo" ref=${root}>
    ${mark && !said && !plan && html`<p class="side-note">This turn: ${mark}.</p>`}
    <p class="side-note" role="status">${said}</p>
    ${
      plan
        ? html`<ul class="undo-files">
              ${plan.files.map(file)}
            </ul>
            ${plan.commands ? html`<p class="side-note">${plan.commands === 1 ? "A command" : `${plan.commands} commands`} ran in this turn. Changes by commands are not taken back.</p>` : ""}
            ${!count && html`<p class="side-note">Nothing can be done here.</p>`}
            ${isRunning && html`<p class="side-note">Wait until the turn that runs has ended.</p>`}
            <p class="undo-buttons">
              ${
                count > 0 &&
                html`<button type="button" class="button primary" disabled=${isBusy || isRunning} onClick=${() => make(plan)}>
                  ${verb(plan.redo)} ${plural(count, "file")}
                </button>`
              }
              <button type="button" class="button" onClick=${close}>${count ? "Cancel" : "Close"}</button>
            </p>`
        : html`<p class="undo-buttons">
            <button type="button" class="button" disabled=${isBusy} onClick=${() => look(Boolean(mark))}>
              ${mark ? "Redo…" : "Undo this turn…"}
            </button>
            ${
              view.undone?.stayed &&
              html`<button type="button" class="button" disabled=${isBusy} onClick=${() => look(false)}>Undo the others…</button>`
            }
          </p>`
    }
    <${Wrong}>${error}<//>
  </section>`;
}
