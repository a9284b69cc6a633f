"""The AI SDK's chat of a real gateway: asked as it stands, and by the SDK's own three versions."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ai_sdk_clients
import httpx
import pytest
from serve_process import LINK
from served import AGENTS, PLAYER, RECORDINGS, TESTS, TOKEN, Gateway
from waiting import until

from .test_door_ai_sdk import parts_of

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


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with more agents."""
    (tmp_path / "agents.toml").write_text(AGENTS + MORE.replace("HELD", str(tmp_path / "go")))
    made = Gateway(tmp_path, page)
    yield made
    made.close()


def message(text: str, id: str = "u1", **more: Any) -> dict[str, Any]:
    """A message of the user."""
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}], **more}


def post(
    gateway: Gateway, *messages: dict[str, Any], path: str = "/ai", chat: str = "c", **more: Any
) -> httpx.Response:
    """A request as the SDK makes it."""
    body = {"id": chat, "messages": messages, "trigger": "submit-message", **more}
    with gateway.client() as one:
        return one.post(path, json=body)


def turns(gateway: Gateway) -> list[tuple[str, str]]:
    """The prompts and outcomes of all turns of all chats, oldest chat first."""
    with gateway.client() as one:
        chats = sorted(one.get("/api/chats").json()["chats"], key=lambda chat: chat["created_at"])
        found = [one.get(f"/api/chats/{chat['id']}/turns").json().get("turns", []) for chat in chats]
    return [(turn["prompt"], turn.get("outcome", turn["state"])) for views in found for turn in views]


@pytest.mark.slow
def test_a_turn_is_a_message(gateway: Gateway) -> None:
    """The default agent or a named one; the next message of the chat is the next turn of it."""
    first = post(gateway, message("One"))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert first.headers["x-vercel-ai-ui-message-stream"] == "v1"
    parts = list(parts_of(first.content))
    assert parts[0] == {"type": "start", "messageId": "t1"}
    assert [part["delta"] for part in parts if part["type"] == "text-delta"] == [REPLY]
    assert parts[-1] == {"type": "finish", "finishReason": "stop"}
    assert next(part for part in parts if part["type"] == "message-metadata")["messageMetadata"]["usage"]
    second = post(gateway, message("One"), message("Two", "u2"))
    assert next(parts_of(second.content))["messageId"] == "t2"
    failing = post(gateway, message("Three"), path="/ai/failing", chat="d")
    assert "the agent failed" in list(parts_of(failing.content))[-1]["errorText"]
    assert turns(gateway) == [("One", "ok"), ("Two", "ok"), ("Three", "error")]


@pytest.mark.slow
def test_the_same_message_is_the_same_turn(gateway: Gateway) -> None:
    """By its id; the same words with another id are asked anew."""
    first = post(gateway, message("One"))
    again = post(gateway, message("One"))
    assert list(parts_of(again.content))[-1] == list(parts_of(first.content))[-1]
    assert len(turns(gateway)) == 1
    post(gateway, message("One"), message("One", "u2"))
    assert len(turns(gateway)) == 2


def test_files_go_with_a_message(gateway: Gateway) -> None:
    """A file part with its data is a file of the turn; the message needs no text."""
    file = {"type": "file", "url": "data:text/plain;base64,YSBub3Rl", "mediaType": "text/plain", "filename": "n.txt"}
    answer = post(gateway, {"id": "u1", "role": "user", "parts": [file]})
    assert answer.status_code == 200, answer.text
    with gateway.client() as one:
        (chat,) = one.get("/api/chats").json()["chats"]
        (turn,) = one.get(f"/api/chats/{chat['id']}/turns").json()["turns"]
    assert [(it["name"], it["size"]) for it in turn["attachments"]] == [("n.txt", 6)]


