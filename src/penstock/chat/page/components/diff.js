// What an edit changes: each file with its lines, those added and removed marked by sign and colour.

import { changeTitle, countsOf, linesOf } from "../text/diff.js";
import { below, exact, oneLine, plural } from "../text/format.js";
import { html, useEffect, useState } from "./ui.js";

/** @import { DiffLine } from "../text/diff.js" */

const FOLDED_LINES = 30; // of a longer diff, these are shown first

/** @type {Record<DiffLine["kind"], string>} */
const MARKS = { added: "+", removed: "-", same: " ", hunk: "", note: "" };

const UNLINED = "The agent does not show the lines.";

/**
 * `more`: the number of files that are left out. `directory`: the one below which paths are shown relative to it.
 * `unlined`: the note for a file without its lines.
 *
 * @param {{ changes: Api.Change[], more?: number, directory?: string | null, unlined?: string }} props
 */
export function Diffs({ changes, more = 0, directory, unlined = UNLINED }) {
  return html`<div class="diffs">
    ${changes.map((change, i) => html`<${Diff} key=${i} change=${change} directory=${directory} unlined=${unlined} />`)}
    ${more > 0 && html`<p class="diff-note">${plural(more, "more file is", "more files are")} not shown.</p>`}
  </div>`;
}

/** @param {{ change: Api.Change, directory?: string | null, unlined: string }} props */
function Diff({ change, directory, unlined }) {
  const [isOpen, setOpen] = useState(false);
  const lines = linesOf(change.diff);
  const shown = isOpen ? lines.length : FOLDED_LINES;
  const title = changeTitle(change, directory);
  return html`<figure class="diff" data-change=${change.kind} data-path=${oneLine(below(change.to ?? change.path, directory))}>
    <figcaption>
      <bdi class="diff-title" title=${oneLine(change.path)}>${exact(title)}</bdi>
      <span class="diff-counts">${countsOf(change)}</span>
    </figcaption>
    ${lines.length > 0 && html`<${Lines} lines=${lines} shown=${shown} label=${title} />`}
    ${
      lines.length > FOLDED_LINES &&
      html`<button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? "Show less" : `Show all ${lines.length.toLocaleString()} lines`}
      </button>`
    }
    ${change.truncated && html`<p class="diff-note">This is only the beginning of the change.</p>`}
    ${!lines.length && !change.truncated && html`<p class="diff-note">${unlined}</p>`}
  </figure>`;
}

const part = (/** @type {import("../text/changed-words.js").Part} */ { isChanged, text }) =>
  isChanged ? html`<mark>${exact(text)}</mark>` : exact(text);

/** @type {typeof import("../text/changed-words.js").changedWords | null} Loaded with the first diff, which is there before. */
let changedWords = null;

/**
 * @param {DiffLine[]} lines
 * @param {number} shown
 */
function useChangedWords(lines, shown) {
  const [, setLoaded] = useState(changedWords !== null);
  useEffect(() => {
    if (changedWords) return;
    const keep = (/** @type {typeof import("../text/changed-words.js")} */ loaded) => {
      changedWords = loaded.changedWords;
      setLoaded(true);
    };
    import("../text/changed-words.js").then(keep, () => {}); // without it a diff has no such marks
  }, []);
  return changedWords?.(lines, shown);
}

/** @param {{ lines: DiffLine[], shown: number, label: string }} props  `shown`: how many of the lines. */
function Lines({ lines, shown, label }) {
  const words = useChangedWords(lines, shown);
  const row = (/** @type {DiffLine} */ { kind, text, number }, /** @type {number} */ i) =>
    html`<tr data-line=${kind}>
      <td class="diff-number" data-number=${number}></td>
      <td class="diff-sign">${MARKS[kind]}</td>
      <td class="diff-text" dir="auto">${words?.get(i)?.map(part) ?? exact(text)}</td>
    </tr>`;
  return html`<div class="diff-lines" tabindex="0" role="group" aria-label=${label}>
    <table role="presentation">
      <tbody>
        ${lines.slice(0, shown).map(row)}
      </tbody>
    </table>
  </div>`;
}
