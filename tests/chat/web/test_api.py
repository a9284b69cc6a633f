"""Every address, by real requests to a real service: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from lazy_modules import LazyModule
from served import Gateway
from waiting import until

from penstock import __version__
from penstock.chat.history.entries import TurnEnded
from penstock.chat.service.counters import Counters
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.store.protocol import StoreClosed, StoreFailed
from penstock.chat.web import metrics
from penstock.chat.web import schemas as bodies
from penstock.chat.web.errors import answer
from penstock.chat.web.routes import ADDRESSES
from penstock.chat.web.static import without_comments
from penstock.events import RunEnded, Usage

if TYPE_CHECKING:
    import atif
    import jsonschema
else:
    atif = LazyModule("atif")
    jsonschema = LazyModule("jsonschema")

DOCS = Path(__file__).parents[3] / "docs" / "gateway-api.md"


@pytest.fixture(scope="module")
def client(shared: Gateway) -> Iterator[httpx.Client]:
    """A program that has the token. Each answer is as the OpenAPI document has it."""
    document: dict[str, Any] = {}

    def check(response: httpx.Response) -> None:
        response.read()
        if document:
            check_answer(document, response)

    with shared.client() as found:
        found.event_hooks["response"] = [check]
        document = found.get("/api/openapi.json").json()
        yield found


def check_answer(document: dict[str, Any], response: httpx.Response) -> None:
    """An answer is as the document says."""
    path = next(
        path for path in document["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), response.request.url.path)
    )
    operation = document["paths"][path][response.request.method.lower()]
    told = operation["responses"][str(response.status_code)]
    if "content" not in told:
        assert response.content == b""
        return
    schema = told["content"].get("application/json", {}).get("schema")
    if schema is not None and response.headers["content-type"] == "application/json":
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())


def refused(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of a refusal."""
    return answer.status_code, answer.json()["code"]


def finished(client: httpx.Client, chat: str) -> list[dict[str, Any]]:
    """The turns of a chat, when all are recorded."""
    until(lambda: all(turn.get("finalized") for turn in client.get(f"/api/chats/{chat}/turns").json()["turns"]))
    turns: list[dict[str, Any]] = client.get(f"/api/chats/{chat}/turns").json()["turns"]
    return turns


# --- the server ---


def test_the_server_tells_what_it_is(client: httpx.Client) -> None:
    """Health for everybody; the version, the default agent and the limits for those who are known."""
    assert client.get("/healthz").json() == {"status": "ok"}
    about = client.get("/api/about").json()
    assert about["version"] == __version__
    assert about["default_agent"] == "scripted"
    assert about["allow"] == ["default", "read", "ask", "edits", "all", "own"]
    assert about["max_prompt_bytes"] == ServiceLimits().max_prompt_bytes


def test_agents_are_told(client: httpx.Client) -> None:
    """Penstock's own and those of the configuration, each with what it can do."""
    agents = {agent["name"]: agent for agent in client.get("/api/agents").json()["agents"]}
    assert {"claude", "codex", "scripted"} <= set(agents)
    assert agents["scripted"]["installed"] is True
    assert agents["scripted"]["available"] is True
    assert {"available", "route", "asks", "resumes"} < set(agents["claude"])
    assert agents["claude"]["available"] == agents["claude"]["installed"]
    assert agents["ollama"]["available"] or agents["ollama"]["reason"]


