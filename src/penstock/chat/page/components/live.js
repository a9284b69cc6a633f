// What the server has of something that goes on, asked for again until it is over.

import { statusOf, OFFLINE } from "../net/api.js";
import { useEffect, useState } from "./ui.js";

const SERVER_ERROR = 500;
const ASK_MS = 1000; // as often as one reads
const SHARE = 5; // an answer that took long to make, send and draw is followed by a pause of so many times as long

/**
 * Return what `load` has given last, and what went wrong. It is asked for again while the page is seen, until `isOver`.
 *
 * @template T
 * @param {() => Promise<T>} load
 * @param {(found: T) => boolean} isOver
 * @param {unknown[]} inputs  With others, all begins anew.
 * @returns {[T | null, unknown]}
 */
export function useLive(load, isOver, inputs) {
  const [found, setFound] = useState(/** @type {T | null} */ (null));
  const [problem, setProblem] = useState(/** @type {unknown} */ (null));
  useEffect(() => {
    let isGone = false;
    /** @type {Timer} */
    let timer;
    const ask = async () => {
      const began = performance.now();
      let isLast = false;
      try {
        const now = await load();
        if (isGone) return;
        setFound(() => now);
        setProblem(null);
        isLast = isOver(now);
        await drawn();
      } catch (error) {
        if (isGone) return;
        setProblem(error);
        const status = statusOf(error);
        isLast = status !== OFFLINE && (status ?? 0) < SERVER_ERROR; // else it may answer the next time
      }
      if (!isGone && !isLast) timer = setTimeout(ask, Math.max(ASK_MS, SHARE * (performance.now() - began)));
    };
    setFound(null);
    setProblem(null);
    ask();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, inputs);
  return [found, problem];
}

/** Resolves once the page was drawn, which it is only while it is seen. */
const drawn = () => new Promise((resolve) => requestAnimationFrame(resolve));
