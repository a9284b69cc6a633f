// What a screen reader announces: little, and in whole sentences. The growing text itself is never live.

const STATUS_MS = 5000; // a status line may change ten times a second; nobody listens that fast
const REPEAT_MS = 30; // after the region was emptied, so that the same words twice are two announcements

let nextStatusAt = 0;
/** @type {Timer} */
let statusTimer;

/**
 * @param {string} id
 * @param {string} text
 */
function put(id, text) {
  const region = document.getElementById(id);
  if (!region) return;
  region.textContent = "";
  setTimeout(() => {
    region.textContent = text;
  }, REPEAT_MS);
}

/**
 * Announce a status, which the next one may replace: at most one each five seconds.
 *
 * @param {string} text
 */
export function announceStatus(text) {
  clearTimeout(statusTimer);
  const wait = nextStatusAt - Date.now();
  if (wait > 0) statusTimer = setTimeout(() => announceStatus(text), wait);
  else announce(text);
}

/**
 * Announce something once, after what is being read.
 *
 * @param {string} text
 */
export function announce(text) {
  clearTimeout(statusTimer);
  nextStatusAt = Date.now() + STATUS_MS;
  put("said-status", text);
}

/**
 * Announce something that cannot wait.
 *
 * @param {string} text
 */
export function announceNow(text) {
  clearTimeout(statusTimer);
  put("said-alert", text);
}
