"""A page with `useChat` of the AI SDK, in a browser, with the agents of `penstock serve` on another origin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from chatpage.device import Device
from chatpage.server import Server
from npm_packages import installed
from playwright.sync_api import Page, expect
from served import PLAYER, RECORDINGS, TESTS
from waiting import until

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")

PACKAGES = ("@ai-sdk/react@4.0.177", "ai@7.0.173", "react@19.3.1", "react-dom@19.3.1", "esbuild@0.28.2")
SOURCE = TESTS / "support" / "use_chat" / "page.mjs"
HTML = (
    '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body></body><script src="page.js"></script>'
)
PATIENCE = 120_000
"""Milliseconds until the page shows something."""

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]
BEFORE_THE_HOLD = "Looking."


class Quiet(SimpleHTTPRequestHandler):
    """Sends files, and writes nothing about it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def page_of(folder: Path) -> Iterator[str]:
    """The page, bundled, at an address of its own."""
    packages = installed(*PACKAGES)
    words = [
        str(packages / "node_modules" / ".bin" / "esbuild"),
        str(SOURCE),
        "--bundle",
        f"--outfile={folder / 'page.js'}",
    ]
    env = {"PATH": os.environ["PATH"], "NODE_PATH": str(packages / "node_modules")}
    subprocess.run(
        [*words, '--define:process.env.NODE_ENV="production"', "--log-level=error"], check=True, env=env, timeout=300
    )
    (folder / "index.html").write_text(HTML)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as files:
        threading.Thread(target=files.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{files.server_port}"
        finally:
            files.shutdown()


def agents(folder: Path) -> Path:
    """One that plays a recording, one that waits in the middle of it for a file, and one that asks."""
    play = [sys.executable, "-S", str(PLAYER), str(RECORDINGS / "thinktools"), "--speed=0"]
    held = [*play, f"--hold=38:{folder / 'gate'}"]
    peer = [sys.executable, str(TESTS / "support" / "acp_peer.py")]
    kinds = (
        ("scripted", play, 'adapter = "claude"'),
        ("held", held, 'adapter = "claude"'),
        ("peer", peer, 'protocol = "acp"'),
    )
    file = folder / "agents.toml"
    file.write_text("".join(f"[agents.{name}]\ncommand = {json.dumps(words)}\n{more}\n" for name, words, more in kinds))
    return file


def turns(server: Server) -> list[tuple[str, str | None]]:
    """All turns of all chats: the prompt, and the outcome if there is one."""
    found: list[tuple[str, str | None]] = []
    for chat in server.ask("GET", "/api/chats")["chats"]:
        every = server.ask("GET", f"/api/chats/{chat['id']}/turns")["turns"]
        found += [(turn["prompt"], turn.get("outcome")) for turn in every]
    return sorted(found)


def test_a_page_of_somebody_has_the_agents(
    own_server: Callable[..., Server], devices: Callable[..., Device], tmp_path: Path
) -> None:
    """A chat; a permission that is given on the page; a stop; and a reload in the middle of a reply."""
    with page_of(tmp_path) as origin:
        server = own_server(config=agents, flags=[f"--allow-origin={origin}"], env={"PENSTOCK_SANDBOX": "off"})
        device = devices()
        page = device.page()

        def ask(agent: str, text: str) -> Page:
            given = {"server": server.url, "token": server.token, "agent": agent, "chat": f"{agent}-{text}"}
            page.goto(f"{origin}/?{urlencode(given)}")
            page.locator("input").fill(text)
            page.locator("input").press("Enter")
            return page

        def shows(words: str, status: str) -> None:
            expect(page.locator(".assistant")).to_contain_text(words, timeout=PATIENCE)
            expect(page.locator("output")).to_have_text(status, timeout=PATIENCE)

        ask("scripted", "Hello")
        shows(REPLY, "ready")
        ask("peer", "permission")
        page.locator(".allow").press("Enter", timeout=PATIENCE)
        shows("asked: once", "ready")
        ask("held", "Stop")
        shows(BEFORE_THE_HOLD, "streaming")
        page.locator("#stop").press("Enter")
        until(lambda: ("Stop", "cancelled") in turns(server), "the turn is stopped")
        shows(BEFORE_THE_HOLD, "ready")
        ask("held", "Reload")
        shows(BEFORE_THE_HOLD, "streaming")
        page.reload()
        shows(BEFORE_THE_HOLD, "streaming")
        expect(page.locator(".user")).to_have_text(["Reload"])
        assert ("Reload", None) in turns(server), "the turn goes on"
        server.gate.touch()
        shows(REPLY, "ready")
        expect(page.locator(".assistant")).to_have_count(1)
        expected = [("Hello", "ok"), ("Reload", "ok"), ("Stop", "cancelled"), ("permission", "ok")]
        until(lambda: turns(server) == expected)
