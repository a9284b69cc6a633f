// One block of a reply as DOM: sanitized, framed, and changed in place while it grows.

import { misleadingHost } from "./links.js";
import { drawFormulas } from "./formulas.js";
import { languageName } from "./languages.js";
import { placesIn } from "./places.js";
import { plainHtml, SAFE_LINK, toHtml } from "./parser.js";
import { sanitizer } from "./sanitizer.js";
import { copyToClipboard } from "../components/clipboard.js";

const LABEL_MS = 1600; // how long a button says what it did

/** @type {import("dompurify").Config & { RETURN_DOM_FRAGMENT: true }} */
const PURE = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: [
    "img",
    "picture",
    "svg",
    "math",
    "form",
    "input",
    "button",
    "select",
    "textarea",
    "style",
    "video",
    "audio",
    "iframe",
    "dialog",
    "template",
  ],
  FORBID_ATTR: ["style", "class", "id", "name"],
  // It judges every attribute: none begins with a scheme but these.
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|[^a-z]|[a-z+.-]+(?:[^a-z+.:-]|$))/i,
  // A fragment instead of a trusted string: nothing is parsed again after it was judged.
  RETURN_DOM_FRAGMENT: true,
};

/**
 * Let a block's element show this Markdown. Where that fails, it shows the text as it was written.
 *
 * @param {HTMLElement} node
 * @param {string} source
 * @param {import("./parser.js").Links} links
 * @param {PictureUrl | null} pictureUrl
 */
export function drawBlock(node, source, links, pictureUrl, isPlain = false) {
  try {
    patch(node, build(isPlain ? plainHtml(source) : toHtml(source, links), pictureUrl));
    drawFormulas(node);
  } catch {
    drawPlain(node, source);
  }
}

/**
 * Let an element show a text as it was written.
 *
 * @param {HTMLElement} node
 * @param {string} text
 */
export function drawPlain(node, text) {
  const made = element("p", "", text.replace(/^\n+|\n+$/g, ""));
  made.dataset.raw = "";
  made.dir = "auto";
  node.replaceChildren(made);
}

/**
 * @typedef {(path: string) => string} PictureUrl  The address of a picture in the chat's directory. Without one, neither
 *   pictures are shown nor files opened.
 */

/**
 * HTML as DOM, with the frames of its code and tables.
 *
 * @param {string} html
 * @param {PictureUrl | null} pictureUrl
 * @returns {DocumentFragment}
 */
export function build(html, pictureUrl) {
  const made = sanitizer.sanitize(html, PURE);
  if (pictureUrl) addFiles(made, pictureUrl);
  for (const note of /** @type {NodeListOf<HTMLElement>} */ (made.querySelectorAll("[data-note]"))) {
    const { note: label = "" } = note.dataset;
    note.prepend(linkTo("Back to the text", { backTo: label }, label));
  }
  for (const it of /** @type {NodeListOf<HTMLElement>} */ (made.querySelectorAll("[data-reference]"))) {
    const { reference: label = "" } = it.dataset;
    it.replaceChildren(linkTo(`Footnote ${label}`, { goTo: label }, label));
  }
  for (const link of made.querySelectorAll("a")) {
    if (!SAFE_LINK.test(link.getAttribute("href") ?? "")) link.removeAttribute("href");
    const host = misleadingHost(link.textContent ?? "", link.getAttribute("href") ?? "");
    if (host) link.dataset.host = host;
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
  for (const text of /** @type {NodeListOf<HTMLElement>} */ (
    made.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th")
  ))
    text.dir = "auto";
  return made;
}

/** Pictures that the server does not have: they are asked for once. @type {Set<string>} */
const missing = new Set();

/**
 * Let a part show the pictures of the chat's directory, and lead to the files that it names.
 *
 * @param {DocumentFragment} made
 * @param {PictureUrl} pictureUrl
 */
function addFiles(made, pictureUrl) {
  for (const it of /** @type {NodeListOf<HTMLElement>} */ (made.querySelectorAll("[data-picture]"))) {
    const url = pictureUrl(it.dataset.picture ?? "");
    const words = it.textContent ?? "";
    if (missing.has(url)) continue;
    const picture = document.createElement("img");
    Object.assign(picture, { alt: words, loading: "lazy", decoding: "async", src: url });
    picture.onerror = () => {
      missing.add(url);
      picture.replaceWith(words);
    };
    it.replaceWith(picture);
  }
  const texts = document.createTreeWalker(made, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const plain = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (!node.parentElement?.closest("a, code, [data-file], [data-tex]")) plain.push(/** @type {Text} */ (node));
  }
  for (const text of plain) {
    for (const { path, line, from, to } of placesIn(text.data).reverse()) {
      text.splitText(to);
      const named = element("span", "", text.data.slice(from, to));
      Object.assign(named.dataset, { file: path, line: String(line) });
      text.splitText(from).replaceWith(named);
    }
  }
  for (const it of /** @type {NodeListOf<HTMLElement>} */ (made.querySelectorAll("[data-file]"))) {
    it.tabIndex = 0;
    it.setAttribute("role", "link");
  }
}

/**
 * What leads to another place of the same reply. It is no link of HTML: its target has no id.
 *
 * @param {string} label
 * @param {Record<string, string>} data
 * @param {string} text
 */
function linkTo(label, data, text) {
  const made = element("span", "to-note", text);
  Object.assign(made.dataset, data);
  made.tabIndex = 0;
  made.setAttribute("role", "link");
  made.setAttribute("aria-label", label);
  return made;
}

/**
 * @param {string} tag
 * @param {string} [name]  The class.
 * @param {string} [text]
 */
export function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

/** @param {HTMLElement} pre */
function frame(pre) {
  const language = pre.dataset.lang ?? "";
  const figure = element("figure", "code");
  figure.dataset.lang = language;
  const caption = element("figcaption");
  const button = element("button", "quiet", "Copy");
  button.setAttribute("type", "button");
  button.dataset.copy = "";
  caption.append(element("span", "", languageName(language)), button);
  pre.replaceWith(figure);
  pre.removeAttribute("data-lang");
  pre.tabIndex = 0;
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", "Code");
  figure.append(caption, pre);
}

/**
 * One listener for all copy buttons below an element.
 *
 * @param {HTMLElement} root
 */
export function listenForCopies(root) {
  root.addEventListener("click", async (event) => {
    const button = /** @type {Element} */ (event.target).closest?.("[data-copy]");
    const code = button?.closest("figure.code")?.querySelector("code");
    if (!button || !code) return;
    const done = await copyToClipboard(code.textContent.replace(/\n$/, ""));
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, LABEL_MS);
  });
}

