// A text as a QR code. It is imported by the view that shows one, so the encoder is loaded with that.

import { encode } from "uqr";

const QUIET = 3; // modules around the code that stay white

/**
 * The dark modules of a text's code as the path of an SVG, and the number of modules of a side.
 *
 * @param {string} text
 */
export function pathOf(text) {
  const { data, size } = encode(text, { border: QUIET });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return { path: dark.join(""), size };
}
