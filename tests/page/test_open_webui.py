"""Open WebUI from its package, in an environment of its own, with the agents of `penstock serve` as its models.

`PENSTOCK_SOAK=1` runs it: the package and what it needs have 2.5 GB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from effort import SOAK
from playwright.sync_api import Browser, Page, Route, expect
from python_packages import installed
from restarts import free_port
from serve_process import LINK, Serve
from served import PLAYER, RECORDINGS
from waiting import until

from penstock.chat.web import static

pytestmark = pytest.mark.skipif(not SOAK, reason="part of the soak")

PACKAGE = "open-webui==0.12.4"
INSTALL_SECONDS, START_SECONDS, PATIENCE = 7200.0, 900.0, 180_000
"""Seconds to install it and to start it; milliseconds until it shows something."""

NOWHERE = "http://127.0.0.1:9"
REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]
BEFORE_THE_HOLD = "Looking."


def agents(folder: Path) -> str:
    """One that notes each start, and one that waits in the middle for a file."""
    command = [sys.executable, "-S", str(PLAYER), str(RECORDINGS / "thinktools"), "--speed=0"]
    command.append(f"--prompts={folder / 'prompts'}")
    held = [*command, f"--hold=38:{folder / 'go'}"]
    return "".join(
        f'[agents.{name}]\ncommand = {json.dumps(words)}\nadapter = "claude"\n'
        for name, words in (("scripted", command), ("held", held))
    )


class Desk:
    """Penstock, and what it knows of the turns that Open WebUI has asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        self.root.mkdir()
        flags = ("--port=0", f"--root={self.root}")
        self.serve = Serve(folder, static.FOLDER, *flags, agents=agents(folder), PENSTOCK_SANDBOX="off")
        link = LINK.search(self.serve.line())
        assert link is not None
        self.url = link[1]
        self.token = (folder / "data" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)
        self.client.post("/api/workspaces", json={"path": str(self.root)}).raise_for_status()

    def turns(self) -> list[tuple[str, str | None]]:
        """All turns of all chats: the prompt and the outcome, if there is one."""
        found: list[tuple[str, str | None]] = []
        for chat in self.client.get("/api/chats").json()["chats"]:
            turns: list[dict[str, Any]] = self.client.get(f"/api/chats/{chat['id']}/turns").json()["turns"]
            found += [(turn["prompt"], turn.get("outcome")) for turn in turns]
        return sorted(found)

    def prompts(self) -> list[str]:
        """The prompts of all agents that were started."""
        return [json.loads(line)["prompt"] for line in (self.folder / "prompts").read_text("utf-8").splitlines()]

    def close(self) -> None:
        """End it."""
        self.client.close()
        self.serve.end()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A server whose agents may work in a directory."""
    made = Desk(tmp_path)
    yield made
    made.close()


@contextmanager
def open_webui(desk: Desk) -> Iterator[str]:
    """Its address. It cannot reach any other machine."""
    package, port = installed(PACKAGE, seconds=INSTALL_SECONDS), free_port()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(desk.folder),
        "PYTHONPATH": str(package),
        "DATA_DIR": str(desk.folder / "webui"),
        "OFFLINE_MODE": "true",
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1",
        "WEBUI_AUTH": "False",
        "WEBUI_SECRET_KEY": "of the tests",
        "ENABLE_OLLAMA_API": "false",
        "ENABLE_FORWARD_USER_INFO_HEADERS": "true",
        "RAG_EMBEDDING_ENGINE": "openai",  # else it loads a model
        "OPENAI_API_BASE_URL": f"{desk.url}/v1",
        "OPENAI_API_KEY": desk.token,
    }
    words = [sys.executable, "-c", "from open_webui import app; app()", "serve", "--host", "127.0.0.1"]
    log, url = desk.folder / "webui.log", f"http://127.0.0.1:{port}"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [*words, "--port", str(port)], env=env, cwd=desk.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        ) as process,
    ):
        try:
            until(lambda: answers(process, url, log), "Open WebUI answers", START_SECONDS)
            yield url
        finally:
            process.kill()


def answers(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    """Whether it has started."""
    assert process.poll() is None, log.read_text("utf-8", "replace")[-3000:]
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def stay_here(route: Route) -> None:
    """Let no request of the page leave this machine."""
    if "://127.0.0.1:" in route.request.url:
        route.continue_()
    else:
        route.abort()


def ask(page: Page, url: str, model: str, text: str) -> None:
    """Send the first message of a chat with a model."""
    page.goto(f"{url}/?models={model}", wait_until="domcontentloaded")
    expect(page.get_by_role("button", name=f"Selected model: {model}")).to_be_visible(timeout=PATIENCE)
    news = page.get_by_role("button", name="Okay, Let's Go!")
    field = page.locator("#chat-input")
    expect(field).to_be_visible(timeout=PATIENCE)
    if model == "scripted":  # the first visit
        news.press("Enter", timeout=PATIENCE)
        expect(news).to_have_count(0, timeout=PATIENCE)
    field.press_sequentially(text)
    expect(field).to_contain_text(text, timeout=PATIENCE)
    field.press("Enter")


def test_open_webui_has_the_agents_as_models(desk: Desk, browser: Browser) -> None:
    """A chat with its title, for which no agent is started; a stop; and a reload in the middle of a reply."""
    with open_webui(desk) as url:
        context = browser.new_context(viewport={"width": 1180, "height": 820})
        context.route("**/*", stay_here)
        page = context.new_page()
        shown = page.locator("#messages-container")

        ask(page, url, "scripted", "Hello")
        expect(shown).to_contain_text(REPLY, timeout=PATIENCE)
        expect(page).to_have_title(re.compile("Hello"), timeout=PATIENCE)
        ended: Callable[[], bool] = lambda: desk.turns() == [("Hello", "ok")]  # noqa: E731
        until(ended)

        ask(page, url, "held", "Stop")
        expect(shown).to_contain_text(BEFORE_THE_HOLD, timeout=PATIENCE)
        page.get_by_role("button", name="Stop", exact=True).press("Enter")
        until(lambda: ("Stop", "cancelled") in desk.turns(), "the turn is stopped")

        ask(page, url, "held", "Reload")
        expect(shown).to_contain_text(BEFORE_THE_HOLD, timeout=PATIENCE)
        expect(page).to_have_url(re.compile("/c/"), timeout=PATIENCE)
        page.reload(wait_until="domcontentloaded")
        expect(shown).to_contain_text("Reload", timeout=PATIENCE)
        assert ("Reload", None) in desk.turns(), "the turn goes on"
        (desk.folder / "go").touch()
        expect(shown).to_contain_text(REPLY, timeout=PATIENCE)
        expected = [("Hello", "ok"), ("Reload", "ok"), ("Stop", "cancelled")]
        until(lambda: desk.turns() == expected)
        assert sorted(desk.prompts()) == ["Hello", "Reload", "Stop"], "an agent was started for a title"
        context.close()
