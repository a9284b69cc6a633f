"""The changes of a turn, taken back over the API: once for each key, by those who may, while no turn runs."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import AGENTS, TESTS, Gateway, start
from waiting import until

from penstock.chat.errors import NotAllowed
from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, records
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.store import permits
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.search import Reader
from penstock.testing.viewer import Viewer

AGENT = TESTS / "support" / "editing_agent.py"
EDITING = f'[agents.editing]\ncommand = ["{sys.executable}", "-S", "{AGENT}"]\nadapter = "claude"\n'


class Desk:
    """A chat with an agent that really edits files of its directory."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.work = gateway.root
        self.client = gateway.client()
        self.chat: str = self.client.post("/api/chats", json={"agent": "editing"}).json()["id"]
        self.path = f"/api/chats/{self.chat}"

    def turns(self) -> list[dict[str, Any]]:
        """The turns of the chat."""
        found: list[dict[str, Any]] = self.client.get(f"{self.path}/turns").json()["turns"]
        return found

    def begin(self, **asked: Any) -> None:
        """Ask for a turn."""
        assert self.client.post(f"{self.path}/turns", json={"text": json.dumps(asked)}).status_code == 202

    def work_on(self, **asked: Any) -> dict[str, Any]:
        """Ask for a turn, and return it when it is over."""
        self.begin(**asked)
        until(lambda: all(turn.get("finalized") for turn in self.turns()))
        return self.turns()[-1]

    def plan(self, turn: int, query: str = "") -> dict[str, Any]:
        """What an undo would do."""
        answer = self.client.get(f"{self.path}/turns/{turn}/undo{query}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def undo(self, turn: int, key: str = "", client: httpx.Client | None = None, **body: Any) -> httpx.Response:
        """Take a turn back."""
        headers = {"Idempotency-Key": key} if key else {}
        return (client or self.client).post(f"{self.path}/turns/{turn}/undo", json=body, headers=headers)

    def read(self, name: str) -> str | None:
        """The text of a file."""
        path = self.work / name
        return path.read_text() if path.exists() else None


@pytest.fixture
def desk(tmp_path: Path, page: Path) -> Iterator[Desk]:
    """A gateway with such a chat."""
    (tmp_path / "agents.toml").write_text(AGENTS + EDITING)
    gateway = Gateway(tmp_path, page)
    (gateway.root / "a.py").write_text("one\ntwo\n")
    made = Desk(gateway)
    yield made
    made.client.close()
    gateway.close()


def does(found: dict[str, Any]) -> dict[str, Any]:
    """What was done to each file, or why not."""
    return {it["path"]: it.get("reason", it["does"]) for it in found["files"]}


@pytest.mark.slow
def test_a_turn_is_taken_back_and_made_again(desk: Desk) -> None:
    """The look says what the click does; a repeated request does nothing more; the chat says so to everybody."""
    desk.work_on(write={"a.py": "one\n2\n", "new/b.py": "new\n"}, run="echo more > made.txt")
    desk.work_on(write={"c.py": "three\n"})
    plan = desk.plan(1)
    assert does(plan) == {"a.py": "restore", "new/b.py": "remove"}
    assert plan["commands"] == 1
    assert (desk.read("a.py"), desk.read("new/b.py")) == ("one\n2\n", "new\n")
    done = desk.undo(1, "k1")
    assert (done.status_code, done.json()) == (200, plan)
    assert (desk.read("a.py"), desk.read("new/b.py"), desk.read("c.py")) == ("one\ntwo\n", None, "three\n")
    assert desk.read("made.txt") == "more\n"
    again = desk.undo(1, "k1").json()
    assert again.pop("repeated") is True
    assert does(again) == does(plan)
    first = desk.turns()[0]["undone"]
    assert (first["files"], first["person"], first.get("stayed")) == (2, "owner", None)
    assert does(desk.plan(1)) == {"a.py": "nothing", "new/b.py": "nothing"}
    assert does(desk.plan(1, "?redo=1")) == {"a.py": "restore", "new/b.py": "write"}
    assert does(desk.undo(1, "k2", redo=True).json()) == {"a.py": "restore", "new/b.py": "write"}
    assert (desk.read("a.py"), desk.read("new/b.py")) == ("one\n2\n", "new\n")
    assert "undone" not in desk.turns()[0]
    assert desk.undo(1, "k1").json()["repeated"] is True  # it came late: what was done since stays
    assert desk.read("a.py") == "one\n2\n"
    assert desk.undo(1, "k1", redo=True).status_code == 409
    assert desk.undo(2, "k1").status_code == 409
    with desk.client.stream("GET", f"{desk.path}/events") as stream:  # a newcomer sees what the list of turns has
        lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
        frame = json.loads(next(lines))
    assert [turn.get("undone") for turn in frame["turns"]] == [None, None]


@pytest.mark.slow
def test_who_watches_sees_it(desk: Desk) -> None:
    """A client that has the chat open gets a frame, and one that comes later the same state."""
    desk.work_on(write={"a.py": "2\n"})
    viewer = Viewer()
    with desk.client.stream("GET", f"{desk.path}/events") as stream:
        lines = stream.iter_lines()
        id = None
        sent = False
        for line in lines:
            if line.startswith("id: "):
                id = int(line[4:])
            elif line.startswith("data: "):
                viewer.take(json.loads(line[6:]), id)
                if viewer.turns[1].get("undone"):
                    break
                if not sent:
                    sent = True
                    assert desk.undo(1).status_code == 200
    assert viewer.turns[1]["undone"] == desk.turns()[0]["undone"]


def test_what_was_changed_since_stays(desk: Desk) -> None:
    """Also if it was changed between the look and the click; the others go back, and it can be tried again."""
    desk.work_on(write={"a.py": "2\n", "b.py": "new\n"})
    assert does(desk.plan(1)) == {"a.py": "restore", "b.py": "remove"}
    (desk.work / "a.py").write_text("mine\n")
    found = desk.undo(1).json()
    assert does(found) == {"a.py": "changed", "b.py": "remove"}
    assert [it.get("text") for it in found["files"]] == ["was changed since", None]
    assert desk.read("a.py") == "mine\n"
    assert desk.turns()[0]["undone"]["stayed"] == 1
    (desk.work / "a.py").write_text("2\n")
    assert does(desk.undo(1).json()) == {"a.py": "restore", "b.py": "nothing"}
    assert "stayed" not in desk.turns()[0]["undone"]


@pytest.mark.slow
def test_a_later_turn_is_taken_back_first(desk: Desk) -> None:
    """Of two turns that changed a file the earlier one goes back after the later one."""
    desk.work_on(write={"a.py": "one\n2\n"})
    desk.work_on(write={"a.py": "1\n2\n"})
    assert does(desk.undo(1).json()) == {"a.py": "changed"}
    assert "undone" not in desk.turns()[0]
    for turn, text in ((2, "one\n2\n"), (1, "one\ntwo\n")):
        assert does(desk.undo(turn).json()) == {"a.py": "restore"}
        assert desk.read("a.py") == text


@pytest.mark.slow
def test_not_while_a_turn_runs(desk: Desk) -> None:
    """Its agent could be writing; what it has changed so far is not known to the end."""
    desk.work_on(write={"a.py": "2\n"})
    gate = desk.gateway.folder / "go"
    desk.begin(write={"b.py": "new\n"}, hold=str(gate))
    until(lambda: desk.read("b.py") == "new\n")
    until(lambda: desk.turns()[-1]["state"] == "running")
    for turn in (1, 2):
        refused = desk.undo(turn)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert desk.read("a.py") == "2\n"
    gate.touch()
    until(lambda: bool(desk.turns()[-1].get("finalized")))
    assert does(desk.undo(2).json()) == {"b.py": "remove"}
    assert desk.undo(3).status_code == 404


@pytest.mark.slow
def test_two_at_once(desk: Desk) -> None:
    """With one key, each of them gets the same answer, and it is done once; the chat has one entry of it."""
    desk.work_on(write={"a.py": "2\n"})
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: found.append(desk.undo(1, "k").json())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [does(it) for it in found] == [{"a.py": "restore"}] * 4
    assert [bool(it.get("repeated")) for it in found].count(False) == 1


@pytest.mark.slow
def test_who_may(desk: Desk) -> None:
    """A viewer neither looks nor takes back; a member does both in a chat of the team. Each try is recorded."""
    desk.work_on(write={"a.py": "2\n"})
    desk.client.patch(desk.path, json={"visibility": "team"})
    folder = desk.gateway.folder
    for name, role, status in (("vera", "viewer", 403), ("mia", "member", 200)):
        token = persons.add(folder, name, role, 0)  # type: ignore[arg-type]
        with desk.gateway.client(Authorization=f"Bearer {token}") as client:
            assert client.get(f"{desk.path}/turns/1/undo").status_code == status
            assert desk.undo(1, client=client).status_code == status
            assert desk.read("a.py") == ("2\n" if status == 403 else "one\ntwo\n")
    assert desk.turns()[0]["undone"]["person"] == "mia"
    mine = [(it.person, it.status) for it in records(folder / AUDIT) if it.what == "undo"]
    assert sorted(mine) == [("mia", 200), ("vera", 403)]


@pytest.mark.slow
def test_a_right_that_ends(desk: Desk) -> None:
    """A request whose person lost the right after it was let in writes no file."""
    desk.work_on(write={"a.py": "2\n"})

    def permit() -> Reader:
        raise NotAllowed("not any more")

    async def undo() -> None:
        with permits.acting(permit):
            await desk.gateway.service.undos.make(desk.chat, 1)

    with pytest.raises(NotAllowed):
        desk.gateway.call(undo())
    assert desk.read("a.py") == "2\n"


@pytest.mark.slow
def test_a_store_that_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it cannot be kept that it was done, the request fails; the same one again keeps it."""
    desk.work_on(write={"a.py": "2\n"})
    whole = ChatLog.submit

    async def failing(*_: object, **__: object) -> None:
        raise StoreFailed("disk full")

    monkeypatch.setattr(ChatLog, "submit", failing)
    assert desk.undo(1, "k").status_code == 503
    assert desk.read("a.py") == "one\ntwo\n"
    monkeypatch.setattr(ChatLog, "submit", whole)
    assert does(desk.undo(1, "k").json()) == {"a.py": "nothing"}
    assert desk.turns()[0]["undone"]["files"] == 1


@pytest.mark.slow
def test_after_a_restart(desk: Desk, page: Path) -> None:
    """What a turn left, and that it was taken back, are in the store; a key is recognized there too."""
    desk.work_on(write={"a.py": "2\n"})
    desk.work_on(write={"b.py": "new\n"})
    assert desk.undo(1, "k").status_code == 200
    desk.client.close()
    desk.gateway.close()
    gateway = start(desk.gateway.folder, page)
    try:
        desk.client, desk.gateway = gateway.client(), gateway
        assert desk.turns()[0]["undone"]["files"] == 1
        assert desk.undo(1, "k").json()["repeated"] is True
        assert does(desk.undo(2).json()) == {"b.py": "remove"}
    finally:
        desk.client.close()
        gateway.close()


@pytest.mark.slow
def test_a_directory_that_is_gone(desk: Desk) -> None:
    """The answer says so."""
    desk.work_on(write={"a.py": "2\n"})
    desk.work.rename(desk.work.with_name("away"))
    assert desk.undo(1).status_code == 400
    desk.work.symlink_to(desk.work.with_name("away"))
    assert desk.undo(1).status_code == 400
    assert desk.read("a.py") == "2\n"


@pytest.mark.slow
def test_a_link_shows_nothing_of_it(desk: Desk) -> None:
    """Who has a share sees neither what was taken back, nor by whom."""
    desk.work_on(write={"a.py": "2\n"})
    desk.undo(1, "secret-key")
    url = desk.client.post(f"{desk.path}/shares", json={}).json()["url"]
    with httpx.Client(base_url=desk.gateway.url, headers={"X-Penstock-Share": url.partition("#")[2]}) as anybody:
        shown = anybody.get("/api/shared")
        assert shown.status_code == 200
        assert "undo" not in shown.text
        assert "secret-key" not in shown.text
