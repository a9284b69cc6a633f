// Whether this browser is called while the page is closed. What subscribes it is in push.js, which few need.

import { read, write } from "./storage.js";

/** @typedef {"asks" | "ended"} Occasion */

const CHOICE = "penstock.push"; // the occasions, with commas between; "" for none

/** Whether this browser can be called: over https or on this machine, and on an iPhone if the page is installed. */
export const canPush = () => Boolean(navigator.serviceWorker) && "PushManager" in window && "Notification" in window;

/** The occasions for which this browser is called. */
export const pushedFor = () =>
  /** @type {Occasion[]} */ (read(CHOICE, "localStorage").split(",")).filter((it) => it === "asks" || it === "ended");

/** @param {Occasion[]} on */
export const notePushedFor = (on) => write(CHOICE, on.join(","), "localStorage");

/** After signing in: the server may have forgotten this browser, or it has got another address. */
export async function renewPush() {
  const isInstalled = window.matchMedia?.("(display-mode: standalone)").matches ?? false;
  const isCalled = pushedFor().length > 0 && canPush() && Notification.permission === "granted";
  if (!isCalled && !(isInstalled && canPush())) return;
  try {
    const { register, subscribe } = await import("./push.js");
    await (isCalled ? subscribe(pushedFor()) : register());
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
