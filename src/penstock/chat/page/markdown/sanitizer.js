// DOMPurify. Its small file is a script, which leaves it as a global; the large one is a module.

import * as loaded from "dompurify";

/** @type {import("dompurify").DOMPurify} */
export const sanitizer = loaded.default ?? /** @type {any} */ (globalThis).DOMPurify;
