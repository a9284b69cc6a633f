"""`penstock mcp` with the official clients of both generations of the protocol, over recordings that agents play."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import npm_packages
import played_mcp
import pytest
import python_packages
from effort import SOAK, at_most
from recorded_turns import end_of, entries_of, known, short_ones
from served import AGENTS, PLAYER, RECORDINGS, TESTS, held_and_asking
from waiting import until

from penstock.chat.history.entries import Numbered
from penstock.chat.web.doors.turn_fold import FAILURES
from penstock.run.locks import holder

if TYPE_CHECKING:
    from conftest import Recording

pytestmark = pytest.mark.slow

SECONDS = 600
"""Timeout in seconds for all turns of a client."""

CUT = f"""
[agents.cut]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0", "--lines=30"]
adapter = "claude"
"""


def player_of(recording: Recording) -> str:
    """The name of the agent that plays this recording and its siblings."""
    return f"as-{recording.folder.parent.name}"


def players(recordings: list[Recording]) -> str:
    """The configuration of these agents."""
    words = {
        player_of(it): (it.agent, [sys.executable, "-S", str(PLAYER), str(it.folder), "--speed=0"]) for it in recordings
    }
    return "".join(
        f'[agents."{name}"]\ncommand = {json.dumps(command)}\nadapter = "{adapter}"\n'
        for name, (adapter, command) in words.items()
    )


def python_client(mode: str) -> list[str]:
    """The official client for Python in a mode: `legacy`, or a version."""
    folder = python_packages.installed("mcp==2.3.0")
    return [sys.executable, "-I", "-S", str(TESTS / "support" / "mcp_client.py"), str(folder), mode]


def javascript_client() -> list[str]:
    """The official client for JavaScript."""
    folder = npm_packages.installed("@modelcontextprotocol/sdk@1.32.2")
    return ["node", str(TESTS / "support" / "mcp_client.mjs"), str(folder)]


@pytest.fixture
def env(tmp_path: Path, recordings: list[Recording]) -> Iterator[dict[str, str]]:
    """A machine without a server."""
    (tmp_path / "root").mkdir()
    (tmp_path / "agents.toml").write_text(AGENTS + CUT + players(printed(recordings)))
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    given = {"HOME": tmp_path, "PENSTOCK_CONFIG": tmp_path / "agents.toml", "PENSTOCK_DATA": tmp_path / "data"}
    yield {**kept, **{name: str(value) for name, value in given.items()}, "PENSTOCK_SANDBOX": "off"}
    lock = tmp_path / "data" / "serving.lock"
    if lock.exists() and (pid := holder(lock)):
        os.kill(pid, 15)
        until(lambda: holder(lock) is None)


def printed(recordings: list[Recording]) -> list[Recording]:
    """Recordings of agents that print and do not listen, so that a program can play them."""
    return [it for it in recordings if it.agent != "acp" and "/" not in it.agent]


def some(recordings: list[Recording]) -> list[Recording]:
    """All of these in a soak, else one of each agent: by turns one that succeeds and one that fails."""
    found: dict[str, Recording] = {}
    for it in recordings:
        fails = it.expected["outcome"] in FAILURES
        wanted = fails == (len(found) % 2 == 1)
        if wanted and it.folder.parent.name.isalpha() and it.case != "long":
            found.setdefault(player_of(it), it)
    return recordings if SOAK else [*found.values()]


def ask(client: list[str], calls: list[dict[str, Any]], env: dict[str, str], server: list[str]) -> dict[str, Any]:
    """What a client has after these calls of `ask_agent`."""
    root = Path(env["HOME"], "root")
    file = root.with_name("calls")
    file.write_text(json.dumps(calls))
    words = [*client, str(file), *server]
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=root, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(recording: Recording, rows: list[Numbered], result: dict[str, Any]) -> None:
    """Check that the result of a call is the end of the run, and its reply.

    Reasons may be the exit status of the program that plays the recording.
    """
    end, facts = end_of(rows), result["facts"]
    assert (facts["state"], facts["outcome"]) == ("ended", end.outcome), recording.name
    assert result["is_error"] == (end.outcome in (*FAILURES, "cancelled")), recording.name
    if result["is_error"]:
        assert end.outcome == "cut_off" or (end.reason or "stopped") in result["text"], recording.name
        assert result["text"].startswith(end.message), recording.name
    else:
        nothing = r"\[.+\]" if end.reason else r"\(no reply\)"
        wanted = re.escape(end.message) if end.message else nothing
        assert re.fullmatch(wanted, result["text"]), recording.name


CLIENTS = pytest.mark.parametrize(
    ("client", "version"),
    [
        pytest.param(lambda: python_client("legacy"), "2025-11-25", id="python, 2025-11-25"),
        pytest.param(lambda: python_client("2026-07-28"), "2026-07-28", id="python, 2026-07-28"),
        pytest.param(
            javascript_client,
            None,
            id="javascript",
            marks=pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm"),
        ),
    ],
)


@CLIENTS
def test_each_turn_ends_as_its_run(
    client: Callable[[], list[str]], version: str | None, recordings: list[Recording], env: dict[str, str]
) -> None:
    """The result is the reply of the recording, or an error for a run that failed or was cut off."""
    played = some(printed(recordings))
    calls = [{"prompt": f"play {it.folder.name}", "agent": player_of(it)} for it in played]
    server = [sys.executable, "-m", "penstock", "mcp", "--trust", "--agent=scripted"]
    found = ask(client(), [*calls, {"prompt": "Hello", "agent": "cut"}], env, server)
    assert version is None or found["version"] == version
    assert {"ask_agent", "list_agents"} <= {*found["tools"]}
    *results, cut = found["results"]
    for recording, result in zip(played, results, strict=True):
        check(recording, entries_of(recording), result)
        assert result["progress"] > 0
    assert cut["is_error"]
    assert cut["facts"]["outcome"] == "cut_off"


@CLIENTS
def test_all_recordings_and_every_cut(
    client: Callable[[], list[str]],
    version: str | None,
    recordings: list[Recording],
    env: dict[str, str],
    tmp_path: Path,
) -> None:
    """Of the agents that listen too; and of an agent that is killed after an entry, the result is an error."""
    cut = short_ones(recordings, at_most(3, 20))
    place = ("2025-11-25", "2026-07-28", None).index(version)
    recordings = recordings[0 if SOAK else place :: at_most(3, 1)]
    turns = {it.name: entries_of(it) for it in recordings} | cut
    cuts = [(name, count) for name, rows in cut.items() for count in range(2, known(rows) + 1)]
    asked: list[tuple[str, int | None]] = [*((it.name, None) for it in recordings), *cuts]
    calls = [{"prompt": json.dumps({"play": name, "rows": count})} for name, count in asked]
    found = ask(client(), calls, env, played_mcp.command(turns, tmp_path))
    assert version is None or found["version"] == version
    results = found["results"]
    for recording, result in zip(recordings, results, strict=False):
        check(recording, turns[recording.name], result)
    for where, result in zip(cuts, results[len(recordings) :], strict=True):
        assert (result["is_error"], result["facts"]["outcome"]) == (True, "cut_off"), where


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_official_client_of_tasks(mode: str, env: dict[str, str]) -> None:
    """It follows a call as a task to its end, reads an error of the tool, and cancels."""
    home = Path(env["HOME"])
    (home / "agents.toml").write_text(AGENTS + held_and_asking(home / "go"))
    folder = npm_packages.installed("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/ext-tasks@0.2.2")
    words = ["node", str(TESTS / "support" / "mcp_tasks_client.mjs"), str(folder), mode]
    words += [sys.executable, "-m", "penstock", "mcp", "--trust", "--agent=scripted"]
    done = subprocess.run(
        words, capture_output=True, text=True, env=env, cwd=home / "root", timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["version"] == ("2025-11-25" if mode == "legacy" else mode)
    assert found["kinds"] == ["task"] * 3
    ended, wrong, cancelled = found["outcomes"]
    reply = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]
    assert (ended["status"], ended["result"]["content"][0]["text"]) == ("completed", reply)
    assert wrong["status"] == ("failed" if mode == "legacy" else "completed")
    assert cancelled["status"] == "cancelled"
