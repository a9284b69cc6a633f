// New chats that begin before a message of another one.

import { api, ApiError } from "../net/api.js";
import { draftName, trust } from "./actions.js";
import { filesName } from "./attachments.js";
import { putChat } from "./chats.js";
import { sourceOf } from "./machines.js";
import { chatPath, go } from "./router.js";
import { closeDialog } from "./store.js";
import { write } from "./storage.js";

/**
 * Make a new chat that begins before a message, and go there. Without `send` the message is in the field of the new
 * chat, to be changed.
 *
 * @param {Api.ChatView} chat  The one of the message.
 * @param {number} turn
 * @param {string} key  With the same one, it is the same new chat.
 * @param {Api.NewBranch} branch
 */
export async function branchChat(chat, turn, key, branch) {
  const make = () => api.branch(chat.id, turn, key, branch);
  let made;
  try {
    made = await make();
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "untrusted_directory") throw error;
    if (!(await trust(sourceOf(chat), chat.home))) return;
    made = await make();
  }
  const { id } = made.chat;
  if (!branch.send) {
    write(draftName(id), made.prompt);
    write(filesName(id), made.attachments.length ? JSON.stringify(made.attachments) : "");
  }
  putChat(made.chat);
  closeDialog();
  go(chatPath(id));
}

/**
 * Whether an agent may do no more than what a level allows another one; undefined where the server knows it alone.
 *
 * @param {Api.Level | undefined} level
 * @param {Pick<Api.AgentView, "allows">} agent
 */
export function keepsLevel(level, { allows }) {
  if (!level || level.kind === "own") return undefined;
  return allows.some(({ kind }) => kind === level.kind || kind === "answers");
}
