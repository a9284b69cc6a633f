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

/** Whether the person who uses this page is an owner of the server. */
export const isOwner = () => state.about?.person.role === "owner";

/** Whether anybody else uses this server. */
export const areSeveral = () => state.about?.several ?? false;

/**
 * Whether the person who uses this page decides about a chat itself, or a document or loop: who sees it, and its end.
 *
 * @param {Api.ChatView | Api.RunView | undefined} it
 */
export function decidesAbout(it) {
  const person = state.about?.person;
  return person?.role === "owner" || (person?.role === "member" && person.name === it?.person);
}