def test_the_models_of_an_agent(own: Callable[..., Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is asked once for several clients; an agent without a list has no models; others are not known."""
    program, asked = tmp_path / "bin" / "codex", tmp_path / "asked"
    program.parent.mkdir()
    listed = {"slug": "m1", "visibility": "list", "supported_reasoning_levels": [{"effort": "low"}]}
    text = json.dumps({"models": [listed, {**listed, "slug": "--evil"}]})
    program.write_text(f"#!/bin/sh\necho x >>{asked}\necho '{text}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    gateway = own()
    with gateway.client() as client, ThreadPoolExecutor(5) as threads:
        path = "/api/agents/codex/models"
        for answer in threads.map(lambda _: client.get(path), range(5)):
            assert answer.json() == {"models": [{"name": "m1", "efforts": ["low"]}]}
        assert asked.read_text() == "x\n"
        for name in ("scripted", "claude", "acp"):
            found = client.get(f"/api/agents/{name}/models")
            assert refused(found) == (400, "invalid") if name == "acp" else found.json() == {"models": []}


def test_stored_prompts(own: Callable[..., Gateway], tmp_path: Path) -> None:
    """The prompts of the user's profiles, for those who may begin a chat."""
    gateway = own()
    with gateway.client() as client:
        assert client.get("/api/prompts").json() == {"prompts": []}
    gateway.close()
    with (gateway.folder / "agents.toml").open("a") as file:
        file.write('[run.review]\nagent = "scripted"\nprompt = "Review {{base}}."\nvariables = { base = "main" }\n')
    reopened = Gateway(gateway.folder, gateway.page)
    try:
        with reopened.client() as client:
            found = client.get("/api/prompts")
    finally:
        reopened.close()
    variables = [{"name": "base", "value": "main"}]
    one = {"name": "review", "description": "Review {{base}}.", "text": "Review {{base}}.", "variables": variables}
    assert (found.json(), found.headers["cache-control"]) == ({"prompts": [one]}, "no-store")


def test_directories_are_trusted_once(client: httpx.Client, shared: Gateway) -> None:
    """A directory below a root is trusted by word; before that, and elsewhere, no chat begins."""
    inside = shared.root / "shop"
    inside.mkdir()
    body = {"agent": "scripted", "cwd": str(inside)}
    assert refused(client.post("/api/chats", json=body)) == (409, "untrusted_directory")
    assert client.post("/api/workspaces", json={"path": str(inside)}).json() == {"path": str(inside), "trusted": True}
    assert client.post("/api/chats", json=body).status_code == 201
    found = client.get("/api/workspaces").json()
    assert found["roots"] == [{"path": str(shared.root), "trusted": True}]
    assert {"path": str(inside), "trusted": True} in found["recent"]
    outside = inside / "out"
    outside.symlink_to("/")
    for path in ("/", str(shared.root.parent), f"{inside}/../..", str(outside)):
        assert refused(client.post("/api/workspaces", json={"path": path})) == (403, "forbidden"), path
        assert refused(client.post("/api/chats", json={**body, "cwd": path})) == (403, "forbidden"), path
    for path in ("shop", "", "\0", "/" * 5000, str(inside / "none")):
        assert refused(client.post("/api/workspaces", json={"path": path})) == (400, "invalid"), path


def test_directories_are_offered(client: httpx.Client, shared: Gateway) -> None:
    """A path is continued below the roots alone, and a directory says whether a chat can begin there."""
    inside = shared.root / "offered" / "inside"
    inside.mkdir(parents=True)
    path = "/api/directories"
    named = [it["path"] for it in client.get(path, params={"q": f"{shared.root}/offered/"}).json()["directories"]]
    assert named == [str(inside)]
    found = client.get(path, params={"q": f"{shared.root.parent}/"}).json()["directories"]
    assert [it["path"] for it in found] == [str(shared.root)]
    assert refused(client.get(path, params={"q": "\0"})) == (400, "invalid")
    found = client.get("/api/directory", params={"path": str(inside)}).json()
    assert found == {"path": str(inside), "trusted": False, "branch": None, "changes": None, "tree": False}
    for other, refusal in (("/", (403, "forbidden")), ("inside", (400, "invalid")), (f"{inside}/no", (400, "invalid"))):
        assert refused(client.get("/api/directory", params={"path": other})) == refusal


# --- chats ---


def test_a_chat_comes_changes_and_goes(client: httpx.Client, shared: Gateway) -> None:
    """A chat is made, listed, changed field by field, and forgotten."""
    made = client.post("/api/chats", json={"title": "One"})
    assert made.status_code == 201
    chat = made.json()
    assert made.headers["location"] == f"/api/chats/{chat['id']}"
    assert (chat["title"], chat["agent"], chat["cwd"]) == ("One", "scripted", str(shared.root))
    assert (chat["state"], chat["asks"], chat["turns"], chat["heartbeat"]) == ("idle", False, 0, None)
    path = f"/api/chats/{chat['id']}"
    assert client.get(path).json() == chat
    assert chat in client.get("/api/chats").json()["chats"]
    beat = {"minutes": 30, "prompt": "Anything new?", "quiet": "22:00-07:00", "on": True}
    changed = client.patch(path, json={"title": "Two", "allow": "edits", "model": "small", "heartbeat": beat}).json()
    assert changed == {**chat, "title": "Two", "allow": "edits", "model": "small", "heartbeat": beat}
    assert client.patch(path, json={}).json() == changed
    again = client.patch(path, json={"model": None, "heartbeat": None}).json()
    assert again == {**chat, "title": "Two", "allow": "edits"}
    assert client.delete(path).status_code == 204
    assert refused(client.get(path)) == (404, "not_found")
    assert refused(client.delete(path)) == (404, "not_found")
    assert chat["id"] not in [it["id"] for it in client.get("/api/chats").json()["chats"]]


@pytest.mark.parametrize(
    "body",
    [
        {"agent": "nobody"},
        {"agent": "generic"},
        {"agent": "acp:rm -rf /"},
        {"agent": 1},
        {"model": "--dangerous"},
        {"title": 1},
        {"title": "x" * 10_000},
        {"allow": "everything"},
        {"id": "mine"},
        {"cwd": "relative"},
        [],
        "agent",
    ],
)
def test_a_chat_that_cannot_be(client: httpx.Client, body: Any) -> None:
    """A value that cannot be is refused, and nothing is made."""
    before = client.get("/api/chats").json()
    status, _ = refused(client.post("/api/chats", json=body))
    assert status in (400, 413)
    assert client.get("/api/chats").json() == before


@pytest.mark.parametrize(
    "body",
    [
        {"titel": "x"},
        {"allow": None},
        {"agent": "claude"},
        {"heartbeat": {"minutes": 0, "prompt": "x"}},
        {"heartbeat": {"minutes": 5}},
        {"heartbeat": {"minutes": 5, "prompt": "x", "quiet": "late"}},
        {"heartbeat": {"minutes": 5, "prompt": "x", "often": True}},
        {"heartbeat": {"minutes": 10**30, "prompt": "x"}},
    ],
)
def test_a_change_that_cannot_be(client: httpx.Client, shared: Gateway, body: Any) -> None:
    """A field that a chat has not, or a value that it cannot have, changes nothing."""
    path = f"/api/chats/{shared.chat()}"
    before = client.get(path).json()
    assert refused(client.patch(path, json=body)) == (400, "invalid")
    assert client.get(path).json() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"nonsense", b'{"text": "\\ud800"}', b'{"text": "\xff"}', b"[" * 100_000, b'{"text": 1}', b"{}"],
)
def test_a_body_that_is_no_prompt(client: httpx.Client, shared: Gateway, content: bytes) -> None:
    """What is no JSON, or says no text, is refused with what was expected."""
    answer = client.post(
        f"/api/chats/{shared.chat()}/turns", content=content, headers={"Content-Type": "application/json"}
    )
    assert refused(answer) == (400, "invalid")
    assert answer.json()["detail"].endswith('expected {"text", "attachments"?, "now"?, "stops"?, "steers"?}')


