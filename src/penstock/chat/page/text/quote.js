// What is selected, as a quotation in a message.

const MOST_LINES = 200; // more is no quotation: the agent can read the file

/**
 * A part of a reply or of a message: each line behind a ">".
 *
 * @param {string} text
 */
export function quotation(text) {
  const lines = text.replace(/\r\n?/g, "\n").trim().split("\n");
  return cut(lines)
    .map((line) => `> ${line}`.trimEnd())
    .join("\n");
}

/**
 * Lines of a file or a diff, with their place. The fence is longer than any row of backticks in them.
 *
 * @param {string} path
 * @param {number | null} line  The number of the first one, if it is known.
 * @param {string[]} lines
 * @param {string} [language]
 */
export function excerpt(path, line, lines, language = "") {
  const longest = Math.max(2, ...(lines.join("\n").match(/`+/g) ?? []).map((it) => it.length));
  const fence = "`".repeat(longest + 1);
  const place = `${path.replaceAll("`", "'")}${line === null ? "" : `:${line}`}`;
  return `\`${place}\`\n\n${fence}${language}\n${cut(lines).join("\n")}\n${fence}`;
}

/** @param {string[]} lines */
const cut = (lines) => (lines.length > MOST_LINES ? [...lines.slice(0, MOST_LINES), "…"] : lines);
