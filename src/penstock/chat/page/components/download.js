/**
 * Give a text to the person as a file.
 *
 * @param {string} name
 * @param {string} text
 * @param {string} type  As `text/markdown`.
 */
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}
