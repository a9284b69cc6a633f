// The dialog with the lines that continue a conversation in a terminal.

import { CopyButton, Dialog, html, useAsync, useEffect, useState, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";
import { closeDialog } from "../state/store.js";
import { oneLine } from "../text/format.js";

/** @param {{ chat: Api.ChatView }} props */
export function Terminal({ chat }) {
  const [lines, setLines] = useState(/** @type {Api.TerminalLines | null} */ (null));
  const [, error, run] = useAsync();
  useEffect(() => {
    run(async () => setLines(await api.terminal(chat.id)));
  }, []);
  const agent = oneLine(chat.agent);
  return html`<${Dialog} title="Open in a terminal" name="terminal" onClose=${closeDialog}>
    ${lines?.note && html`<p role="status">${oneLine(lines.note)}</p>`}
    ${lines?.penstock && html`<${Line} label="With Penstock, at the permission of this chat" text=${lines.penstock} />`}
    ${
      lines?.agent &&
      html`<${Line} label=${html`In <bdi>${agent}</bdi> itself, by its own settings`} text=${lines.agent} />`
    }
    ${lines?.penstock && html`<p class="side-note">What is said there is not shown in this chat.</p>`}
    <${Wrong}>${error}<//>
    <footer class="dialog-buttons">
      <button type="button" class="button" autofocus onClick=${closeDialog}>Close</button>
    </footer>
  <//>`;
}

/** @param {{ label: import("preact").ComponentChildren, text: string }} props */
function Line({ label, text }) {
  return html`<div class="line">
    <p>${label}:</p>
    <pre tabindex="0" dir="ltr"><code>${text}</code></pre>
    <${CopyButton} text=${text} label="Copy the line" plain />
  </div>`;
}
