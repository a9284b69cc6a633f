// The models that agents list: when they are asked for, and which levels of effort are offered with them.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, failure, requests, reset } from "./browser.mjs";
import { effortsOf, modelsOf, usualEffort } from "../../../src/penstock/chat/page/state/models.js";

const MODELS = [
  { name: "deep", efforts: ["low", "high"], default_effort: "low" },
  { name: "plain", efforts: [] },
  { name: "unknown" },
];

beforeEach(() => reset());

test("an agent is asked once, also if two fields want its list at the same time", async () => {
  answers.set("GET /api/agents/codex/models", () => ({ models: MODELS }));
  const [first, second] = await Promise.all([modelsOf("codex"), modelsOf("codex")]);
  assert.deepEqual(first, MODELS);
  assert.deepEqual(second, MODELS);
  assert.deepEqual(await modelsOf("codex"), MODELS);
  assert.equal(requests.length, 1);
});

test("a list that cannot be had, or is empty, is none, and is asked for again", async () => {
  answers.set("GET /api/agents/pi/models", () => failure(403, { code: "forbidden", detail: "no" }));
  assert.deepEqual(await modelsOf("pi"), []);
  answers.set("GET /api/agents/pi/models", () => ({ models: [] }));
  assert.deepEqual(await modelsOf("pi"), []);
  answers.set("GET /api/agents/pi/models", () => ({ models: MODELS }));
  assert.deepEqual(await modelsOf("pi"), MODELS);
});

test("a name cannot lead to another address", async () => {
  await modelsOf("../chats?x#y");
  assert.equal(requests[0].path, "/api/agents/..%2Fchats%3Fx%23y/models");
});

test("a model has its own levels, or none; of another one those of the agent are offered", () => {
  const usual = ["low", "medium", "high"];
  assert.deepEqual(effortsOf(MODELS, " deep ", usual), ["low", "high"]);
  assert.deepEqual(effortsOf(MODELS, "plain", usual), []);
  assert.deepEqual(effortsOf(MODELS, "unknown", usual), usual);
  assert.deepEqual(effortsOf(MODELS, "written by hand", usual), usual);
  assert.deepEqual(effortsOf([], "", usual), usual);
});

test("the usual level of a model is named", () => {
  assert.equal(usualEffort(MODELS, "deep"), "The model's own: low");
  assert.equal(usualEffort(MODELS, "plain"), "The agent's own choice");
  assert.equal(usualEffort(MODELS, ""), "The agent's own choice");
});
