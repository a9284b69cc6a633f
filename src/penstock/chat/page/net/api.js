// The requests of the gateway, as docs/gateway-api.md has them.

import { sentence, unreachable } from "../text/copy.js";
import { DETAILS_PATH, detailsFromWire, QUESTIONS_PATH, turnPageFromWire } from "./wire.js";

const UNAUTHORIZED = 401;
export const OFFLINE = 0;
const CLOCK_GRAIN_MS = 3000; // the header has whole seconds, and the response takes time

/** A response with a status from 400 on, or none at all (`status` 0, `code` "offline"). `message` is for a person. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {Partial<Api.Problem>} [problem]
   */
  constructor(status, { code = "internal_error", detail = `The server answered ${status}.`, help, paths = [] } = {}) {
    const sentences = [detail, help];
    super(sentences.flatMap((text) => (text ? [sentence(text)] : [])).join(" "));
    this.status = status;
    this.code = code;
    this.paths = paths;
  }
}

/**
 * What to show a person of whatever was thrown.
 *
 * @param {unknown} error
 */
export const messageOf = (error) => (error instanceof ApiError ? error.message : String(error));

/**
 * The status of the response that an error stands for; undefined where it is another error.
 *
 * @param {unknown} error
 */
export const statusOf = (error) => (error instanceof ApiError ? error.status : undefined);

let clockAheadMs = 0; // by how much the server's clock is ahead of this browser's

/** The current time by the server's clock, to compare with times that the server sent. */
export const serverNow = () => Date.now() + clockAheadMs;

/** @param {Response} response */
function noteClock(response) {
  const ahead = Date.parse(response.headers.get("date") ?? "") - Date.now();
  if (Number.isFinite(ahead)) clockAheadMs = Math.abs(ahead) < CLOCK_GRAIN_MS ? 0 : ahead;
}

/** @type {Set<() => void>} */
const listeners = new Set();

/**
 * Call it whenever a response says that nobody is signed in.
 *
 * @param {() => void} call
 */
