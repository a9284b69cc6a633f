"""The page as a person sees it: a chat, its turns, and what can be done with them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from chatpage.device import Device
from chatpage.server import Server

PATIENCE = 30_000
"""Milliseconds that a test waits for the page: more than any recording takes on a busy machine."""

expect.set_options(timeout=PATIENCE)


class Sample(NamedTuple):
    """A turn as it stood in one frame. `replies` has one text for each bubble, `status` one for each quiet line."""

    turn: int
    state: str
    replies: list[str]
    growing: bool
    status: list[str]


class Thread:
    """A chat in a tab."""

    def __init__(self, device: Device, server: Server, *, base: str = "") -> None:
        """`base`: where the browser finds the server, if that is a proxy."""
        self.device, self.server = device, server
        self.base = base or server.url
        self.page: Page = device.page()
        self.page.set_default_timeout(PATIENCE)
        self.chat = ""

    # --- where it is ---

    def enter(self, chat: str = "") -> Thread:
        """Sign in by a link of the server's, and go to a chat, or to the beginning."""
        code = urlsplit(self.server.link()).fragment
        self.chat = chat
        self.page.goto(f"{self.base}{self._path}#{code}")
        self.ready()
        return self

    def go(self, chat: str = "") -> Thread:
        """Go to a chat, where the browser is signed in already."""
        self.chat = chat
        self.page.goto(self.base + self._path)
        self.ready()
        return self

    @property
    def _path(self) -> str:
        return f"/chats/{self.chat}" if self.chat else "/"

    def ready(self) -> None:
        """Wait until the page is there."""
        place = self.page.locator(".thread[data-ready=true]") if self.chat else self.page.locator(".start")
        expect(place).to_be_visible(timeout=PATIENCE)
        self.drawn()

    def drawn(self) -> None:
        """Wait until no text is still being drawn: a long one takes many tasks."""
        expect(self.page.locator(".prose[aria-busy]")).to_have_count(0, timeout=4 * PATIENCE)

    # --- what is seen ---

    @property
    def scroller(self) -> Locator:
        """What scrolls."""
        return self.page.locator(".thread")

    @property
    def composer(self) -> Locator:
        """Where a message is written."""
        return self.page.locator(".composer textarea")

    def turn(self, number: int) -> Locator:
        """A turn."""
        return self.page.locator(f".turn[data-turn='{number}']")

    def reply(self, number: int) -> Locator:
        """The reply of a turn, growing or whole."""
        return self.turn(number).locator(".reply")

    def status(self, number: int) -> Locator:
        """The quiet line of a turn."""
        return self.turn(number).locator(".status")

    def words(self, number: int) -> str:
        """What the reply of a turn says, without the frames of its code."""
        return str(self.reply(number).evaluate("element => window.penstockWords(element)"))

    def samples(self) -> list[Sample]:
        """Every turn of every frame in which something was different, in order."""
        kept: list[dict[str, Any]] = self.page.evaluate("() => window.penstockSamples")
        return [Sample(**turn) for sample in kept for turn in sample["turns"]]

    def of(self, number: int) -> list[Sample]:
        """The samples of one turn."""
        return [sample for sample in self.samples() if sample.turn == number]

    def hide(self, words: list[str]) -> None:
        """From now on, keep in mind in which frames the page has these words anywhere: `leaks`."""
        self.page.evaluate("words => { window.penstockSecrets = words }", words)

    def leaks(self) -> list[str]:
        """Words that were to stay hidden, and were seen."""
        found: list[str] = self.page.evaluate("() => [...window.penstockLeaks]")
        return found

    def said(self) -> list[list[str]]:
        """What a screen reader was told: role and words."""
        told: list[list[str]] = self.page.evaluate("() => window.penstockSaid")
        return told

    # --- what is done ---

    def say(self, text: str) -> None:
        """Write a message and send it."""
        self.composer.fill(text)
        expect(self.page.locator(".composer .send")).to_be_enabled(timeout=PATIENCE)
        self.composer.press("Enter")

    def confirm(self) -> None:
        """Send a first message to an agent that does not keep the level of permission that was chosen."""
        dialog = self.page.get_by_role("dialog", name="Send it nevertheless?")
        dialog.get_by_role("button", name="Send", exact=True).click()

    def ask(self, text: str, number: int = 1, outcome: str = "ok") -> None:
        """Send a message, and wait for the end of its turn."""
        self.say(text)
        self.ended(number, outcome)

    def ended(self, number: int, outcome: str = "ok") -> None:
        """Wait until a turn is completed."""
        expect(self.turn(number)).to_have_attribute("data-state", "completed", timeout=PATIENCE)
        expect(self.turn(number)).to_have_attribute("data-outcome", outcome)
        self.drawn()

    def runs(self, number: int) -> None:
        """Wait until a turn runs."""
        expect(self.turn(number)).to_have_attribute("data-state", "running", timeout=PATIENCE)

    def writes(self, number: int, words: str = "") -> None:
        """Wait until the reply of a turn grows, and has these words."""
        expect(self.turn(number).locator(".reply[data-growing]")).to_contain_text(
            words or re.compile(r"\S"), timeout=PATIENCE
        )

    def button(self, name: str) -> Locator:
        """A button, by what it is called."""
        return self.page.get_by_role("button", name=name, exact=True)
