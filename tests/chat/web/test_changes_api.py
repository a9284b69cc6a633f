"""Files that turns changed, over the API: of one turn, and of the newest turns of a chat."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import AGENTS, PLAYER, RECORDINGS, TESTS, Gateway
from waiting import until

from penstock.chat.errors import NoSuchTurn
from penstock.chat.service import file_changes
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.service.turns import turn_loop
from penstock.repo import found_changes

WORKER = TESTS / "support" / "chatpage" / "worker.py"
LAST = len((RECORDINGS / "tools" / "input.ndjson").read_bytes().splitlines())


EDITING = TESTS / "support" / "editing_agent.py"


def agents(gate: Path) -> str:
    """Agents: one edits, one is not allowed to, one runs commands too, and one waits for a file before it ends."""
    return "\n".join(
        f'[agents.{name}]\ncommand = ["{sys.executable}", "{WORKER}", "--approval-mode={mode}"]\nadapter = "qwen"\n'
        for name, mode in (("editor", "yolo"), ("denied", "default"))
    ) + (
        f'[agents.worker]\ncommand = ["{sys.executable}", "-S", "{EDITING}"]\nadapter = "claude"\n'
        f'[agents.held]\ncommand = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "tools"}", "--speed=0", '
        f'"--hold={LAST}:{gate}"]\nadapter = "claude"\n'
    )


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with agents that edit."""
    (tmp_path / "agents.toml").write_text(AGENTS + agents(tmp_path / "go"))
    started = Gateway(tmp_path, page)
    yield started
    started.close()


def turns_of(client: httpx.Client, chat: str) -> list[dict[str, Any]]:
    """The turns of a chat."""
    found: list[dict[str, Any]] = client.get(f"/api/chats/{chat}/turns").json()["turns"]
    return found


def asked(client: httpx.Client, chat: str, *texts: str) -> list[dict[str, Any]]:
    """Ask for turns, and return them when they are over."""
    for text in texts:
        assert client.post(f"/api/chats/{chat}/turns", json={"text": text}).status_code == 202
    until(lambda: all(turn.get("finalized") for turn in turns_of(client, chat)))
    return turns_of(client, chat)


@pytest.mark.slow
def test_what_turns_changed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn counts its files; one file of two turns is one; turns that are left out are not hidden."""
    with gateway.client() as client:
        chat = gateway.chat("editor")
        path = f"/api/chats/{chat}"
        turns = asked(client, chat, "edit", "delegate", "edit")
        count = {"files": 1, "added": 41, "removed": 1}
        assert [turn.get("changed") for turn in turns] == [count, None, count]
        found = client.get(f"{path}/turns/1/changes").json()
        (change,) = found.pop("changes")
        assert found == {"whole": True, **count}
        assert (change["path"], change["kind"], change["added"], change["removed"]) == ("README.md", "update", 41, 1)
        assert "\n+new <img src=x onerror=alert(1)> \u202etext\n" in change["diff"]
        assert client.get(f"{path}/turns/2/changes").json() == {"whole": True, "files": 0, "changes": []}
        assert client.get(f"{path}/turns/4/changes").status_code == 404
        whole = client.get(f"{path}/changes")
        assert whole.headers["cache-control"] == "no-store"
        (joined,) = whole.json()["changes"]
        assert (joined["added"], joined["removed"], joined["diff"]) == (82, 2, 2 * change["diff"])
        assert "earlier" not in whole.json()
        monkeypatch.setattr(file_changes, "MAX_TURNS", 2)
        newest = client.get(f"{path}/changes").json()
        assert (newest["added"], newest["earlier"]) == (41, True)


@pytest.mark.slow
def test_turns_that_are_no_longer_kept(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of the others are there, with a mark that there were more; of one alone it is an error."""
    with gateway.client() as client:
        chat = gateway.chat("editor")
        asked(client, chat, "edit", "edit")
        whole = ChatLog.turn

        async def trimmed(log: ChatLog, turn: int) -> Any:
            if turn == 1:
                raise NoSuchTurn("its entries are no longer kept")
            return await whole(log, turn)

        monkeypatch.setattr(ChatLog, "turn", trimmed)
        found = client.get(f"/api/chats/{chat}/changes").json()
        assert (found["files"], found["added"], found["earlier"]) == (1, 41, True)
        assert client.get(f"/api/chats/{chat}/turns/1/changes").status_code == 404


@pytest.mark.slow
def test_a_denied_edit_changed_nothing(gateway: Gateway) -> None:
    """Its details have the proposal, the turn has no count, and there are no changes."""
    with gateway.client() as client:
        chat = gateway.chat("denied")
        (turn,) = asked(client, chat, "edit")
        assert "changed" not in turn
        assert client.get(f"/api/chats/{chat}/changes").json() == {"whole": True, "files": 0, "changes": []}
        items = client.get(f"/api/chats/{chat}/turns/1/details").json()["items"]
        assert any(item.get("changes") for item in items)


