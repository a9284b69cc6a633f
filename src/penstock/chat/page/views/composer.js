// Where a message is written.

import { keep, kept } from "../keeping.js";
import { bytes } from "../text.js";
import { FINGER, html, Icon, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";

const encoder = new TextEncoder();

/**
 * `onSend(text)` gives true, or a promise of it, where the text was taken; else it stays. `onStop`: there is something
 * to stop. `text`: {text} to be written on, taken over whenever it is another object.
 */
export function Composer({ draft, label, placeholder, maxBytes, onSend, onStop, text: given, children, autofocus = true, busy = false }) {
  const name = `penstock.draft.${draft}`;
  const [text, setText] = useState(() => kept(name));
  const area = useRef(null);
  const change = (value) => {
    setText(value);
    keep(name, value);
  };
  useLayoutEffect(() => {
    const { current } = area;
    if (CSS.supports("field-sizing", "content")) return;
    current.style.height = "auto";
    current.style.height = `${current.scrollHeight}px`;
  }, [text]);
  useEffect(() => {
    if (autofocus && !FINGER.matches && !document.querySelector("dialog[open]")) area.current.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    if (!given) return;
    change(text ? `${given.text}\n\n${text}` : given.text);
    area.current.focus();
  }, [given]);

  const size = text.length * 3 > maxBytes ? encoder.encode(text).length : 0;
  const over = Math.max(0, size - maxBytes);
  const ready = text.trim() !== "" && !over && !busy;
  const send = async () => {
    if (!ready) return;
    const taken = onSend(text);
    if (taken === true || (await taken)) change("");
    area.current?.focus();
  };
  const stop = () => {
    onStop();
    area.current.focus(); // the button goes
  };
  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    if (event.isComposing || event.keyCode === 229) return; // it chooses a character, and is no end of a message
    event.preventDefault();
    send();
  };
  return html`<form class="composer" onSubmit=${(event) => (event.preventDefault(), send())}>
    <div class="field">
      <textarea ref=${area} rows="1" aria-label=${label} placeholder=${placeholder} value=${text} enterkeyhint="send"
        aria-invalid=${over > 0} aria-describedby=${over ? "too-long" : undefined}
        onInput=${(event) => change(event.target.value)} onKeyDown=${keys}></textarea>
      <div class="buttons">
        ${onStop && html`<button type="button" class="stop" aria-label="Stop" title="Stop (Esc)" onClick=${stop}><span
            class="square"></span></button>`}
        ${(!onStop || text.trim() !== "") && html`<button type="submit" class="send"
            aria-label=${onStop ? "Send after this turn" : "Send"} disabled=${!ready}>
          <${Icon} name="send" /></button>`}
      </div>
    </div>
    ${children}
    ${over > 0 && html`<p id="too-long" class="wrong"
        role="alert">The message is ${bytes(over)} too long: ${bytes(maxBytes)} is the most.
      Put what is large into a file, and name the file.</p>`}
  </form>`;
}
