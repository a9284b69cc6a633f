// Files of the chat's directory that a reply names: `src/app.ts:12`, a link to one, a picture.

const MAX_PATH = 400; // characters; a longer one is no path that anyone wrote
const PATH = /^(?:\/|\.{1,2}\/)?(?:[\w@.+-]+\/)*[\w@.+-]*\.?[A-Za-z_][\w+-]*$/;
const ENDING = /\.[A-Za-z][A-Za-z0-9]{0,9}$/;
const LINE = /^(.*?)(?::([1-9]\d{0,6})(?:[:-]\d{1,7})?)?$/s;
/** Endings that a name without a folder has if it is the name of a computer. */
const HOSTS = /\.(?:com|org|net|io|dev|local|internal|test|example|invalid|localhost)$/i;
/** A path with a folder and a line, in plain words. */
const WRITTEN =
  /(?<![\w/.:@\\-])(?:\/|\.{1,2}\/)?(?:[\w@.+-]{1,80}\/){1,20}[\w@.+-]{1,80}:[1-9]\d{0,6}(?:[:-]\d{1,7})?(?![\w/])/g;

/** @typedef {{ path: string, line: number }} Place  `line`: 0 if none is named. */

/**
 * The place that code in a line names, or null: a path with a line, or one with a folder and an ending.
 *
 * @param {string} text
 * @returns {Place | null}
 */
export function placeOf(text) {
  if (text.length > MAX_PATH) return null;
  const [, path, line] = LINE.exec(text) ?? [];
  if (!path || !PATH.test(path) || !ENDING.test(path)) return null;
  if (!path.includes("/") && (!line || HOSTS.test(path))) return null;
  return { path, line: Number(line ?? 0) };
}

/**
 * The places that plain words name, with where each begins and ends.
 *
 * @param {string} text
 * @returns {(Place & { from: number, to: number })[]}
 */
export function placesIn(text) {
  if (!text.includes("/")) return [];
  return [...text.matchAll(WRITTEN)].flatMap(({ 0: raw, index }) => {
    const place = placeOf(raw);
    return place ? [{ ...place, from: index, to: index + raw.length }] : [];
  });
}

/**
 * The file that a link or a picture leads to, or null if it leads elsewhere.
 *
 * @param {string} href
 * @returns {Place | null}
 */
export function targetOf(href) {
  if (!href || href.length > MAX_PATH || /^(?:[a-z][a-z0-9+.-]*:(?!\d)|\/\/|[#?\\])|&/i.test(href)) return null;
  const [before, fragment = ""] = href.split("#");
  let path;
  try {
    path = decodeURIComponent(before);
  } catch {
    return null;
  }
  const [, name = "", colon] = LINE.exec(path) ?? [];
  // eslint-disable-next-line no-control-regex
  if (!name || /[\u0000-\u001f\u007f?]/.test(name)) return null;
  const line = /^L([1-9]\d{0,6})/.exec(fragment)?.[1] ?? colon;
  return { path: name, line: Number(line ?? 0) };
}
