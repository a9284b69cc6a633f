// The state of the page, with a server that answers as it is told: signing in, the list of chats, what a person does.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, failure, media, requests, reset, settle, timers } from "./browser.mjs";
import { deleteChat, draftName } from "../../../src/penstock/chat/page/state/actions.js";
import { besidePath, closePane, openBeside, openFileOf } from "../../../src/penstock/chat/page/state/beside.js";
import { putChat, refresh, removeChat } from "../../../src/penstock/chat/page/state/chats.js";
import { windowTitle } from "../../../src/penstock/chat/page/state/attention.js";
import { go, goToNeighbour, routeOf } from "../../../src/penstock/chat/page/state/router.js";
import { begin, signIn, signOut } from "../../../src/penstock/chat/page/state/session.js";
import { startChat } from "../../../src/penstock/chat/page/state/start-chat.js";
import { write } from "../../../src/penstock/chat/page/state/storage.js";
import { attempt, state } from "../../../src/penstock/chat/page/state/store.js";
import { isUnread } from "../../../src/penstock/chat/page/state/unread.js";

const chat = (id, more = {}) => ({ id, title: id, turns: 1, read: 1, state: "idle", asks: false, used_at: 1, ...more });
const paths = () => requests.map(({ method, path }) => `${method} ${path}`);

let chats = [];

beforeEach(async () => {
  state.session?.close();
  await settle();
  reset();
  Object.assign(state, { signedIn: null, about: null, agents: null, workspaces: null, chats: null, problem: "" });
  Object.assign(state, { route: { page: "home" }, dialog: null, session: null, nodes: [] });
  chats = [chat("a", { used_at: 2 }), chat("b")];
  answers.set("GET /api/events", () => new Promise(() => {}));
  answers.set("GET /api/about", () => ({ version: "1", default_agent: "x", allow: [], max_prompt_bytes: 100 }));
  answers.set("GET /api/chats", () => ({ chats }));
  answers.set("GET /api/runs", () => ({ runs: [] }));
  answers.set("POST /api/read", () => 204);
  answers.set("GET /api/agents", () => ({ agents: [{ name: "x", available: true }] }));
  answers.set("GET /api/workspaces", () => ({ roots: [{ path: "/shop", trusted: false }], recent: [] }));
});

test("the code of a link is out of the address before it is sent, and everything is loaded after it", async () => {
  Object.assign(location, { hash: "#code=secret" });
  answers.set("POST /api/login", () => 204);
  await begin();
  const [login, ...others] = requests;
  assert.deepEqual([login.path, login.body, login.hash], ["/api/login", { code: "secret" }, ""]);
  assert.deepEqual(
    new Set(others.slice(0, 4).map(({ path }) => path.split("?")[0])),
    new Set(["/api/about", "/api/chats", "/api/agents", "/api/runs"]),
  );
  assert.equal(state.signedIn, true);
  assert.deepEqual(state.chats, chats);
});

test("a link that was used leaves the page signed out, and says why", async () => {
  Object.assign(location, { hash: "#code=old" });
  for (const path of ["POST /api/login", "GET /api/about", "GET /api/chats", "GET /api/agents", "GET /api/runs"]) {
    answers.set(path, () => failure(401, { code: "unauthorized", detail: "who" }));
  }
  await begin();
  assert.equal(state.signedIn, false);
  assert.equal(state.problem, "The link was used before, or is too old.");
});

test("what a person pastes is a link or a token", async () => {
  answers.set("POST /api/login", () => 204);
  await signIn("http://localhost:1/#code=abc");
  await signIn("  token ");
  const bodies = requests.filter(({ path }) => path === "/api/login").map(({ body }) => body);
  assert.deepEqual(bodies, [{ code: "abc" }, { token: "token" }]);
});

test("a server that cannot be reached is tried again by itself", async () => {
  answers.set("GET /api/about", () => new TypeError("fetch failed"));
  await begin();
  assert.match(state.problem, /^Penstock is not running/);
  answers.set("GET /api/about", () => ({ version: "1" }));
  timers.tick(3000);
  await settle();
  assert.deepEqual([state.problem, state.about.version], ["", "1"]);
});

