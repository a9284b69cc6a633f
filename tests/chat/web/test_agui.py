"""AG-UI of a real gateway: asked as it stands, and by two versions of the official client."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import agui_clients
import httpx
import pytest
from serve_process import LINK
from served import AGENTS, PLAYER, RECORDINGS, TESTS, TOKEN, Gateway
from waiting import until

from penstock.chat.web import agui_api

from .test_door_agui import events_of
from .test_openai import leaving

PEER = TESTS / "support" / "acp_peer.py"
MORE = f"""
[agents.failing]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "err500"}", "--speed=0"]
adapter = "claude"

[agents.peer]
command = ["{sys.executable}", "{PEER}"]
protocol = "acp"

[agents.held]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0", "--hold=38:HELD"]
adapter = "claude"
"""
REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]
ATTACH = {"penstock": {"attach": True}}


@pytest.fixture
def gateway(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A gateway with more agents, which waits long for a client that goes."""
    monkeypatch.setattr(agui_api, "LEFT_SECONDS", 3600.0)
    (tmp_path / "agents.toml").write_text(AGENTS + MORE.replace("HELD", str(tmp_path / "go")))
    made = Gateway(tmp_path, page)
    yield made
    made.close()


def message(content: Any, id: str = "u1", role: str = "user") -> dict[str, Any]:
    """A message of the client."""
    return {"id": id, "role": role, "content": content}


def body(*messages: dict[str, Any], thread: str = "th", run: str = "r1", **more: Any) -> dict[str, Any]:
    """A request as a client of version 1.0 makes it."""
    return {"threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": messages, **more}


