// Files of the chat's directory beside the thread: the lines of one with their numbers, and the one that a reply names.

import { useChoiceList, useFound } from "../components/choice-list.js";
import { html, Status, useEffect, useLayoutEffect, useRef, useState, withValue } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { openFileOf } from "../state/beside.js";
import { harmless, oneLine } from "../text/format.js";

/** @param {{ chat: string, beside: import("../state/beside.js").Beside }} props */
export function Files({ chat, beside }) {
  const [view, setView] = useState(/** @type {Api.FileView | null} */ (null));
  const [problem, setProblem] = useState("");
  const { path = "", line = 0 } = beside;
  useEffect(() => {
    let isCurrent = true;
    setView(null);
    setProblem("");
    if (!path) return undefined;
    api.file(chat, path, line).then(
      (found) => isCurrent && setView(found),
      (error) => isCurrent && setProblem(messageOf(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [chat, beside]);
  return html`<${FindFile} chat=${chat} />
    ${problem && html`<p class="side-note" role="alert">${problem}</p>`}
    ${path && !view && !problem && html`<${Status} loading>Loading…<//>`}
    ${view && html`<${Lines} view=${view} line=${line} />`}`;
}

/** The field that opens another file, by a part of its path. @param {{ chat: string }} props */
function FindFile({ chat }) {
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const found = useFound(isOpen ? text : null, (typed) => api.fileNames(chat, typed), chat);
  const write = (/** @type {string} */ typed) => {
    setOpen(true);
    setText(typed);
  };
  const choose = (/** @type {string} */ path) => {
    if (path.endsWith("/")) {
      write(path);
      return;
    }
    setOpen(false);
    setText("");
    openFileOf(chat)(path, 0);
  };
  const list = useChoiceList({
    id: "found-files",
    label: "Files",
    items: isOpen ? (found?.items.filter((path) => path !== text) ?? []) : [],
    of: text,
    isFirstMarked: text !== "",
    keyOf: (path) => path,
    draw: (path) => html`<bdi>${oneLine(path)}</bdi>`,
    onChoose: choose,
    onClose: () => setOpen(false),
  });
  return html`<div class="find-file">
    <input
      ...${list.combobox}
      type="search"
      aria-label="Find a file"
      placeholder="Find a file"
      value=${text}
      onFocus=${() => setOpen(true)}
      onBlur=${() => setOpen(false)}
      onInput=${withValue(write)}
      onKeyDown=${list.onKeyDown}
    />
    ${list.view}
  </div>`;
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
