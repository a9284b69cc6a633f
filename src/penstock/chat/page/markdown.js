// Markdown of an agent to the DOM, block by block. A block that is settled is never touched again, so what a person
// selected in it stays selected; the last one is changed in place while it grows.

import DOMPurify from "./vendor/dompurify.js";
import { Lexer, Marked } from "./vendor/marked.js";
import { heal } from "./heal.js";
import { highlight, languageName } from "./highlight.js";
import { copy, harmless } from "./text.js";

const PURE = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["img", "picture", "svg", "math", "form", "input", "button", "select", "textarea", "style", "video", "audio",
    "iframe", "dialog", "template"],
  FORBID_ATTR: ["style", "class", "id", "name"],
  // It judges every attribute: none begins with a scheme but these.
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|[^a-z]|[a-z+.-]+(?:[^a-z+.:-]|$))/i,
  // A fragment instead of a trusted string: nothing is parsed again after it was judged.
  RETURN_DOM_FRAGMENT: true,
};

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;
/** Tags without attributes that people mean when they write them. All other HTML is shown as it was written. */
const PLAIN_TAGS = /<(\/?(?:b|i|em|strong|u|s|del|ins|mark|small|sub|sup|kbd|code|br)\s*\/?)>|<!--[^]*?-->/gi;

const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

