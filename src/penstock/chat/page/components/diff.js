// What an edit changes: each file with its lines, those added and removed marked by sign and colour.

import { tokensOfParts } from "../text/code-tokens.js";
import { changeTitle, countsOf, linesOf } from "../text/diff.js";
import { below, exact, oneLine, plural } from "../text/format.js";
import { Component, html, useEffect, useMemo, useRef, useState } from "./ui.js";

/** @import { DiffLine } from "../text/diff.js" */
/** @import { Token } from "../text/code-tokens.js" */
/** @import { Part } from "../text/changed-words.js" */
/** @typedef {{ lines: DiffLine[], words?: Map<number, Part[]>, colours: Map<number, Token[]> | null }} Marked */

const FOLDED_LINES = 30; // of a longer diff, these are shown first
const SLICE_LINES = 200; // are drawn at once; more of them in the next picture

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
  const lines = useMemo(() => linesOf(change.diff), [change.diff]);
  const shown = isOpen ? lines.length : FOLDED_LINES;
  const title = changeTitle(change, directory);
  return html`<figure class="diff" data-change=${change.kind} data-path=${oneLine(below(change.to ?? change.path, directory))}>
    <figcaption>
      <bdi class="diff-title" title=${oneLine(change.path)}>${exact(title)}</bdi>
      <span class="diff-counts">${countsOf(change)}</span>
    </figcaption>
    ${lines.length > 0 && html`<${Lines} change=${change} lines=${lines} shown=${shown} label=${title} />`}
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

/**
 * The text of a line with its colours, and with the words that changed marked. What is hidden in it is shown; colours that
 * would change that are left out.
 *
 * @param {string} text
 * @param {Token[]} [tokens]
 * @param {Part[]} [parts]
 */
function drawn(text, tokens = [], parts = [{ isChanged: false, text }]) {
  const plain = exact(text);
  const isSame = tokens.map((it) => exact(it.text)).join("") === plain;
  if (!isSame && parts.length === 1) return plain;
  const token = (/** @type {Token} */ it) =>
    it.kind ? html`<span class=${it.kind}>${exact(it.text)}</span>` : exact(it.text);
  return tokensOfParts(isSame ? tokens : [{ kind: "", text }], parts).map(({ isChanged, tokens }) =>
    isChanged ? html`<mark>${tokens.map(token)}</mark>` : tokens.map(token),
  );
}

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
  return useMemo(() => changedWords?.(lines, shown), [changedWords, lines, shown]);
}

/**
 * The tokens of the lines that are shown, by their places, once they are read.
 *
 * @param {Api.Change} change
 * @param {DiffLine[]} lines
 * @param {number} shown
 */
function useColours({ path, to, diff }, lines, shown) {
  const [colours, setColours] = useState(/** @type {Map<number, Token[]> | null} */ (null));
  useEffect(() => {
    let end = () => {};
    let isGone = false;
    import("../markdown/diff-colours.js").then(
      ({ colourDiff }) => {
        if (!isGone) end = colourDiff(lines.slice(0, shown), to ?? path, setColours);
      },
      () => {}, // without it a diff has no such colours
    );
    return () => {
      isGone = true;
      end();
    };
  }, [diff, path, to, shown]);
  useEffect(() => setColours(null), [diff]); // those of another text
  return colours;
}

/**
 * A number of lines that grows to the wanted one a slice at a time, so that the page answers meanwhile.
 *
 * @param {number} wanted
 */
function useSlices(wanted) {
  const [drawnLines, setDrawnLines] = useState(SLICE_LINES);
  const isMore = drawnLines < wanted;
  useEffect(() => {
    if (!isMore) return undefined;
    const frame = requestAnimationFrame(() => setDrawnLines(drawnLines + SLICE_LINES));
    return () => cancelAnimationFrame(frame);
  }, [drawnLines, isMore]);
  return Math.min(drawnLines, wanted);
}

/**
 * The marks that are drawn: while something in the table is selected, the ones that it had, as lines that are drawn anew
 * would lose the selection.
 *
 * @param {Marked} newest
 * @param {{ current: Element | null }} table
 */
function useHeld(newest, table) {
  const [, setDrawn] = useState(newest);
  const held = useRef(newest);
  const isSame = newest.words === held.current.words && newest.colours === held.current.colours;
  const isHeld = !isSame && newest.lines === held.current.lines && isSelected(table.current);
  if (!isHeld) held.current = newest;
  useEffect(() => {
    if (!isHeld) return undefined;
    const look = () => {
      if (!isSelected(table.current)) setDrawn(newest);
    };
    look();
    document.addEventListener("selectionchange", look);
    return () => document.removeEventListener("selectionchange", look);
  }, [isHeld, newest.words, newest.colours]);
  return held.current;
}

/** @param {Element | null} element */
function isSelected(element) {
  const selection = getSelection();
  return Boolean(element && selection && !selection.isCollapsed && selection.containsNode(element, true));
}

/** @param {{ change: Api.Change, lines: DiffLine[], shown: number, label: string }} props  `shown`: how many of the lines. */
function Lines({ change, lines, shown, label }) {
  const table = useRef(/** @type {HTMLTableElement | null} */ (null));
  const newest = { lines, words: useChangedWords(lines, shown), colours: useColours(change, lines, shown) };
  const { words, colours } = useHeld(newest, table);
  const lastColoured = colours ? Math.max(...colours.keys()) : -1; // there are no colours behind it
  const end = useSlices(shown);
  const starts = Array.from({ length: Math.ceil(end / SLICE_LINES) }, (_, i) => i * SLICE_LINES);
  return html`<div class="diff-lines" tabindex="0" role="group" aria-label=${label}>
    <table ref=${table} role="presentation" data-coloured=${colours ? true : undefined}>
      ${starts.map(
        (start) =>
          html`<${Slice}
            key=${start}
            lines=${lines}
            start=${start}
            end=${Math.min(end, start + SLICE_LINES)}
            words=${words}
            colours=${start <= lastColoured ? colours : null}
          />`,
      )}
    </table>
  </div>`;
}

/**
 * Some lines of a diff, drawn anew only when they changed.
 *
 * @typedef {{ lines: DiffLine[], start: number, end: number, words?: Map<number, Part[]>, colours: Map<number, Token[]> | null }} SliceProps
 * @extends {Component<SliceProps>}
 */
class Slice extends Component {
  /** @param {SliceProps} next */
  shouldComponentUpdate(next) {
    const names = /** @type {const} */ (["lines", "start", "end", "words", "colours"]);
    return names.some((name) => next[name] !== this.props[name]);
  }

  /** @param {SliceProps} props */
  render({ lines, start, end, words, colours }) {
    const row = (/** @type {DiffLine} */ { kind, text, number }, /** @type {number} */ i) =>
      html`<tr data-line=${kind}>
        <td class="diff-number" data-number=${number}></td>
        <td class="diff-sign">${MARKS[kind]}</td>
        <td class="diff-text" dir="auto">${drawn(text, colours?.get(start + i), words?.get(start + i))}</td>
      </tr>`;
    return html`<tbody>
      ${lines.slice(start, end).map(row)}
    </tbody>`;
  }
}
