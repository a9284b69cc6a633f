// Resolves the names of packages as a browser does: by the import map of the page.

import { readFileSync } from "node:fs";
import { register } from "node:module";

const page = new URL("../../../src/penstock/chat/page/", import.meta.url);
const [, map] = /<script type="importmap">(.*?)<\/script>/s.exec(readFileSync(new URL("index.html", page), "utf8"));

/** Runs in a thread of its own, so all it uses is here. */
const hooks = `
  let imports, page;
  export const initialize = (data) => { ({ imports, page } = data); };
  export function resolve(name, context, next) {
    const key = Object.keys(imports).find((key) => key === name || (key.endsWith("/") && name.startsWith(key)));
    return key ? next(new URL("." + imports[key] + name.slice(key.length), page).href, context) : next(name, context);
  }
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`, { data: { ...JSON.parse(map), page: page.href } });