# --- turns ---


@pytest.mark.slow
def test_a_turn_runs_and_has_a_record(client: httpx.Client, shared: Gateway) -> None:
    """A prompt is a turn; a prompt with the same key is the same one; its record is for people and for programs."""
    chat = shared.chat()
    path = f"/api/chats/{chat}/turns"
    first = client.post(path, json={"text": "Hello"}, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, first.json()) == (202, {"turn": 1})
    again = client.post(path, json={"text": "Hello"}, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json()) == (200, {"turn": 1})
    assert client.post(path, json={"text": "And?"}, headers={"Idempotency-Key": "k2"}).json() == {"turn": 2}
    turns = finished(client, chat)
    assert [(turn["prompt"], turn["key"], turn["outcome"]) for turn in turns] == [
        ("Hello", "k1", "ok"),
        ("And?", "k2", "ok"),
    ]
    record = client.get(f"{path}/1/details").json()
    assert record["whole"] is True
    assert record["turn"]["turn"] == 1
    assert {"thinking", "call", "text"} <= {item["kind"] for item in record["items"]}
    lines = client.get(f"{path}/1/details?format=ndjson")
    assert lines.headers["content-type"] == "application/x-ndjson"
    events = [json.loads(line)["type"] for line in lines.text.splitlines()]
    assert (events[0], events[-1]) == ("run_started", "run_ended")
    trajectory = client.get(f"{path}/1/atif").json()
    atif.Trajectory.model_validate(trajectory, strict=True)
    assert trajectory["steps"][0]["message"] == "Hello"
    assert trajectory["extra"]["reply"] == turns[0]["message"]
    assert refused(client.get(f"{path}/3/atif")) == (404, "not_found")
    assert client.get(f"/api/chats/{chat}").json()["title"] == "Hello"


