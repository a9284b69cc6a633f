// How much of the model's context is left.

import assert from "node:assert/strict";
import { test } from "node:test";

import { contextLeft } from "../../../src/penstock/chat/page/text/context.js";

const ENDED = { state: "completed", finalized: true, began_at: 1 };
const filled = (context_tokens, context_window = 200_000) => ({ ...ENDED, context_tokens, context_window });

test("what is left is a whole percentage, and marked once it is little", () => {
  assert.deepEqual(contextLeft([filled(56_000)]), {
    percent: 72,
    text: "72 % of the context left",
    title: "56k of 200k tokens are used",
    isLow: false,
  });
  assert.equal(contextLeft([filled(160_000)]).isLow, true);
  assert.equal(contextLeft([filled(155_000)]).isLow, false);
  assert.equal(contextLeft([filled(199_900)]).text, "Under 1 % of the context left");
  assert.equal(contextLeft([filled(200_000)]).text, "0 % of the context left");
  assert.equal(contextLeft([filled(230_000)]).text, "0 % of the context left", "an agent may count what it drops");
});

test("what is not known is not shown", () => {
  assert.equal(contextLeft([]), null);
  assert.equal(contextLeft([ENDED]), null);
  assert.equal(contextLeft([filled(1000), ENDED]), null, "the newest turn does not say");
  assert.equal(contextLeft([filled(1000, null)]), null);
  assert.equal(contextLeft([filled(null)]), null);
});

test("turns that are not over, and those that were taken back, change nothing", () => {
  const running = { state: "running", began_at: 2 };
  const takenBack = { state: "completed", finalized: true };
  const cut = { state: "completed", finalized: false, began_at: 2 };
  assert.equal(contextLeft([filled(100_000), takenBack, cut, running]).percent, 50);
});
