// One block of a reply as DOM: sanitized, framed, and changed in place while it grows.

import DOMPurify from "dompurify";
import { languageName } from "./highlight.js";
import { plainHtml, SAFE_LINK, toHtml } from "./parser.js";
import { copy } from "./text.js";

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

/** Let a block's element show this Markdown. Where that fails, it shows the text as it was written. */
export function drawBlock(node, source, links, isPlain = false) {
  try {
    patch(node, build(isPlain ? plainHtml(source) : toHtml(source, links)));
  } catch {
    drawPlain(node, source);
  }
}

/** Let an element show a text as it was written. */
export function drawPlain(node, text) {
  const made = element("p", "", text.replace(/^\n+|\n+$/g, ""));
  made.dataset.raw = "";
  made.dir = "auto";
  node.replaceChildren(made);
}

/** HTML as DOM, with the frames of its code and tables. */
function build(html) {
  const made = DOMPurify.sanitize(html, PURE);
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

export function element(tag, name, text) {
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

/** The usual case of a long code block: its text has only grown. Whether it was so. `before`, `after`: its tokens. */
export function appendCode(node, before, after) {
  if (before?.type !== "code" || after?.type !== "code" || before.lang !== after.lang) return false;
  const text = node.querySelector("code")?.firstChild;
  if (text?.nodeType !== Node.TEXT_NODE || text.nextSibling) return false;
  // All but the line end that the frame adds.
  const shown = text.data.slice(0, -1);
  if (!after.text.startsWith(shown)) return false;
  if (after.text.length > shown.length) text.insertData(shown.length, after.text.slice(shown.length));
  return true;
}
