// Colours for code, once it is written: loaded when the first block of a language is.

import DOMPurify from "./vendor/dompurify.js";

const MAX_CHARACTERS = 60_000; // more takes longer than a person waits for colours

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
    import("./vendor/highlight/core.js"),
    import(`./vendor/highlight/${file}.js`),
  ]);
  hljs.registerLanguage(file, grammar);
  return hljs;
}

/** Colour the code of a `figure.code`, a little later. Its text stays as it is; without the language nothing happens. */
export async function highlight(figure) {
  const file = FILE_OF.get(figure.dataset.lang.toLowerCase());
  const code = figure.querySelector("code");
  if (!file || !code || code.children.length || code.textContent.length > MAX_CHARACTERS) return;
  try {
    if (!loads.has(file)) loads.set(file, load(file));
    const hljs = await loads.get(file);
    const text = code.textContent;
    if (code.children.length || holdsSelection(code)) return;
    const { value } = hljs.highlight(text, { language: file, ignoreIllegals: true });
    const spans = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true };
    const made = DOMPurify.sanitize(value, spans);
    if (made.textContent === text) code.replaceChildren(made);
  } catch {
    loads.delete(file); // the line was cut; colours are no reason to trouble a person
  }
}

/** A person who selects code keeps the selection, and does without colours. */
function holdsSelection(code) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(code, true);
}