def test_a_turn_that_waits_says_so(shared: Gateway) -> None:
    """`state` and `by` are in the JSON of each turn, in a page of turns and in the snapshot."""
    chat = shared.chat("staying")
    with shared.client() as client:
        for text in ("Stay.", "Wait."):
            assert client.post(f"/api/chats/{chat}/turns", json={"text": text}).status_code == 202
        page = client.get(f"/api/chats/{chat}/turns").json()["turns"]
        assert refused(client.get(f"/api/chats/{chat}/turns/1/atif")) == (409, "conflict")
        with client.stream("GET", f"/api/chats/{chat}/events") as answer:
            line = next(line for line in answer.iter_lines() if line.startswith("data: "))
        assert client.post(f"/api/chats/{chat}/stop", json={}).status_code == 202
    for turns in (page, json.loads(line[6:])["turns"]):
        assert [turn["by"] for turn in turns] == ["person", "person"]
        assert turns[1]["state"] == "queued"


@pytest.mark.slow
def test_turns_come_page_by_page(client: httpx.Client, shared: Gateway) -> None:
    """The newest, or those before one, oldest first; and whether there are earlier ones."""
    chat = shared.chat()
    path = f"/api/chats/{chat}/turns"
    for number in range(5):
        client.post(path, json={"text": f"{number}"})
    finished(client, chat)

    def numbers(query: str) -> tuple[list[int], bool]:
        page = client.get(f"{path}?{query}").json()
        return [turn["turn"] for turn in page["turns"]], page["earlier"]

    assert numbers("") == ([1, 2, 3, 4, 5], False)
    assert numbers("limit=2") == ([4, 5], True)
    assert numbers("before=4&limit=2") == ([2, 3], True)
    assert numbers("before=2") == ([1], False)
    assert numbers("before=1") == ([], False)


@pytest.mark.parametrize(
    "query", ["before=0", "before=x", "before=-1", "before=1.5", "limit=0", "limit=201", "limit=", "before=" + "9" * 40]
)
def test_a_page_that_cannot_be(client: httpx.Client, shared: Gateway, query: str) -> None:
    """A number that cannot be is refused."""
    assert refused(client.get(f"/api/chats/{shared.chat()}/turns?{query}")) == (400, "invalid")


@pytest.mark.parametrize("key", ["", "x" * 201, "with space", "tab\tin"])
def test_a_key_that_is_none(client: httpx.Client, shared: Gateway, key: str) -> None:
    """An idempotency key that no one would make is refused, and no turn begins."""
    path = f"/api/chats/{shared.chat()}/turns"
    assert refused(client.post(path, json={"text": "x"}, headers={"Idempotency-Key": key})) == (400, "invalid")
    assert client.get(path).json()["turns"] == []


@pytest.mark.parametrize("turn", ["0", "-1", "x", "01", "9" * 30, "1.0"])
def test_a_record_of_no_turn(client: httpx.Client, shared: Gateway, turn: str) -> None:
    """What is no number of a turn is found nowhere."""
    assert refused(client.get(f"/api/chats/{shared.chat()}/turns/{turn}/details")) == (404, "not_found")


def test_records_that_are_not_there(client: httpx.Client, shared: Gateway) -> None:
    """Neither a turn that never was, nor a format that is none."""
    chat = shared.chat()
    assert refused(client.get(f"/api/chats/{chat}/turns/1/details")) == (404, "not_found")
    assert refused(client.get(f"/api/chats/{chat}/turns/1/details?format=xml")) == (400, "invalid")


def test_a_chat_that_is_not_there(client: httpx.Client) -> None:
    """Every address of a chat says so."""
    path = "/api/chats/0f8e0f8e0f8e0f8e"
    for method, tail, body in (
        ("GET", "", None),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        ("GET", "/turns", None),
        ("POST", "/turns", {"text": "x"}),
        ("GET", "/turns/1/details", None),
        ("GET", "/turns/1/activity", None),
        ("GET", "/turns/1/changes", None),
        ("GET", "/changes", None),
        ("GET", "/export", None),
        ("GET", "/file?path=a.txt", None),
        ("GET", "/files?q=a", None),
        ("GET", "/picture?path=a.png", None),
        ("GET", "/turns/1/atif", None),
        ("POST", "/stop", {}),
        ("POST", "/questions", {"id": "1", "answer": "x"}),
        ("GET", "/events", None),
    ):
        assert refused(client.request(method, path + tail, json=body)) == (404, "not_found"), (method, tail)