test("an answer that nobody is signed in closes the chat that is open", async () => {
  await begin();
  Object.assign(location, { pathname: "/chats/a" });
  window.dispatchEvent(new Event("popstate"));
  await settle();
  assert.equal(state.session.id, "a");
  answers.set("GET /api/chats", () => 401);
  await refresh();
  assert.deepEqual([state.signedIn, state.session], [false, null]);
});

test("signing out takes the chats off the page", async () => {
  await begin();
  answers.set("POST /api/logout", () => 204);
  await signOut({ everywhere: true });
  assert.deepEqual(requests.at(-1).body, { everywhere: true });
  assert.deepEqual([state.signedIn, state.chats], [false, null]);
});

test("what is chosen from a menu says why it was not done, until something else is", async () => {
  await begin();
  answers.set("POST /api/logout", () => new TypeError("fetch failed"));
  await attempt(signOut);
  assert.match(state.notice, /^Penstock is not running/);
  assert.equal(state.signedIn, true);
  answers.set("POST /api/logout", () => 204);
  await attempt(signOut);
  assert.deepEqual([state.notice, state.signedIn], ["", false]);
});

test("addresses lead to their pages", () => {
  assert.deepEqual(routeOf("/"), { page: "home" });
  assert.deepEqual(routeOf("/chats/a%20b"), { page: "chat", id: "a b" });
  assert.deepEqual(routeOf("/chats/a/turns/12"), { page: "details", id: "a", turn: 12 });
  assert.deepEqual(routeOf("/runs/loop-a"), { page: "run", id: "loop-a" });
  assert.deepEqual(routeOf("/runs/doc-1/turns/2"), { page: "run_details", id: "doc-1", turn: 2 });
  for (const path of [
    "/chats",
    "/chats/a/turns",
    "/chats/a/b",
    "/x",
    "/chats/a/turns/1/files",
    "/runs/a/changes",
    "/chats/a/beside",
    "/chats/a/turns/1/beside/b",
  ])
    assert.deepEqual(routeOf(path), { page: "missing" });
});

test("what is beside a thread has an address, and details are there if there is room", () => {
  for (const beside of [
    { kind: "changes", turn: 3 },
    { kind: "changes", turn: 0 },
    { kind: "files", path: "a dir/é&?#.js", line: 7 },
    { kind: "files", path: "", line: 0 },
  ])
    assert.deepEqual(routeOf(besidePath("a b", beside)), { page: "chat", id: "a b", beside });
  for (const line of ["-1", "1.5", "x", "1e99"])
    assert.equal(routeOf(`/chats/a/files?path=p&line=${line}`).beside.line, 0);
  media.matches = true;
  try {
    assert.deepEqual(routeOf("/chats/a/turns/2"), { page: "chat", id: "a", beside: { kind: "details", turn: 2 } });
    assert.deepEqual(routeOf("/runs/a/turns/2"), { page: "run", id: "a", beside: { kind: "details", turn: 2 } });
    const beside = { kind: "chat", chat: "c d" };
    assert.deepEqual(routeOf(besidePath("a b", beside)), { page: "chat", id: "a b", beside });
    assert.deepEqual(routeOf("/chats/a/beside/a"), { page: "chat", id: "a" }); // of itself there is no other one
  } finally {
    media.matches = false;
  }
  assert.deepEqual(routeOf("/chats/a/beside/b"), { page: "chat", id: "a" });
});

test("the chat that is beside the open one is read too", async () => {
  chats = [chat("a"), chat("beside", { turns: 2 }), chat("unread", { turns: 2 })];
  media.matches = true;
  try {
    await begin();
    go("/chats/a/beside/beside");
    assert.deepEqual(chats.map(isUnread), [false, false, true]);
    go("/");
    assert.deepEqual(chats.map(isUnread), [false, false, true]);
  } finally {
    media.matches = false;
  }
});

