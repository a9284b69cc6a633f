// Markdown to HTML within bounds: however odd a text is, reading it takes a time that grows with its length alone, and
// nothing nests without an end. What goes beyond a bound is shown as it was written; no text is lost.

import { Lexer, Marked, Tokenizer } from "marked";
import { alertOf, foldedAt, footnoteAt, formulaAt, formulaBlockAt, noteKey } from "./extensions.js";
import { placeOf, targetOf } from "./places.js";

const MAX_DEPTH = 20; // lists and quotes in each other: more than anyone reads, far less than a stack holds
const MAX_INLINE_DEPTH = 12; // the same for emphasis, links and tags in a line
const MAX_CELLS = 20_000; // a table is a grid: a few characters could ask for millions of cells
// Reading a line takes up to (its marks × its characters) steps: these many take a few hundredths of a second.
const MAX_LINE_COST = 2_000_000;
const MAX_BLOCK_COST = 3 * MAX_LINE_COST; // for all lines of a block together
const MAX_FOLDS = 100; // beginnings of folded parts whose ends are looked for, in one text

/**
 * @typedef {import("marked").TokensList["links"]} Links  The targets of reference links.
 * @typedef {object} Block  A token of marked, as far as it is read here.
 * @property {string} type
 * @property {string} raw
 * @property {string} [text]
 * @property {string} [lang]
 * @property {{ raw: string }[]} [items]
 * @property {string} [tag]
 * @property {string} [href]
 * @property {string | null} [title]
 * @property {boolean} [plain]  Shown as it was written.
 * @typedef {import("marked").Tokens.HTML & { plain?: boolean, shown?: string }} HtmlToken
 * @typedef {import("marked").Tokens.Blockquote & { alert?: { kind: string, name: string } }} QuoteToken
 */

