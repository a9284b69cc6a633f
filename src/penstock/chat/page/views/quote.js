// The button that puts what is selected into the message that is written next.

import { composerField, html, useEffect, useState } from "../components/ui.js";
import { closePane } from "../state/beside.js";
import { WIDE } from "../state/router.js";
import { excerpt, quotation } from "../text/quote.js";
import { QUOTED } from "./composer.js";

const GAP_PX = 8;
const EDGE_PX = 52; // from the edge of the window, so that all of the button is in it

/** @typedef {{ text: string, x: number, y: number }} Selected */

/**
 * What is selected, if it is within one reply, message, file or diff, and a message can be written.
 *
 * @returns {Selected | null}
 */
function selected() {
  const selection = getSelection();
  if (!selection?.rangeCount || selection.isCollapsed || !composerField()) return null;
  const range = selection.getRangeAt(0);
  const { commonAncestorContainer: inside } = range;
  const element = inside instanceof Element ? inside : inside.parentElement;
  const text = element ? quoteOf(element, range, selection.toString()) : "";
  if (!text) return null;
  const { left, right, bottom } = range.getBoundingClientRect();
  const x = Math.min(Math.max((left + right) / 2, EDGE_PX), innerWidth - EDGE_PX);
  return { text, x, y: Math.min(Math.max(bottom + GAP_PX, GAP_PX), innerHeight - EDGE_PX) };
}

/**
 * @param {Element} element  All that is selected is in it.
 * @param {Range} range
 * @param {string} text
 */
function quoteOf(element, range, text) {
  /** @type {HTMLElement | null} */
  const diff = element.closest(".side-pane .diff");
  if (diff) return ofDiff(diff, range);
  /** @type {HTMLElement | null} */
  const file = element.closest(".file-lines");
  if (file) return ofFile(file, range);
  return element.closest(".thread .reply, .thread .prompt") && text.trim() ? quotation(text) : "";
}

/**
 * The lines of which something is selected. A range often ends before the first character of the next line, which is none
 * of them.
 *
 * @param {HTMLElement} parent
 * @param {string} texts  Of the lines.
 * @param {Range} range
 */
function linesIn(parent, texts, range) {
  const all = /** @type {NodeListOf<HTMLElement>} */ (parent.querySelectorAll(texts));
  const isIn = (/** @type {HTMLElement} */ it) => {
    if (!range.intersectsNode(it)) return false;
    const part = document.createRange();
    part.selectNodeContents(it);
    const isBefore = part.compareBoundaryPoints(Range.START_TO_START, range) < 0;
    const isBehind = part.compareBoundaryPoints(Range.END_TO_END, range) > 0;
    if (isBefore) part.setStart(range.startContainer, range.startOffset);
    if (isBehind) part.setEnd(range.endContainer, range.endOffset);
    return !it.textContent || part.toString() !== "";
  };
  return [...all].filter(isIn).map((it) => /** @type {HTMLElement} */ (it.parentElement));
}

/** @param {HTMLElement} diff @param {Range} range */
function ofDiff(diff, range) {
  const rows = linesIn(diff, ".diff-text", range);
  const part = (/** @type {HTMLElement} */ row, /** @type {string} */ name) =>
    row.querySelector(name)?.textContent ?? "";
  const lines = rows.map((row) => `${part(row, ".diff-sign")}${part(row, ".diff-text")}`);
  const numberOf = (/** @type {string} */ kinds) =>
    rows
      .filter((row) => row.matches(kinds))
      .map((row) => row.querySelector("[data-number]")?.getAttribute("data-number"))[0];
  const number = numberOf(":not([data-line=removed])") ?? numberOf("*"); // in the file as it is now, if it has the line
  return rows.length ? excerpt(diff.dataset.path ?? "", number ? Number(number) : null, lines, "diff") : "";
}

/** @param {HTMLElement} file @param {Range} range */
function ofFile(file, range) {
  const rows = /** @type {HTMLLIElement[]} */ (linesIn(file, "li > code", range));
  const lines = rows.map((row) => row.textContent ?? "");
  return rows.length ? excerpt(file.dataset.path ?? "", rows[0].value, lines) : "";
}

/** There while text is selected. */
export function Quote() {
  const [found, setFound] = useState(selected);
  useEffect(() => {
    const look = () => setFound(selected());
    const abort = new AbortController();
    const options = { signal: abort.signal, capture: true, passive: true };
    document.addEventListener("selectionchange", look, options);
    document.addEventListener("scroll", look, options);
    window.addEventListener("resize", look, options);
    return () => abort.abort();
  }, []);
  if (!found) return null;
  const { text, x, y } = found;
  const quote = () => {
    getSelection()?.removeAllRanges();
    if (!WIDE.matches) closePane(); // it covers the field
    document.dispatchEvent(new CustomEvent(QUOTED, { detail: text }));
  };
  const keep = (/** @type {Event} */ event) => event.preventDefault(); // a press on it does not end the selection
  return html`<button
    type="button"
    class="button quote"
    title="Quote in a message (q)"
    style=${{ left: `${x}px`, top: `${y}px` }}
    onPointerDown=${keep}
    onMouseDown=${keep}
    onClick=${quote}
  >
    Quote
  </button>`;
}
