// The beginning of the page: it draws the views, and passes on links and keys.

import { listenForDrops } from "./components/files.js";
import { html, render } from "./components/ui.js";
import { listenForClicks, listenForKeys, listenForSelections } from "./keyboard.js";
import { applyAddress, go, WIDE } from "./state/router.js";
import { begin } from "./state/session.js";
import { set } from "./state/store.js";
import { App } from "./views/app.js";

const NARROW = "(max-width: 46rem)"; // as in styles/shell.css

/**
 * A plain click on a link of the page stays in the page.
 *
 * @param {MouseEvent} event
 */
function followLink(event) {
  const target = /** @type {Element} */ (event.target);
  const link = /** @type {HTMLAnchorElement | null} */ (target.closest?.("a[href^='/']") ?? null);
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
  event.preventDefault();
  go(link.getAttribute("href") ?? "/");
}

window.matchMedia(NARROW).addEventListener("change", () => set({ drawer: false }));
WIDE.addEventListener("change", () => applyAddress());
document.addEventListener("click", followLink);
listenForClicks();
listenForDrops();
listenForKeys();
listenForSelections();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
begin();
