// Calls to this browser while the page is closed: it subscribes at the push service of its maker, and the server calls
// it there. See sw.js for what is shown.

import { api } from "../net/api.js";
import { read, write } from "./storage.js";
import { set } from "./store.js";

/** @typedef {"asks" | "ended"} Occasion */

const CHOICE = "penstock.push"; // the occasions, with commas between; "" for none
const WORKER = "/sw.js";

/** Whether this browser can be called: over https or on this machine, and on an iPhone if the page is installed. */
export const canPush = () => Boolean(navigator.serviceWorker) && "PushManager" in window && "Notification" in window;

/** The occasions for which this browser is called. */
export const pushedFor = () =>
  /** @type {Occasion[]} */ (read(CHOICE, "localStorage").split(",")).filter((it) => it === "asks" || it === "ended");

/** The worker's address, as the page's policy wants it. */
function workerUrl() {
  const { trustedTypes } = /** @type {any} */ (window);
  policy ??= trustedTypes?.createPolicy("penstock-worker", { createScriptURL: () => WORKER });
  return policy ? policy.createScriptURL("") : WORKER;
}
/** @type {any} */
let policy;

async function registered() {
  await navigator.serviceWorker.register(workerUrl(), { scope: "/" });
  return navigator.serviceWorker.ready;
}

/**
 * Be called for these occasions from now on, or no more. A person has to be at the page: the browser may ask.
 *
 * @param {Occasion[]} on
 */
export async function setPushedFor(on) {
  if (on.length) {
    if ((await Notification.requestPermission()) !== "granted")
      throw new Error("The browser does not permit notifications of this page.");
    await subscribe(on);
  } else {
    const registration = await navigator.serviceWorker.getRegistration("/");
    const subscription = await registration?.pushManager.getSubscription();
    await subscription?.unsubscribe();
    await api.endPush();
  }
  write(CHOICE, on.join(","), "localStorage");
  set({});
}

/**
 * Tell the server where this browser is called; one that is called already keeps its address.
 *
 * @param {Occasion[]} on
 */
async function subscribe(on) {
  const registration = await registered();
  const { key } = await api.pushKey();
  const applicationServerKey = bytesOf(key);
  let subscription = await registration.pushManager.getSubscription();
  if (subscription && !isSame(subscription.options.applicationServerKey, applicationServerKey)) {
    await subscription.unsubscribe(); // of a login that is over
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const { endpoint = "", keys = {} } = subscription.toJSON();
  await api.push({ endpoint, p256dh: keys.p256dh ?? "", auth: keys.auth ?? "", on });
}

/** After signing in: the server may have forgotten this browser, or it has got another address. */
export async function renewPush() {
  const isInstalled = window.matchMedia?.("(display-mode: standalone)").matches ?? false;
  if (!canPush()) return;
  try {
    if (pushedFor().length && Notification.permission === "granted") await subscribe(pushedFor());
    else if (isInstalled) await registered();
  } catch {
    // The switch says what is so, and the next start tries again.
  }
}

/** After signing out: whoever signs in next decides anew. */
export function forgetPush() {
  write(CHOICE, "", "localStorage");
}

/**
 * Open what a person clicked in a call.
 *
 * @param {(path: string) => void} go
 */
export function listenForCalls(go) {
  navigator.serviceWorker?.addEventListener("message", ({ data }) => {
    if (typeof data?.open === "string" && data.open.startsWith("/")) go(data.open);
  });
}

/** @param {string} text  In base64url. */
function bytesOf(text) {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(raw, (char) => char.charCodeAt(0));
}

/**
 * @param {ArrayBuffer | null} a
 * @param {Uint8Array} b
 */
function isSame(a, b) {
  const bytes = new Uint8Array(a ?? new ArrayBuffer(0));
  return bytes.length === b.length && bytes.every((it, i) => it === b[i]);
}
