// Signing in and out, and what every view needs first.

import { api, messageOf, onSignedOut, statusOf } from "../net/api.js";
import { watchConnection } from "../net/one-stream.js";
import { outbox } from "../net/outbox.js";
import { forgetPush, listenForCalls, renewPush } from "./called.js";
import { firstChats, followList, listNodes, refresh, refreshForReturn } from "./chats.js";
import { beginNotifications } from "./notifications.js";
import { applyAddress, go, openListed, routeOf, signedOut } from "./router.js";
import { set, state } from "./store.js";
import { listenForSeen, markSeen } from "./unread.js";

const RETRY_MS = 3000;
const UNAUTHORIZED = 401;

/** Begin: sign in with the code of the address, if it has one, and load what every view needs. */
export async function begin() {
  onSignedOut(signedOut);
  watchConnection();
  window.addEventListener("popstate", () => applyAddress());
  window.addEventListener("hashchange", () => signInByAddress());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    if (state.chats) markSeen();
    set({}); // the open chat is read now
    refreshForReturn();
  });
  beginNotifications(openListed);
  listenForCalls(go);
  listenForSeen();
  window.addEventListener("online", () => refresh());
  await signInByAddress();
}

async function signInByAddress() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname); // before anything else: it is not to be seen, kept or sent
    try {
      await api.login({ code });
    } catch (error) {
      // An old link in a browser that is signed in already does no harm.
      const isUsed = statusOf(error) === UNAUTHORIZED;
      set({ problem: isUsed ? "The link was used before, or is too old." : messageOf(error) });
    }
  }
  await load();
}

/**
 * Sign in with a token or a link, as a person pasted it.
 *
 * @param {string} text
 */
export async function signIn(text) {
  const code = new URLSearchParams(text.split("#")[1] ?? "").get("code");
  await api.login(code ? { code } : { token: text.trim() });
  set({ problem: "" });
  await load();
}

/** Sign out this browser, or all that there are. */
export async function signOut({ everywhere = false } = {}) {
  await api.logout(everywhere);
  forgetPush();
  signedOut();
  set({ chats: null, runs: [] });
}

async function load() {
  try {
    const open = routeOf(location.pathname).id;
    const [about, first, agents, runs] = await Promise.all([api.about(), firstChats(open), api.agents(), api.runs()]);
    const nodes = await listNodes(about);
    set({ signedIn: true, problem: "", about, agents, nodes });
    first.show(runs);
    followList(first.number);
    outbox.wake();
    renewPush();
    applyAddress({ agents, nodes }); // what the address names could not be asked for before
  } catch (error) {
    if (statusOf(error) === UNAUTHORIZED) {
      set({ signedIn: false });
      return;
    }
    set({ signedIn: state.signedIn ?? true, problem: messageOf(error) });
    setTimeout(() => state.about || load(), RETRY_MS);
  }
}
