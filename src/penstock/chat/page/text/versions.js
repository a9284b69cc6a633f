// Messages that were written more than once: a chat that begins before a message of another one has another version of it.

/** @typedef {{ chat: string, turn: number }} Version */
/** @typedef {{ chats: Map<string, Api.ChatView>, branches: Map<string, Api.ChatView[]> }} Index */

/** @type {WeakMap<Api.ChatView[], Index>} A list of chats is never changed, but replaced. */
const indexes = new WeakMap();
/** @type {Version[]} */
const NONE = [];

/**
 * The versions of a message, in the order in which their chats were made; none if there is only one.
 *
 * @param {Api.ChatView[] | null} chats  All that are known.
 * @param {string} chat
 * @param {number} turn
 */
export function versionsOf(chats, chat, turn) {
  if (!chats) return NONE;
  const index = indexes.get(chats) ?? indexOf(chats);
  const place = placeOf(index, { chat, turn });
  const branches = index.branches.get(keyOf(place));
  if (!branches) return NONE;
  const isThere = (index.chats.get(place.chat)?.turns ?? 0) >= place.turn;
  const found = [...(isThere ? [place] : []), ...branches.map(({ id }) => ({ chat: id, turn: 1 }))];
  return found.length > 1 ? found : NONE;
}

const keyOf = (/** @type {Version} */ { chat, turn }) => `${chat} ${turn}`;

/** @param {Api.ChatView[]} chats */
function indexOf(chats) {
  /** @type {Index} */
  const index = { chats: new Map(chats.map((it) => [it.id, it])), branches: new Map() };
  const branches = chats.filter(({ origin, turns }) => origin && turns > 0); // one without a message has no version yet
  branches.sort((a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1));
  for (const branch of branches) {
    const key = keyOf(placeOf(index, { chat: branch.id, turn: 1 }));
    const others = index.branches.get(key);
    if (others) others.push(branch);
    else index.branches.set(key, [branch]);
  }
  indexes.set(chats, index);
  return index;
}

/**
 * The place of a message in the chat from which all of its versions come: a version of a version is one of the first.
 *
 * @param {Index} index
 * @param {Version} version
 */
function placeOf({ chats }, version) {
  let place = version;
  const seen = new Set();
  while (place.turn === 1 && !seen.has(place.chat)) {
    seen.add(place.chat);
    const origin = chats.get(place.chat)?.origin;
    if (!origin) break;
    place = { chat: origin.chat, turn: origin.turn };
  }
  return place;
}
