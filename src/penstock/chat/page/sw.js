// The service worker: it shows calls that come while the page is closed, and a sentence where the server cannot be
// reached. It keeps nothing, and answers no request but those for the page itself.

const worker = /** @type {any} */ (self); // its types would take the place of those of a page

const OFFLINE = "Penstock cannot be reached. Is this device online, and does the server run? Reload to try again.\n";
const MAX_TEXT = 200; // characters of a call; the server sends far less
const CHAT = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

worker.addEventListener("install", () => worker.skipWaiting());

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  if (event.request.mode !== "navigate") return;
  const headers = { "Content-Type": "text/plain; charset=utf-8" };
  event.respondWith(fetch(event.request).catch(() => new Response(OFFLINE, { status: 503, headers })));
});

worker.addEventListener("push", (/** @type {any} */ event) => event.waitUntil(call(event)));

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.chat));
});

/**
 * Show a call, unless a person looks at the page.
 *
 * @param {any} event
 */
async function call(event) {
  const { text, chat } = read(event);
  const pages = await pagesOpen();
  if (pages.some((page) => page.visibilityState === "visible" && page.focused)) return;
  const options = { tag: `penstock/${chat}`, icon: "/icon-192.png", data: { chat } };
  await worker.registration.showNotification(text, options);
}

/**
 * What a call says. A push service cannot write one, but it could repeat an old one.
 *
 * @param {any} event
 */
function read(event) {
  try {
    const { text, chat } = event.data.json();
    return { text: String(text).slice(0, MAX_TEXT), chat: CHAT.test(chat) ? chat : "" };
  } catch {
    return { text: "A chat wants you", chat: "" };
  }
}

/** @returns {Promise<any[]>} */
const pagesOpen = () => worker.clients.matchAll({ type: "window", includeUncontrolled: true });

/** @param {string | undefined} chat */
async function open(chat) {
  const path = chat ? `/chats/${chat}` : "/";
  const [page] = await pagesOpen();
  if (!page) return worker.clients.openWindow(path);
  await page.focus();
  return page.postMessage({ open: path });
}
