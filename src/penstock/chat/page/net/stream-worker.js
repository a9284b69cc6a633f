// The shared worker: it has the one connection of a browser, for all tabs that show the page.

import { Tabs } from "./tabs.js";

const tabs = new Tabs();
self.addEventListener("connect", (event) => tabs.connect(/** @type {MessageEvent} */ (event).ports[0]));
