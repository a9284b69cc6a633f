// What a person does with chats.

import { LATEST, TO_PLACE } from "../components/scroll.js";
import { api, ApiError, messageOf, newKey, OFFLINE, statusOf } from "../net/api.js";
import { outbox } from "../net/outbox.js";
import { endSelecting, select, selected } from "./selection.js";
import { filesName } from "./attachments.js";
import { loadChoices, putChat, removeChat } from "./chats.js";
import { chatPath, go } from "./router.js";
import { readObject, write, writeObject } from "./storage.js";
import { attempt, closeDialog, openDialog, state } from "./store.js";
import { notKeptText } from "../text/copy.js";

const NOT_FOUND = 404;

export const LAST = "penstock.last"; // what was chosen for the last new chat

export const placeName = (/** @type {string} */ chat) => `penstock.place.${chat}`;
export const draftName = (/** @type {string} */ chat) => `penstock.draft.${chat}`;

const CONFIRMED = "penstock.confirmed"; // which agents may do what instead of the level that was chosen

/**
 * Ask whether an agent may work although it does not keep the level that was chosen: once for each such level in this
 * browser.
 *
 * @param {string} agent
 * @param {Api.Level["kind"]} wanted
 * @param {Api.Level} level
 */
export async function confirmLevel(agent, wanted, level) {
  const name = `${agent}/${wanted}/${level.kind}`;
  const confirmed = readObject(CONFIRMED);
  if (confirmed[name] === level.text) return true;
  const isConfirmed = await new Promise((resolve) => {
    const close = (/** @type {boolean} */ answer) => {
      closeDialog();
      resolve(answer);
    };
    openDialog({ kind: "level", text: notKeptText(agent, wanted, level), level, close });
  });
  if (isConfirmed) writeObject(CONFIRMED, { ...confirmed, [name]: level.text });
  return isConfirmed;
}

/**
 * Ask whether a directory is trusted, and report it to the server if so.
 *
 * @param {string} path
 * @param {string | null} [home]  The machine that has it; by default the one that the page is connected to.
 */
export async function trust(path, home) {
  const isTrusted = await new Promise((resolve) => {
    const close = (/** @type {boolean} */ answer) => {
      closeDialog();
      resolve(answer);
    };
    openDialog({ kind: "trust", path, home: home ?? undefined, close });
  });
  if (!isTrusted) return false;
  await api.trust(path, home);
  await loadChoices();
  return true;
}

/**
 * Land the result of a loop. A directory that is not trusted yet is asked about once.
 *
 * @param {Api.RunView} run
 * @param {boolean} squash
 */
export async function landRun(run, squash) {
  try {
    return await api.landRun(run.id, squash);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "untrusted_directory") throw error;
    return (await trust(run.path)) && (await api.landRun(run.id, squash));
  }
}

/**
 * @param {string} id
 * @param {Api.Changes} changes
 */
export async function changeChat(id, changes) {
  putChat(await api.change(id, changes));
}

/**
 * Allow more in a chat, and send the message after which the agent goes on.
 *
 * @param {string} id
 * @param {Api.ChatView["allow"]} allow
 * @param {string} text
 */
export async function allowAndGoOn(id, allow, text) {
  await changeChat(id, { allow });
  document.dispatchEvent(new Event(LATEST));
  outbox.send(id, newKey(), text);
}

/** @param {boolean} archived */
export const archiveSelected = (archived) =>
  forSelected(async ({ id, archived: isAlready }) => {
    if (archived !== isAlready) await changeChat(id, { archived });
  });

export const deleteSelected = () => forSelected(({ id }) => deleteChat(id));

/**
 * Do the same with each chat that is selected, one after another. What it is done with is no longer selected, so what is
 * left can be tried again.
 *
 * @param {(chat: Api.ChatView) => Promise<void>} act
 */
async function forSelected(act) {
  let failure;
  for (const chat of selected()) {
    try {
      await act(chat);
      select([chat.id], false);
    } catch (error) {
      failure ??= error;
      if (statusOf(error) === OFFLINE) break; // the next ones would fail too
    }
  }
  if (failure) throw failure;
  endSelecting();
}

/**
 * Go to a turn of a chat: the thread opens there, or moves there if it is open.
 *
 * @param {string} id
 * @param {number} turn
 */
export function goToTurn(id, turn) {
  const place = { turn, block: -1, offset: 0 };
  const isOpen = state.route.page === "chat" && state.route.id === id;
  if (isOpen) document.dispatchEvent(new CustomEvent(TO_PLACE, { detail: place }));
  else {
    write(placeName(id), JSON.stringify(place));
    go(chatPath(id));
  }
}

/** @param {string} id */
export async function deleteChat(id) {
  try {
    await api.remove(id);
  } catch (error) {
    if (statusOf(error) !== NOT_FOUND) throw error; // somebody else deleted it
  }
  write(draftName(id), "");
  write(placeName(id), "");
  write(filesName(id), "");
  outbox.forget(id);
  removeChat(id);
  if (state.route.id === id) go("/");
}
