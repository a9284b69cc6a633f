// What modules of the page use of a browser, for tests in Node: an address, a store, events, and a server that answers.

import { mock } from "node:test";

/** A place that keeps texts. */
class Store extends Map {
  getItem(name) {
    return this.get(name) ?? null;
  }

  setItem(name, text) {
    this.set(name, text);
  }

  removeItem(name) {
    this.delete(name);
  }
}

class Place extends EventTarget {
  hidden = false;
  visibilityState = "visible";
  hostname = "127.0.0.1";
  pathname = "/";
  search = "";
  hash = "";
}

/** Let all that can go on now go on. */
export async function settle() {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Requests that were made, oldest first: {method, path, body, headers}. */
export const requests = [];
/** "METHOD /path" → what gives the answer: a value for JSON, a number for a status, a Response, or an Error. */
export const answers = new Map();

/** A browser that was just opened, and a server that answers nothing yet. */
export function reset() {
  answers.clear();
  requests.length = 0;
  globalThis.document = new Place();
  globalThis.location = new Place();
  globalThis.window = Object.assign(new EventTarget(), { sessionStorage: new Store(), localStorage: new Store() });
  Object.assign(window, { matchMedia: () => media });
}

/** The one answer to all questions about the window. */
export const media = { matches: false, addEventListener() {} };

/** The addresses that were visited, the newest last. */
const visited = [];

/** Show an address, with what the page has noted for it. */
function visit(state, path) {
  const [pathname, query] = path.split("?");
  Object.assign(location, { pathname, search: query === undefined ? "" : `?${query}`, hash: "" });
  Object.assign(history, { state });
}

globalThis.history = {
  state: null,
  pushState: (state, title, path) => {
    visited.push([history.state, `${location.pathname}${location.search}`]);
    visit(state, path);
  },
  replaceState: (state, title, path) => visit(state, path),
  back: () => {
    visit(...visited.pop());
    window.dispatchEvent(new Event("popstate"));
  },
};

reset();
globalThis.navigator ??= {}; // an older Node has none
globalThis.requestAnimationFrame = (draw) => setImmediate(draw);
globalThis.fetch = async (path, { method = "GET", body, headers = {}, signal } = {}) => {
  const request = {
    method,
    path,
    body: typeof body === "string" ? JSON.parse(body) : body,
    headers,
    hash: location.hash,
    signal,
  };
  requests.push(request);
  const answer = await (answers.get(`${method} ${path.split("?")[0]}`) ?? (() => 404))(request);
  if (answer instanceof Error) throw answer;
  if (answer instanceof Response) return answer;
  if (typeof answer === "number") return new Response(answer === 204 ? null : "{}", { status: answer });
  return Response.json(answer);
};

/** Time stands still: a test lets it pass by `timers.tick(ms)`. */
export const { timers } = mock;
timers.enable({ apis: ["setTimeout"] });

/**
 * An answer from 400 on, as the gateway makes it: the problem itself is the body (RFC 9457).
 *
 * @param {number} status
 * @param {Pick<Api.Problem, "code" | "detail" | "help">} problem
 */
export const failure = (status, problem) =>
  Response.json(
    { type: `urn:penstock:problem:${problem.code}`, title: "A title", status, ...problem },
    { status, headers: { "Content-Type": "application/problem+json" } },
  );
