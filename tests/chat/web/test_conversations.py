"""Conversations of a terminal that chats continue: which are listed, to whom, and what such a chat is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import served
from served import Gateway
from waiting import until

from penstock.chat.people import persons
from penstock.chat.service.conversations import MAX_SHOWN
from penstock.run.history import History, HistoryLine, Kind

MINUTE = 60_000
AGENT = """
[agents.resuming]
command = ["{python}", "-S", "{player}", "{recording}", "--speed=0", "--prompts={prompts}", "--resume={{session_id}}"]
adapter = "claude"
"""


class Desk:
    """A server, and a history of runs in its data directory."""

    def __init__(self, own: Callable[..., Gateway], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prompts = folder / "prompts"
        more = AGENT.format(
            python=sys.executable,
            player=served.PLAYER,
            recording=served.RECORDINGS / "base_for_resume",
            prompts=self.prompts,
        )
        monkeypatch.setattr(served, "AGENTS", served.AGENTS + more)
        self.history = History(folder)
        self.gateway = own(history=self.history)
        self.root = str(self.gateway.root)

    def ran(self, session: str, title: str = "fix it", *, kind: Kind = "run", at: int = 1, **more: Any) -> None:
        """A run is in the history."""
        line: dict[str, Any] = {"agent": "resuming", "route": "exec", "cwd": self.root, "outcome": "ok", **more}
        run = f"run of {session} at {at}"
        self.history.append(HistoryLine(run=run, at=at, kind=kind, title=title, session_id=session, **line))

    def body(self, session: str, **more: Any) -> dict[str, Any]:
        """The body that begins a chat with a conversation."""
        return {"agent": "resuming", "cwd": self.root, "session": session, **more}


@pytest.fixture
def desk(own: Callable[..., Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk."""
    return Desk(own, tmp_path, monkeypatch)


def listed(client: httpx.Client, words: str = "") -> list[str]:
    """The ids of the conversations that are offered."""
    found = client.get("/api/sessions", params={"q": words}).json()["sessions"]
    return [it["session_id"] for it in found]


def test_a_chat_continues_a_conversation(desk: Desk) -> None:
    """Its first turn resumes it; from then on the chat has it, also after a restart, and no other chat gets it."""
    desk.ran("one", "Hello, fix the parser. And then the rest.", at=MINUTE)
    with desk.gateway.client() as client:
        (found,) = client.get("/api/sessions").json()["sessions"]
        assert found == {
            "agent": "resuming", "session_id": "one", "cwd": desk.root, "at": MINUTE, "outcome": "ok",
            "title": "Hello, fix the parser. And then the rest.", "allows": ["read", "ask", "edits", "all", "own"],
        }  # fmt: skip
        made = client.post("/api/chats", json=desk.body("one")).json()
        assert made["continues"] == {"title": found["title"], "at": MINUTE}
        assert made["has_session"]
        assert made["title"] == "Fix the parser"
        client.post(f"/api/chats/{made['id']}/turns", json={"text": "now the docs"})
        until(lambda: client.get(f"/api/chats/{made['id']}/turns").json()["turns"][0]["state"] == "completed")
        assert '"resume": "one"' in desk.prompts.read_text()
        assert client.get(f"/api/chats/{made['id']}").json()["continues"] == made["continues"]


def test_a_conversation_has_one_chat(desk: Desk) -> None:
    """Of several requests at once one makes it; the list then names that chat, until it is deleted."""
    desk.ran("one")
    with desk.gateway.client() as client, ThreadPoolExecutor(5) as threads:
        answers = [*threads.map(lambda _: client.post("/api/chats", json=desk.body("one")), range(5))]
        assert sorted(it.status_code for it in answers) == [201, 409, 409, 409, 409]
        (chat,) = (it.json()["id"] for it in answers if it.status_code == 201)
        assert [it.get("chat") for it in client.get("/api/sessions").json()["sessions"]] == [chat]
        client.delete(f"/api/chats/{chat}")
        assert "chat" not in client.get("/api/sessions").json()["sessions"][0]
        assert client.post("/api/chats", json=desk.body("one")).status_code == 201