test("one way back leads from what is beside the thread to the thread, whatever was seen there meanwhile", async () => {
  media.matches = true;
  try {
    await begin();
    go("/chats/a");
    const { session } = state;
    openBeside("a", { kind: "changes", turn: 1 });
    go("/chats/a/turns/1");
    openFileOf("a")("src/app.ts", 12);
    assert.equal(`${location.pathname}${location.search}`, "/chats/a/files?path=src%2Fapp.ts&line=12");
    assert.deepEqual(state.route.beside, { kind: "files", path: "src/app.ts", line: 12 });
    history.back();
    assert.deepEqual([location.pathname, state.route.beside], ["/chats/a", undefined]);
    go("/chats/a/turns/1");
    closePane();
    assert.deepEqual([location.pathname, state.route.beside], ["/chats/a", undefined]);
    assert.equal(state.session, session);

    history.replaceState(null, "", "/chats/a/turns/1"); // the address of a link, with nothing before it
    go("/chats/a/turns/1");
    closePane();
    assert.deepEqual([location.pathname, state.route.beside], ["/chats/a", undefined]);
  } finally {
    media.matches = false;
  }
});

test("a chat that goes on is unread until it is opened", async () => {
  await begin();
  assert.ok(!state.chats.some(isUnread));
  chats = [chat("a", { turns: 2 }), chat("b", { state: "running" })];
  await refresh();
  assert.deepEqual(state.chats.map(isUnread), [true, false]); // one at work is not over yet
  assert.equal(windowTitle(), "• Penstock");
  goToNeighbour(1); // from no chat to the first, which is at work
  await settle();
  assert.equal(location.pathname, "/chats/b");
  goToNeighbour(1);
  await settle();
  assert.equal(location.pathname, "/chats/a");
  assert.deepEqual(state.chats.map(isUnread), [false, false]);
  assert.equal(windowTitle(), "a – Penstock");
});

test("a tab that is not seen asks for the list while something goes on, and shows what ended in it", async () => {
  answers.set("GET /api/chats/a/events", () => new Promise(() => {}));
  Object.assign(location, { pathname: "/chats/a" });
  chats = [chat("a")];
  await begin();
  timers.tick(10); // the stream of the list and the chat begins
  await settle();
  document.hidden = true;
  requests.length = 0;
  timers.tick(60_000);
  await settle();
  assert.deepEqual(paths(), []); // nothing goes on
  document.hidden = false;
  chats = [chat("a", { state: "running" })];
  await refresh();
  document.hidden = true;
  chats = [chat("a", { turns: 3 })];
  timers.tick(15_000);
  await settle();
  assert.equal(windowTitle(), "• a – Penstock");
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  assert.equal(windowTitle(), "a – Penstock");
});

test("a chat that the list does not have is missing, and its stream is not asked for", async () => {
  Object.assign(location, { pathname: "/chats/none" });
  await begin();
  await settle();
  assert.equal(state.session.connection, "missing");
  assert.ok(paths().includes("GET /api/chats?page=200&with=none"));
  assert.ok(!paths().some((path) => path.includes("events") && path.includes("none")));
});

test("a directory is trusted before a chat is made in it, in one step with the first message", async () => {
  await begin();
  await settle();
  requests.length = 0;
  answers.set("POST /api/workspaces", () => ({ path: "/shop", trusted: true }));
  answers.set("POST /api/chats", () => chat("new", { used_at: 3 }));
  answers.set("GET /api/chats/new/events", () => new Promise(() => {}));
  const started = startChat({ agent: "x", cwd: "/shop" }, "hello");
  assert.deepEqual([state.dialog.kind, state.dialog.path, paths()], ["trust", "/shop", []]);
  state.dialog.close(true);
  assert.equal(await started, true);
  await settle();
  const changes = requests.filter(({ method }) => method === "POST");
  assert.deepEqual(
    changes.map(({ path }) => path),
    ["/api/workspaces", "/api/chats"],
  );
  assert.deepEqual(changes[1].body, { agent: "x", cwd: "/shop", text: "hello", id: changes[1].body.id });
  assert.equal(location.pathname, "/chats/new");
  assert.equal(state.chats[0].id, "new");
});

