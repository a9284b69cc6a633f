// The machines, if there are several: at which of them a new chat works, and what each of them offers for it.

const MAX_RECENT = 10; // directories besides the roots, as the server lists them for its own machine
const GONE_SECONDS = 24 * 60 * 60; // a machine that has been away for longer may have got another name

/**
 * What a new chat can be made of on a machine.
 *
 * @typedef {object} Offer
 * @property {Api.NodeView | undefined} machine  Undefined if there is one machine, or none is ready.
 * @property {Api.AgentView[]} agents
 * @property {Api.WorkspaceList} workspaces
 */

/**
 * An agent that only another machine knows: what it does is settled there.
 *
 * @type {Omit<Api.AgentView, "name">}
 */
const UNKNOWN = {
  installed: true,
  available: true,
  route: "exec",
  asks: false,
  allows: [
    {
      allow: "edits",
      kind: "edits",
      label: "Edits files",
      text: "It changes files without asking, if it supports that.",
    },
    {
      allow: "all",
      kind: "all",
      label: "Does everything",
      text: "It does everything without asking, if it supports that.",
    },
    {
      allow: "own",
      kind: "own",
      label: "Its own settings",
      text: "It does what its settings on that machine allow.",
    },
  ],
  default_allow: "own",
  resumes: true,
};

/**
 * The machines at which agents work, also those that are away for a while.
 *
 * @param {Api.NodeView[]} nodes
 */
export function machinesOf(nodes) {
  return nodes.filter((it) => it.about.roots?.length && (it.is_live || it.seen_seconds < GONE_SECONDS));
}

/** Whether a new chat can work there now. */
export const isReady = (/** @type {Api.NodeView} */ { is_live, about }) =>
  is_live && Boolean(about.roots?.length && about.agents?.length);

/** How many more agents can work there at once. */
export const freeOf = (/** @type {Api.NodeView} */ { about: { slots = 0, busy = 0 } }) => Math.max(0, slots - busy);

/**
 * The machine of a new chat: the one that was chosen; else the one that the page is connected to, or the one with the
 * most free places. Undefined if there is none. The one that is `shown` already stays, so that no message that is being
 * written goes to another one.
 *
 * @param {Api.NodeView[]} nodes
 * @param {string | undefined} chosen
 * @param {string} [shown]
 */
export function machineFor(nodes, chosen, shown) {
  const before = nodes.find((it) => it.name === shown);
  if (before) return before;
  const ready = nodes.filter(isReady);
  const [freest] = [...ready].sort((a, b) => freeOf(b) - freeOf(a));
  return ready.find((it) => it.name === chosen) ?? ready.find((it) => it.is_here) ?? freest;
}

/**
 * What a machine offers: its agents, its default agent first, and its directories, those of its chats first.
 *
 * @param {Api.NodeView} node
 * @param {Api.AgentView[]} agents  As the machine that the page comes from knows them.
 * @param {Api.ChatView[]} chats
 * @returns {Omit<Offer, "machine">}
 */
function offerAt({ name, is_here: isHere, about }, agents, chats) {
  const { roots = [], trusted = [], agents: names = [], models = {} } = about;
  const known = new Map(agents.map((it) => [it.name, it]));
  const there = names.map((it) => ({
    ...UNKNOWN,
    ...known.get(it),
    name: it,
    installed: true,
    available: true,
    reason: null,
    models: models[it] ?? [],
  }));
  const missing = agents
    .filter((it) => !names.includes(it.name))
    .map((it) => (isHere && !it.available ? it : { ...it, installed: false, available: false, reason: null }));
  const place = (/** @type {string} */ path) => ({ path, trusted: trusted.includes(path) });
  const used = chats.flatMap((it) => (it.home === name ? sourceOf(it) : []));
  const others = [...new Set([...used, ...trusted])].filter((it) => !roots.includes(it) && isBelow(it, roots));
  const recent = others.slice(0, MAX_RECENT).map(place);
  return { agents: [...there, ...missing], workspaces: { roots: roots.map(place), recent } };
}

/** Return the directory whose root and trust count for a chat: with a tree, the one from which that was made. */
export const sourceOf = (/** @type {Api.ChatView} */ chat) => chat.tree?.directory ?? chat.cwd;

/**
 * What a new chat can be made of on a machine. Behind a proxy each request may reach another machine, so the lists of
 * agents and directories count only if there are not several.
 *
 * @param {Pick<import("./store.js").State, "agents" | "workspaces" | "chats">} app
 * @param {Api.NodeView | undefined} machine
 * @returns {Offer}
 */
export function offerOf({ agents, workspaces, chats }, machine) {
  if (machine) return { machine, ...offerAt(machine, agents ?? [], chats ?? []) };
  return { machine, agents: agents ?? [], workspaces: workspaces ?? { roots: [], recent: [] } };
}

/**
 * @param {string} path
 * @param {string[]} roots
 */
function isBelow(path, roots) {
  return roots.some((root) => path === root || path.startsWith(root === "/" ? root : `${root}/`));
}
