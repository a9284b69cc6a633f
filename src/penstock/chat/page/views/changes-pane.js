// The files that a turn changed, or all newest turns of its chat, beside the thread: each with its diff.

import { Diffs } from "../components/diff.js";
import { SidePane } from "../components/side-pane.js";
import { html, Status, useEffect, useState } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { closePane } from "../state/files.js";
import { isReader } from "../state/people.js";
import { countsOf, filesChanged, notCompared } from "../text/diff.js";
import { Undo } from "./undo.js";

/** @param {{ open: import("../state/files.js").OpenChanges }} props */
export function ChangesPane({ open }) {
  const { chat, turn } = open;
  const [isAll, setAll] = useState(false);
  const canUndo = !isAll && !isReader();
  const [found, setFound] = useState(/** @type {Api.FileChanges | null} */ (null));
  const [problem, setProblem] = useState("");
  useEffect(() => setAll(false), [open]);
  useEffect(() => {
    let isCurrent = true;
    setFound(null);
    setProblem("");
    (isAll ? api.chatChanges(chat) : api.turnChanges(chat, turn)).then(
      (it) => isCurrent && setFound(it),
      (error) => isCurrent && setProblem(messageOf(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [open, isAll]);
  const scope = (/** @type {boolean} */ all, /** @type {string} */ label) =>
    html`<button type="button" class="quiet" aria-pressed=${isAll === all} onClick=${() => setAll(all)}>${label}</button>`;
  return html`<${SidePane}
    of=${open}
    label="Changes"
    title=${isAll ? "Changes of this chat" : `Changes of turn ${turn}`}
    close="Close the changes"
    onClose=${closePane}
  >
    <div class="show" role="group" aria-label="Changes of">
      ${scope(false, "This turn")} ${scope(true, "This chat")}
    </div>
    ${problem && html`<p class="side-note" role="alert">${problem}</p>`}
    ${!found && !problem && html`<${Status} loading>Loading…<//>`}
    ${found && html`<${Found} key=${isAll} found=${found} undo=${canUndo && found.files > 0 && found.whole ? open : null} />`}
  <//>`;
}

/** @param {{ found: Api.FileChanges, undo: import("../state/files.js").OpenChanges | null }} props  `undo`: the turn that can be taken back. */
function Found({ found, undo }) {
  const { whole, files, changes, more_changes: more, earlier, found: others } = found;
  return html`<div class="pane-body" tabindex="0" role="region" aria-label="Files">
    <p class="side-note">
      ${files ? filesChanged(files) : "No changes were reported."} <span class="diff-counts">${countsOf(found)}</span>
    </p>
    ${!whole && html`<p class="side-note">A turn still runs: this is what there is so far.</p>`}
    ${undo && html`<${Undo} key=${undo} chat=${undo.chat} turn=${undo.turn} />`}
    ${earlier && html`<p class="side-note">Changes of earlier turns are not shown.</p>`}
    <${Diffs} changes=${changes} more=${more} />
    ${others && html`<${Others} found=${others} />`}
  </div>`;
}

/**
 * Changes that git found in the directory, and does not know whose they are.
 *
 * @param {{ found: Api.OtherChanges }} props
 */
function Others({ found: { changes = [], more_changes: more = 0, problem } }) {
  const isAny = changes.length + more > 0;
  return html`<section class="found-changes" aria-label="Also changed in this directory">
    ${
      isAny &&
      html`<h3>Also changed in this directory</h3>
        <p class="side-note">
          Git found these changes, made while the agent worked. They may be by its commands, by other chats or by people.
        </p>`
    }
    ${problem && html`<p class="side-note">${notCompared(problem)}</p>`}
    ${isAny && html`<${Diffs} changes=${changes} more=${more} unlined="The lines are not shown." />`}
  </section>`;
}
