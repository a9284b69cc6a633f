// The field that a message is written in.

import { DROPPED, pastedFiles } from "../components/files.js";
import {
  FINGER,
  html,
  Icon,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  withValue,
  Wrong,
} from "../components/ui.js";
import { draftName } from "../state/actions.js";
import { read, write } from "../state/storage.js";
import { filesText } from "../text/copy.js";
import { bytes } from "../text/format.js";

const BYTES_PER_UNIT = 3; // a UTF-16 unit has no more in UTF-8, so a short text need not be measured
const IME_KEY_CODE = 229; // older browsers report it for a key that an input method handles

const encoder = new TextEncoder();

/**
 * @typedef {object} Props
 * @property {string} draft  The name under which the tab keeps what was not sent.
 * @property {string} label
 * @property {string} placeholder
 * @property {number} maxBytes
 * @property {(text: string) => boolean | Promise<boolean>} onSend  Returns whether the text was accepted; else it stays.
 * @property {(text: string) => boolean} [onSendNow]  The same, for a text that waits for nothing.
 * @property {(() => void) | null} [onStop]  There is something to stop.
 * @property {{ text: string } | null} [text]  To be added to what is written, whenever it is another object.
 * @property {import("preact").ComponentChildren} [children]
 * @property {boolean} [busy]
 * @property {string} [directory]  Where the agent works.
 */

/** @param {Props} props */
export function Composer(props) {
  const { draft, label, placeholder, maxBytes, onSend, onSendNow, onStop, text: given, children, busy = false } = props;
  const { directory = "" } = props;
  const name = draftName(draft);
  const [text, setText] = useState(() => read(name));
  const [files, setFiles] = useState(/** @type {string[]} */ ([]));
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const change = (/** @type {string} */ value) => {
    setText(value);
    setFiles([]);
    write(name, value);
  };
  useLayoutEffect(() => {
    if (field.current && !CSS.supports("field-sizing", "content")) fitHeight(field.current);
  }, [text]);
  useEffect(() => {
    if (!FINGER.matches && !document.querySelector("dialog[open]")) field.current?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    const drop = (/** @type {Event} */ event) => setFiles(/** @type {CustomEvent<string[]>} */ (event).detail);
    document.addEventListener(DROPPED, drop);
    return () => document.removeEventListener(DROPPED, drop);
  }, []);
  const paste = (/** @type {ClipboardEvent} */ event) => {
    const names = pastedFiles(event.clipboardData);
    if (!names.length) return;
    event.preventDefault();
    setFiles(names);
  };
  useEffect(() => {
    if (!given) return;
    change(text ? `${given.text}\n\n${text}` : given.text);
    field.current?.focus();
  }, [given]);

  const size = text.length * BYTES_PER_UNIT > maxBytes ? encoder.encode(text).length : 0;
  const excess = Math.max(0, size - maxBytes);
  const isReady = text.trim() !== "" && !excess && !busy;
  const send = async (by = onSend) => {
    if (!isReady) return;
    const accepted = by(text);
    if (accepted === true || (await accepted)) change(writtenSince(text, field.current?.value ?? read(name)));
    field.current?.focus();
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    send();
  };
  const stop = () => {
    onStop?.();
    field.current?.focus(); // the button goes
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    if (event.isComposing || event.keyCode === IME_KEY_CODE) return; // it chooses a character, and ends no message
    event.preventDefault();
    send(event.ctrlKey || event.metaKey ? onSendNow : onSend);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <div class="field">
      <textarea
        ref=${field}
        rows="1"
        aria-label=${label}
        placeholder=${placeholder}
        value=${text}
        enterkeyhint="send"
        aria-invalid=${excess > 0}
        aria-describedby=${excess ? "too-long" : undefined}
        onInput=${withValue(change)}
        onKeyDown=${onKeyDown}
        onPaste=${paste}
      ></textarea>
      <div class="buttons">
        ${
          onStop &&
          onSendNow &&
          text.trim() !== "" &&
          html`<button type="button" class="quiet" title="Ctrl+Enter" disabled=${!isReady} onClick=${() => send(onSendNow)}>
            Stop and send
          </button>`
        }
        ${onStop && html`<${StopButton} onClick=${stop} />`}
        ${
          (!onStop || text.trim() !== "") &&
          html`<button
            type="submit"
            class="send"
            aria-label=${onStop ? "Send after this turn" : "Send"}
            disabled=${!isReady}
          >
            <${Icon} name="send" />
          </button>`
        }
      </div>
    </div>
    ${children}
    <${Wrong}>${files.length ? filesText(files, directory) : ""}<//>
    ${
      excess > 0 &&
      html`<p id="too-long" class="wrong" role="alert">
        The message is ${bytes(excess)} too long: ${bytes(maxBytes)} is the most. Put what is large into a file, and
        name the file.
      </p>`
    }
  </form>`;
}

/**
 * Return what was written while a message was being sent.
 * @param {string} sent
 * @param {string} now  What the field has.
 */
function writtenSince(sent, now) {
  if (now === sent) return "";
  return now.startsWith(sent) ? now.slice(sent.length).trimStart() : now;
}

/** @param {{ onClick: () => void }} props */
function StopButton({ onClick }) {
  return html`<button type="button" class="stop" aria-label="Stop" title="Stop (Esc)" onClick=${onClick}>
    <span class="square"></span>
  </button>`;
}

/** @param {HTMLElement} field */
function fitHeight(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}
