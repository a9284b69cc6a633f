// A new chat with its first message and the files of it, and another agent that gets the same.

import { api, ApiError, newKey, OFFLINE, statusOf } from "../net/api.js";
import { outbox } from "../net/outbox.js";
import { trust } from "./actions.js";
import { openBeside } from "./beside.js";
import { putChat } from "./chats.js";
import { offerOf } from "./machines.js";
import { chatPath, go, WIDE } from "./router.js";
import { attempt, state } from "./store.js";

/** @import { Item } from "./attachments.js" */

const CONFLICT = 409;
const SERVER_ERROR = 500;
const FIRST_TURN = 1;
const MAX_IN_ONE_BYTES = 2 << 20; // of files that go in one request with their message: proxies have a bound, often 4 MB
const PIECE = 8192; // bytes that become text at once: they are arguments of a call

/**
 * Make a chat with its first message, in one step unless large files go with it. A directory that is not trusted yet is asked about once, for each machine.
 *
 * @param {Api.NewChat & { cwd: string }} chat
 * @param {string} text
 * @param {Item[]} items  Files of the message.
 * @param {string} also  Another agent that gets the same message, in a chat of its own; "" for none.
 */
export async function startChat(chat, text, items = [], also = "") {
  const machine = state.nodes.find((it) => it.name === chat.home);
  const { roots, recent } = offerOf(state, machine).workspaces;
  const place = [...roots, ...recent].find((it) => it.path === chat.cwd);
  if (place && !place.trusted && !(await trust(chat.cwd, chat.home))) return false;
  const sent = await inOneRequest(items);
  const isOne = sent.length === items.length && (text !== "" || sent.length > 0);
  const wanted = isOne ? { ...chat, text, ...(sent.length && { files: sent }) } : chat;
  let made;
  try {
    made = await create(wanted);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "untrusted_directory") throw error;
    if (!(await trust(chat.cwd, chat.home))) return false;
    made = await create(wanted);
  }
  const files = isOne ? [] : await withFiles(made.id, items);
  putChat(made);
  go(chatPath(made.id));
  if (also) attempt(() => askAlso(made, also, text, files));
  else if (files.length) outbox.send(made.id, newKey(), text, undefined, files);
  return true;
}

/**
 * Ask another agent the same as a chat that was made just now, in a tree of its own: another version of its message. Both are
 * shown side by side, if there is room for it and the person is still there.
 *
 * @param {Api.ChatView} chat
 * @param {string} agent
 * @param {string} text
 * @param {Api.AttachedFile[]} files  Of the message, which is not sent yet if it has some.
 */
async function askAlso(chat, agent, text, files) {
  const turn = files.length ? await api.prompt(chat.id, text, newKey(), undefined, files) : FIRST_TURN;
  const { chat: other } = await api.branch(chat.id, turn, newKey(), { agent, send: true, tree: true });
  putChat(other);
  const { page, id, beside } = state.route;
  if (WIDE.matches && page === "chat" && id === chat.id && !beside) openBeside(id, { kind: "chat", chat: other.id });
}

/** @type {{ chat: string, id: string } | null} The chat that was asked for last, if no answer came: it may be there. */
let unanswered = null;

/**
 * Make a chat: one, even if the answer is lost and the person asks for the same chat again.
 *
 * @param {Api.NewChat} chat
 */
async function create(chat) {
  const wanted = JSON.stringify(chat);
  const id = unanswered?.chat === wanted ? unanswered.id : newKey();
  const isAgain = unanswered?.id === id;
  unanswered = { chat: wanted, id };
  try {
    const made = await api.create({ ...chat, id }).catch(async (error) => {
      const isThere = isAgain && statusOf(error) === CONFLICT; // the answer was lost, and not the request
      const found = isThere && (await api.chat(id).catch(() => null));
      if (!found) throw error;
      return found;
    });
    unanswered = null;
    return made;
  } catch (error) {
    const status = statusOf(error);
    if (status !== OFFLINE && (status ?? 0) < SERVER_ERROR) unanswered = null;
    throw error;
  }
}

/**
 * Upload the files of a first message. A chat whose message cannot be sent is not kept.
 *
 * @param {string} chat
 * @param {Item[]} items
 */
async function withFiles(chat, items) {
  try {
    return await uploadAll(chat, items);
  } catch (error) {
    await api.remove(chat).catch(() => {});
    throw error;
  }
}

/**
 * The files of a first message as they go in one request with it; none if they are too large for that.
 *
 * @param {Item[]} items
 * @returns {Promise<Api.FirstFile[]>}
 */
async function inOneRequest(items) {
  if (items.reduce((sum, { size }) => sum + size, 0) > MAX_IN_ONE_BYTES) return [];
  const files = items.flatMap(({ file, name }) => (file ? [{ file, name }] : []));
  return Promise.all(files.map(async ({ file, name }) => ({ name, content: await base64(file) })));
}

/** @param {File} file */
async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}

/**
 * Upload the files of a first message to its chat, which was made just now.
 *
 * @param {string} chat
 * @param {Item[]} items
 */
async function uploadAll(chat, items) {
  const attached = [];
  for (const { file, name } of items) if (file) attached.push(await api.attach(chat, name, file));
  return attached;
}