test("another agent gets the same first message in a tree of its own; if it cannot, the page says why", async () => {
  await begin();
  await settle();
  state.workspaces = { roots: [{ path: "/shop", trusted: true }], recent: [] };
  answers.set("POST /api/chats", () => chat("new", { used_at: 3 }));
  answers.set("GET /api/chats/new/events", () => new Promise(() => {}));
  answers.set("POST /api/chats/new/turns/1/branch", () => ({ chat: chat("other", { used_at: 4 }) }));
  requests.length = 0;
  assert.equal(await startChat({ agent: "x", cwd: "/shop", tree: true }, "hello", [], "y"), true);
  await settle();
  const [made, branch] = requests.filter(({ method }) => method === "POST");
  assert.deepEqual([made.body.text, made.body.tree], ["hello", true]);
  assert.deepEqual(branch.body, { agent: "y", send: true, tree: true });
  assert.equal(location.pathname, "/chats/new");
  assert.ok(state.chats.some(({ id }) => id === "other"));
  const problem = { code: "conflict", detail: "y has no level of this kind" };
  answers.set("POST /api/chats/new/turns/1/branch", () => failure(409, problem));
  assert.equal(await startChat({ agent: "x", cwd: "/shop", tree: true }, "hello", [], "y"), true);
  await settle();
  assert.match(state.notice, /Y has no level of this kind/);
});

test("a first message and its files are one request, and if they are large they are uploaded before it", async () => {
  await begin();
  await settle();
  state.workspaces = { roots: [{ path: "/shop", trusted: true }], recent: [] };
  answers.set("POST /api/chats", ({ body }) => chat(body.id, { used_at: 3 }));
  const itemOf = (name, text) => ({ key: name, name, size: text.length, file: new File([text], name) });
  const posts = () => requests.filter(({ method }) => method === "POST");
  requests.length = 0;
  await startChat({ agent: "x", cwd: "/shop" }, "look", [itemOf("a.txt", "hello"), itemOf("ü.bin", "é")]);
  await settle();
  const files = [
    { name: "a.txt", content: "aGVsbG8=" },
    { name: "ü.bin", content: "w6k=" },
  ];
  const [{ body }] = posts();
  assert.deepEqual(body, { agent: "x", cwd: "/shop", text: "look", files, id: body.id });
  assert.deepEqual(new Set(posts().map(({ path }) => path)), new Set(["/api/chats"]));

  requests.length = 0;
  await startChat({ agent: "x", cwd: "/shop" }, "", [itemOf("only.txt", "hello")]); // a file needs no words
  assert.deepEqual([posts()[0].body.text, posts()[0].body.files.length], ["", 1]);

  requests.length = 0;
  const large = itemOf("large.txt", "x".repeat((2 << 20) + 1));
  await assert.rejects(startChat({ agent: "x", cwd: "/shop" }, "look", [large])); // here nothing takes the upload
  const [made, upload] = posts();
  assert.deepEqual(made.body, { agent: "x", cwd: "/shop", id: made.body.id });
  assert.match(upload.path, new RegExp(`^/api/chats/${made.body.id}/attachments`));
  assert.ok(requests.some(({ method, path }) => method === "DELETE" && path === `/api/chats/${made.body.id}`));
});

test("a directory that is not trusted gets no chat", async () => {
  await begin();
  await settle();
  requests.length = 0;
  const started = startChat({ agent: "x", cwd: "/shop" }, "hello");
  state.dialog.close(false);
  assert.equal(await started, false);
  assert.deepEqual([paths(), state.dialog], [[], null]);
});

