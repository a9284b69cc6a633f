// The files that a turn changed, or all newest turns of its chat, beside the thread: each with its diff.

import { Diffs } from "../components/diff.js";
import { useLive } from "../components/live.js";
import { html, Status } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { openBeside } from "../state/beside.js";
import { isReader } from "../state/people.js";
import { countsOf, filesChanged, notCompared } from "../text/diff.js";
import { Undo } from "./undo.js";

/**
 * `turn`: the one that is shown, or was before those of the whole chat.
 *
 * @param {{ id: string, beside: import("../state/beside.js").Beside, turn?: number }} props
 */
export function Changes({ id, beside, turn }) {
  const isAll = !beside.turn;
  const [found, problem] = useLive(
    () => (beside.turn ? api.turnChanges(id, beside.turn) : api.chatChanges(id)),
    (it) => it.whole,
    [beside],
  );
  const open = (/** @type {number | undefined} */ of) => () => openBeside(id, { kind: "changes", turn: of });
  const scope = (/** @type {boolean} */ all, /** @type {string} */ label) =>
    html`<button type="button" class="quiet" aria-pressed=${isAll === all} onClick=${open(all ? 0 : turn)}>${label}</button>`;
  const undone = !isAll && !isReader() && found?.files && found.whole ? beside.turn : undefined;
  return html`<div class="show" role="group" aria-label="Changes of">
      ${Boolean(turn) && scope(false, "This turn")} ${scope(true, "This chat")}
    </div>
    ${Boolean(problem) && html`<p class="side-note" role="alert">${messageOf(problem)}</p>`}
    ${!found && !problem && html`<${Status} loading>Loading…<//>`}
    ${found && html`<${Found} key=${isAll} id=${id} found=${found} undone=${undone} />`}`;
}

/** @param {{ id: string, found: Api.FileChanges, undone?: number }} props  `undone`: the turn that can be taken back. */
function Found({ id, found, undone }) {
  const { whole, files, changes, more_changes: more, earlier, found: others } = found;
  return html`<div class="pane-body" tabindex="0" role="region" aria-label="Files">
    <p class="side-note">
      ${files ? filesChanged(files) : "No changes were reported."} <span class="diff-counts">${countsOf(found)}</span>
    </p>
    ${!whole && html`<p class="side-note">A turn still runs: this is what there is so far.</p>`}
    ${undone && html`<${Undo} key=${undone} chat=${id} turn=${undone} />`}
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