export const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;
/** Tags without attributes that people mean when they write them. All other HTML is shown as it was written. */
const PLAIN_TAG = /<(\/?)(b|i|em|strong|u|s|del|ins|mark|small|sub|sup|kbd|code|br)\s{0,9}\/?>|<!--/gi;
/** What begins something in a line, and runs that may end an address. */
const MARKS = /[\\`*_~[\]<!&@$]|[?!.,:;'")]{8,}/g;

const PLAIN_CHARACTERS = /[<>"']|&(?!(?:#\d{1,7}|#x[a-f0-9]{1,6}|\w{1,40});)/gi;

const escaped = (/** @type {string} */ text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

/** A text as it was written, as HTML. */
export const plainHtml = (/** @type {string} */ text) =>
  `<p data-raw="">${escaped(text.replace(/^\n+|\n+$/g, ""))}</p>`;

/** What is shown as it was written, as a token. */
const plainBlock = (/** @type {string} */ raw) => ({ type: "html", block: true, plain: true, raw, text: raw });
const plainInline = (/** @type {string} */ raw) => ({ type: "html", block: false, plain: true, raw, text: raw });

/** The tags that are open: each is closed, in its order, and none is left open behind its text. */
class Tags {
  /** @type {string[]} */
  #open = [];

  /**
   * The HTML for a tag; one that ends nothing, or goes too deep, is text.
   *
   * @param {string} end  "/" where it ends.
   * @param {string} name
   * @param {string} raw
   */
  take(end, name, raw) {
    if (name === "br") return "<br>";
    if (end && this.#open.includes(name)) return this.close(this.#open.lastIndexOf(name));
    if (end || this.#open.length >= MAX_INLINE_DEPTH) return escaped(raw);
    this.#open.push(name);
    return `<${name}>`;
  }

  close(from = 0) {
    return this.#open
      .splice(from)
      .reverse()
      .map((name) => `</${name}>`)
      .join("");
  }
}

/**
 * HTML that someone wrote: the plain tags of it, and the rest as text. Comments are left out.
 *
 * @param {string} html
 * @param {Tags} tags
 */
function htmlAsText(html, tags) {
  const lastEnd = html.lastIndexOf("-->");
  let [shown, at] = ["", 0];
  for (const { 0: raw, 1: end, 2: name, index } of html.matchAll(PLAIN_TAG)) {
    if (index < at || (!name && index > lastEnd)) continue;
    shown += escaped(html.slice(at, index)) + (name ? tags.take(end, name.toLowerCase(), raw) : "");
    at = name ? index + raw.length : html.indexOf("-->", index) + 3;
  }
  return shown + escaped(html.slice(at));
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html(token) {
      const { text, block, plain, shown } = /** @type {HtmlToken} */ (token);
      if (plain) return block ? plainHtml(text) : escaped(text);
      if (!block) return shown ?? "";
      const tags = new Tags();
      return `<p data-raw="">${htmlAsText(text.trim(), tags)}${tags.close()}</p>`;
    },
    text(token) {
      const { text, tokens } = /** @type {import("marked").Tokens.Text} */ (token);
      // Entities mean their characters, also where marked takes a text for HTML because of a tag before it.
      return tokens ? this.parser.parseInline(tokens) : text.replace(PLAIN_CHARACTERS, escaped);
    },
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      if (SAFE_LINK.test(href)) return `<a href="${escaped(href)}">${text}</a>`;
      const place = targetOf(href);
      return place ? `<span${placeAttributes(place)}>${text}</span>` : text;
    },
    image({ href, text }) {
      // Loading one of the web would tell its server that the reply is read, and what is in the address.
      const shown = escaped(text || "image");
      if (SAFE_LINK.test(href)) return `<a href="${escaped(href)}">${shown}</a>`;
      const place = targetOf(href);
      return place ? `<span data-picture="${escaped(place.path)}">${shown}</span>` : shown;
    },
    codespan({ text }) {
      const place = placeOf(text);
      return place ? `<code${placeAttributes(place)}>${escaped(text)}</code>` : false;
    },
    code({ text, lang }) {
      const name = /^[\w+#.-]{1,24}/.exec(lang ?? "")?.[0] ?? "";
      if (name === "math" && text.trim()) return formulaHtml("p", text.trim(), text, true);
      return `<pre data-lang="${name}"><code>${escaped(text)}\n</code></pre>`;
    },
    blockquote(token) {
      const { alert } = /** @type {QuoteToken} */ (token);
      const inner = this.parser.parse(token.tokens);
      if (!alert) return `<blockquote>${inner}</blockquote>`;
      return `<blockquote data-alert="${alert.kind}"><p><b>${alert.name}</b></p>${inner}</blockquote>`;
    },
    checkbox({ checked }) {
      return `<span data-task="">${checked ? "☑" : "☐"}</span> `;
    },
    table(token) {
      const cell =
        (/** @type {string} */ tag) =>
        (/** @type {import("marked").Tokens.TableCell} */ it, /** @type {number} */ i) => {
          const side = token.align[i] ? ` align="${token.align[i]}"` : "";
          const name = it.text.trim() ? tag : "td"; // an empty cell is the head of nothing
          const scope = name === "th" ? ' scope="col"' : "";
          return `<${name}${scope}${side}>${this.parser.parseInline(it.tokens)}</${name}>`;
        };
      const head = token.header.map(cell("th")).join("");
      const rows = token.rows.map((row) => `<tr>${row.map(cell("td")).join("")}</tr>`).join("");
      return `<table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table>`;
    },
  },
});

marked.use({
  extensions: [
    {
      name: "formula",
      renderer: ({ raw, tex, isDisplay }) => formulaHtml("span", tex, raw, isDisplay),
    },
    {
      name: "formula_block",
      renderer: ({ raw, tex, isOpen }) => (isOpen ? plainHtml(raw) : formulaHtml("p", tex, raw.trim(), true)),
    },
    {
      name: "footnote",
      renderer({ label, tokens = [] }) {
        return `<div data-note="${escaped(label)}">${this.parser.parse(tokens)}</div>`;
      },
    },
    {
      name: "note_reference",
      renderer: ({ label }) => `<sup data-reference="${escaped(label)}">${escaped(label)}</sup>`,
    },
    {
      name: "folded",
      renderer({ isOpen, summary, tokens = [] }) {
        const head = this.parser.parseInline(summary);
        return `<details${isOpen ? ' open=""' : ""}><summary>${head}</summary>${this.parser.parse(tokens)}</details>`;
      },
    },
  ],
});

/**
 * A formula: its text, which is drawn later.
 *
 * @param {string} tag
 * @param {string} tex
 * @param {string} shown
 * @param {boolean} isDisplay
 */
const formulaHtml = (tag, tex, shown, isDisplay) =>
  `<${tag} data-tex="${escaped(tex)}"${isDisplay ? ' data-display=""' : ""}>${escaped(shown)}</${tag}>`;

const placeAttributes = (/** @type {import("./places.js").Place} */ { path, line }) =>
  ` data-file="${escaped(path)}"${line ? ` data-line="${line}"` : ""}`;

/** Bounds what nests by blocks, before it is read; and reads what Markdown has beside CommonMark. */
class BoundedTokenizer extends Tokenizer {
  #depth = 0;
  #folds = 0;

  /** @param {string} source */
  blockquote(source) {
    if (this.#depth < MAX_DEPTH) {
      return this.#within(() => {
        const quote = /** @type {QuoteToken | undefined} */ (super.blockquote(source));
        const alert = quote && alertOf(quote.text);
        if (quote && alert) Object.assign(quote, { alert, tokens: this.#blocks(alert.text) });
        return quote;
      });
    }
    const raw = this.rules.block.blockquote.exec(source)?.[0].replace(/\n+$/, "");
    return raw === undefined
      ? undefined
      : { type: /** @type {const} */ ("blockquote"), raw, text: raw, tokens: [plainBlock(raw)] };
  }

  /** @param {string} source */
  list(source) {
    return this.#depth < MAX_DEPTH ? this.#within(() => super.list(source)) : undefined;
  }

  /** @param {string} source */
  table(source) {
    const found = this.rules.block.table.exec(source);
    if (!found) return undefined;
    const cells = found[2].split("|").length * ((found[3] ?? "").split("\n").length + 1);
    if (cells <= MAX_CELLS) return super.table(source);
    return /** @type {any} */ (plainBlock(found[0].replace(/\n+$/, "")));
  }

  /**
   * Blocks of HTML come before those that begin with any character; so do these.
   *
   * @param {string} source
   */
  html(source) {
    return (
      /** @type {any} */ (this.#formula(source) ?? this.#footnote(source) ?? this.#folded(source)) ?? super.html(source)
    );
  }

  /** @param {string} source */
  #formula(source) {
    const found = formulaBlockAt(source);
    return found && { type: "formula_block", ...found };
  }

  /** @param {string} source */
  #footnote(source) {
    const found = this.#depth < MAX_DEPTH ? footnoteAt(source) : null;
    if (!found) return null;
    const { raw, label, text } = found;
    const key = noteKey(label);
    this.lexer.tokens.links[key] ??= { href: "", title: null };
    return { type: "footnote", raw, label, tag: key, href: "", tokens: this.#within(() => this.#blocks(text)) };
  }

  /** @param {string} source */
  #folded(source) {
    if (this.#depth >= MAX_DEPTH || this.#folds >= MAX_FOLDS) return null;
    const found = foldedAt(source);
    if (/^ {0,3}<details/i.test(source)) this.#folds++;
    if (!found) return null;
    const { raw, isOpen, summary, text } = found;
    const tokens = this.#within(() => this.#blocks(text));
    return { type: "folded", raw, isOpen, summary: this.lexer.inline(summary), tokens };
  }

  /**
   * The blocks of a part, which are read as those of a text are.
   *
   * @param {string} text
   */
  #blocks(text) {
    const { top } = this.lexer.state;
    this.lexer.state.top = true;
    try {
      return this.lexer.blockTokens(text, []);
    } finally {
      this.lexer.state.top = top;
    }
  }

  /**
   * A formula or a footnote ends the paragraph before it.
   *
   * @param {string} source
   */
  paragraph(source) {
    const token = super.paragraph(source);
    if (!token) return token;
    for (const { index } of token.raw.matchAll(/\n(?= {0,3}(?:\$\$|\\\[|\[\^))/g)) {
      const rest = source.slice(index + 1);
      if (!formulaBlockAt(rest) && !footnoteAt(rest)) continue;
      const text = token.raw.slice(0, index);
      return { ...token, raw: `${text}\n`, text, tokens: this.lexer.inline(text) };
    }
    return token;
  }

  /** @param {string} source */
  escape(source) {
    const found = /^[\\$]/.test(source) ? formulaAt(source) : null;
    if (!found || found === "open") return super.escape(source);
    return /** @type {any} */ ({ type: "formula", ...found });
  }

  /** @param {string} source */
  link(source) {
    const label = /^\[\^([^\]\s^[]{1,40})\](?!\()/.exec(source);
    if (!label || !Object.hasOwn(this.lexer.tokens.links, noteKey(label[1]))) return super.link(source);
    return /** @type {any} */ ({ type: "note_reference", raw: label[0], label: label[1] });
  }

  /**
   * Text ends where a formula may begin.
   *
   * @param {string} source
   */
  inlineText(source) {
    const token = super.inlineText(source);
    const at = token?.raw.search(/(?<=[^\w$])\$/) ?? -1;
    if (!token || at <= 0) return token;
    const raw = token.raw.slice(0, at);
    return { ...token, raw, text: raw };
  }

  /**
   * @template T
   * @param {() => T} read
   */
  #within(read) {
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

/** Bounds what nests in a line, and what reading lines may cost. */
class BoundedLexer extends Lexer {
  #depth = 0;
  #left = MAX_BLOCK_COST;

  /** @param {Links} links */
  constructor(links) {
    super({ ...marked.defaults, tokenizer: new BoundedTokenizer() });
    Object.assign(this.tokens.links, links);
  }

  /**
   * @param {string} source
   * @param {any[]} tokens
   */
  inlineTokens(source, tokens = []) {
    if (this.#depth === 0 && source.includes("\n") && costOf(source) > MAX_LINE_COST) {
      for (const line of source.match(/[^\n]*\n|[^\n]+$/g) ?? []) this.#inline(line, tokens);
    } else this.#inline(source, tokens);
    return tokens;
  }

  /**
   * @param {string} source
   * @param {any[]} tokens
   */
  #inline(source, tokens) {
    const cost = costOf(source);
    const isBeyond = this.#depth >= MAX_INLINE_DEPTH || cost > Math.min(MAX_LINE_COST, this.#left);
    if (isBeyond) return tokens.push(plainInline(source));
    this.#left -= cost;
    this.#depth++;
    try {
      tokens.push(...closed(super.inlineTokens(source, [])));
    } catch {
      tokens.push(plainInline(source)); // marked gives up on what it does not understand
    } finally {
      this.#depth--;
    }
    return undefined;
  }
}

/**
 * About how many steps it takes to read a text as one line.
 *
 * @param {string} source
 */
function costOf(source) {
  let marks = 0;
  for (const { 0: run } of source.matchAll(MARKS)) marks += run.length;
  return marks * source.length;
}

/**
 * The tokens of a line with all its tags closed.
 *
 * @param {any[]} tokens
 */
function closed(tokens) {
  const tags = new Tags();
  for (const token of tokens) {
    if (token.type === "html" && !token.plain) token.shown = htmlAsText(token.text, tags);
  }
  const ends = tags.close();
  return ends ? [...tokens, { type: "html", raw: "", text: "", shown: ends }] : tokens;
}

/**
 * The blocks of a text, without what stands in their lines: marked's tokens. What stands between them is there too, as
 * "space", and the targets of reference links, as "def". The `raw` of all of them, joined, is the text.
 *
 * @param {string} source
 * @returns {Block[]}
 */
export function scan(source) {
  try {
    const tokens = new BoundedLexer({}).blockTokens(source, []);
    if (tokens.reduce((sum, { raw }) => sum + raw.length, 0) === source.length) return tokens;
  } catch {
    // What cannot be read can still be shown.
  }
  return [plainBlock(source)];
}

/**
 * A block as HTML, which is not safe yet. `links`: the targets of reference links. Never throws.
 *
 * @param {string} source
 * @param {Links} links
 */
export function toHtml(source, links = {}) {
  try {
    return marked.parser(new BoundedLexer(links).lex(source));
  } catch {
    return plainHtml(source);
  }
}