test("a chat whose answer was lost is the same chat when it is asked for again, and no other one", async () => {
  await begin();
  await settle();
  state.workspaces = { roots: [{ path: "/shop", trusted: true }], recent: [] };
  answers.set("POST /api/chats", () => new TypeError("fetch failed"));
  const asked = () => requests.filter((it) => it.method === "POST" && it.path === "/api/chats").map((it) => it.body);
  const start = (agent) => startChat({ agent, cwd: "/shop" }, "hello");
  await assert.rejects(start("x"), /Penstock is not running/);
  await assert.rejects(start("y"), /Penstock is not running/);
  await assert.rejects(start("y"), /Penstock is not running/);
  const [first, second, third] = asked();
  assert.match(first.id, /^[0-9a-f]{32}$/);
  assert.notEqual(first.id, second.id);
  assert.deepEqual(second, third);

  answers.set("POST /api/chats", () => failure(409, { code: "conflict", detail: "there is a chat with this id" }));
  answers.set(`GET /api/chats/${third.id}`, () => chat(third.id, { used_at: 3 }));
  assert.equal(await start("y"), true);
  await settle();
  assert.equal(location.pathname, `/chats/${third.id}`);
  assert.ok(!paths().includes(`POST /api/chats/${third.id}/turns`), "its message came with it");

  await assert.rejects(start("y"), /There is a chat with this id/); // another chat, which another person has by its id
  assert.notEqual(asked().at(-1).id, third.id);
});

test("a directory of another machine is trusted there, and the chat is made there", async () => {
  const about = { version: "1", default_agent: "x", allow: [], max_prompt_bytes: 100, node: "a" };
  const roots = { version: "1", roots: ["/shop"], agents: ["x"], slots: 4 };
  const oslo = { name: "oslo", is_here: false, is_live: true, seen_seconds: 0, about: roots, chats: [] };
  answers.set("GET /api/about", () => about);
  answers.set("GET /api/nodes", () => ({ nodes: [oslo] }));
  answers.set("POST /api/workspaces", () => ({ path: "/shop", trusted: true }));
  answers.set("POST /api/chats", () => chat("new", { used_at: 3 }));
  answers.set("GET /api/chats/new/events", () => new Promise(() => {}));
  await begin();
  const started = startChat({ agent: "x", cwd: "/shop", home: "oslo" }, "");
  assert.deepEqual([state.dialog.path, state.dialog.home], ["/shop", "oslo"]);
  state.dialog.close(true);
  assert.equal(await started, true);
  const bodies = requests.filter(({ method }) => method === "POST").map(({ body }) => body);
  assert.deepEqual(bodies, [
    { path: "/shop", home: "oslo" },
    { agent: "x", cwd: "/shop", home: "oslo", id: bodies[1].id },
  ]);
});

test("behind a proxy the machine that answered first stays the one that is here", async () => {
  answers.set("GET /api/about", () => ({ version: "1", default_agent: "x", allow: [], node: "a" }));
  const node = (name) => ({ name, is_here: name === "b", is_live: true, seen_seconds: 0, about: {}, chats: [] });
  answers.set("GET /api/nodes", () => ({ nodes: [node("a"), node("b")] }));
  await begin();
  assert.deepEqual(
    state.nodes.map((it) => it.is_here),
    [true, false],
  );
});

test("the list is asked for soon while the machine of the open chat is away", async () => {
  Object.assign(location, { pathname: "/chats/a" });
  answers.set("GET /api/chats/a/events", () => new Promise(() => {}));
  chats = [chat("a", { home: "oslo", is_away: true })];
  await begin();
  chats = [chat("a", { home: "oslo" })];
  timers.tick(3000);
  await settle();
  assert.equal(state.chats[0].is_away, undefined);
});

test("a chat that is deleted takes its draft along, and leaves the page at the beginning", async () => {
  await begin();
  write(draftName("a"), "half a sentence");
  Object.assign(location, { pathname: "/chats/a" });
  answers.set("GET /api/chats/a/events", () => new Promise(() => {}));
  answers.set("DELETE /api/chats/a", () => 204);
  window.dispatchEvent(new Event("popstate"));
  await settle();
  await deleteChat("a");
  assert.deepEqual(
    state.chats.map(({ id }) => id),
    ["b"],
  );
  assert.deepEqual([location.pathname, state.session], ["/", null]);
  assert.equal(window.sessionStorage.size, 0);
});

