// What this tab, or this browser, keeps. One that keeps nothing works as well, as long as the page is open.

/** A text of this tab, or "". */
export function kept(name, store = "sessionStorage") {
  try {
    return window[store].getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Keep a text in this tab; an empty one is forgotten. */
export function keep(name, text, store = "sessionStorage") {
  try {
    if (text) window[store].setItem(name, text);
    else window[store].removeItem(name);
  } catch {
    // It is not allowed, or full.
  }
}

/** An object that this browser keeps, over all tabs; {} where it has none. */
export function keptFacts(name) {
  try {
    return JSON.parse(kept(name, "localStorage")) ?? {};
  } catch {
    return {};
  }
}

/** Keep an object in this browser. */
export function keepFacts(name, facts) {
  keep(name, JSON.stringify(facts), "localStorage");
}
