// Where a link leads, if its words name another address.

const ADDRESS = /(?:https?:\/\/|www\.)[^\s<>"')\]]+/gi;
const BARE = /^[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.(?:com|org|net|io|dev|app|edu|gov|example|bank|co|uk|de)\/?$/iu;

/**
 * The host of a link whose text names another one, or "".
 *
 * @param {string} text
 * @param {string} href
 */
export function misleadingHost(text, href) {
  const host = hostOf(href);
  const named = text.match(ADDRESS) ?? (BARE.test(text.trim()) ? [text.trim()] : []);
  const isOther = (/** @type {string} */ it) =>
    bare(hostOf(/^https?:/i.test(it) ? it : `https://${it}`)) !== bare(host);
  return host && named.some(isOther) ? host : "";
}

const bare = (/** @type {string} */ host) => host.replace(/^www\./, "");

/** @param {string} address */
function hostOf(address) {
  try {
    return new URL(address).host;
  } catch {
    return "";
  }
}