def post(gateway: Gateway, *messages: dict[str, Any], path: str = "/agui", **more: Any) -> httpx.Response:
    """A request and all of its response."""
    with gateway.client() as one:
        return one.post(path, json=body(*messages, **more))


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a response."""
    assert answer.status_code == 200, answer.text
    return list(events_of(answer.content))


def reply(found: list[dict[str, Any]]) -> str:
    """The last text of the agent."""
    texts: dict[str, str] = {}
    for event in found:
        if event["type"] == "MESSAGES_SNAPSHOT":
            texts = {it["id"]: it["content"] for it in event["messages"] if it["role"] == "assistant"}
        elif event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    return [*texts.values()][-1]


def nested(depth: int) -> Any:
    """A value with this many objects in each other."""
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


def turns(gateway: Gateway) -> list[tuple[str, str]]:
    """The prompts and outcomes of all turns of all chats, oldest chat first."""
    with gateway.client() as one:
        chats = sorted(one.get("/api/chats").json()["chats"], key=lambda chat: chat["created_at"])
        found = [one.get(f"/api/chats/{chat['id']}/turns").json().get("turns", []) for chat in chats]
    return [(turn["prompt"], turn.get("outcome", turn["state"])) for views in found for turn in views]


@pytest.mark.slow
def test_a_turn_is_a_run(gateway: Gateway) -> None:
    """The default agent or a named one; the next run of the thread is the next turn of the chat."""
    answer = post(gateway, message("One"))
    assert answer.headers["content-type"].startswith("text/event-stream")
    first = events(answer)
    assert first[0] == {"type": "RUN_STARTED", "threadId": "th", "runId": "r1", "protocolVersion": "1.0"}
    assert first[-1]["outcome"] == {"type": "success", "pendingToolCallIds": []}
    assert first[-1]["result"]["turn"] == 1
    until(lambda: "usage" in events(post(gateway, message("One"), forwardedProps=ATTACH))[-1])
    second = events(post(gateway, message("One"), message("Two", "u2"), run="r2"))
    assert second[-1]["result"]["chat"] == first[-1]["result"]["chat"]
    assert second[-1]["result"]["turn"] == 2
    failed = events(post(gateway, message("Three"), path="/agui/failing", thread="other"))
    assert failed[-1]["type"] == "RUN_ERROR"
    assert "the agent failed" in failed[-1]["message"]
    assert [reply(first), reply(second)] == [REPLY, REPLY]
    assert turns(gateway) == [("One", "ok"), ("Two", "ok"), ("Three", "error")]


@pytest.mark.slow
def test_the_same_run_is_the_same_turn(gateway: Gateway) -> None:
    """By its id and its text; another run with the same text is asked anew."""
    first = events(post(gateway, message("One")))
    again = events(post(gateway, message("One", "u9")))
    assert (reply(again), again[-1]["outcome"]) == (reply(first), first[-1]["outcome"])
    assert len(turns(gateway)) == 1
    post(gateway, message("One"), run="r2")
    post(gateway, message("Two"), run="r2")
    assert [prompt for prompt, _ in turns(gateway)] == ["One", "One", "Two"]


def test_files_go_with_a_message(gateway: Gateway) -> None:
    """As version 1.0 has them, and as earlier ones; the message needs no text."""
    source = {"type": "data", "value": "YSBub3Rl", "mimeType": "text/plain"}
    parts = [{"type": "document", "source": source}]
    parts += [{"type": "binary", "data": "YSBub3Rl", "mimeType": "text/plain", "filename": "n.txt"}]
    events(post(gateway, message(parts)))
    with gateway.client() as one:
        (chat,) = one.get("/api/chats").json()["chats"]
        (turn,) = one.get(f"/api/chats/{chat['id']}/turns").json()["turns"]
    assert [(it["name"], it["size"]) for it in turn["attachments"]] == [("document", 6), ("n.txt", 6)]


@pytest.mark.slow
def test_what_cannot_be_done_is_the_event_of_a_failed_run(gateway: Gateway) -> None:
    """With a sentence that the client shows, and without a turn."""
    (gateway.root / "inner").mkdir()
    file = {"type": "image", "source": {"type": "url", "value": "http://x/a.png"}}
    handle = {"type": "image", "source": {"type": "file", "value": "file-1", "provider": "openai"}}
    ask = message("One")
    wrong: list[tuple[httpx.Response, int, str]] = [
        (post(gateway), 400, "no message"),
        (post(gateway, message("Hi", role="assistant")), 400, "not the user's"),
        (post(gateway, message("  ")), 400, "empty"),
        (post(gateway, message(7)), 400, "last message"),
        (post(gateway, message([file])), 400, "not fetched"),
        (post(gateway, message([handle])), 400, "not fetched"),
        (post(gateway, message([{"type": "video", "source": {"type": "data", "value": "%"}}])), 400, "base64"),
        (post(gateway, message([{"type": "spell"}])), 400, "spell"),
        *((post(gateway, {**ask, "metadata": nested(deep)}), 400, "nested") for deep in (40, 900)),
        (post(gateway, ask, thread=""), 400, "no thread"),
        (post(gateway, ask, run="x" * 129), 400, "no run"),
        (post(gateway, ask, thread=None), 400, "threadId"),
        (post(gateway, ask, path="/agui/nobody"), 400, "no agent"),
        (post(gateway, ask, path="/agui?detail=all"), 400, "detail"),
        (post(gateway, ask, forwardedProps={"penstock": {"allow": "all"}}), 400, "allow"),
        (post(gateway, ask, forwardedProps=ATTACH), 404, "no such chat"),
        (post(gateway, ask, resume=[{"interruptId": "q", "status": "resolved"}]), 404, "no such chat"),
        (post(gateway, ask, resume=[{"interruptId": "q", "status": "perhaps"}]), 400, "status"),
    ]
    with gateway.client() as one:
        inner = {"X-Penstock-Cwd": str(gateway.root / "inner")}
        wrong.append((one.post("/agui", json=body(ask), headers=inner), 409, "trust"))
        wrong.append((one.post("/agui", content="{", headers={"content-type": "application/json"}), 400, "truncated"))
    wrong.append((httpx.post(f"{gateway.url}/agui", json=body(ask)), 401, "authentication required"))
    for found, status, words in wrong:
        assert (found.status_code, found.headers["content-type"]) == (status, "application/json"), found.text
        assert found.json()["type"] == "RUN_ERROR"
        assert words in found.json()["message"]
    assert turns(gateway) == []


@pytest.mark.slow
def test_who_goes_can_return(gateway: Gateway) -> None:
    """With `attach`, to the turn that runs, from its beginning, and after its end as well; nothing is asked anew."""
    with gateway.client() as one:
        with one.stream("POST", "/agui/held?detail=full", json=body(message("One"))) as answer:
            chat = str(answer.headers["x-penstock-chat"])
            next(line for line in answer.iter_lines() if "TOOL_CALL_END" in line)
        until(lambda: gateway.watches.clients(chat) == 0)
        again = body(message("One"), run="r2", forwardedProps=ATTACH)
        with one.stream("POST", "/agui/held?detail=full", json=again) as answer:
            lines = answer.iter_lines()
            assert json.loads(next(lines)[6:])["runId"] == "r2"
            (gateway.folder / "go").touch()
            rest = "\n".join(lines)
        assert "TOOL_CALL_END" in rest
        assert '"success"' in rest
        over = events(one.post("/agui", json=again))
        assert reply(over) == REPLY
    assert turns(gateway) == [("One", "ok")]


@pytest.mark.slow
@pytest.mark.parametrize("watches", [False, True], ids=["nobody", "a page"])
def test_who_goes_stops_the_turn(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, watches: bool) -> None:
    """Some time later, unless somebody else follows the chat: the protocol knows no other stop."""
    monkeypatch.setattr(agui_api, "LEFT_SECONDS", 0.05)
    with gateway.client() as one, gateway.client() as two, ExitStack() as looks:
        with one.stream("POST", "/agui/held", json=body(message("One"))) as answer:
            chat = str(answer.headers["x-penstock-chat"])
            until(lambda: turns(gateway) == [("One", "running")])
            if watches:
                looks.enter_context(two.stream("GET", f"/api/chats/{chat}/events"))
            until(lambda: gateway.watches.clients(chat) == 1 + watches)
        if watches:
            until(lambda: gateway.watches.clients(chat) == 1)
            until(lambda: not gateway.call(leaving(gateway)))
            (gateway.folder / "go").touch()
        until(lambda: turns(gateway) == [("One", "ok" if watches else "cancelled")])


def test_a_stopped_turn_is_no_success(gateway: Gateway) -> None:
    """It is cancelled; a client that knows no such end gets an error."""
    for number, (version, end) in enumerate((("1.0", "cancelled"), (None, "RUN_ERROR"))):
        asked = body(message("One"), thread=f"th{number}", protocolVersion=version)
        with gateway.client() as one, one.stream("POST", "/agui/held", json=asked) as answer:
            lines = answer.iter_lines()
            next(lines)
            chat = str(answer.headers["x-penstock-chat"])
            until(lambda: turns(gateway)[-1] == ("One", "running"))
            with gateway.client() as two:
                assert two.post(f"/api/chats/{chat}/stop", json={}).status_code == 202
            assert f'"{end}"' in [line for line in lines if line][-1]


@pytest.mark.slow
def test_a_question_is_an_interrupt(gateway: Gateway) -> None:
    """The next run answers it, once; who answers nothing, or twice, gets an error."""
    path = "/agui/peer?detail=full"
    asked = events(post(gateway, message("permission"), path=path))
    [interrupt] = asked[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["metadata"]["penstock"]["options"][0]["label"]) == ("tool_call", "Yes, once")
    assert interrupt["toolCallId"] in {event.get("toolCallId") for event in asked[:-1]}

    def answer(payload: Any, run: str = "r2", status: str = "resolved") -> httpx.Response:
        entry = {"interruptId": interrupt["id"], "status": status, "payload": payload}
        return post(gateway, message("permission"), path=path, run=run, resume=[entry])

    for wrong in (None, "", {}, 7, {"answer": 7}):
        assert answer(wrong).status_code == 400
    assert answer({"answer": "format the disk"}).status_code == 400
    waits = events(post(gateway, message("permission"), path=path, run="r9", forwardedProps=ATTACH))
    assert waits[-1]["outcome"]["interrupts"][0]["id"] == interrupt["id"]
    went_on = events(answer(None, status="cancelled"))
    assert "asked: never" in json.dumps(went_on)
    assert went_on[-1]["outcome"]["type"] == "success"
    assert events(answer(None, status="cancelled"))[-1]["outcome"] == went_on[-1]["outcome"]
    assert answer({"approved": True}, "r3").status_code == 409
    assert turns(gateway) == [("permission", "ok")]


npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")


@pytest.mark.slow
@npm
@pytest.mark.parametrize("version", agui_clients.VERSIONS)
def test_the_client_speaks_with_it(gateway: Gateway, version: str) -> None:
    """Each version: two turns, a failure, a question with its answer, and a return to a turn in its middle."""
    head = {"url": gateway.url, "token": TOKEN}

    def speak(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
        [only] = agui_clients.ask(version, [{**head, **more, "steps": steps}])
        return only

    two = speak({"text": "One"}, {"text": "Two"}, thread="a")
    assert [(it["end"], it["failed"]) for it in two["ends"]] == [("success", None)] * 2
    assert [it["role"] for it in two["messages"]] == ["user", "assistant"] * 2
    assert [it["content"] for it in two["messages"][1::2]] == [REPLY, REPLY]
    assert "penstock.status" in two["custom"]
    failed = speak({"text": "One"}, thread="b", query="/failing")
    assert failed["end"] == "error"
    assert "the agent failed" in failed["error"]
    refused = speak({"text": "One"}, thread="b2", query="/nobody")
    assert "no agent" in refused["failed"]

    post(gateway, message("permission"), path="/agui/peer", thread="p0")  # the agent has started once
    is_new = version.startswith("1.")
    steps = ({"answer": {"answer": "Yes, once"}},) if is_new else ({"text": "Yes, once"},)
    asked = speak({"text": "permission"}, *steps, thread="p", query="/peer?detail=full")
    assert asked["ends"][0]["end"] == ("interrupt" if is_new else "success")
    assert (asked["end"], asked["failed"]) == ("success", None)
    assert "asked: once" in agui_clients.reply_of(asked["messages"])
    assert len({it["id"] for it in asked["messages"]}) == len(asked["messages"])
    _returns_in_mid_turn(gateway, speak)


def _returns_in_mid_turn(gateway: Gateway, speak: Callable[..., dict[str, Any]]) -> None:
    """With the prompt alone, and with a half of the reply, the client has each message once."""
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agui_api, "LEFT_SECONDS", 600.0)  # the client takes its time to start
        for thread, has_half in (("r1", False), ("r2", True)):
            (gateway.folder / "go").unlink(missing_ok=True)
            with gateway.client() as one:
                asked = body(message("Go"), thread=thread)
                with one.stream("POST", "/agui/held?detail=full", json=asked) as answer:
                    next(line for line in answer.iter_lines() if "TOOL_CALL_END" in line)
                    chat = str(answer.headers["x-penstock-chat"])
            until(lambda chat=chat: gateway.watches.clients(chat) == 0)
            half = [message("half", f"{chat}.t1", "assistant"), message("thou", f"{chat}.t1.block.1", "reasoning")]
            messages = [message("Go"), *(half * has_half)]
            with ThreadPoolExecutor() as pool:
                step = {"forwardedProps": ATTACH}
                returned = pool.submit(speak, step, thread=thread, query="/held?detail=full", messages=messages)
                until(lambda chat=chat: gateway.watches.clients(chat) == 1)
                (gateway.folder / "go").touch()
                found = returned.result()
            assert (found["end"], found["failed"]) == ("success", None)
            assert agui_clients.reply_of(found["messages"]) == REPLY
            assert "half" not in [it.get("content") for it in found["messages"]]
            counts.append([it["role"] for it in found["messages"] if it["role"] != "reasoning"])
    assert counts[0] == counts[1]


@pytest.mark.slow
@npm
@pytest.mark.parametrize("version", agui_clients.VERSIONS)
def test_the_client_notices_a_server_that_is_killed(serve: Callable[..., Any], version: str) -> None:
    """No end can be written then: the client sees that the body is not whole."""
    started = serve(f"--root={TESTS}", "--port=0", agents=AGENTS)
    found = LINK.search(started.line())
    assert found is not None
    url, token = found[1], (started.data / "token").read_text().strip()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as one, ThreadPoolExecutor() as pool:
        assert one.post("/api/workspaces", json={"path": str(TESTS)}).status_code == 200
        request = {"url": url, "token": token, "thread": "k", "query": "/staying", "steps": [{"text": "Hello"}]}
        asked = pool.submit(agui_clients.ask, version, [request])
        until(lambda: [chat["state"] for chat in one.get("/api/chats").json()["chats"]] == ["running"])
        started.process.kill()
        [ended] = asked.result()
    assert ended["end"] is None
    assert ended["failed"] is not None
