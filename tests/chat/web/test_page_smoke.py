"""The page in a real browser, once: it loads, sends a message, and shows the reply.

The browser is driven over its own pipe, so nothing has to be installed but Chromium. All else that the page does is
tested by `make test-chat`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Gateway, start

from penstock.chat.web.static import FOLDER

CHROMIUM = os.environ.get("PENSTOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
             "--disable-background-networking", "--disable-component-update")  # fmt: skip
SECONDS = 20.0
"""A browser that has not answered by then does not answer any more."""
SEND = """
(async () => {
  const seen = (selector) => new Promise((resolve) => {
    const look = () => document.querySelector(selector);
    const observer = new MutationObserver(() => look() && resolve(look()));
    observer.observe(document.body, { subtree: true, childList: true, attributes: true });
    if (look()) resolve(look());
  });
  const field = await seen(".thread[data-ready=true] ~ .foot textarea");
  field.value = "find the needle";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  (await seen(".send:not([disabled])")).click();
  const turn = await seen(".turn[data-state=completed] .reply .block > *");
  return turn.closest(".turn").textContent;
})()
"""


class Chromium:
    """A browser that is driven by messages of the DevTools protocol, each ended by a zero byte."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        commands, self._commands = os.pipe()
        self._messages, messages = os.pipe()
        # It reads from 3 and writes to 4.
        script = f'exec "$@" 3<&{commands} 4>&{messages}'
        argv = [CHROMIUM, *ARGUMENTS, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *argv],
            pass_fds=(commands, messages),
            env={**os.environ, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(messages)
        self._rest = b""
        self._number = 0
        self._events: set[str] = set()
        self.problems: list[str] = []

    def call(self, method: str, *, session: str | None = None, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        os.write(self._commands, json.dumps(command | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (message := self._receive()).get("id") != self._number:
            pass
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def wait(self, event: str) -> None:
        """Wait until the browser has reported this."""
        while event not in self._events:
            self._receive()

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._messages], [], [], SECONDS)[0], "the browser says nothing"
            data = os.read(self._messages, 65536)
            assert data, "the browser ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._events.add(message.get("method", ""))
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.problems.append(json.dumps(message["params"]))
        return message

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._messages)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that serves the real page."""
    started = start(tmp_path, FOLDER)
    yield started
    started.close()


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A browser."""
    started = Chromium(tmp_path)
    yield started
    started.close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; PENSTOCK_CHROMIUM can name one")
@pytest.mark.skipif(not (FOLDER / "vendor" / "manifest.json").is_file(), reason="`make page` fetches what it loads")
def test_the_page_loads_sends_and_shows_a_reply(gateway: Gateway, chromium: Chromium) -> None:
    """In a browser, a link signs in, a message that is sent has its turn, and the reply is on the page."""
    chat = gateway.chat("scripted")
    code = gateway.logins.new_code()
    target = chromium.call("Target.createTarget", url="about:blank")["targetId"]
    session = chromium.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Runtime", "Log", "Page"):
        chromium.call(f"{domain}.enable", session=session)
    chromium.call("Page.navigate", session=session, url=f"{gateway.url}/chats/{chat}#code={code}")
    chromium.wait("Page.loadEventFired")
    found = chromium.call("Runtime.evaluate", session=session, expression=SEND, awaitPromise=True, returnByValue=True)
    assert "find the needle" in found["result"]["value"]
    assert "FINAL-REPLY" in found["result"]["value"]
    assert chromium.problems == []