@pytest.mark.slow
def test_what_is_listed(desk: Desk, tmp_path: Path) -> None:
    """The newest run of each conversation of a terminal, below the roots, of an agent that can go on with it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (Path(desk.root) / "link").symlink_to(outside)
    desk.ran("old", "the first thing", at=1)
    desk.ran("elsewhere", cwd=str(outside))
    desk.ran("by link", cwd=f"{desk.root}/link")
    desk.ran("gone", cwd=f"{desk.root}/gone")
    desk.ran("of a chat", kind="chat")
    desk.ran("of a document", kind="doc")
    desk.ran("--evil")
    desk.ran("unknown", agent="nobody")
    desk.ran("forgetful", agent="scripted")  # its command has no place for a session
    desk.ran("both", "begun here", at=2)
    desk.ran("both", "gone on there", kind="chat", at=3)
    desk.ran("runs", "an open end", at=4, outcome=None)
    with desk.gateway.client() as client:
        assert listed(client) == ["runs", "both", "old"]
        assert listed(client, "THING fir") == ["old"]
        assert listed(client, "begun there") == ["both"]
        assert listed(client, "nothing") == []
        assert client.get("/api/sessions", params={"q": "x" * 201}).status_code == 400
        for body in (
            *(desk.body(session) for session in ("elsewhere", "of a chat", "--evil", "none", "", "\0")),
            desk.body("old", cwd=None, agent="scripted"),
            desk.body("forgetful", agent="scripted"),
        ):
            assert client.post("/api/chats", json=body).status_code == 400, body
        assert client.post("/api/chats", json=desk.body("elsewhere", cwd=str(outside))).status_code == 403
        inside = Path(desk.root) / "inside"
        inside.mkdir()
        desk.ran("untrusted", cwd=str(inside))
        answer = client.post("/api/chats", json=desk.body("untrusted", cwd=str(inside)))
        assert answer.json()["code"] == "untrusted_directory"
        assert client.get("/api/chats").json()["chats"] == []


def test_the_list_has_a_limit(desk: Desk) -> None:
    """The newest are listed, and words find the others; an unreadable history has none."""
    for number in range(MAX_SHOWN + 5):
        desk.ran(f"s{number}", f"task {number}", at=number)
    with desk.gateway.client() as client:
        assert listed(client) == [f"s{number}" for number in range(MAX_SHOWN + 4, 4, -1)]
        assert "s3" in listed(client, "task 3")
        os.replace(desk.history.path, desk.history.path.with_suffix(".old"))
        desk.history.path.mkdir()
        assert listed(client) == []


def test_only_owners_see_them(desk: Desk) -> None:
    """They are of the user of the server: a member sees none, and cannot take one whose id is known."""
    desk.ran("one")
    token = persons.add(desk.gateway.folder, "ana", "member", 0)
    with httpx.Client(base_url=desk.gateway.url, headers={"Authorization": f"Bearer {token}"}) as ana:
        assert ana.get("/api/sessions").status_code == 403
        assert ana.post("/api/chats", json=desk.body("one")).status_code == 403
        assert ana.post("/api/chats", json={"agent": "resuming"}).status_code == 201
    with desk.gateway.client() as client:
        assert [it["continues"] for it in client.get("/api/chats").json()["chats"]] == [None]


def test_a_route_keeps_its_own_conversations(desk: Desk) -> None:
    """What began over ACP goes on at the levels at which a chat uses ACP, and what did not at the others."""
    desk.ran("plain", agent="qwen", route="exec", at=1)
    desk.ran("acp", agent="qwen", route="acp", at=2)
    desk.ran("claude", agent="claude", route="exec", at=3)
    with desk.gateway.client() as client:
        found = {it["session_id"]: it["allows"] for it in client.get("/api/sessions").json()["sessions"]}
        assert found["acp"] == ["ask", "edits"]
        assert found["plain"] == ["read", "all", "own"]
        assert found["claude"] == ["read", "ask", "edits", "all", "own"]
        for session, allow, status in (
            ("plain", "ask", 409),
            ("acp", "own", 409),
            ("acp", "ask", 201),
            ("plain", "read", 201),
        ):
            body = {"agent": "qwen", "cwd": desk.root, "session": session, "allow": allow}
            assert client.post("/api/chats", json=body).status_code == status, body
