// What this tab, or this browser, keeps. A browser that keeps nothing works as well, as long as the page is open.

/** @typedef {"sessionStorage" | "localStorage"} Area */

/**
 * A text of this tab, or "".
 *
 * @param {string} name
 * @param {Area} area
 */
export function read(name, area = "sessionStorage") {
  try {
    return window[area].getItem(name) ?? "";
  } catch {
    return "";
  }
}

/**
 * Keep a text in this tab; an empty one is removed.
 *
 * @param {string} name
 * @param {string} text
 * @param {Area} area
 */
export function write(name, text, area = "sessionStorage") {
  try {
    if (text) window[area].setItem(name, text);
    else window[area].removeItem(name);
  } catch {
    // It is not allowed, or full.
  }
}

/**
 * An object that this browser keeps, over all tabs; {} where it has none.
 *
 * @param {string} name
 * @returns {Record<string, any>}
 */
export function readObject(name) {
  return parsed(read(name, "localStorage"));
}

/**
 * An object that this tab keeps; {} where it has none.
 *
 * @param {string} name
 * @returns {Record<string, any>}
 */
export function readTabObject(name) {
  return parsed(read(name));
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/**
 * Keep an object in this browser.
 *
 * @param {string} name
 * @param {object} value
 */
export function writeObject(name, value) {
  write(name, JSON.stringify(value), "localStorage");
}
