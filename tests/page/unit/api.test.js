// The requests of the page, and what becomes of answers that are errors.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, failure, requests, reset } from "./browser.mjs";
import { api, ApiError, messageOf, newKey, onSignedOut } from "../../../src/penstock/chat/page/net/api.js";

beforeEach(reset);

test("an error says what happened, what was expected and what helps, as sentences", async () => {
  const error = { code: "invalid", detail: "the title is too long; expected 200 characters", help: "shorten it" };
  answers.set("PATCH /api/chats/c", () => failure(400, error));
  await assert.rejects(api.change("c", { title: "x" }), (thrown) => {
    assert.ok(thrown instanceof ApiError);
    assert.deepEqual([thrown.status, thrown.code], [400, "invalid"]);
    assert.equal(messageOf(thrown), "The title is too long; expected 200 characters. Shorten it.");
    return true;
  });
});

test("an error without a body that can be read names the status", async () => {
  answers.set("GET /api/about", () => new Response("<html>", { status: 502 }));
  await assert.rejects(api.about(), { status: 502, message: "The server answered 502." });
});

test("a server that cannot be reached is status 0, with words about this machine", async () => {
  answers.set("GET /api/about", () => new TypeError("fetch failed"));
  await assert.rejects(api.about(), { status: 0, code: "offline", message: /^Penstock is not running\./ });
});

test("an answer that nobody is signed in is passed on, and is an error as well", async () => {
  let calls = 0;
  onSignedOut(() => calls++);
  answers.set("GET /api/chats", () => failure(401, { code: "unauthorized", detail: "who" }));
  await assert.rejects(api.chats(), { status: 401 });
  assert.equal(calls, 1);
});

test("ids are escaped in addresses, and a body is JSON", async () => {
  answers.set("PATCH /api/chats/a%2Fb", () => ({ id: "a/b" }));
  assert.deepEqual(await api.change("a/b", { model: null }), { id: "a/b" });
  assert.deepEqual(requests[0].body, { model: null });
  assert.equal(requests[0].headers["Content-Type"], "application/json");
});

test("a prompt carries its key, and an answer without a body is null", async () => {
  answers.set("POST /api/chats/c/turns", () => ({ turn: 7 }));
  answers.set("DELETE /api/chats/c", () => 204);
  assert.equal(await api.prompt("c", "hello", "k"), 7);
  assert.equal(requests[0].headers["Idempotency-Key"], "k");
  assert.equal(await api.remove("c"), null);
});

test("a message stops the turn that runs, or is given to its agent, or waits", async () => {
  answers.set("POST /api/chats/c/turns", () => ({ turn: 7 }));
  answers.set("POST /api/chats/c/turns/2/steer", () => ({ turn: 2 }));
  await api.prompt("c", "a", "k", { stops: 1 });
  await api.prompt("c", "b", "k", { steers: 1 });
  await api.prompt("c", "c", "k", {}, [{ id: "f" }]);
  await api.steer("c", 2, 1);
  assert.deepEqual(
    requests.map((it) => it.body),
    [
      { text: "a", now: true, stops: 1 },
      { text: "b", steers: 1 },
      { text: "c", attachments: ["f"], now: true },
      { into: 1 },
    ],
  );
});

test("turns and details come with the names of the page, whatever those of the wire are", async () => {
  const turn = { turn: 1, prompt: "p", by: "person", state: "completed", question: { id: "q" }, finalized: true };
  const expected = { turn: 1, prompt: "p", by: "person", state: "completed", question: { id: "q" }, finalized: true };
  answers.set("GET /api/chats/c/turns", () => ({ turns: [turn], earlier: true }));
  answers.set("GET /api/chats/c/turns/1/details", () => ({ turn, whole: true, items: [] }));
  assert.deepEqual(await api.turns("c", 2), { turns: [expected], earlier: true });
  assert.deepEqual(await api.details("c", 1), { turn: expected, whole: true, items: [] });
});

test("keys are long, and no two are the same", () => {
  const keys = new Set(Array.from({ length: 1000 }, newKey));
  assert.equal(keys.size, 1000);
  for (const key of keys) assert.match(key, /^[0-9a-f]{32}$/);
});
