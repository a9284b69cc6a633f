"""A browser of somebody: its own cookies, and an eye on everything that goes wrong in it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    WebError,
    sync_playwright,
)

PROGRAM = os.environ.get("PENSTOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SAMPLER = Path(__file__).parent / "sampler.js"
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP penstock.test 127.0.0.1",
]
OWN = {"127.0.0.1", "penstock.test"}
"""Where servers of the tests are: this machine, and this machine by a name that seems to be another one."""
LOCAL = ("data:", "blob:", "about:")
CUT = re.compile(r"Failed to load resource: net::ERR_")
"""What the browser says of a line that was cut."""
NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1180, "height": 820}


class Device:
    """A browser context. `problems` has to stay empty; `allow` names words of the console that are no problem."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.problems: list[str] = []
        self._allowed: list[re.Pattern[str]] = []
        context.add_init_script(path=SAMPLER)
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)
        context.on("dialog", self._dialog)
        context.on("page", lambda page: page.on("crash", lambda _: self.problems.append("a page crashed")))

    def allow(self, *words: str | re.Pattern[str]) -> None:
        """Let the console say this."""
        self._allowed += [re.compile(word) if isinstance(word, str) else word for word in words]

    def page(self) -> Page:
        """Another tab."""
        return self.context.new_page()

    def sign_in(self, link: str) -> Page:
        """A tab at a one-time link, once the server has answered whether it signs the browser in."""
        page = self.page()
        with page.expect_response(lambda answer: answer.url.endswith("/api/login")):
            page.goto(link)
        return page

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(it.search(message.text) for it in self._allowed):
            self.problems.append(f"console: {message.text}")

    def _error(self, error: WebError) -> None:
        self.problems.append(f"error: {error.error}")

    def _request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host not in OWN and not request.url.startswith(LOCAL):
            self.problems.append(f"request to {request.url}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser."""
    assert PROGRAM, "there is no chromium in the path; PENSTOCK_CHROMIUM can name one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def device(browser: Browser, **options: Any) -> Iterator[Device]:
    """A browser of somebody, closed at the end. Whatever went wrong in it fails the test."""
    context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", "locale": "en-GB", **options})
    made = Device(context)
    try:
        yield made
    finally:
        context.close()
    assert not made.problems, made.problems
