// The gateway's REST addresses, as docs/gateway-api.md has them.

import { sentence, unreachable } from "./words.js";

/** An answer from 400 on, or none (`status` 0, `code` "offline"). */
export class Refused extends Error {
  constructor(status, { code = "failed", what = `The server answered ${status}.`, expected, way_out: wayOut } = {}) {
    super(what);
    Object.assign(this, { status, code, what, expected, wayOut });
  }

  /** All of it as sentences for a person. */
  get words() {
    const sentences = [this.what, this.expected && `Expected: ${this.expected}`, this.wayOut];
    return sentences.filter(Boolean).map((it) => sentence(it)).join(" ");
  }
}

const listeners = new Set();

/** Call it whenever an answer says that nobody is signed in. */
export function onSignedOut(call) {
  listeners.add(call);
}

async function ask(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      cache: "no-store",
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, { code: "offline", what: unreachable(location.hostname) });
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const told = await answer.json().catch(() => null);
  if (answer.status === 401) for (const call of listeners) call();
  throw new Refused(answer.status, told?.error);
}

const of = (id) => `/api/chats/${encodeURIComponent(id)}`;

export const api = {
  login: (body) => ask("POST", "/api/login", body),
  logout: (everywhere = false) => ask("POST", "/api/logout", everywhere ? { everywhere } : {}),
  browsers: async () => (await ask("GET", "/api/browsers")).browsers,
  dismiss: (id) => ask("DELETE", `/api/browsers/${encodeURIComponent(id)}`, {}),
  link: () => ask("POST", "/api/link", {}),
  about: () => ask("GET", "/api/about"),
  agents: async () => (await ask("GET", "/api/agents")).agents,
  workspaces: () => ask("GET", "/api/workspaces"),
  trust: (path) => ask("POST", "/api/workspaces", { path }),
  chats: async () => (await ask("GET", "/api/chats")).chats,
  create: (chat) => ask("POST", "/api/chats", chat),
  change: (id, changes) => ask("PATCH", of(id), changes),
  remove: (id) => ask("DELETE", of(id), {}),
  stop: (id, turn) => ask("POST", `${of(id)}/stop`, turn === undefined ? {} : { turn }),
  answer: (id, hint, answer) => ask("POST", `${of(id)}/hints`, { id: hint, answer }),
  turns: (id, before) => ask("GET", `${of(id)}/turns?before=${before}&limit=50`),
  record: (id, turn) => ask("GET", `${of(id)}/turns/${turn}/record`),
  recordUrl: (id, turn) => `${of(id)}/turns/${turn}/record?format=ndjson`,
  eventsUrl: (id) => `${of(id)}/events`,

  /** Send a prompt. With the same key it is one turn, however often it is sent. */
  prompt: async (id, text, key) => (await ask("POST", `${of(id)}/turns`, { text }, { "Idempotency-Key": key })).turn,
};

/** A key that no other message has. `crypto.randomUUID` exists only where the page came by a safe way. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