test("what changes in the list comes by the stream, and is asked for again when it may be incomplete", async () => {
  const encoder = new TextEncoder();
  let send;
  answers.set("GET /api/events", () => {
    const start = (controller) => {
      send = (frame) => {
        const envelope = JSON.stringify({ place: 0, chat: "list", number: 1, frame });
        controller.enqueue(encoder.encode(`event: frame\ndata: ${envelope}\n\n`));
      };
    };
    return new Response(new ReadableStream({ start }));
  });
  await begin();
  timers.tick(10);
  await settle();
  requests.length = 0;
  send({ type: "list" }); // the list was just loaded
  send({ type: "listed", chat: chat("b", { used_at: 9, asks: true, state: "running" }) });
  await settle();
  assert.deepEqual(
    state.chats.map((it) => [it.id, it.asks]),
    [
      ["b", true],
      ["a", false],
    ],
  );
  send({ type: "unlisted", id: "b" });
  await settle();
  assert.deepEqual(
    state.chats.map((it) => it.id),
    ["a"],
  );
  assert.deepEqual(paths(), []);
  send({ type: "list" }); // a server that began anew
  await settle();
  assert.ok(paths().includes("GET /api/chats?page=200"));
});

test("the list is followed from the number that it was loaded at, so that no change is missed", async () => {
  answers.set("GET /api/chats", () => ({ chats, number: 77 }));
  await begin();
  timers.tick(10);
  await settle();
  assert.ok(paths().some((path) => path.startsWith("GET /api/events") && path.endsWith(encodeURIComponent("list:77"))));
});

test("the first chats are there at once, the others follow, and what changed meanwhile stays as it is", async () => {
  const all = Array.from({ length: 5 }, (_, i) => chat(`c${i}`, { used_at: 100 - i }));
  const ids = () => state.chats.map((it) => it.id);
  let next;
  answers.set("GET /api/chats", ({ path }) =>
    path.includes("cursor=one")
      ? new Promise((resolve) => (next = () => resolve({ chats: all.slice(2), next: undefined })))
      : { chats: all.slice(0, 2), next: "one", number: 1 },
  );
  await begin();
  await settle();
  assert.deepEqual([ids(), state.isWhole], [["c0", "c1"], false]);
  putChat(chat("c3", { used_at: 200, title: "newer" }));
  removeChat("c4");
  next();
  await settle();
  assert.deepEqual([ids(), state.isWhole], [["c3", "c0", "c1", "c2"], true]);
  assert.equal(state.chats[0].title, "newer");
});

test("a chat that was read stays read while the list has only its first chats", async () => {
  chats = [chat("a", { used_at: 2 }), chat("b", { turns: 2 })];
  await begin();
  assert.equal(isUnread(chats[1]), true);
  Object.assign(state, { route: { page: "chat", id: "b" } });
  await refresh();
  Object.assign(state, { route: { page: "home" } });
  answers.set("GET /api/chats", ({ path }) =>
    path.includes("cursor")
      ? { chats: [chat("b", { turns: 2 })] }
      : { chats: [chat("a", { used_at: 2 })], next: "2-a" },
  );
  await refresh();
  await settle();
  assert.equal(state.isWhole, true);
  assert.equal(isUnread(state.chats.find((it) => it.id === "b")), false);
});

test("chats that are gone leave the list once all of it is there", async () => {
  await begin();
  chats = [chat("a")];
  answers.set("GET /api/chats", ({ path }) =>
    path.includes("cursor") ? { chats: [chat("c")] } : { chats, next: "0-x", number: 1 },
  );
  await refresh();
  await settle();
  assert.deepEqual(state.chats.map((it) => it.id).toSorted(), ["a", "c"]);
});
