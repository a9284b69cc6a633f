// The state of the page, and how views follow it.

import { useLayoutEffect, useState } from "preact/hooks";
import { messageOf } from "../net/api.js";
import { oneLine } from "../text/format.js";
import { machinesOf } from "./machines.js";

/**
 * @typedef {object} Route
 * @property {"home" | "chat" | "details" | "run" | "run_details" | "missing"} page
 * @property {string} [id]  The chat, document or loop.
 * @property {number} [turn]
 * @property {import("./beside.js").Beside} [beside]  What is open beside the thread.
 * @typedef {object} OpenDialog
 * @property {"settings" | "heartbeat" | "save" | "share" | "delete" | "link" | "browsers" | "costs" | "nodes" | "remove_node" | "notifications" | "help" | "trust" | "allow"
 *   | "level" | "delete_selected" | "picture" | "branch" | "ask_another" | "terminal" | "land" | "sessions"} kind
 * @property {string} [id]  The chat that it is about.
 * @property {number} [turn]  The turn of the chat that it is about.
 * @property {string} [path]
 * @property {string} [home]  The machine that it is about, or that has the path, if there are several.
 * @property {(isTrusted: boolean) => void} [close]
 * @property {Api.Level} [level]  What to allow, and then to go on.
 * @property {string} [text]  The message that goes on.
 * @typedef {object} OpenChat  A `ChatSession`, or what stands for one where there is no such chat.
 * @property {string} id
 * @property {import("./reducer.js").Chat} chat
 * @property {import("../net/stream.js").Connection} connection
 * @property {() => void} close
 * @typedef {object} State
 * @property {boolean | null} signedIn  null: not known yet.
 * @property {Api.About | null} about
 * @property {Api.AgentView[] | null} agents
 * @property {Api.WorkspaceList | null} workspaces
 * @property {Api.NodeView[]} nodes  The machines; none if there is one.
 * @property {Api.ChatView[] | null} chats  The one used last first; null: not loaded yet.
 * @property {boolean} isWhole  The list has all chats, and not only the first ones, which come before the rest.
 * @property {Api.RunView[]} runs  Documents and loops, the one used last first.
 * @property {string} problem  Why the list could not be loaded.
 * @property {string} notice  Why something was not done that was chosen from a menu; "" without such a thing.
 * @property {Route} route
 * @property {boolean} drawer
 * @property {OpenDialog | null} dialog
 * @property {string | null} palette  The words with which the palette opens; null: it is closed.
 * @property {OpenChat | null} session  The chat that is open.
 * @property {boolean} hasSelection  Text of a chat is selected.
 * @property {ReadonlySet<string> | null} selection  The chats that are selected; null: the list is not for selecting now.
 */

/** @type {State} */
export const state = {
  signedIn: null,
  about: null,
  agents: null,
  workspaces: null,
  nodes: [],
  chats: null,
  isWhole: true,
  runs: [],
  problem: "",
  notice: "",
  route: { page: "home" },
  drawer: false,
  dialog: null,
  palette: null,
  session: null,
  hasSelection: false,
  selection: null,
};

/** @type {Record<"page" | "thread", Set<() => void>>} */
const watchers = { page: new Set(), thread: new Set() };

/** @param {"page" | "thread"} part */
function notify(part) {
  for (const call of watchers[part]) call();
}

/**
 * Change the state, and draw the page.
 *
 * @param {Partial<State>} change
 */
export function set(change) {
  Object.assign(state, change);
  notify("page");
}

/** Draw the chat that is open, and nothing else. */
export const threadChanged = () => notify("thread");

/** @param {"page" | "thread"} part */
function useWatch(part) {
  const [, setVersion] = useState(0);
  useLayoutEffect(() => {
    const draw = () => setVersion((version) => version + 1);
    watchers[part].add(draw);
    return () => {
      watchers[part].delete(draw);
    };
  }, []);
  return state;
}

/** The state, drawn again whenever it changes. */
export const useApp = () => useWatch("page");

/** The chat that is open, drawn again whenever it changes: while a reply grows, nothing else is. */
export const useThread = () => useWatch("thread").session;

export const chatOf = (/** @type {string | undefined} */ id) => state.chats?.find((chat) => chat.id === id);

export const runOf = (/** @type {string | undefined} */ id) => state.runs.find((run) => run.id === id);

/**
 * The machine of a chat; "" if there is no other one that it could be.
 *
 * @param {Api.ChatView | undefined} chat
 */
export function machineOf(chat) {
  return chat?.is_away || hasMachines() ? oneLine(chat?.home) : "";
}

/** Whether agents work on several machines. */
export const hasMachines = () => machinesOf(state.nodes).length > 1;

/**
 * An agent, by its name or that of its profile, as `ccs/glm`.
 *
 * @param {string} name
 */
export function agentOf(name) {
  const [base] = name.split("/");
  return state.agents?.find((agent) => agent.name === name) ?? state.agents?.find((agent) => agent.name === base);
}

/**
 * Do what was chosen from a menu, which is closed by the time at which it fails: then the page shows why.
 *
 * @param {() => Promise<unknown>} task
 */
export async function attempt(task) {
  set({ notice: "" });
  try {
    await task();
  } catch (error) {
    set({ notice: messageOf(error) });
  }
}

export const openDialog = (/** @type {OpenDialog} */ dialog) => set({ dialog });
export const closeDialog = () => set({ dialog: null });