export function onSignedOut(call) {
  listeners.add(call);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
async function request(method, path, body, headers = {}) {
  const isFile = body instanceof Blob;
  const type = { "Content-Type": isFile ? "application/octet-stream" : "application/json" };
  let response;
  try {
    response = await fetch(path, {
      method,
      cache: "no-store",
      headers: body === undefined ? headers : { ...type, ...headers },
      body: body === undefined || isFile ? body : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(OFFLINE, { code: "offline", detail: unreachable(location.hostname) });
  }
  noteClock(response);
  if (response.ok) return response.status === 204 ? null : response.json();
  /** @type {Api.Problem | null} */
  const problem = await response.json().catch(() => null);
  if (response.status === UNAUTHORIZED) for (const call of listeners) call();
  throw new ApiError(response.status, problem ?? undefined);
}

/** A name without halves of characters, which no address can have. @param {string} text */
const wellFormed = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");
const chatUrl = (/** @type {string} */ id) => `/api/chats/${encodeURIComponent(id)}`;
const runUrl = (/** @type {string} */ id) => `/api/runs/${encodeURIComponent(id)}`;
const detailsUrl = (/** @type {string} */ url, /** @type {number} */ turn) => `${url}/turns/${turn}/${DETAILS_PATH}`;

export const api = {
  /** @type {(body: Api.Login) => Promise<null>} */
  login: (body) => request("POST", "/api/login", body),
  /** @type {(everywhere?: boolean) => Promise<null>} */
  logout: (everywhere = false) => request("POST", "/api/logout", everywhere ? { everywhere } : {}),
  /** @type {() => Promise<Api.NodeView[]>} */
  nodes: async () => (await request("GET", "/api/nodes")).nodes,
  /** @type {(name: string) => Promise<null>} */
  removeNode: (name) => request("DELETE", `/api/nodes/${encodeURIComponent(name)}`, {}),
  /** @type {() => Promise<Api.BrowserView[]>} */
  browsers: async () => (await request("GET", "/api/browsers")).browsers,
  /** @type {(id: string) => Promise<null>} */
  signOutBrowser: (id) => request("DELETE", `/api/browsers/${encodeURIComponent(id)}`, {}),
  /** @type {() => Promise<Api.Link>} */
  link: () => request("POST", "/api/link", {}),
  /** The key by which this browser is called. @type {() => Promise<Api.PushKey>} */
  pushKey: () => request("POST", "/api/push/key", {}),
  /** Call this browser while the page is closed. @type {(subscription: Api.NewPush) => Promise<null>} */
  push: (subscription) => request("POST", "/api/push", subscription),
  /** @type {() => Promise<null>} */
  endPush: () => request("DELETE", "/api/push", {}),
  /** @type {() => Promise<Api.About>} */
  about: () => request("GET", "/api/about"),
  /** @type {() => Promise<Api.AgentView[]>} */
  agents: async () => (await request("GET", "/api/agents")).agents,
  /** The models that an agent lists, which may take half a minute. @type {(agent: string) => Promise<Api.AgentModel[]>} */
  models: async (agent) => (await request("GET", `/api/agents/${encodeURIComponent(agent)}/models`)).models,
  /** The commands that an agent has listed in a directory. @type {(agent: string, cwd: string) => Promise<Api.AgentCommand[]>} */
  agentCommands: async (agent, cwd) => {
    const query = new URLSearchParams({ cwd: wellFormed(cwd) });
    return (await request("GET", `/api/agents/${encodeURIComponent(agent)}/commands?${query}`)).commands;
  },
  /** The prompts that the user has stored. @type {() => Promise<Api.StoredPrompt[]>} */
  prompts: async () => (await request("GET", "/api/prompts")).prompts,
  /** The commands that the agent of a chat offers. @type {(id: string) => Promise<Api.AgentCommand[]>} */
  commands: async (id) => (await request("GET", `${chatUrl(id)}/commands`)).commands,
  /** @type {() => Promise<Api.WorkspaceList>} */
  workspaces: () => request("GET", "/api/workspaces"),
  /** Directories that continue a path. @type {(typed: string) => Promise<Api.FoundDirectory[]>} */
  directories: async (typed) =>
    (await request("GET", `/api/directories?${new URLSearchParams({ q: wellFormed(typed) })}`)).directories,
  /** @type {(path: string) => Promise<Api.DirectoryState>} */
  directory: (path) => request("GET", `/api/directory?${new URLSearchParams({ path: wellFormed(path) })}`),
  /** Conversations of terminals that have the words. @type {(words: string) => Promise<Api.ConversationView[]>} */
  sessions: async (words) =>
    (await request("GET", `/api/sessions?${new URLSearchParams({ q: wellFormed(words) })}`)).sessions,
  /** @type {(path: string, home?: string | null) => Promise<Api.Workspace>} */
  trust: (path, home) => request("POST", "/api/workspaces", home ? { path, home } : { path }),
  /**
   * The chats used last, with those that want a person and one that is open; or those of the page after `cursor`.
   *
   * @type {(page: number, open?: string, cursor?: string) => Promise<Api.ChatPage>}
   */
  chats: (page, open, cursor) => {
    const place = cursor ? `&cursor=${encodeURIComponent(cursor)}` : open ? `&with=${encodeURIComponent(open)}` : "";
    return request("GET", `/api/chats?page=${page}${place}`);
  },
  /** The newest turns that the person has read. @type {(turns: Record<string, number>) => Promise<null>} */
  markRead: (turns) => request("POST", "/api/read", { chats: turns }),
  /** What has the words, the newest first; the page after `cursor`. @type {(words: string, cursor?: string) => Promise<Api.SearchResult>} */
  find: (words, cursor = "") =>
    request("GET", `/api/search?${new URLSearchParams({ q: words, ...(cursor && { cursor }) })}`),
  /** @type {(by: Api.Costs["by"], days: number) => Promise<Api.Costs>} */
  costs: (by, days) => request("GET", `/api/costs?by=${by}&days=${days}`),
  /** @type {(chat: Api.NewChat) => Promise<Api.ChatView>} */
  create: (chat) => request("POST", "/api/chats", chat),
  /** The address of a chat as a file. @type {(id: string, form: string, hasDetails: boolean) => string} */
  exportUrl: (id, form, hasDetails) => `${chatUrl(id)}/export?form=${form}&details=${Number(hasDetails)}`,
  /** Files of the directory of a chat, by a part of their paths. @type {(id: string, typed: string) => Promise<string[]>} */
  fileNames: async (id, typed) =>
    (await request("GET", `${chatUrl(id)}/files?${new URLSearchParams({ q: typed })}`)).paths,
  /** Lines of a file in the directory of a chat. @type {(id: string, path: string, line: number) => Promise<Api.FileView>} */
  file: (id, path, line) => request("GET", `${chatUrl(id)}/file?path=${encodeURIComponent(path)}&line=${line}`),
  /** The address of a picture in the directory of a chat. @type {(id: string, path: string) => string} */
  pictureUrl: (id, path) => `${chatUrl(id)}/picture?path=${encodeURIComponent(path)}`,
  /** Upload a file for a message. @type {(id: string, name: string, file: Blob) => Promise<Api.AttachedFile>} */
  attach: (id, name, file) =>
    request("POST", `${chatUrl(id)}/attachments?name=${encodeURIComponent(wellFormed(name))}`, file),
  /** Remove a file whose message was not sent. @type {(id: string, file: string) => Promise<null>} */
  detach: (id, file) => request("DELETE", `${chatUrl(id)}/attachments/${encodeURIComponent(file)}`),
  /** The address of a file of a message. @type {(id: string, file: string) => string} */
  attachmentUrl: (id, file) => `${chatUrl(id)}/attachments/${encodeURIComponent(file)}`,
  /** What the agent of a turn does now. @type {(id: string, turn: number) => Promise<Api.AgentActivity>} */
  activity: (id, turn) => request("GET", `${chatUrl(id)}/turns/${turn}/activity`),
  /** The files that a turn changed. @type {(id: string, turn: number) => Promise<Api.FileChanges>} */
  turnChanges: (id, turn) => request("GET", `${chatUrl(id)}/turns/${turn}/changes`),
  /** What would be done to take the changes of a turn back, or make them again. @type {(id: string, turn: number, redo: boolean) => Promise<Api.TurnFiles>} */
  undoPlan: (id, turn, redo) => request("GET", `${chatUrl(id)}/turns/${turn}/undo?redo=${Number(redo)}`),
  /** Take them back, or make them again; once for a key. @type {(id: string, turn: number, key: string, redo: boolean) => Promise<Api.TurnFiles>} */
  undo: (id, turn, key, redo) =>
    request("POST", `${chatUrl(id)}/turns/${turn}/undo`, { redo }, { "Idempotency-Key": key }),
  /** What landing the work in the tree of a chat would do. @type {(id: string) => Promise<Api.LandingPlan>} */
  landPlan: (id) => request("GET", `${chatUrl(id)}/land`),
  /** Land it, as it was seen. @type {(id: string, seen: string, message?: string) => Promise<Api.LandedWork>} */
  land: (id, seen, message) => request("POST", `${chatUrl(id)}/land`, { seen, message }),
  /** The files that the newest turns of a chat changed. @type {(id: string) => Promise<Api.FileChanges>} */
  chatChanges: (id) => request("GET", `${chatUrl(id)}/changes`),
  /** @type {(id: string) => Promise<Api.ChatView>} */
  chat: (id) => request("GET", chatUrl(id)),
  /** @type {(id: string, changes: Api.Changes) => Promise<Api.ChatView>} */
  change: (id, changes) => request("PATCH", chatUrl(id), changes),
  /** @type {(id: string) => Promise<null>} */
  remove: (id) => request("DELETE", chatUrl(id), {}),
  /** @type {(id: string, turn?: number) => Promise<Api.TurnNumbers>} */
  stop: (id, turn) => request("POST", `${chatUrl(id)}/stop`, turn === undefined ? {} : { turn }),
  /** Take a turn back if it still waits. @type {(id: string, turn: number) => Promise<Api.TurnNumbers>} */
  takeBack: (id, turn) => request("POST", `${chatUrl(id)}/stop`, { turn, queued: true }),
  /** Change the text of a turn that waits. @type {(id: string, turn: Api.EditedMessage & { turn: number }) => Promise<Api.TurnNumber>} */
  edit: (id, { turn, ...body }) => request("PATCH", `${chatUrl(id)}/turns/${turn}`, body),
  /** @type {(id: string, order: Api.Order) => Promise<Api.TurnNumbers>} */
  move: (id, order) => request("POST", `${chatUrl(id)}/queue`, order),
  /** Let a turn that waits begin, and stop the one that runs. @type {(id: string, turn: number, stops?: number) => Promise<Api.TurnNumber>} */
  sendNow: (id, turn, stops) => request("POST", `${chatUrl(id)}/turns/${turn}/now`, { stops }),
  /** Give a turn that waits to the agent of the one that runs. @type {(id: string, turn: number, into: number) => Promise<Api.TurnNumber>} */
  steer: (id, turn, into) => request("POST", `${chatUrl(id)}/turns/${turn}/steer`, { into }),
  /** How the conversation goes on in a terminal. @type {(id: string) => Promise<Api.TerminalLines>} */
  terminal: (id) => request("GET", `${chatUrl(id)}/terminal`),
  /** A new chat that begins before a message; one for a key. @type {(id: string, turn: number, key: string, branch: Api.NewBranch) => Promise<Api.Branch>} */
  branch: (id, turn, key, branch) =>
    request("POST", `${chatUrl(id)}/turns/${turn}/branch`, branch, { "Idempotency-Key": key }),
  /** @type {(id: string) => Promise<Api.TurnNumbers>} */
  release: (id) => request("POST", `${chatUrl(id)}/release`, {}),
  /** @type {(id: string, question: string, answer: string, always?: boolean) => Promise<Api.TurnNumber>} */
  answer: (id, question, answer, always = false) =>
    request("POST", `${chatUrl(id)}/${QUESTIONS_PATH}`, { id: question, answer, ...(always && { always }) }),
  /** @type {(id: string, rule: string) => Promise<Api.ChatView>} */
  removeRule: (id, rule) => request("DELETE", `${chatUrl(id)}/rules/${encodeURIComponent(rule)}`, {}),
  /** The turns before one, else the last. @type {(id: string, before?: number) => Promise<import("./wire.js").TurnPage>} */
  turns: async (id, before) => {
    const from = before === undefined ? "" : `before=${before}&`;
    return turnPageFromWire(await request("GET", `${chatUrl(id)}/turns?${from}limit=50`));
  },
  /** @type {(id: string, turn: number) => Promise<import("./wire.js").Details>} */
  details: async (id, turn) => detailsFromWire(await request("GET", detailsUrl(chatUrl(id), turn))),
  /** @type {() => Promise<Api.ShareView[]>} */
  shares: async () => (await request("GET", "/api/shares")).shares,
  /** @type {(id: string, share: Api.NewShare) => Promise<Api.MadeShare>} */
  share: (id, share) => request("POST", `${chatUrl(id)}/shares`, share),
  /** @type {(id: string, share: string) => Promise<null>} */
  revokeShare: (id, share) => request("DELETE", `${chatUrl(id)}/shares/${encodeURIComponent(share)}`, {}),
  /** @type {() => Promise<Api.RunView[]>} */
  runs: async () => (await request("GET", "/api/runs")).runs,
  /** @type {(id: string, changes: Partial<Api.RunChanges>) => Promise<Api.RunDetails>} */
  changeRun: (id, changes) => request("PATCH", runUrl(id), changes),
  /** @type {(id: string, step: number) => Promise<Api.StepOutput>} */
  stepOutput: (id, step) => request("GET", `${runUrl(id)}/steps/${step}/output`),
  /** @type {(id: string, round: number) => Promise<Api.RoundChanges>} */
  roundChanges: (id, round) => request("GET", `${runUrl(id)}/rounds/${round}/changes`),
  /** @type {(id: string, round: number, candidate: number) => Promise<Api.RoundChanges>} */
  candidateChanges: (id, round, candidate) =>
    request("GET", `${runUrl(id)}/rounds/${round}/candidates/${candidate}/changes`),
  /** @type {(id: string, now: boolean) => Promise<Api.RunDetails>} */
  stopRun: (id, now) => request("POST", `${runUrl(id)}/stop`, { now }),
  /** @type {(id: string, squash: boolean) => Promise<Api.RunDetails>} */
  landRun: (id, squash) => request("POST", `${runUrl(id)}/land`, { squash }),
  /** @type {(id: string, text: string) => Promise<Api.RunDetails>} */
  messageRun: (id, text) => request("POST", `${runUrl(id)}/messages`, { text }),
  /** @type {(id: string, turn: number) => Promise<import("./wire.js").Details>} */
  runDetails: async (id, turn) => detailsFromWire(await request("GET", detailsUrl(runUrl(id), turn))),
  /** @type {(id: string, turn: number) => string} */
  eventsOfTurnUrl: (id, turn) => `${detailsUrl(chatUrl(id), turn)}?format=ndjson`,
  /** @type {(id: string, turn: number) => string} */
  eventsOfRunTurnUrl: (id, turn) => `${detailsUrl(runUrl(id), turn)}?format=ndjson`,
  /**
   * Send a prompt. With the same key it is one turn, however often it is sent. With `now` it goes before those that wait,
   * and stops the turn that runs.
   *
   * @type {(id: string, text: string, key: string, now?: import("./outbox.js").Now, files?: Api.AttachedFile[]) => Promise<number>}
   */
  prompt: async (id, text, key, now, files = []) => {
    const attachments = files.length ? { attachments: files.map((it) => it.id) } : {};
    const how = now && (now.steers === undefined ? { now: true, stops: now.stops } : { steers: now.steers });
    const body = { text, ...attachments, ...how };
    return (await request("POST", `${chatUrl(id)}/turns`, body, { "Idempotency-Key": key })).turn;
  },
};

/** A key that no other message has. `crypto.randomUUID` exists only on pages from a secure origin. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
