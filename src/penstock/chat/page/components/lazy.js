// A view that is loaded when it is needed for the first time.

import { html, Status, useEffect, useState } from "./ui.js";

/** @typedef {import("preact").ComponentType<any>} View */

/** What was loaded. @type {Map<() => Promise<View>, View>} */
const loaded = new Map();

/**
 * `load` gives the view: always the same function for one view, so that it is loaded once.
 *
 * @param {{ load: () => Promise<View>, props: Record<string, unknown> }} props
 */
export function Lazy({ load, props }) {
  const [, setLoaded] = useState(loaded.has(load));
  const [isFailed, setFailed] = useState(false);
  useEffect(() => {
    if (loaded.has(load)) return;
    load().then(
      (view) => {
        loaded.set(load, view);
        setLoaded(true);
      },
      () => setFailed(true),
    );
  }, []);
  const view = loaded.get(load);
  if (view) return html`<${view} ...${props} />`;
  return isFailed
    ? html`<p class="side-note" role="alert">This could not be loaded. Reload the page.</p>`
    : html`<${Status} loading>Loading…<//>`;
}