function htmlAsText(html) {
  let [shown, at] = ["", 0];
  for (const tag of html.matchAll(PLAIN_TAGS)) {
    shown += escaped(html.slice(at, tag.index)) + (tag[1] ? `<${tag[1]}>` : "");
    at = tag.index + tag[0].length;
  }
  return shown + escaped(html.slice(at));
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html({ text, block }) {
      return block ? `<p data-raw="">${htmlAsText(text.trim())}</p>` : htmlAsText(text);
    },
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      return SAFE_LINK.test(href) ? `<a href="${escaped(href)}">${text}</a>` : text;
    },
    image({ href, text }) {
      // Loading it would tell its server that the reply is read, and what is in the address.
      const shown = escaped(text || "image");
      return SAFE_LINK.test(href) ? `<a href="${escaped(href)}">${shown}</a>` : shown;
    },
    code({ text, lang }) {
      const name = /^[\w+#.-]{1,24}/.exec(lang ?? "")?.[0] ?? "";
      return `<pre data-lang="${name}"><code>${escaped(text)}\n</code></pre>`;
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
    table(token) {
      const cell = (tag) => (it, i) => {
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

/** A block's tokens as DOM, with the frames of its code and tables. */
function build(tokens) {
  const made = DOMPurify.sanitize(marked.parser(tokens), PURE);
  for (const link of made.querySelectorAll("a")) {
    if (!SAFE_LINK.test(link.getAttribute("href"))) link.removeAttribute("href");
    link.rel = "noopener noreferrer nofollow";
    link.target = "_blank";
  }
  for (const pre of made.querySelectorAll("pre")) frame(pre);
  for (const table of made.querySelectorAll("table")) {
    const wide = element("div", "wide");
    wide.tabIndex = 0; // what scrolls can be scrolled by keys
    wide.setAttribute("role", "group");
    wide.setAttribute("aria-label", "Table");
    table.replaceWith(wide);
    wide.append(table);
  }
  for (const text of made.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th")) text.dir = "auto";
  return made;
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

function frame(pre) {
  const language = pre.dataset.lang ?? "";
  const figure = element("figure", "code");
  figure.dataset.lang = language;
  const caption = element("figcaption");
  const button = element("button", "quiet", "Copy");
  button.type = "button";
  button.dataset.copy = "";
  caption.append(element("span", "", languageName(language)), button);
  pre.replaceWith(figure);
  pre.removeAttribute("data-lang");
  pre.tabIndex = 0;
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", "Code");
  figure.append(caption, pre);
}

/** One listener for all copy buttons below an element. */
export function listenForCopies(root) {
  root.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    const code = button?.closest("figure.code")?.querySelector("code");
    if (!code) return;
    const done = await copy(code.textContent.replace(/\n$/, ""));
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
}

/** Make `old` as `fresh` is, keeping every node that can stay. */
function patch(old, fresh) {
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((node, i) => {
    const stands = before[i];
    if (!stands) old.append(node);
    else if (same(stands, node) || stands.isEqualNode(node)) return;
    else if (stands.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) patchText(stands, node.data);
    else if (alike(stands, node)) patch(stands, node);
    else stands.replaceWith(node);
  });
  for (const node of before.slice(after.length)) node.remove();
}

function patchText(stands, text) {
  if (text.startsWith(stands.data)) stands.appendData(text.slice(stands.data.length));
  else stands.data = text;
}

/** Code that is coloured already is the same code. */
function same(a, b) {
  return a.nodeName === "FIGURE" && b.nodeName === "FIGURE" && a.dataset.lang === b.dataset.lang
    && a.querySelector("code")?.textContent === b.querySelector("code")?.textContent;
}

function alike(a, b) {
  if (a.nodeType !== Node.ELEMENT_NODE || a.nodeName !== b.nodeName || a.attributes.length !== b.attributes.length) return false;
  return [...a.attributes].every(({ name, value }) => b.getAttribute(name) === value);
}

/** Markdown in an element: `show` it again whenever the text has grown or changed. */
export class Prose {
  #root;
  #text = ""; // as it came
  #source = ""; // the same, harmless
  #blocks = []; // {raw, start, token, shown, settled, node}; `shown` is `raw`, or its healed form while it is the last
  #links = {}; // the targets of reference links

  constructor(root) {
    this.#root = root;
  }

  /** `growing`: more text is expected, so the end may be half written. */
  show(text, growing) {
    const added = growing && this.#text && text.startsWith(this.#text) ? text.slice(this.#text.length) : null;
    this.#text = text;
    this.#source = added === null ? harmless(text) : this.#source + harmless(added);
    // Text that is only added can change no block but the last: what is before it is not read again.
    const last = this.#blocks.at(-1);
    const known = Object.keys(this.#links).length;
    const kept = added !== null && last ? this.#blocks.length - 1 : 0;
    let tokens = this.#lex(kept ? this.#source.slice(last.start) : this.#source);
    if (kept && Object.keys(this.#links).length === known) return this.#place(kept, last.start, tokens, growing);
    if (Object.keys(this.#links).length !== known) {
      // A reference link may have got its target only now.
      for (const block of this.#blocks) if (block.raw.includes("[")) block.shown = null;
      tokens = this.#lex(this.#source);
    }
    this.#place(0, 0, tokens, growing);
  }

  #lex(source) {
    const lexer = new Lexer(marked.defaults);
    Object.assign(lexer.tokens.links, this.#links);
    const tokens = lexer.lex(source);
    Object.assign(this.#links, tokens.links);
    return tokens;
  }

  /** Let the blocks from number `i` on, which begin at `start` of the source, be these. */
  #place(i, start, tokens, growing) {
    const fresh = [];
    for (const token of tokens) {
      if (token.type !== "space" && token.type !== "def") fresh.push({ raw: token.raw, start, token });
      start += token.raw.length;
    }
    // The lexer tidies the white space at the end of a list; how it will go on hangs on what really stands there.
    if (growing && fresh.length) fresh.at(-1).raw = this.#source.slice(fresh.at(-1).start);
    for (const block of fresh) this.#show(i++, block, growing && block === fresh.at(-1));
    for (const gone of this.#blocks.splice(i)) gone.node.remove();
  }

  #show(i, block, last) {
    const shown = last ? heal(block.raw) : block.raw;
    const stands = this.#blocks[i];
    const node = stands?.node ?? this.#root.appendChild(element("div", "block"));
    this.#blocks[i] = { ...block, shown, settled: !last, node };
    if (stands?.shown === shown && stands.settled === !last) return;
    if (stands?.shown !== shown && !appendCode(node, stands, block, shown)) {
      patch(node, build(shown === block.raw ? [block.token] : this.#lex(shown)));
    }
    if (!last) for (const code of node.querySelectorAll("figure.code")) highlight(code);
  }
}

/** The usual case of a long code block: its text has only grown. Whether it was so. */
function appendCode(node, stands, block, shown) {
  const code = shown === block.raw ? block.token : marked.lexer(shown)[0];
  if (!stands?.shown || stands.token.type !== "code" || code?.type !== "code" || stands.token.lang !== code.lang) return false;
  const text = node.querySelector("code")?.firstChild;
  if (text?.nodeType !== Node.TEXT_NODE || text.nextSibling) return false;
  // All but the line end that the frame adds.
  const [before, after] = [text.data.slice(0, -1), code.text];
  if (!after.startsWith(before)) return false;
  if (after.length > before.length) text.insertData(before.length, after.slice(before.length));
  return true;
}
