"""A chat as a file, over the API: a download of all its turns, which no browser shows as a page of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from served import Gateway
from waiting import until

from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.store.protocol import StoreFailed
from penstock.events import RunEnded


@pytest.fixture
def client(shared: Gateway) -> Iterator[httpx.Client]:
    """A program with the token."""
    with shared.client() as made:
        yield made


def asked(client: httpx.Client, chat: str, *texts: str) -> None:
    """Ask for turns, and wait until they are over."""
    path = f"/api/chats/{chat}/turns"
    for text in texts:
        assert client.post(path, json={"text": text}).status_code == 202
    until(lambda: all(turn.get("finalized") for turn in client.get(path).json()["turns"]))


def test_a_file_is_a_download(client: httpx.Client, shared: Gateway) -> None:
    """It has a name of the title's words, and a type and a policy with which nothing in it acts."""
    chat = shared.chat(title="Fix the <b>build</b> ☂ 修正")
    asked(client, chat, "Hello")
    for form, media, suffix in (("markdown", "text/markdown", "md"), ("html", "text/html", "html")):
        answer = client.get(f"/api/chats/{chat}/export?form={form}&details=1")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == f"{media}; charset=utf-8"
        name = "fix-the-b-build-b-%E4%BF%AE%E6%AD%A3"
        assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}.{suffix}"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        head = client.head(f"/api/chats/{chat}/export?form={form}")
        assert (head.status_code, head.content) == (200, b"")
    assert client.get(f"/api/chats/{chat}/export").text.startswith("# Fix the \\<b\\>build")
    for wrong in ("form=pdf", "details=2", "details=yes"):
        assert client.get(f"/api/chats/{chat}/export?{wrong}").status_code == 400


@pytest.mark.slow
def test_all_turns_are_in_it(client: httpx.Client, shared: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once and in order, however many are read at once; one whose steps cannot be read says why."""
    chat = shared.chat()
    asked(client, chat, *(f"prompt {number}" for number in range(7)))
    monkeypatch.setattr("penstock.chat.service.exports.EXPORTED_TURNS", 3)
    text = client.get(f"/api/chats/{chat}/export").text
    assert [line for line in text.splitlines() if line.startswith("> prompt")] == [f"> prompt {n}" for n in range(7)]
    turn = ChatLog.turn

    async def failing(self: ChatLog, number: int) -> Any:
        if number == 2:
            raise StoreFailed("the disk is gone")
        return await turn(self, number)

    monkeypatch.setattr(ChatLog, "turn", failing)
    text = client.get(f"/api/chats/{chat}/export?details=1").text
    assert text.count("*The steps: they cannot be read: the disk is gone") == 1
    assert text.count("### Steps") == 6


def test_a_program_that_has_not_ended_is_named(
    client: httpx.Client, shared: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of a turn that is complete while its program still runs say so: nothing was lost of them."""
    chat = shared.chat()
    asked(client, chat, "Hello")
    turn = ChatLog.turn

    async def lingering(self: ChatLog, number: int) -> Any:
        view, rows = await turn(self, number)
        assert isinstance(rows[-1].what, RunEnded)
        return view, rows[:-1]

    monkeypatch.setattr(ChatLog, "turn", lingering)
    text = client.get(f"/api/chats/{chat}/export?details=1").text
    assert "*The steps: the agent's program has not ended yet*" in text
    assert "no longer kept" not in text


@pytest.mark.slow
def test_a_file_that_is_cut_off_does_not_look_whole(
    client: httpx.Client, shared: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If turns cannot be read any more, the connection breaks before the end of the file."""
    chat = shared.chat()
    asked(client, chat, "one", "two")
    monkeypatch.setattr("penstock.chat.service.exports.EXPORTED_TURNS", 1)
    turns = ChatLog.turns

    async def failing(self: ChatLog, before: int | None, limit: int) -> Any:
        if before is not None and before > 2:
            raise StoreFailed("the disk is gone")
        return await turns(self, before, limit)

    monkeypatch.setattr(ChatLog, "turns", failing)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(f"/api/chats/{chat}/export?form=html")