/**
 * One listener for all that a reply leads to without an address: its footnotes, and files of the chat's directory.
 *
 * @param {HTMLElement} root
 * @param {(path: string, line: number) => void} [openFile]
 */
export function listenForPlaces(root, openFile = () => {}) {
  const follow = (/** @type {Event} */ event) => {
    /** @type {HTMLElement | null} */
    const link = /** @type {Element} */ (event.target).closest?.("[role=link]") ?? null;
    if (!link || getSelection()?.isCollapsed === false) return;
    const { file, line, goTo, backTo } = link.dataset;
    if (file) openFile(file, Number(line ?? 0));
    else if (goTo || backTo) {
      const name = goTo ? `[data-back-to=${CSS.escape(goTo)}]` : `[data-go-to=${CSS.escape(backTo ?? "")}]`;
      /** @type {HTMLElement | null} */
      const target = link.closest(".prose")?.querySelector(name) ?? null;
      target?.focus();
      target?.scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  };
  root.addEventListener("click", follow);
  root.addEventListener("keydown", (event) => {
    if (event.key === "Enter") follow(event);
  });
}

/**
 * Make `old` as `fresh` is, keeping every node that can stay.
 *
 * @param {Node & ParentNode} old
 * @param {Node} fresh
 */
function patch(old, fresh) {
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((node, i) => patchChild(old, before[i], node));
  for (const node of before.slice(after.length)) node.remove();
}

/**
 * Make a child of an element as `node` is, or add `node`; returns what is there then.
 *
 * @param {Node & ParentNode} parent
 * @param {ChildNode | undefined} current
 * @param {ChildNode} node
 */
export function patchChild(parent, current, node) {
  if (!current) {
    parent.append(node);
    return node;
  }
  if (same(current, node) || current.isEqualNode(node)) return current;
  if (current instanceof Text && node instanceof Text) patchText(current, node.data);
  else if (alike(current, node)) patch(/** @type {Element} */ (current), node);
  else {
    current.replaceWith(node);
    return node;
  }
  return current;
}

/**
 * @param {Text} current
 * @param {string} text
 */
function patchText(current, text) {
  if (text.startsWith(current.data)) current.appendData(text.slice(current.data.length));
  else current.data = text;
}

/**
 * Code that is coloured already is the same code; a formula that is drawn already is the same formula.
 *
 * @param {Node} a
 * @param {Node} b
 */
function same(a, b) {
  if (!(a instanceof HTMLElement && b instanceof HTMLElement)) return false;
  if (a.dataset.tex !== undefined || b.dataset.tex !== undefined) {
    return a.nodeName === b.nodeName && a.dataset.tex === b.dataset.tex && a.dataset.display === b.dataset.display;
  }
  return (
    a.nodeName === "FIGURE" &&
    b.nodeName === "FIGURE" &&
    a.dataset.lang === b.dataset.lang &&
    a.querySelector("code")?.textContent === b.querySelector("code")?.textContent
  );
}

/**
 * @param {Node} a
 * @param {Node} b
 */
function alike(a, b) {
  if (!(a instanceof Element && b instanceof Element)) return false;
  if (a.nodeName === "DETAILS" && b.nodeName === "DETAILS") return true; // a person may have opened it
  if (a.nodeName !== b.nodeName || a.attributes.length !== b.attributes.length) return false;
  return [...a.attributes].every(({ name, value }) => b.getAttribute(name) === value);
}

/**
 * The usual case of a long code block: its text has only grown. Whether it was so. `before`, `after`: its tokens.
 *
 * @param {HTMLElement} node
 * @param {import("./parser.js").Block | null | undefined} before
 * @param {import("./parser.js").Block} after
 */
export function appendCode(node, before, after) {
  if (before?.type !== "code" || after?.type !== "code" || before.lang !== after.lang) return false;
  const text = node.querySelector("code")?.firstChild;
  if (!(text instanceof Text) || text.nextSibling) return false;
  // All but the line end that the frame adds.
  const shown = text.data.slice(0, -1);
  const written = after.text ?? "";
  if (!written.startsWith(shown)) return false;
  if (written.length > shown.length) text.insertData(shown.length, written.slice(shown.length));
  return true;
}
