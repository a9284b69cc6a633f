// Files that are dropped on the page or pasted into it: the browser stays, and the composer takes them.

/** Sent to the document with the files that were dropped. */
export const DROPPED = "penstock:dropped";

/** @param {DataTransfer | null} transfer */
const hasFiles = (transfer) => Boolean(transfer?.types.includes("Files"));

/** Keep the browser from leaving the page for a file or an address that is dropped on it. */
export function listenForDrops() {
  document.addEventListener("dragover", (event) => leadsAway(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!leadsAway(event)) return;
    event.preventDefault();
    if (!hasFiles(event.dataTransfer)) return;
    document.dispatchEvent(new CustomEvent(DROPPED, { detail: [...(event.dataTransfer?.files ?? [])] }));
  });
}

/** @param {DragEvent} event */
function leadsAway({ target, dataTransfer }) {
  const isField = target instanceof Element && target.closest("input, textarea");
  return hasFiles(dataTransfer) || (!isField && Boolean(dataTransfer?.types.includes("text/uri-list")));
}

/**
 * The files that are pasted; none if there is a text as well, which is what was meant.
 *
 * @param {DataTransfer | null} data
 */
export function pastedFiles(data) {
  return data && !data.types.includes("text/plain") ? [...data.files] : [];
}