def test_stopping_and_taking_back(client: httpx.Client, shared: Gateway) -> None:
    """A turn that runs is stopped, one that waits is taken back; without a number, all are."""
    chat = shared.chat("staying")
    path = f"/api/chats/{chat}"
    for _ in range(4):
        client.post(f"{path}/turns", json={"text": "x"})
    until(lambda: client.get(path).json()["state"] == "running")
    taken = client.post(f"{path}/stop", json={"turn": 3})
    assert (taken.status_code, taken.json()) == (202, {"turns": [3]})
    assert refused(client.post(f"{path}/stop", json={"turn": 9})) == (404, "not_found")
    assert refused(client.post(f"{path}/stop", json={"turn": "3"})) == (400, "invalid")
    assert sorted(client.post(f"{path}/stop", json={}).json()["turns"]) == [1, 2, 4]
    assert [turn["outcome"] for turn in finished(client, chat)] == ["cancelled"] * 4
    assert client.post(f"{path}/stop", json={}).json() == {"turns": []}


def test_an_answer_that_nobody_waits_for(client: httpx.Client, shared: Gateway) -> None:
    """It is refused, and is no prompt."""
    path = f"/api/chats/{shared.chat()}"
    assert refused(client.post(f"{path}/questions", json={"id": "1", "answer": "yes"})) == (409, "conflict")
    assert client.get(f"{path}/turns").json()["turns"] == []


def test_there_is_an_end_to_everything(own: Callable[..., Gateway]) -> None:
    """A queue that is full, a prompt that is too large, and one chat too many are refused."""
    gateway = own(limits=ServiceLimits(max_queue=2, max_chats=1, max_prompt_bytes=100))
    chat = gateway.chat("staying")
    with gateway.client() as client:
        answer = client.post("/api/chats", json={})
        assert refused(answer) == (429, "too_many_requests")
        assert "--max-chats" in answer.json()["help"]
        assert "\npenstock_chats_limit 1\n" in client.get("/metrics").text
        path = f"/api/chats/{chat}/turns"
        assert refused(client.post(path, json={"text": "é" * 51})) == (413, "content_too_large")
        assert client.post(path, json={"text": "x" * 100}).status_code == 202
        until(lambda: client.get(f"/api/chats/{chat}").json()["state"] == "running")
        for _ in range(2):
            assert client.post(path, json={"text": "x"}).status_code == 202
        assert refused(client.post(path, json={"text": "x"})) == (429, "too_many_requests")


def test_who_asks_while_it_ends(own: Callable[..., Gateway]) -> None:
    """A connection that is still there is told that the server ends."""
    gateway = own()
    with gateway.client() as client:
        assert client.get("/healthz").status_code == 200

        async def asked() -> tuple[int, int]:
            # The server closes idle connections at once, so what comes meanwhile is asked for inside.
            transport = httpx.ASGITransport(gateway.server.config.app)  # type: ignore[arg-type]
            gateway.watches.drain(1.0)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as inside:
                health = await inside.get("/healthz")
                answer = await inside.get("/api/chats", headers=gateway.bearer)
                return health.status_code, refused(answer)[0]

        assert gateway.call(asked()) == (503, 503)


# --- the table ---


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "MADE-UP"])
def test_other_methods_are_refused(client: httpx.Client, shared: Gateway, method: str) -> None:
    """An address says which methods it takes."""
    client = shared.client()
    for path in ("/api/about", "/api/agents", "/healthz", "/metrics", "/", "/app.js"):
        answer = client.request(method, path)
        assert refused(answer) == (405, "method_not_allowed"), path
        assert answer.headers["allow"] == "GET, HEAD"
    client.close()


def test_head_is_get_without_its_body(shared: Gateway) -> None:
    """HEAD answers as GET does."""
    with shared.client() as client:
        for path in ("/", "/app.js", "/healthz", "/api/chats", "/api/about"):
            got, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-type"] == got.headers["content-type"]


