"""Every recording as a turn of `penstock acp` for both official clients: its end is the run's, and no cut succeeds."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import acp_played_clients as clients
import pytest
from acp_played_clients import Asked, Got
from effort import at_most
from played_acp import listening
from recorded_turns import end_of, entries_of, known, short_ones

from penstock import events as ev
from penstock.chat.history.entries import Numbered
from penstock.chat.web.doors.acp import stop_reason
from penstock.cli.acp.turns import SessionTurns
from penstock.core.questions import PERMISSIONS

if TYPE_CHECKING:
    from conftest import Recording

Client = Callable[[Path, Sequence[Asked]], list[Got]]
Turns = dict[str, list[Numbered]]

CLIENTS = pytest.mark.parametrize(
    "client",
    [
        pytest.param(clients.python, id="python"),
        pytest.param(
            clients.javascript,
            id="javascript",
            marks=pytest.mark.skipif(not shutil.which("npm"), reason="needs npm"),
        ),
    ],
)


def prompts(name: str, rows: list[Numbered], *, is_full: bool, count: int | None = None) -> list[str]:
    """The prompt that plays a recording, and an answer for each question that the client shows as a message."""
    asked = [row.what for row in rows[:count] if isinstance(row.what, ev.QuestionAsked) and row.what.blocking]
    in_words = [it for it in asked if it.ask not in PERMISSIONS]
    return [json.dumps({"play": name, "rows": count}), *("1" for _ in ([] if is_full else in_words))]


def check(turns: Turns, client: Client, folder: Path, is_full: bool) -> None:
    """Check that each turn ends as its run, with its message."""
    asked = [Asked(prompts(name, rows, is_full=is_full), is_full) for name, rows in turns.items()]
    with listening(turns, folder) as place:
        found = client(place, asked)
    for (name, rows), got in zip(turns.items(), found, strict=True):
        end = end_of(rows)
        assert got.dropped == 0, name
        assert got.stop == stop_reason(end), f"{name}: {got.error}"
        assert (got.stop is None) == (got.outcome is not None), name
        assert got.stop is not None or got.outcome == end.outcome, name
        assert got.message == (end.message if end.message.strip() else ""), name


def test_a_recording_for_the_client(recordings: list[Recording], tmp_path: Path) -> None:
    """One that asks twice, and one that fails."""
    names = ("claude-server/choice", "acp/claude-err401")
    turns = {it.name: entries_of(it) for it in recordings if it.name in names}
    assert len(turns) == 2
    check(turns, clients.python, tmp_path, is_full=True)


def test_a_turn_lists_newer_commands(
    recordings: list[Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the agent is known to offer, and is sent after a session was opened, does not replace the list of a turn."""
    name = "acp/claude-background"
    turns = {name: entries_of(next(it for it in recordings if it.name == name))}
    turn_over, listed = threading.Event(), threading.Event()
    list_commands = SessionTurns.list_commands

    def late(*given: Any) -> None:
        assert turn_over.wait(60)
        list_commands(*given)
        listed.set()

    monkeypatch.setattr(SessionTurns, "list_commands", late)
    with listening(turns, tmp_path) as path, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        lines = client.makefile("rb")
        updates = []

        def ask(method: str, **params: Any) -> Any:
            client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
            while "result" not in (said := json.loads(lines.readline())):
                updates.append(said["params"]["update"])
            return said["result"]

        ask("initialize", protocolVersion=1)
        session = ask("session/new", cwd="/demo", mcpServers=[])["sessionId"]
        prompt = {"type": "text", "text": json.dumps({"play": name, "rows": None})}
        ask("session/prompt", sessionId=session, prompt=[prompt])
        turn_over.set()
        assert listed.wait(60)
        ask("initialize", protocolVersion=1)  # its answer comes after what was sent so far
    lists = [it["availableCommands"] for it in updates if it["sessionUpdate"] == "available_commands_update"]
    assert lists
    assert all(lists), "the server knows of no command"


@pytest.mark.slow
@CLIENTS
@pytest.mark.parametrize("is_full", [False, True], ids=["bare", "forms and notices"])
def test_each_client_ends_as_the_run(
    recordings: list[Recording], client: Client, is_full: bool, tmp_path: Path
) -> None:
    """The result is the run's end, and the last message is the turn's; no update is one that the client drops."""
    check({it.name: entries_of(it) for it in recordings}, client, tmp_path, is_full)


@pytest.mark.slow
@CLIENTS
def test_an_agent_that_is_killed_is_no_success(recordings: list[Recording], client: Client, tmp_path: Path) -> None:
    """After every entry of the recordings the agent is killed: the client gets an error until the end is known."""
    turns = short_ones(recordings, at_most(5, 20))
    asked, expected = [], []
    for name, rows in turns.items():
        for count in range(2, known(rows) + 1):
            asked.append(Asked(prompts(name, rows, is_full=True, count=count), True))
            expected.append((name, count))
    with listening(turns, tmp_path) as place:
        found = client(place, asked)
    for where, got in zip(expected, found, strict=True):
        assert (got.stop, got.outcome, got.dropped) == (None, "cut_off", 0), where


@pytest.mark.slow
@CLIENTS
def test_a_line_that_breaks_is_no_success(recordings: list[Recording], client: Client, tmp_path: Path) -> None:
    """The agent's bytes end in the middle of a line, after every update: the prompt fails at the client."""
    turns = short_ones(recordings, at_most(5, 20))
    with listening(turns, tmp_path) as place:
        whole = client(place, [Asked(prompts(name, rows, is_full=True), True) for name, rows in turns.items()])
        asked = [
            Asked(prompts(name, rows, is_full=True), True, cut)
            for (name, rows), got in zip(turns.items(), whole, strict=True)
            for cut in range(len(got.updates) + 1)
        ]
        found = client(place, asked)
    for one, got in zip(asked, found, strict=True):
        assert got.stop is None, one
        assert got.error, one