@pytest.mark.slow
def test_what_cannot_be_done_is_an_error(gateway: Gateway) -> None:
    """With a sentence that the page shows, and without a turn."""
    file = {"id": "u", "role": "user", "parts": [{"type": "file", "url": "http://x/a", "mediaType": "text/plain"}]}
    answer = {"id": "t1", "role": "assistant", "parts": []}
    (gateway.root / "inner").mkdir()
    wrong: list[tuple[httpx.Response, int, str]] = [
        (post(gateway, message("One"), trigger="regenerate-message"), 400, "take back"),
        (post(gateway, message("One"), messageId="u1"), 400, "take back"),
        (post(gateway, file), 400, "not fetched"),
        (post(gateway, message("  ")), 400, "empty"),
        (post(gateway), 400, "no message"),
        (post(gateway, message("One"), chat=""), 400, "no chat"),
        (post(gateway, answer), 404, "no such chat"),
        (post(gateway, message("One"), path="/ai/nobody"), 400, "no agent"),
        (post(gateway, message("One"), path="/ai?sdk=4"), 400, "sdk"),
        (post(gateway, message("One"), path="/ai?detail=all"), 400, "detail"),
    ]
    with gateway.client() as one:
        wrong.append((one.get("/ai/none/stream"), 404, "no such chat"))
        wrong.append((one.post("/ai/none/stop"), 404, "no such chat"))
        body = {"id": "c", "messages": [message("One")]}
        wrong.append(
            (one.post("/ai", json=body, headers={"X-Penstock-Cwd": str(gateway.root / "inner")}), 409, "trust")
        )
    for found, status, words in wrong:
        assert (found.status_code, found.headers["content-type"]) == (status, "application/problem+json"), found.text
        assert words in found.json()["detail"]
    assert turns(gateway) == []


def test_who_goes_can_return(gateway: Gateway) -> None:
    """A closed page stops nothing: the stream of a running turn is there from its beginning, and 204 after its end."""
    with gateway.client() as one:
        body = {"id": "c", "messages": [message("One")]}
        with one.stream("POST", "/ai/held?detail=full", json=body) as answer:
            chat = str(answer.headers["x-penstock-chat"])
            next(line for line in answer.iter_lines() if "tool-input-available" in line)
        until(lambda: gateway.watches.clients(chat) == 0)
        with one.stream("GET", "/ai/c/stream?detail=full") as answer:
            lines = answer.iter_lines()
            assert json.loads(next(lines)[6:]) == {"type": "start", "messageId": "t1"}
            (gateway.folder / "go").touch()
            rest = "\n".join(lines)
        assert "tool-input-available" in rest
        assert '"finish"' in rest
        assert one.get("/ai/c/stream").status_code == 204
    assert turns(gateway) == [("One", "ok")]


