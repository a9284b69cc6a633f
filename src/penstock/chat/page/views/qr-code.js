// A link as a QR code, for the camera of a phone.

import { html } from "../components/ui.js";
import { pathOf } from "../text/qr-path.js";

/** @param {{ text: string }} props */
export function QrCode({ text }) {
  const { path, size } = pathOf(text);
  return html`<svg class="qr-code" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label="QR code of the link">
    <rect width=${size} height=${size} fill="#fff" />
    <path d=${path} fill="#000" />
  </svg>`;
}
