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
import { isLong, useAttachments } from "../state/attachments.js";
import { NO_FILES } from "../text/copy.js";
import { bytes } from "../text/format.js";
import { DraftedFiles } from "./attachments.js";
import { useCommandChoice } from "./command-choice.js";
import { useFileChoice } from "./file-choice.js";

/** Sent to the document with a quotation, for the message that is written. */
export const QUOTED = "penstock:quoted";

const BYTES_PER_UNIT = 3; // a UTF-16 unit has no more in UTF-8, so a short text need not be measured
const IME_KEY_CODE = 229; // older browsers report it for a key that an input method handles

const encoder = new TextEncoder();

/**
 * @typedef {{ text: string, files?: Api.AttachedFile[] }} Given  A message to be written once more.
 * @typedef {object} Props
 * @property {string} draft  The name under which the tab keeps what was not sent.
 * @property {string} label
 * @property {string} placeholder
 * @property {number} maxBytes
 * @property {(text: string, files: Api.AttachedFile[], items: import("../state/attachments.js").Item[]) =>
 *   boolean | Promise<boolean>} onSend  Returns whether the message was accepted; else it stays. `items`: what is to be
 *   uploaded with a first message.
 * @property {(text: string, files: Api.AttachedFile[]) => boolean} [onSendNow]  The same, for a message that waits for
 *   nothing.
 * @property {((text: string) => boolean) | null} [onSteer]  The same, for a text that the agent gets while it works.
 * @property {string} [chat]  To which files are uploaded; "" if it is made with the message. Without it there are none.
 * @property {import("./command-choice.js").Place} [place]  Of a new chat, whose agent may offer commands there.
 * @property {number} [maxFileBytes]
 * @property {(() => void) | null} [onStop]  There is something to stop.
 * @property {Given | null} [text]  To be added to what is written, whenever it is another object.
 * @property {import("preact").ComponentChildren} [children]
 * @property {boolean} [busy]
 */

/** @param {Props} props */
export function Composer(props) {
  const { draft, label, placeholder, maxBytes, onSend, onSendNow, onStop, text: given, children, busy = false } = props;
  const { chat, place, maxFileBytes = 0, onSteer } = props;
  const name = draftName(draft);
  const [text, setText] = useState(() => read(name));
  const [note, setNote] = useState("");
  const drafted = useAttachments(chat ?? "", maxFileBytes);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const change = (/** @type {string} */ value) => {
    setText(value);
    setNote("");
    write(name, value);
  };
  const take = useRef((/** @type {File[]} */ _) => {});
  take.current = (files) => (chat === undefined ? setNote(NO_FILES) : drafted.add(files));
  useLayoutEffect(() => {
    if (field.current && !CSS.supports("field-sizing", "content")) fitHeight(field.current);
  }, [text]);
  useEffect(() => {
    if (!FINGER.matches && !document.querySelector("dialog[open]")) field.current?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    const drop = (/** @type {Event} */ event) => take.current(/** @type {CustomEvent<File[]>} */ (event).detail);
    const quoted = (/** @type {Event} */ event) => quote.current(/** @type {CustomEvent<string>} */ (event).detail);
    document.addEventListener(DROPPED, drop);
    document.addEventListener(QUOTED, quoted);
    return () => {
      document.removeEventListener(QUOTED, quoted);
      document.removeEventListener(DROPPED, drop);
    };
  }, []);
  const paste = (/** @type {ClipboardEvent} */ event) => {
    const files = pastedFiles(event.clipboardData);
    const pasted = event.clipboardData?.getData("text/plain") ?? "";
    if (files.length) take.current(files);
    else if (chat !== undefined && isLong(pasted)) drafted.add([new File([pasted], "pasted.txt")], pasted);
    else return;
    event.preventDefault();
  };
  const addText = (/** @type {string} */ added) => change(text ? `${text}\n\n${added}` : added);
  const quote = useRef((/** @type {string} */ _) => {});
  quote.current = (quotation) => {
    addText(`${quotation}\n\n`);
    requestAnimationFrame(() => {
      const end = field.current?.value.length ?? 0;
      field.current?.focus(); // later than a pane that is closed for it, which gives the focus back
      field.current?.setSelectionRange(end, end);
    });
  };
  useEffect(() => {
    if (!given) return;
    change(text && given.text ? `${given.text}\n\n${text}` : given.text || text);
    if (given.files?.length) drafted.restore(given.files);
    field.current?.focus();
  }, [given]);

  const size = text.length * BYTES_PER_UNIT > maxBytes ? encoder.encode(text).length : 0;
  const excess = Math.max(0, size - maxBytes);
  const { items } = drafted;
  const hasContent = text.trim() !== "" || items.length > 0;
  const isReady = hasContent && drafted.isReady && !excess && !busy;
  const send = async (/** @type {Props["onSend"]} */ by = onSend) => {
    if (!isReady) return;
    const files = items.flatMap((it) => it.attached ?? []);
    const accepted = by(text, files, items);
    if (accepted === true || (await accepted)) {
      change(writtenSince(text, field.current?.value ?? read(name)));
      drafted.sent(items);
    }
    field.current?.focus();
  };
  const sendAtOnce = onSteer && !items.length ? onSteer : onSendNow;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    send();
  };
  const stop = () => {
    onStop?.();
    field.current?.focus(); // the button goes
  };
  const files = useFileChoice(chat ?? "", field, text);
  const commands = useCommandChoice(chat, place, field, text);
  const choice = files.view ? files : commands;
  const look = () => {
    files.look();
    commands.look();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (choice.onKeyDown(event)) return;
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    if (event.isComposing || event.keyCode === IME_KEY_CODE) return; // it chooses a character, and ends no message
    event.preventDefault();
    send(event.ctrlKey || event.metaKey ? sendAtOnce : onSend);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <${DraftedFiles} chat=${chat ?? ""} drafted=${drafted} onText=${addText} />
    <div class="field">
      ${chat !== undefined && html`<${AttachButton} onChoose=${drafted.add} />`}
      ${choice.view}
      <textarea
        ...${choice.attributes}
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
        onKeyUp=${look}
        onClick=${look}
        onBlur=${look}
        onPaste=${paste}
      ></textarea>
      <div class="buttons">
        ${
          onStop &&
          onSendNow &&
          hasContent &&
          html`<button type="button" class="quiet" title="Ctrl+Enter" disabled=${!isReady} onClick=${() => send(sendAtOnce)}>
            ${sendAtOnce === onSendNow ? "Stop and send" : "Give to the agent now"}
          </button>`
        }
        ${onStop && html`<${StopButton} onClick=${stop} />`}
        ${
          (!onStop || hasContent) &&
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
    ${commands.note}
    ${children}
    <${Wrong}>${note || drafted.problem}<//>
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

/** @param {{ onChoose: (files: File[]) => void }} props */
function AttachButton({ onChoose }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const choose = () => {
    const { current } = input;
    if (!current?.files?.length) return;
    onChoose([...current.files]);
    current.value = ""; // the same file can be chosen again
  };
  return html`<button
      type="button"
      class="quiet round attach"
      aria-label="Attach pictures or files"
      title="Attach pictures or files"
      onClick=${() => input.current?.click()}
    >
      <${Icon} name="clip" />
    </button>
    <input ref=${input} type="file" multiple hidden tabindex="-1" aria-hidden="true" onChange=${choose} />`;
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
