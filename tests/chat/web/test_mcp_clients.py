"""`penstock mcp` with the official clients of both generations of the protocol, over recordings that agents play."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import npm_packages
import pytest
import python_packages
from effort import at_most
from recorded_turns import end_of, entries_of
from served import AGENTS, PLAYER, RECORDINGS, TESTS
from waiting import until

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


def python_client(mode: str) -> list[str]:
    """The official client for Python in a mode: `legacy`, or a version."""
    folder = python_packages.installed("mcp==2.3.0")
    return [sys.executable, "-I", "-S", str(TESTS / "support" / "mcp_client.py"), str(folder), mode]


def javascript_client() -> list[str]:
    """The official client for JavaScript."""
    folder = npm_packages.installed("@modelcontextprotocol/sdk@1.32.2")
    return ["node", str(TESTS / "support" / "mcp_client.mjs"), str(folder)]


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A machine without a server."""
    (tmp_path / "root").mkdir()
    (tmp_path / "agents.toml").write_text(AGENTS + CUT)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    given = {"HOME": tmp_path, "PENSTOCK_CONFIG": tmp_path / "agents.toml", "PENSTOCK_DATA": tmp_path / "data"}
    yield {**kept, **{name: str(value) for name, value in given.items()}, "PENSTOCK_SANDBOX": "off"}
    lock = tmp_path / "data" / "serving.lock"
    if lock.exists() and (pid := holder(lock)):
        os.kill(pid, 15)
        until(lambda: holder(lock) is None)


def ask(client: list[str], calls: list[dict[str, Any]], env: dict[str, str]) -> dict[str, Any]:
    """What a client has after these calls of `ask_agent`."""
    server = [sys.executable, "-m", "penstock", "mcp", "--trust", "--agent=scripted"]
    words = [*client, json.dumps(calls), *server]
    root = Path(env["HOME"], "root")
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=root, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
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
def test_each_turn_ends_as_its_run(
    client: Callable[[], list[str]], version: str | None, recordings: list[Recording], env: dict[str, str]
) -> None:
    """The result is the reply of the recording, or an error for a run that failed or was cut off."""
    played = [it for it in recordings if it.folder.parent == RECORDINGS and it.folder.name.isalnum()][: at_most(6, 999)]
    calls = [{"prompt": f"play {it.folder.name}"} for it in played]
    found = ask(client(), [*calls, {"prompt": "Hello", "agent": "cut"}], env)
    assert version is None or found["version"] == version
    assert {"ask_agent", "list_agents"} <= {*found["tools"]}
    *results, cut = found["results"]
    for recording, result in zip(played, results, strict=True):
        end, facts = end_of(entries_of(recording)), result["facts"]
        assert (facts["state"], facts["outcome"]) == ("ended", end.outcome), recording.name
        assert result["is_error"] == (end.outcome in FAILURES)
        assert result["is_error"] or result["text"] == end.message
        assert result["progress"] > 0
    assert cut["is_error"]
    assert cut["facts"]["outcome"] == "cut_off"
