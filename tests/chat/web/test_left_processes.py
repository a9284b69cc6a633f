"""Processes that an agent of `penstock serve` leaves by killing what guards it, and the browser of `--open`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from outside_judge import processes_with
from serve_process import LINK, Serve, browser
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")]


@pytest.fixture
def seconds() -> str:
    """Numbers of seconds that no other process sleeps."""
    return str(70_000 + os.getpid() % 10_000)


def test_what_an_agent_leaves_is_killed_and_the_browser_is_not(
    serve: Callable[..., Serve], tmp_path: Path, seconds: str
) -> None:
    """A daemon without any variable, whose guards are killed, ends with the turn; one of the browser's goes on."""
    agent, program = tmp_path / "agent", tmp_path / "browser"
    of_agent, of_browser = f"{seconds}.1", f"{seconds}.2"
    agent.write_text(
        f"#!/bin/sh\nsetsid env -i /bin/sh -c 'sleep {of_agent}' </dev/null >/dev/null 2>&1 &\nsleep 0.3\n"
        "touch killed\nkill -9 $(ps -o ppid= -p $PPID) $PPID\nsleep 9\n"
    )
    program.write_text(f"#!/bin/sh\nsetsid sleep {of_browser} </dev/null >/dev/null 2>&1 &\n")
    for path in (agent, program):
        path.chmod(0o700)
    agents = f'[agents.leaving]\ncommand = ["{agent}"]\nadapter = "claude"\n'
    try:
        started = serve("--port=0", "--agent=leaving", "--open", agents=agents, BROWSER=f"{program} %s")
        found = LINK.fullmatch(started.line())
        assert found
        until(lambda: processes_with(of_browser), "the browser is there")
        until(lambda: is_without_parent_in(started.process.pid, of_browser), "the browser has no parent of Penstock's")
        with browser(found[1]) as client:
            assert client.post("/api/login", json={"code": found[2]}).status_code == 204
            assert client.post("/api/workspaces", json={"path": str(tmp_path)}).status_code == 200
            chat = client.post("/api/chats", json={}).json()["id"]
            client.post(f"/api/chats/{chat}/turns", json={"text": "Hello"})
            until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("outcome"))
        assert (tmp_path / "killed").exists()
        until(lambda: not processes_with(of_agent), "the agent's process is gone", 10)
        assert processes_with(of_browser)
        started.end()
        assert processes_with(of_browser)
    finally:
        for pid in processes_with(f"{seconds}."):
            os.kill(pid, signal.SIGKILL)


def is_without_parent_in(server: int, text: str) -> bool:
    """Return whether none of the processes with a text is below a server."""
    for pid in processes_with(text):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
            if pid == server:
                return False
    return True
