"""A server that cannot write for a while: what its log, its probes, its metrics and its viewers say of that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from serve_process import LINK, Serve, browser
from served import PLAYER, RECORDINGS
from viewer import Viewer
from waiting import until


class Watcher:
    """A viewer of a chat, in a thread."""

    def __init__(self, client: httpx.Client, chat: str) -> None:
        self.viewer = Viewer()
        self._client = client
        self._thread = threading.Thread(target=self._read, args=(chat,), daemon=True)
        self._thread.start()

    def _read(self, chat: str) -> None:
        try:
            with self._client.stream("GET", f"/api/chats/{chat}/events", timeout=60) as stream:
                for piece in stream.iter_raw():
                    self.viewer.feed(piece)
        except httpx.TransportError:
            pass  # the server ended


Act = Callable[["subprocess.Popen[str]"], None]
"""Change of what the server's process can write."""


def use(folder: Path, page: Path, fill: Act, empty: Act) -> None:
    """Let a turn run, `fill` the disk and `empty` it; the server says so once each, and goes on."""
    gate = folder / "gate"
    started = Serve(folder, page, "--port=0", agents=held(gate))
    try:
        found = LINK.fullmatch(started.line())
        assert found
        with browser(found[1]) as client:
            assert client.post("/api/login", json={"code": found[2]}).status_code == 204
            assert client.post("/api/workspaces", json={"path": str(folder)}).status_code == 200
            chat = client.post("/api/chats", json={"agent": "held"}).json()["id"]
            watcher = Watcher(client, chat)
            assert client.post(f"/api/chats/{chat}/turns", json={"text": "Hello"}).status_code == 202
            until(lambda: watcher.viewer.turns.get(1, {}).get("state") == "running", "the turn runs")
            assert (_ready(client), watcher.viewer.works) == (200, True)
            fill(started.process)
            gate.touch()  # the agent goes on, and what it prints cannot be kept
            until(lambda: _metric(client, "penstock_store_failures_total") > 0, "an entry of the turn is not kept")
            until(lambda: _ready(client) == 503, "the server is not ready")
            until(lambda: not watcher.viewer.works, "viewers see that nothing can be kept")
            assert client.get("/readyz").json() == {"status": "unready", "reason": "the store cannot keep anything"}
            assert client.get("/healthz").status_code == 200
            assert _metric(client, "penstock_store_works") == 0
            late = Watcher(client, chat)
            until(lambda: not late.viewer.works, "so do those that come later")
            for _ in range(5):
                answer = client.post("/api/chats", json={"agent": "held"})
                assert answer.status_code == 503, answer.text
            empty(started.process)
            until(lambda: _ready(client) == 200, "the server is ready again")
            until(lambda: watcher.viewer.works and late.viewer.works, "viewers see that it works again")
            until(lambda: watcher.viewer.turns[1].get("outcome") == "cut_off", "the turn is cut off")
            until(lambda: watcher.viewer.is_quiet, "the turn ends")
            assert _metric(client, "penstock_store_works") == 1
            assert _metric(client, "penstock_free_bytes") > 0
            assert client.post(f"/api/chats/{chat}/turns", json={"text": "Again"}).status_code == 202
            until(lambda: watcher.viewer.turns.get(2, {}).get("outcome") == "ok", "the next turn runs")
        status, _, err = started.end()
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()
    assert status == 0
    lines = [line for line in err.splitlines() if "kept" in line or "works again" in line]
    assert len(lines) == 2, err
    assert lines[0].startswith("penstock: nothing can be kept: the store ")
    assert re.fullmatch(r"penstock: the store works again, after \d+ s", lines[1])


def held(gate: Path) -> str:
    """Configuration of an agent that waits for a file in the middle of its reply."""
    words = [sys.executable, "-S", str(PLAYER), str(RECORDINGS / "text"), "--speed=0", f"--hold=9:{gate}"]
    return f'[agents.held]\ncommand = {json.dumps(words)}\nadapter = "claude"\n'


def _ready(client: httpx.Client) -> int:
    return client.get("/readyz").status_code


def _metric(client: httpx.Client, name: str) -> float:
    found: Any = re.search(rf"^{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])
