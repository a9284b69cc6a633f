// Formulas as MathML: the library that knows TeX is loaded when the first formula is near.

import { sanitizer } from "./sanitizer.js";

const MAX_EXPANSIONS = 300; // of macros that a formula defines itself: more is no formula
const MAX_EM = 20; // the longest space or rule that a formula asks for
const MAX_POINTS = 240; // the same in the units of print
/** Classes that styles/prose.css has rules for; the library has many more. */
const CLASSES = /^tml-(?:display|left|right|overline|underline|cancel|tag)$/;

/** Even to read it, the page's policy does not permit a style. In texts of the library, quotes are entities. */
const STYLE = / style="[^"]*"/g;

/** @type {import("dompurify").Config & { RETURN_DOM_FRAGMENT: true }} */
const PURE = {
  USE_PROFILES: { mathMl: true },
  FORBID_TAGS: ["annotation", "annotation-xml", "mglyph", "maction", "semantics"],
  FORBID_ATTR: ["style", "id", "name", "href", "xlink:href", "src", "mathbackground"],
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

/** @type {import("temml").default | null} */
let temml = null;
/** @type {Promise<void> | null} */
let loading = null;
/** Those that wait for the library. @type {Set<HTMLElement>} */
const waiting = new Set();

function load() {
  loading ??= import("temml").then(
    (loaded) => {
      temml = loaded.default;
      for (const node of waiting) drawFormula(node);
      waiting.clear();
    },
    () => {
      loading = null; // the connection was lost: the next formula tries again
    },
  );
}

/**
 * Draw the formulas in a part of a reply. What cannot be drawn stays as it was written.
 *
 * @param {ParentNode} root
 */
export function drawFormulas(root) {
  /** @type {NodeListOf<HTMLElement>} */
  const found = root.querySelectorAll("[data-tex]");
  for (const node of found) {
    if (temml) drawFormula(node);
    else waiting.add(node);
  }
  if (waiting.size) load();
}

/** @param {HTMLElement} node */
function drawFormula(node) {
  const { tex = "", display } = node.dataset;
  try {
    const mathMl = temml?.renderToString(tex, {
      displayMode: display !== undefined,
      throwOnError: true,
      trust: false,
      maxExpand: MAX_EXPANSIONS,
      maxSize: [MAX_EM, MAX_POINTS],
    });
    const made = sanitizer.sanitize((mathMl ?? "").replace(STYLE, ""), PURE);
    for (const it of made.querySelectorAll("[class]")) {
      for (const name of [...it.classList]) if (!CLASSES.test(name)) it.classList.remove(name);
    }
    if (made.querySelector("math")) node.replaceChildren(made);
  } catch {
    // Half of a formula, or one that this library does not know: its text is there.
  }
}
