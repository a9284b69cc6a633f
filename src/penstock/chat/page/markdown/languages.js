// The languages that can be coloured, and their names.

/** The names that people write → the file that knows the language, and its name. */
const LANGUAGES = /** @type {Record<string, string[]>} */ ({
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
  python: ["Python", "py", "pyi", "python3", "pycon"],
  rust: ["Rust", "rs"],
  sql: ["SQL", "postgresql", "sqlite", "mysql"],
  typescript: ["TypeScript", "ts", "tsx", "mts", "cts"],
  xml: ["HTML", "html", "htm", "xhtml", "svg", "vue", "rss"],
  yaml: ["YAML", "yml"],
});
/** @type {Record<string, string>} */
const OWN_NAMES = {
  c: "C",
  h: "C",
  xml: "XML",
  svg: "SVG",
  toml: "TOML",
  scss: "SCSS",
  less: "Less",
  jsx: "JSX",
  tsx: "TSX",
};
const FILE_OF = new Map(
  Object.entries(LANGUAGES).flatMap(([file, [, ...others]]) => [file, ...others].map((name) => [name, file])),
);

/**
 * The name of the file that knows a language, whatever name of it was written; undefined if there is none.
 *
 * @param {string | undefined} name
 */
export const fileOf = (name = "") => FILE_OF.get(name.toLowerCase());

/**
 * The name of the file that knows the language of a file, by its name; undefined if there is none.
 *
 * @param {string} path
 */
export function fileOfPath(path) {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return fileOf(name.slice(name.lastIndexOf(".") + 1));
}

/**
 * The name of a language on a code block.
 *
 * @param {string} name
 */
export function languageName(name) {
  const low = name.toLowerCase();
  if (Object.hasOwn(OWN_NAMES, low)) return OWN_NAMES[low];
  return LANGUAGES[FILE_OF.get(low) ?? ""]?.[0] ?? name;
}