@pytest.mark.parametrize("id", ["c", "a chat@ü:1"])
def test_the_stop_is_an_address(gateway: Gateway, id: str) -> None:
    """The stream says that it was aborted. The page chooses the id."""
    with (
        gateway.client() as one,
        one.stream("POST", "/ai/held", json={"id": id, "messages": [message("One")]}) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        until(lambda: turns(gateway) == [("One", "running")])
        with gateway.client() as two:
            stopped = two.post(f"/ai/{quote(id)}/stop")
        assert (stopped.status_code, stopped.json()) == (202, {"turns": [1]})
        assert '"abort"' in "".join(lines)
    assert turns(gateway) == [("One", "cancelled")]


@pytest.mark.slow
def test_a_question_is_answered_in_words(gateway: Gateway) -> None:
    """The question is the message; the next message is the answer, and gets a message of its own."""
    asked = list(parts_of(post(gateway, message("permission"), path="/ai/peer").content))
    [question] = [part for part in asked if part["type"] == "data-question"]
    assert question["data"]["options"][0]["label"] == "Yes, once"
    went_on = list(parts_of(post(gateway, message("permission"), message("Yes, once", "u2"), path="/ai/peer").content))
    assert went_on[0]["messageId"].startswith("t1.")
    assert "asked: once" in "".join(part.get("delta", "") for part in went_on)
    again = list(parts_of(post(gateway, message("permission"), message("Yes, once", "u2"), path="/ai/peer").content))
    assert again[0] == went_on[0]
    assert turns(gateway) == [("permission", "ok")]


@pytest.mark.slow
def test_an_approval_is_answered_once(gateway: Gateway) -> None:
    """The same message goes on; an approval that is closed, or was never asked for, is a conflict."""
    path = "/ai/peer?sdk=6"
    asked = list(parts_of(post(gateway, message("permission"), path=path).content))
    [request] = [part for part in asked if part["type"] == "tool-approval-request"]

    def answer(id: str, approved: bool) -> httpx.Response:
        part = {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": id, "approved": approved}}
        said = {"id": "t1", "role": "assistant", "parts": [part]}
        return post(gateway, message("permission"), said, path=path, messageId="t1")

    assert answer("never", True).status_code == 409
    went_on = list(parts_of(answer(request["approvalId"], False).content))
    assert went_on[0] == {"type": "start", "messageId": "t1"}
    assert "asked: never" in "".join(part.get("delta", "") for part in went_on)
    assert answer(request["approvalId"], True).status_code == 409
    assert next(parts_of(answer(request["approvalId"], False).content)) == went_on[0]
    assert turns(gateway) == [("permission", "ok")]


npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")


@pytest.mark.slow
@npm
@pytest.mark.parametrize("major", ai_sdk_clients.VERSIONS)
def test_the_sdk_speaks_with_it(gateway: Gateway, major: int) -> None:
    """Each version: two turns, a failure, a return to a turn in its middle, and a question with its answer."""
    head = {"url": gateway.url, "token": TOKEN}

    def speak(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = ai_sdk_clients.ask(major, [{**head, **more, "steps": steps}])
        [only] = found
        return only

    two = speak({"text": "One"}, {"text": "Two"}, chat="a")
    assert (two["status"], [it["role"] for it in two["messages"]]) == ("ready", ["user", "assistant"] * 2)
    assert [ai_sdk_clients.text_of(it) for it in two["messages"][1::2]] == [REPLY, REPLY]
    assert "data-status" in two["transient"]
    failed = speak({"text": "One"}, chat="b", query="/failing")
    assert failed["status"] == "error"
    assert "the agent failed" in failed["error"]
    refused = speak({"text": "One"}, chat="b2", query="/nobody")
    assert "no agent" in refused["error"]

    post(gateway, message("permission"), path=f"/ai/peer?sdk={major}", chat="p0")  # the agent has started once
    if major >= 6:
        asked = speak({"text": "permission"}, {"approve": True}, chat="p", query=f"/peer?sdk={major}")
        assert (asked["status"], len(asked["messages"])) == ("ready", 2)
    else:
        asked = speak({"text": "permission"}, {"text": "Yes, once"}, chat="p", query="/peer")
        assert (asked["status"], len(asked["messages"])) == ("ready", 4)
    assert "asked: once" in ai_sdk_clients.text_of(asked["messages"][-1])
    _returns_in_mid_turn(gateway, speak)


def _returns_in_mid_turn(gateway: Gateway, speak: Callable[..., dict[str, Any]]) -> None:
    """With no message, and with a half of it, the SDK has the whole message once."""
    for chat, has_half in (("r1", False), ("r2", True)):
        (gateway.folder / "go").unlink(missing_ok=True)
        body = {"id": chat, "messages": [message("Go")]}
        with gateway.client() as one, one.stream("POST", "/ai/held?detail=full", json=body) as answer:
            next(line for line in answer.iter_lines() if "tool-input-available" in line)
            watched = str(answer.headers["x-penstock-chat"])
        until(lambda watched=watched: gateway.watches.clients(watched) == 0)
        half = {"id": "t1", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "half"}]}
        messages = [message("Go"), *([half] * has_half)]
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(speak, {"resume": True}, chat=chat, query="?detail=full", messages=messages)
            until(lambda watched=watched: gateway.watches.clients(watched) == 1)
            (gateway.folder / "go").touch()
            found = asked.result()
        assert (found["status"], len(found["messages"])) == ("ready", 2)
        assert ai_sdk_clients.text_of(found["messages"][1]) == REPLY
        assert all(part.get("text") != "half" for part in found["messages"][1]["parts"])


@pytest.mark.slow
@npm
@pytest.mark.parametrize("major", ai_sdk_clients.VERSIONS)
def test_the_sdk_notices_a_server_that_is_killed(serve: Callable[..., Any], major: int) -> None:
    """No end can be written then: the SDK sees that the body is not whole."""
    started = serve(f"--root={TESTS}", "--port=0", agents=AGENTS)
    found = LINK.search(started.line())
    assert found is not None
    url, token = found[1], (started.data / "token").read_text().strip()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as one, ThreadPoolExecutor() as pool:
        assert one.post("/api/workspaces", json={"path": str(TESTS)}).status_code == 200
        request = {"url": url, "token": token, "chat": "k", "query": "/staying", "steps": [{"text": "Hello"}]}
        asked = pool.submit(ai_sdk_clients.ask, major, [request])
        until(lambda: [chat["state"] for chat in one.get("/api/chats").json()["chats"]] == ["running"])
        started.process.kill()
        assert asked.result()[0]["status"] == "error"