def test_what_no_one_may_know_of_a_bug(shared: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is told to be one, and nothing of what it says."""

    def fail() -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(shared.service.chat_list, "all", fail)
    with shared.client() as client:
        answer = client.get("/api/chats")
    assert refused(answer) == (500, "internal_error")
    assert "secret" not in answer.text


def test_a_store_that_fails_is_an_error() -> None:
    """That the disk is full is no bug, and may be over soon."""
    for error, code in ((StoreFailed("the disk is full"), "store_unavailable"), (StoreClosed(), "shutting_down")):
        made = answer(error)
        assert (made.status_code, json.loads(bytes(made.body))["code"]) == (503, code)
        assert made.headers["retry-after"]


def test_a_body_that_does_not_come(shared: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who announces a body and does not send it is not waited for."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
    head = (
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )
    assert shared.raw(head).startswith(b"HTTP/1.1 408 ")


def test_metrics_are_what_prometheus_reads(own: Callable[..., Gateway]) -> None:
    """Each metric has a type, each line a name and a number; and they count what has happened."""
    gateway = own()
    chat = gateway.chat()
    with gateway.client() as client:
        client.post(f"/api/chats/{chat}/turns", json={"text": "x"})
        finished(client, chat)
        turn = client.get(f"/api/chats/{chat}/turns").json()["turns"][0]
        answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert re.fullmatch(r'[a-z_]+({[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*})?', name), line
            values[name] = float(value)
    typed = set(re.findall(r"^# TYPE (\w+) (?:counter|gauge|histogram)$", answer.text, re.MULTILINE))
    assert {re.sub(r"(_bucket|_sum|_count)?({.*)?$", "", name) for name in values} <= typed
    assert values['penstock_turns_total{agent="scripted",outcome="ok"}'] == 1
    assert values['penstock_tokens_total{agent="scripted",kind="input"}'] == turn["usage"]["input_tokens"] > 0
    assert values['penstock_tokens_total{agent="scripted",kind="output"}'] == turn["usage"]["output_tokens"] > 0
    assert values['penstock_cost_usd_total{agent="scripted"}'] == turn["cost_usd"] > 0
    version = f'version="{__version__}",python="{platform.python_version()}",node=""'
    assert values[f"penstock_build_info{{{version}}}"] == 1
    assert values["process_resident_memory_bytes"] > 1_000_000
    assert 0 < values["process_open_fds"] < values["process_max_fds"]
    assert values['penstock_chats{state="idle"}'] == 1
    assert values["penstock_chats_limit"] == 10_000
    assert values["penstock_store_entries_total"] > 10
    assert (
        values["penstock_store_append_seconds_count"] == values['penstock_store_append_seconds_bucket{le="+Inf"}'] > 0
    )
    assert values['penstock_requests_total{method="POST",path="/api/chats/{chat}/turns",status="202"}'] == 1
    assert chat not in answer.text
    told = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text("utf-8")
    assert set(re.findall(r"\b(?:penstock|process)_[a-z_]+", told)) <= typed, "rules to copy name metrics that exist"


def test_metrics_claim_nothing_that_no_agent_reported() -> None:
    """The cost of an agent that reports none is no line and not 0, of one that reports some the sum; a name is text."""
    counters = Counters()
    counters.agents["silent"].add(TurnEnded(1, "cut_off"))
    counters.agents["silent"].add(RunEnded(agent="silent", outcome="ok", reply="", rounds=1))
    for cost in (0.1, None, 0.2):
        end = RunEnded(agent="x", outcome="ok", reply="", rounds=1, cost_usd=cost, usage=Usage(output_tokens=3))
        counters.agents['od"d'].add(end)
    page = metrics.Exposition()
    metrics._add_agents(page, counters.agents)
    assert [line for line in page.text().splitlines() if not line.startswith("#")] == [
        'penstock_turns_total{agent="silent",outcome="cut_off"} 1',
        'penstock_turns_total{agent="silent",outcome="ok"} 1',
        'penstock_turns_total{agent="od\\"d",outcome="ok"} 3',
        'penstock_tokens_total{agent="od\\"d",kind="output"} 9',
        'penstock_cost_usd_total{agent="od\\"d"} 0.3',
    ]


# --- the document ---


@pytest.mark.slow
def test_the_document_has_every_address(client: httpx.Client) -> None:
    """The document has each method of each address and no other; its references lead somewhere; ids are unique."""
    document = client.get("/api/openapi.json").json()
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(address.method, address.path) for address in ADDRESSES}
    text = json.dumps(document)
    assert {*re.findall(r'"#/components/schemas/(\w+)"', text)} <= set(document["components"]["schemas"])
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {it["name"] for it in operation.get("parameters", []) if it["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_schemas_have_plain_names(client: httpx.Client) -> None:
    """Code generators make classes of them: each is one word, also where two modules have a type of the same name."""
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    assert len({name.lower() for name in schemas}) == len(schemas)  # files of some systems


def test_what_is_absent_is_nothing(client: httpx.Client) -> None:
    """A field that may be absent from an answer has a default that is null, false, 0 or empty."""
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    given = {"NewChat", "NewPush", "NewShare", "Heartbeat"}  # requests; and a heartbeat in an answer is whole
    defaults = {
        f"{name}.{field}": schema["default"]
        for name, facts in schemas.items()
        for field, schema in facts.get("properties", {}).items()
        if name not in given and schema.get("default")
    }
    assert defaults == {}


def test_the_page_of_the_docs_has_every_address() -> None:
    """The table of `docs/gateway-api.md` has the addresses of the table of the gateway, and no other."""
    table = DOCS.read_text("utf-8").split("## Addresses")[1].split("\n## ")[0].split("CHAT:")[0]
    told = set(re.findall(r"^\| `([A-Z]+) ([^`?]+)(?:\?[^`]*)?` \|", table, re.MULTILINE))
    ids = {"/ai/AGENT": "/ai/{agent}", "/agui/AGENT": "/agui/{agent}"}
    ids |= {"/ai/FOREIGN": "/ai/{foreign}", "/browsers/ID": "/browsers/{browser}"}
    ids |= {
        "/attachments/ID": "/attachments/{attachment}",
        "/rules/ID": "/rules/{rule}",
        "/shares/ID": "/shares/{share}",
        "/runs/ID": "/runs/{run}",
        "/nodes/NAME": "/nodes/{node}",
        "/agents/NAME": "/agents/{agent}",
    }
    ids |= {
        "/steps/N/": "/steps/{step}/",
        "/rounds/N/": "/rounds/{round}/",
        "/candidates/K/": "/candidates/{candidate}/",
        "/ID": "/{chat}",
        "/turns/N": "/turns/{turn}",
    }
    for short, long in ids.items():
        told = {(method, path.replace(short, long)) for method, path in told}
    assert told == {(address.method, address.path) for address in ADDRESSES}


def test_the_page_of_the_docs_has_every_error(shared: Gateway) -> None:
    """The table of errors has each status and code that a refusal has, and no other."""
    from penstock.chat import errors
    from penstock.chat.web import errors as web_errors

    table = DOCS.read_text("utf-8").split("## Errors")[1].split("\n## ")[0]
    told = {
        (int(status), code)
        for statuses, code in re.findall(r"^\| ([0-9, ]+) \| `(\w+)` \|", table, re.MULTILINE)
        for status in statuses.split(",")
    }
    kinds = [*vars(errors).values(), *vars(web_errors).values()]
    ours = {(kind.status, kind.code) for kind in kinds if isinstance(kind, type) and issubclass(kind, errors.ChatError)}
    assert told == ours | {(503, "store_unavailable"), (500, "internal_error")}


# --- the page ---


def test_the_page_is_where_it_is_on_the_screen(shared: Gateway) -> None:
    """The list, a chat and a record are the same file; their addresses can be kept and opened again."""
    with shared.client() as client:
        page = client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-cache"
        for path in ("/index.html", "/chats/0f8e", "/chats/0f8e/turns/12", "/chats/0f8e/beside/0f8f", "/?x=1"):
            assert client.get(path).content == page.content, path
        for path in ("/chats", "/chats/", "/chats/0f8e/", "/chats/0f8e/turns", "/chats/0f8e/turns/0", "/chats/a.b"):
            assert refused(client.get(path)) == (404, "not_found"), path


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/app.js", "text/javascript; charset=utf-8"), ("/base.css", "text/css; charset=utf-8"),
     ("/favicon.svg", "image/svg+xml"), ("/vendor/marked.js", "text/javascript; charset=utf-8")],
)  # fmt: skip
def test_files_have_types_and_are_kept(shared: Gateway, path: str, kind: str) -> None:
    """A file has its type, and is sent again only when it is another one."""
    with shared.client() as client:
        first = client.get(path)
        assert (first.status_code, first.headers["content-type"]) == (200, kind)
        tag = first.headers["etag"]
        for asked in (tag, f'"other", W/{tag}', "*"):
            again = client.get(path, headers={"If-None-Match": asked})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_files_of_this_version_are_asked_for_once(shared: Gateway) -> None:
    """The page names its files below a hash of all of them, which browsers keep; a page of another version works."""
    with shared.client() as client:
        text = client.get("/").text
        named = set(re.findall(r'"(/[^"]+\.(?:js|css|svg)|/[a-z]+/[^"]*)"', text))
        assert len(named) >= 2
        prefixes = {re.match(r"/v/[0-9a-f]{16}/", name)[0] for name in named}  # type: ignore[index]
        [prefix] = prefixes
        for name in named:
            if name.endswith("/"):
                continue
            kept = client.get(name)
            plain = client.get("/" + name.removeprefix(prefix))
            assert (kept.status_code, kept.content) == (200, plain.content), name
            assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert plain.headers["cache-control"] == "no-cache"
            assert ("etag" in kept.headers, "etag" in plain.headers) == (False, True)
        older = client.get("/v/0123456789abcdef/app.js")
        assert (older.status_code, older.headers["cache-control"]) == (200, "no-cache")
        assert client.get(prefix + "app.jsx").status_code == 404


def test_scripts_are_sent_without_their_comments(shared: Gateway) -> None:
    """Comments on lines of their own are left out; all other text stays, on the line that it has in the file."""
    script = (
        b"// first\nlet a = 1; // beside code\n  /** @type {string} */\nlet b;\n/**\n * Two\n * lines.\n */\n"
        b"/** @type {any} */ (a).b;\n/* kept */\nlet url = 'http://a/b';\n/** one */ let c; /** two */\n"
    )
    left = (
        b"\nlet a = 1; // beside code\n\nlet b;\n\n\n\n\n"
        b"/** @type {any} */ (a).b;\n/* kept */\nlet url = 'http://a/b';\n/** one */ let c; /** two */\n"
    )
    assert without_comments(script) == left
    with shared.client() as client:
        assert client.get("/app.js").content == b"\nexport {};\n"


def test_files_of_the_page_are_sent_small(shared: Gateway) -> None:
    """A file is sent by gzip to who reads it, under a tag of its own; a client that does not gets it as it is."""
    with shared.client() as client:
        name = "/large.css"
        plain = client.get(name, headers={"Accept-Encoding": "identity"})
        packed = client.get(name, headers={"Accept-Encoding": "br, gzip"})
        assert (plain.headers.get("content-encoding"), packed.headers["content-encoding"]) == (None, "gzip")
        assert int(packed.headers["content-length"]) < len(plain.content) == len(packed.content)
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        tag = packed.headers["etag"]
        assert tag != plain.headers["etag"]
        again = client.get(name, headers={"Accept-Encoding": "gzip", "If-None-Match": tag})
        assert (again.status_code, again.headers.get("content-encoding")) == (304, None)
        # A proxy that kept the small form may not pass it on to a client that cannot read it.
        assert client.get(name, headers={"Accept-Encoding": "identity", "If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("coding", "is_packed"),
    [("gzip", True), ("br;q=1.0, GZIP;q=0.8", True), ("*", True), ("identity", False), ("gzip;q=0", False),
     ("gzip; q=0.000", False), ("", False), ("gzipped", False)],
)  # fmt: skip
def test_answers_are_compressed(shared: Gateway, coding: str, is_packed: bool) -> None:
    """A large answer is sent by gzip to a client that says that it reads it; it is the same answer."""
    with shared.client() as client:
        plain = client.get("/api/openapi.json", headers={"Accept-Encoding": "identity"})
        given = client.get("/api/openapi.json", headers={"Accept-Encoding": coding})
        assert (given.headers.get("content-encoding") == "gzip") is is_packed
        assert given.json() == plain.json()
        assert given.headers["vary"] == "Accept-Encoding"
        assert (int(given.headers["content-length"]) < len(plain.content) / 4) is is_packed


def test_small_answers_are_sent_as_they_are(shared: Gateway) -> None:
    """An answer that fits into one packet is not compressed, nor is a problem."""
    with shared.client() as client:
        for path in ("/healthz", "/api/chats/nothing", "/api/link"):
            assert "content-encoding" not in client.get(path, headers={"Accept-Encoding": "gzip"}).headers, path


@pytest.mark.slow
def test_asked_all_at_once(shared: Gateway) -> None:
    """Many requests at the same time are answered, each with its own answer."""
    chats = {shared.chat(title=f"chat {number}"): f"chat {number}" for number in range(10)}

    async def ask() -> list[tuple[str, str]]:
        async with httpx.AsyncClient(base_url=shared.url, headers=shared.bearer, timeout=20) as client:
            answers = await asyncio.gather(*(client.get(f"/api/chats/{chat}") for chat in [*chats] * 10))
            return [(it.json()["id"], it.json()["title"]) for it in answers]

    assert asyncio.run(ask()) == [*chats.items()] * 10
