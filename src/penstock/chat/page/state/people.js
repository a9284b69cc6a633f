// Who uses this page, and who else there is.

import { oneLine } from "../text/format.js";
import { state } from "./store.js";

/**
 * The name of a person, if it is another one than the one who uses this page; else "".
 *
 * @param {string | undefined} person
 */
export function otherPerson(person) {
  const own = state.about?.person.name;
  return person && own && person !== own ? oneLine(person) : "";
}

/** Whether the person who uses this page may only read. */
export const isReader = () => state.about?.person.role === "viewer";

/**
 * Whether the person who uses this page decides who sees a chat, where there is anybody else to see it.
 *
 * @param {Api.ChatView} chat
 */
export function decidesAbout(chat) {
  const { several = false, person } = state.about ?? {};
  return several && (person?.role === "owner" || person?.name === chat.person);
}
