// Colours for code, once it is written and near the screen: loaded when the first block of a language is.

import DOMPurify from "dompurify";
import { spread } from "./spread.js";

const MAX_CHARACTERS = 60_000; // more takes longer than a person waits for colours
const LONG_LINE = /[^\n]{2000}/; // so does a line that nobody wrote
const NEAR = "600px 0px"; // so far from what is seen

/** The names that people write → the file that knows the language, and how it is called. */
const LANGUAGES = {
  bash: ["Shell", "sh", "shell", "zsh", "console", "shellsession"],
  cpp: ["C++", "c++", "c", "h", "hpp", "cc", "cxx"],
  css: ["CSS", "scss", "less"],
  diff: ["Diff", "patch"],
  dockerfile: ["Dockerfile", "docker"],
  go: ["Go", "golang"],
  ini: ["INI", "toml", "conf", "cfg", "properties", "env"],
  java: ["Java"],
  javascript: ["JavaScript", "js", "jsx", "mjs", "cjs"],
  json: ["JSON", "jsonc", "json5", "ndjson", "jsonl"],
  markdown: ["Markdown", "md"],
  python: ["Python", "py", "python3", "pycon"],
  rust: ["Rust", "rs"],
  sql: ["SQL", "postgresql", "sqlite", "mysql"],
  typescript: ["TypeScript", "ts", "tsx", "mts"],
  xml: ["HTML", "html", "xhtml", "svg", "vue", "rss"],
  yaml: ["YAML", "yml"],
};
const OWN_NAMES = { c: "C", h: "C", xml: "XML", svg: "SVG", toml: "TOML", scss: "SCSS", less: "Less", jsx: "JSX", tsx: "TSX" };
const FILE_OF = new Map(
  Object.entries(LANGUAGES).flatMap(([file, [, ...others]]) => [file, ...others].map((name) => [name, file])),
);

const loads = new Map();

/** How a language is called on a code block. */
export function languageName(name) {
  const low = name.toLowerCase();
  return OWN_NAMES[low] ?? LANGUAGES[FILE_OF.get(low)]?.[0] ?? name;
}

async function load(file) {
  const [{ default: hljs }, { default: grammar }] = await Promise.all([
    import("highlight/core.js"),
    import(`highlight/${file}.js`),
  ]);
  hljs.registerLanguage(file, grammar);
  return hljs;
}

/** Colour the code of a `figure.code` once it is near the screen. Its text stays as it is. */
export function colour(figure) {
  const file = FILE_OF.get(figure.dataset.lang.toLowerCase());
  const code = figure.querySelector("code");
  if (file && code && !code.children.length && isShort(code.textContent)) watch(figure);
}

function isShort(text) {
  return text.length <= MAX_CHARACTERS && !LONG_LINE.test(text);
}

/** What scrolls → what sees which figures in it are near. */
const watchers = new WeakMap();
/** The figures that are near the screen, and have no colours yet. */
const near = new Set();
/** Those of them whose grammar is loaded → how each is coloured. */
const ready = new Map();

function watch(figure) {
  const root = figure.closest(".thread");
  const key = root ?? document;
  if (!watchers.has(key)) {
    const seen = (entries, watcher) => entries.forEach((entry) => look(entry, watcher));
    watchers.set(key, new IntersectionObserver(seen, { root, rootMargin: NEAR }));
  }
  watchers.get(key).observe(figure);
}

async function look({ target, isIntersecting }, watcher) {
  ready.delete(target);
  if (!isIntersecting) return near.delete(target);
  near.add(target);
  const file = FILE_OF.get(target.dataset.lang.toLowerCase());
  try {
    if (!loads.has(file)) loads.set(file, load(file));
    const hljs = await loads.get(file);
    if (near.has(target)) ready.set(target, { watcher, file, hljs });
    return spread(painter, true);
  } catch {
    return loads.delete(file); // the line was cut; colours are no reason to trouble a person
  }
}

/** Colours one figure after the other. */
const painter = {
  batch: 0,
  selection: null,

  step(batch) {
    if (!ready.size) return false;
    const [figure, { watcher, file, hljs }] = ready.entries().next().value;
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

function paint(code, file, hljs) {
  const text = code.textContent;
  if (code.children.length || !isShort(text)) return;
  const { value } = hljs.highlight(text, { language: file, ignoreIllegals: true });
  const spans = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true };
  const made = DOMPurify.sanitize(value, spans);
  if (made.textContent === text) code.replaceChildren(made);
}