def test_a_turn_that_runs(gateway: Gateway) -> None:
    """Its changes so far can be asked for, and are marked as such; its count comes with its end."""
    with gateway.client() as client:
        chat = gateway.chat("held")
        path = f"/api/chats/{chat}"
        client.post(f"{path}/turns", json={"text": "work"})
        until(lambda: turns_of(client, chat)[0]["state"] == "running")
        until(lambda: client.get(f"{path}/turns/1/changes").json()["files"] == 1)
        for found in (client.get(f"{path}/turns/1/changes").json(), client.get(f"{path}/changes").json()):
            assert found["whole"] is False
            assert [it["path"] for it in found["changes"]] == ["/tmp/demo/notes.txt"]
        assert "changed" not in turns_of(client, chat)[0]
        (gateway.folder / "go").touch()
        until(lambda: turns_of(client, chat)[0].get("finalized"))
        assert turns_of(client, chat)[0]["changed"] == {"files": 1, "added": 2, "removed": 0}
        assert client.get(f"{path}/changes").json()["whole"] is True


@pytest.mark.slow
def test_a_link_shows_no_changes(gateway: Gateway) -> None:
    """Neither the count nor the files are part of what whoever has a link can read."""
    with gateway.client() as client:
        chat = gateway.chat("editor")
        asked(client, chat, "edit")
        url = client.post(f"/api/chats/{chat}/shares", json={}).json()["url"]
        headers = {"X-Penstock-Share": url.partition("#")[2]}
        with httpx.Client(base_url=gateway.url, headers=headers) as anybody:
            assert anybody.get("/api/shared").status_code == 200
            assert "changed" not in anybody.get("/api/shared").text
            assert anybody.get(f"/api/chats/{chat}/changes").status_code == 401
            assert anybody.get(f"/api/chats/{chat}/turns/1/changes").status_code == 401


def repository(root: Path) -> None:
    """Make a repository of a directory, with a file that differs from its commit."""
    (root / "a.py").write_text("one\n")
    (root / ".gitignore").write_text("*.log\n")
    who = ["-c", "user.name=Uma", "-c", "user.email=uma@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    (root / "mine").write_text("mine\n")


def work(client: httpx.Client, chat: str, **what: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the agent do something, and return its turn and the changes of it."""
    turn = asked(client, chat, json.dumps(what))[-1]
    return turn, client.get(f"/api/chats/{chat}/turns/{turn['turn']}/changes").json()


@pytest.mark.slow
def test_what_git_found(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command changed is apart from what the agent reports, of the turn and the chat; a link has none of it."""
    monkeypatch.setattr(found_changes, "SECONDS", 60.0)
    repository(gateway.root)
    with gateway.client() as client:
        chat = gateway.chat("worker")
        turn, found = work(client, chat, write={"a.py": "2\n"}, run="echo more >> mine; echo x > new; echo x > x.log")
        assert (turn["changed"]["files"], turn["found"]) == (1, 2)
        assert [it["path"] for it in found["changes"]] == ["a.py"]
        assert {it["path"]: it["diff"] for it in found["found"]["changes"]} == {
            "mine": "@@ -1 +1,2 @@\n mine\n+more\n",
            "new": "@@ -0,0 +1 @@\n+x\n",
        }
        assert client.get(f"/api/chats/{chat}/turns/1/undo").json()["commands"] == 1
        turn, found = work(client, chat, write={"a.py": "3\n"})  # the agent reports all that it does
        assert ("found" in turn, "found" in found) == (False, False)
        turn, found = work(client, chat, run="true")
        assert ("found" in turn, found) == (False, {"whole": True, "files": 0, "changes": []})
        turn, found = work(client, chat, run="rm new")
        assert (turn["found"], "changed" in turn, found["files"]) == (1, False, 0)
        whole = client.get(f"/api/chats/{chat}/changes").json()
        assert [it["path"] for it in whole["changes"]] == ["a.py"]
        assert [it["path"] for it in whole["found"]["changes"]] == ["mine"]  # the other one is gone again
        url = client.post(f"/api/chats/{chat}/shares", json={}).json()["url"]
        with httpx.Client(base_url=gateway.url, headers={"X-Penstock-Share": url.partition("#")[2]}) as anybody:
            assert '"found"' not in anybody.get("/api/shared").text
    assert not [*(gateway.folder / found_changes.FOLDER).glob("*")]


def test_an_agent_that_may_only_read_is_not_watched(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compared for it, whatever others change meanwhile; what git cannot do is said."""
    monkeypatch.setattr(found_changes, "SECONDS", 0.0)
    repository(gateway.root)
    with gateway.client() as client:
        chat = gateway.chat("worker")
        turn, found = work(client, chat, run="echo more >> mine")
        assert ("found" in turn, found["found"]) == (False, {"problem": "slow"})
        assert client.patch(f"/api/chats/{chat}", json={"allow": "read"}).status_code == 200
        turn, found = work(client, chat, run="echo more >> mine")
        assert ("found" in turn, "found" in found) == (False, False)


def test_many_changes_fit_into_an_entry(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is left out; the number is that of all."""
    monkeypatch.setattr(found_changes, "SECONDS", 60.0)
    repository(gateway.root)
    with gateway.client() as client:
        chat = gateway.chat("worker")
        monkeypatch.setattr(turn_loop, "MAX_FOUND_FILES", 2)
        turn, found = work(client, chat, run="for i in 1 2 3; do echo x > new$i; done")
        assert (turn["found"], len(found["found"]["changes"]), found["found"]["more_changes"]) == (3, 2, 1)
