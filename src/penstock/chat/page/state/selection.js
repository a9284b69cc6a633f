// Several chats of the list at once: which are selected.

import { decidesAbout } from "./people.js";
import { set, state } from "./store.js";

/** The chats that are selected, those that are still there. */
export const selected = () => (state.chats ?? []).filter((it) => state.selection?.has(it.id));

/**
 * Begin to select, with these chats or none.
 *
 * @param {string[]} ids
 */
export const startSelecting = (...ids) => set({ selection: new Set(ids.filter(canBeSelected)) });

export const endSelecting = () => set({ selection: null });

/**
 * Select chats, or no longer.
 *
 * @param {string[]} ids
 * @param {boolean} isSelected
 */
export function select(ids, isSelected) {
  const selection = new Set(state.selection);
  for (const id of ids.filter(canBeSelected)) {
    if (isSelected) selection.add(id);
    else selection.delete(id);
  }
  set({ selection });
}

/** Only what one decides about can be changed or deleted. @param {string} id */
function canBeSelected(id) {
  const chat = state.chats?.find((it) => it.id === id);
  return Boolean(chat && decidesAbout(chat));
}
