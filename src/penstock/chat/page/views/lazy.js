// Views that are loaded when they are first drawn, so that the page itself is small.

import { html, useLayoutEffect, useState } from "../components/ui.js";
import { Loading, Missing } from "./status-pages.js";

const AGAIN_MS = 2000; // the connection was lost; it is tried again by itself

/**
 * A view that `load` gives, of a module that it imports. What it needs is asked for once.
 *
 * @template {object} Props
 * @param {() => Promise<import("preact").ComponentType<Props>>} load
 * @param {object} [options]
 * @param {boolean} [options.isBeside]  It is drawn over the page or beside it: there is nothing in its place meanwhile.
 * @returns {import("preact").FunctionComponent<Props>}
 */
export function lazy(load, { isBeside = false } = {}) {
  /** @type {import("preact").ComponentType<Props> | null} */
  let View = null;
  /** @type {Promise<unknown> | null} */
  let loading = null;
  const begin = async () => {
    try {
      View = await load();
    } finally {
      loading = null;
    }
  };
  return function LazyView(props) {
    const [attempts, setAttempts] = useState(0);
    useLayoutEffect(() => {
      if (View) return undefined;
      let isGone = false;
      /** @type {Timer} */
      let timer;
      const next = () => isGone || setAttempts((count) => count + 1);
      loading ??= begin();
      loading.then(next, () => {
        timer = setTimeout(next, AGAIN_MS);
      });
      return () => {
        isGone = true;
        clearTimeout(timer);
      };
    }, [attempts]);
    if (View) return html`<${View} ...${props} />`;
    if (isBeside) return null;
    if (!attempts) return html`<${Loading} />`;
    return html`<${Missing}
      title="This part of the page is not loaded yet"
      text="The server cannot be reached. It is tried again by itself."
    ><span></span><//>`;
  };
}
