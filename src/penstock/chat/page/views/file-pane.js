// A file of the chat's directory beside the thread: its lines with their numbers, and the one that a reply names.

import { html, Icon, Status, useEffect, useLayoutEffect, useRef, useState } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { closeFile } from "../state/files.js";
import { harmless, oneLine } from "../text/format.js";

/** @param {{ file: import("../state/files.js").OpenFile }} props */
export function FilePane({ file }) {
  const [view, setView] = useState(/** @type {Api.FileView | null} */ (null));
  const [problem, setProblem] = useState("");
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const { chat, path, line } = file;
  useEffect(() => {
    let isCurrent = true;
    setView(null);
    setProblem("");
    api.file(chat, path, line).then(
      (found) => isCurrent && setView(found),
      (error) => isCurrent && setProblem(messageOf(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [file]);
  useLayoutEffect(() => {
    const before = document.activeElement;
    root.current?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [file]);
  useLayoutEffect(() => {
    root.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
  }, [view]);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    closeFile();
  };
  const name = oneLine(view?.path ?? path);
  return html`<aside class="file-pane" ref=${root} tabindex="-1" aria-label=${`File ${name}`} onKeyDown=${onKeyDown}>
    <header>
      <h2><bdi class="path" title=${name}>${name}</bdi></h2>
      <button type="button" class="quiet round" aria-label="Close the file" onClick=${closeFile}>
        <${Icon} name="close" />
      </button>
    </header>
    ${problem && html`<p class="side-note" role="alert">${problem}</p>`}
    ${!view && !problem && html`<${Status} loading>Loading…<//>`}
    ${view && html`<${Lines} view=${view} line=${line} />`}
  </aside>`;
}

/** @param {{ view: Api.FileView, line: number }} props */
function Lines({ view, line }) {
  const { first, lines, total } = view;
  const last = first + lines.length - 1;
  const isPart = lines.length < total;
  return html`<div class="file-lines" tabindex="0" role="region" aria-label="Lines">
      <ol start=${first}>
        ${lines.map(
          (text, i) =>
            html`<li key=${i} value=${first + i} aria-current=${first + i === line ? "location" : undefined}>
              <code>${harmless(text) || " "}</code>
            </li>`,
        )}
      </ol>
    </div>
    ${isPart && html`<p class="side-note">Lines ${first} to ${last} of ${total}.</p>`}`;
}
