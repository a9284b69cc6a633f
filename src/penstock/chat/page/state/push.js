// Calls to this browser while the page is closed: it subscribes at the push service of its maker, and the server calls
// it there. See sw.js for what is shown.

import { api } from "../net/api.js";
import { notePushedFor } from "./called.js";
import { set } from "./store.js";

const WORKER = "/sw.js";

/** The worker's address, as the page's policy wants it. */
function workerUrl() {
  const { trustedTypes } = /** @type {any} */ (window);
  policy ??= trustedTypes?.createPolicy("penstock-worker", { createScriptURL: () => WORKER });
  return policy ? policy.createScriptURL("") : WORKER;
}
/** @type {any} */
let policy;

/** The service worker of the page, which also shows what is there without a connection. */
export async function register() {
  await navigator.serviceWorker.register(workerUrl(), { scope: "/" });
  return navigator.serviceWorker.ready;
}

/**
 * Be called for these occasions from now on, or no more. A person has to be at the page: the browser may ask.
 *
 * @param {import("./called.js").Occasion[]} on
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
  notePushedFor(on);
  set({});
}

/**
 * Tell the server where this browser is called; one that is called already keeps its address.
 *
 * @param {import("./called.js").Occasion[]} on
 */
export async function subscribe(on) {
  const registration = await register();
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
