// What a screen reader is told: little, and in whole sentences. The growing text itself is never live.

const STATUS_MS = 5000; // a status line may change ten times a second; nobody listens that fast

let next = 0;
let waiting = null;

function put(id, text) {
  const region = document.getElementById(id);
  region.textContent = "";
  // Another turn of the loop, so that the same words twice are two announcements.
  setTimeout(() => (region.textContent = text), 30);
}

/** A status that the next one may overtake: at most one each five seconds. */
export function saySoon(text) {
  clearTimeout(waiting);
  const wait = next - Date.now();
  if (wait > 0) waiting = setTimeout(() => saySoon(text), wait);
  else say(text);
}

/** Something that is said once, and soon. */
export function say(text) {
  clearTimeout(waiting);
  next = Date.now() + STATUS_MS;
  put("said-status", text);
}

/** Something that cannot wait. */
export function sayNow(text) {
  clearTimeout(waiting);
  put("said-alert", text);
}
