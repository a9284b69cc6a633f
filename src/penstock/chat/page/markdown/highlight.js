// Colours for code, once it is written and near the screen: loaded when the first block of a language is.

import { fileOf } from "./languages.js";
import { sanitizer } from "./sanitizer.js";
import { spread } from "./scheduler.js";

const MAX_CHARACTERS = 60_000; // more takes longer than a person waits for colours
const LONG_LINE = /[^\n]{2000}/; // so does a line that nobody wrote
const NEAR = "600px 0px"; // so far from what is seen

/** @type {Map<string, Promise<any>>} */
const loads = new Map();

/**
 * Return highlight.js, with a language.
 *
 * @param {string} file  The one that knows the language.
 * @returns {Promise<any>}
 */
export async function loadLanguage(file) {
  try {
    if (!loads.has(file)) loads.set(file, load(file));
    return await loads.get(file);
  } catch (error) {
    loads.delete(file); // the connection was lost: it is tried again when it is needed again
    throw error;
  }
}

/** @param {string} file */
async function load(file) {
  const [{ default: hljs }, { default: grammar }] = await Promise.all([
    import("highlight/core.js"),
    import(`highlight/${file}.js`),
  ]);
  hljs.registerLanguage(file, grammar);
  return hljs;
}

/**
 * Colour the code of a `figure.code` once it is near the screen. Its text stays as it is.
 *
 * @param {HTMLElement} figure
 */
export function colour(figure) {
  const file = fileOf(figure.dataset.lang);
  const code = figure.querySelector("code");
  if (file && code && !code.children.length && isShort(code.textContent)) watch(figure);
}

/** @param {string} text */
function isShort(text) {
  return text.length <= MAX_CHARACTERS && !LONG_LINE.test(text);
}

/** What scrolls → what sees which figures in it are near. */
const watchers = new WeakMap();
/** The figures that are near the screen, and have no colours yet. */
const near = new Set();
/** Those of them whose grammar is loaded → how each is coloured. */
const ready = new Map();

/** @param {HTMLElement} figure */
function watch(figure) {
  const root = figure.closest(".thread");
  const key = root ?? document;
  if (!watchers.has(key)) {
    const options = { root, rootMargin: NEAR };
    watchers.set(
      key,
      new IntersectionObserver((entries, watcher) => entries.forEach((it) => look(it, watcher)), options),
    );
  }
  watchers.get(key).observe(figure);
}

/**
 * @param {IntersectionObserverEntry} entry
 * @param {IntersectionObserver} watcher
 */
async function look(entry, watcher) {
  const target = /** @type {HTMLElement} */ (entry.target);
  ready.delete(target);
  if (!entry.isIntersecting) {
    near.delete(target);
    return;
  }
  near.add(target);
  const file = fileOf(target.dataset.lang);
  if (!file) return;
  try {
    const hljs = await loadLanguage(file);
    if (near.has(target)) ready.set(target, { watcher, file, hljs });
    spread(painter, true);
  } catch {
    // The connection was lost; colours are no reason to trouble a person.
  }
}

/** Colours one figure after the other. */
const painter = {
  batch: 0,
  selection: /** @type {Selection | null} */ (null),

  /** @param {number} batch */
  step(batch) {
    const [next] = ready;
    if (!next) return false;
    const [figure, { watcher, file, hljs }] = next;
    ready.delete(figure);
    near.delete(figure);
    // To ask for the selection lays out the page, so it is asked once for all that is coloured in a task.
    if (batch !== this.batch) [this.batch, this.selection] = [batch, selected()];
    const code = figure.querySelector("code");
    // A person who selects code keeps the selection; it gets its colours when it comes near again.
    if (!code || this.selection?.containsNode(code, true)) return true;
    watcher.unobserve(figure);
    paint(code, file, hljs);
    return true;
  },
};

function selected() {
  const selection = getSelection();
  return selection && !selection.isCollapsed ? selection : null;
}

/**
 * @param {Element} code
 * @param {string} file
 * @param {any} hljs
 */
function paint(code, file, hljs) {
  const text = code.textContent;
  if (code.children.length || !isShort(text)) return;
  const { value } = hljs.highlight(text, { language: file, ignoreIllegals: true });
  const spans = /** @type {import("dompurify").Config & { RETURN_DOM_FRAGMENT: true }} */ ({
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    RETURN_DOM_FRAGMENT: true,
  });
  const made = sanitizer.sanitize(value, spans);
  if (made.textContent === text) code.replaceChildren(made);
}
