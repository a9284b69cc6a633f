// The landing of a loop: its result goes into the branch that is checked out, after a confirmation.

import { html, useAsync, useState, Wrong } from "../components/ui.js";
import { ApiError } from "../net/api.js";
import { landRun } from "../state/actions.js";
import { oneLine, plural } from "../text/format.js";

/** @param {{ run: Api.RunView, loop: Api.LoopView }} props */
export function Landing({ run, loop }) {
  const [isOpen, setOpen] = useState(false);
  const [paths, setPaths] = useState(/** @type {string[]} */ ([]));
  const [isBusy, error, start] = useAsync();
  const land = (/** @type {boolean} */ squash) =>
    start(async () => {
      setPaths([]);
      try {
        await landRun(run, squash);
      } catch (problem) {
        if (problem instanceof ApiError) setPaths(problem.paths);
        throw problem;
      }
    });
  if (!isOpen) {
    return html`<div class="landing">
      <button type="button" class="button primary" onClick=${() => setOpen(true)}>Land…</button>
    </div>`;
  }
  const commits = loop.rounds.filter((it) => it.commit).length;
  return html`<section class="landing" aria-label="Land this loop">
    <p>
      ${plural(commits, "commit")} of <bdi>${oneLine(loop.branch)}</bdi> will be merged into the branch that is checked
      out in <bdi class="path">${oneLine(run.path)}</bdi>. Nothing is pushed.
      ${loop.status !== 0 && html`${" "}<b>The loop is not done.</b>`}
    </p>
    <div class="landing-buttons">
      <button type="button" class="button primary" disabled=${isBusy} onClick=${() => land(false)}>Merge</button>
      <button type="button" class="button" disabled=${isBusy} onClick=${() => land(true)}>Merge as one commit</button>
      <button type="button" class="button" disabled=${isBusy} onClick=${() => setOpen(false)}>Cancel</button>
    </div>
    <${Wrong}>${error}<//>
    ${
      paths.length > 0 &&
      html`<ul class="landing-paths" aria-label="Files">
        ${paths.map((it) => html`<li><bdi>${oneLine(it)}</bdi></li>`)}
      </ul>`
    }
  </section>`;
}
