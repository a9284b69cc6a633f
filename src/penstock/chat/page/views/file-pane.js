// A file of the chat's directory beside the thread: its lines with their numbers, and the one that a reply names.

import { SidePane } from "../components/side-pane.js";
import { html, Status, useEffect, useLayoutEffect, useRef, useState } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { closePane } from "../state/files.js";
import { harmless, oneLine } from "../text/format.js";

/** @param {{ file: import("../state/files.js").OpenFile }} props */
export function FilePane({ file }) {
  const [view, setView] = useState(/** @type {Api.FileView | null} */ (null));
  const [problem, setProblem] = useState("");
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
  const name = oneLine(view?.path ?? path);
  return html`<${SidePane}
    of=${file}
    label=${`File ${name}`}
    title=${html`<bdi class="path" title=${name}>${name}</bdi>`}
    close="Close the file"
    onClose=${closePane}
  >
    ${problem && html`<p class="side-note" role="alert">${problem}</p>`}
    ${!view && !problem && html`<${Status} loading>Loading…<//>`}
    ${view && html`<${Lines} view=${view} line=${line} />`}
  <//>`;
}

/** @param {{ view: Api.FileView, line: number }} props */
function Lines({ view, line }) {
  const { first, lines, total } = view;
  const last = first + lines.length - 1;
  const isPart = lines.length < total;
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    root.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
  }, [view]);
  return html`<div class="file-lines" ref=${root} data-path=${oneLine(view.path)} tabindex="0" role="region" aria-label="Lines">
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
