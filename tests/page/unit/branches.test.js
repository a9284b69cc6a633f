// New chats that begin before a message: which agents can be asked, and what the new chat has in its field.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, requests, reset, settle } from "./browser.mjs";
import { branchChat, keepsLevel } from "../../../src/penstock/chat/page/state/branches.js";
import { draftName } from "../../../src/penstock/chat/page/state/actions.js";
import { filesName } from "../../../src/penstock/chat/page/state/attachments.js";
import { read } from "../../../src/penstock/chat/page/state/storage.js";
import { state } from "../../../src/penstock/chat/page/state/store.js";

const old = { id: "a", title: "a", agent: "claude", cwd: "/shop", home: null };
const file = { id: "f", name: "shot.png", media_type: "image/png", size: 3 };
const made = { chat: { ...old, id: "b" }, prompt: "do it", attachments: [file], turn: null };

beforeEach(async () => {
  state.session?.close();
  await settle();
  reset();
  Object.assign(state, { signedIn: true, chats: [old], dialog: { kind: "branch", id: "a" }, session: null, nodes: [] });
  answers.set("GET /api/events", () => new Promise(() => {}));
});

test("an agent keeps a level that it has, and one that has no tools keeps any", () => {
  const level = (kind) => ({ allow: "ask", label: "", text: "", kind });
  const asks = { allows: [level("reads"), level("asks")] };
  assert.equal(keepsLevel(level("asks"), asks), true);
  assert.equal(keepsLevel(level("edits"), asks), false);
  assert.equal(keepsLevel(level("edits"), { allows: [level("answers")] }), true);
  assert.equal(keepsLevel(level("reads"), { allows: [level("all")] }), false);
  assert.equal(keepsLevel(level("own"), asks), undefined);
  assert.equal(keepsLevel(undefined, asks), undefined);
});

test("the message and its files are in the field of the new chat, which is open", async () => {
  answers.set("POST /api/chats/a/turns/3/branch", () => made);
  await branchChat(old, 3, "k", {});
  const [request] = requests;
  assert.deepEqual([request.body, request.headers["Idempotency-Key"]], [{}, "k"]);
  assert.equal(read(draftName("b")), "do it");
  assert.deepEqual(JSON.parse(read(filesName("b"))), [file]);
  assert.deepEqual([location.pathname, state.dialog], ["/chats/b", null]);
});

test("a message that was sent is not in the field as well", async () => {
  answers.set("POST /api/chats/a/turns/3/branch", () => ({ ...made, turn: 1 }));
  await branchChat(old, 3, "k", { agent: "codex", send: true });
  assert.deepEqual([read(draftName("b")), read(filesName("b"))], ["", ""]);
});

test("what goes wrong is thrown, and nothing is open that was not", async () => {
  answers.set("POST /api/chats/a/turns/3/branch", () => 409);
  await assert.rejects(branchChat(old, 3, "k", { agent: "pi" }));
  assert.deepEqual([location.pathname, state.dialog?.kind, read(draftName("b"))], ["/", "branch", ""]);
});

test("a directory that is not trusted is asked about, and the same request is sent once more", async () => {
  let isTrusted = false;
  const refusal = new Response('{"code":"untrusted_directory","detail":"no"}', { status: 403 });
  answers.set("POST /api/chats/a/turns/3/branch", () => (isTrusted ? made : refusal));
  answers.set("POST /api/workspaces", () => {
    isTrusted = true;
    return {};
  });
  const done = branchChat(old, 3, "k", {});
  await settle();
  assert.equal(state.dialog?.kind, "trust");
  state.dialog.close?.(true);
  await done;
  const sent = requests.filter(({ path }) => path.endsWith("/branch"));
  assert.deepEqual(
    sent.map(({ headers }) => headers["Idempotency-Key"]),
    ["k", "k"],
  );
  assert.equal(location.pathname, "/chats/b");
});
