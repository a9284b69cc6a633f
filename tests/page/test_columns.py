"""Two chats with one message, side by side in a wide window."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from chatpage import cast
from chatpage.device import Device
from chatpage.scan import faults
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import Locator, expect

EARLY_MS = 700
"""A key that comes sooner after a question appeared is not meant for it."""


def config(folder: Path) -> Path:
    """The configuration of two agents that ask whether they may run each line of their prompt."""
    return cast.config(folder / "penstock.toml", roles=[], more=[cast.commander("left"), cast.commander("right")])


class Columns:
    """Two chats whose first message is the same; the page is at the first one."""

    def __init__(self, server: Server, device: Device) -> None:
        self.server, self.chat = server, server.chat("left")
        server.prompt(self.chat, "echo one")
        path, body = f"/api/chats/{self.chat}/turns/1/branch", {"agent": "right", "send": True}
        self.other = str(server.ask("POST", path, body, headers={"Idempotency-Key": "b"})["chat"]["id"])
        self.thread = Thread(device, server).enter(self.chat)
        self.page, self.main = self.thread.page, self.thread.page.get_by_role("main")
        self.pane = self.page.get_by_role("complementary", name="Side by side: right")
        self.opener = self.main.get_by_role("button", name="Side by side")
        self.both = self.main.get_by_role("checkbox", name="Both")

    def questions(self) -> list[Locator]:
        """The questions of the two agents."""
        names = {"The agent asks": self.main, "right asks": self.pane}
        return [it.get_by_role("region", name=name) for name, it in names.items()]

    def ask(self, command: str) -> None:
        """Wait until both ask whether they may run it."""
        for it in self.questions():
            expect(it).to_contain_text(command)

    def at(self, path: str) -> None:
        """Wait until the page is at this address."""
        expect(self.page).to_have_url(re.compile(f"{path}$"))

    def prompts(self) -> list[list[str]]:
        """The messages of each chat that the server has."""
        return [[it["prompt"] for it in self.server.turns(chat)] for chat in (self.chat, self.other)]


def test_two_chats_side_by_side(axe: str, own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """Both are live; keys, Stop and messages are of the chat that they are meant for; Back, reload and Esc work."""
    columns = Columns(own_server(config=config), devices(viewport={"width": 1280, "height": 800}))
    opens_beside(columns)
    columns.page.evaluate(axe)
    looks_right(columns)
    keys_answer_where_the_focus_is(columns)
    sends_to_both(columns)
    closes(columns)
    keeps_one(columns)


def opens_beside(columns: Columns) -> None:
    """It has an address, a name and the focus, and its own question."""
    columns.opener.press("Enter")
    expect(columns.pane).to_be_focused()
    columns.at(f"/chats/{columns.chat}/beside/{columns.other}")
    expect(columns.opener).to_have_attribute("aria-pressed", "true")
    expect(columns.pane.get_by_role("region", name="Conversation with right")).to_be_visible()
    columns.ask("echo one")


def looks_right(columns: Columns) -> None:
    """No scan finds a fault, in light and in dark, and nothing has to be scrolled sideways."""
    page = columns.page
    found = {}
    for width in (1920, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            if folder := os.environ.get("PENSTOCK_SHOTS"):
                page.screenshot(path=f"{folder}/columns-{width}-{scheme}.png", animations="disabled")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            found[scheme] = faults(page)
    assert found == {"dark": [], "light": []}


def keys_answer_where_the_focus_is(columns: Columns) -> None:
    """A number answers the question of the chat with the focus, and no other one."""
    page, main, pane = columns.page, columns.main, columns.pane
    page.wait_for_timeout(EARLY_MS)
    page.keyboard.press("1")
    expect(pane.locator(".reply")).to_have_text("once")
    expect(columns.questions()[0]).to_be_visible()
    assert columns.server.turns(columns.chat)[0]["state"] == "running"
    expect(columns.both).to_be_disabled()  # a text now is the answer
    main.locator(".thread").focus()
    page.keyboard.press("4")
    expect(main.locator(".reply")).to_have_text("no")


def sends_to_both(columns: Columns) -> None:
    """A message for both is sent once to each; after a reload, and if it is off, the open chat alone gets it."""
    page, main, pane, thread = columns.page, columns.main, columns.pane, columns.thread
    thread.composer.fill("echo two")
    columns.both.check()
    thread.composer.press("Enter")
    columns.ask("echo two")
    expect(thread.composer).to_be_focused()
    page.reload()
    columns.ask("echo two")
    expect(columns.both).not_to_be_checked()
    pane.get_by_role("button", name="Stop").press("Enter")
    expect(pane.locator("[data-turn='2']")).to_have_attribute("data-outcome", "cancelled")
    main.get_by_role("button", name="Once").press("Enter")
    expect(main.locator("[data-turn='2'] .reply")).to_have_text("once")
    thread.say("echo three")
    expect(columns.questions()[0]).to_contain_text("echo three")
    main.get_by_role("button", name="Once").press("Enter")
    expect(main.locator("[data-turn='3'] .reply")).to_have_text("once")
    assert columns.prompts() == [["echo one", "echo two", "echo three"], ["echo one", "echo two"]]


def closes(columns: Columns) -> None:
    """Esc closes it and the focus returns; in a window without room for both there are the arrows."""
    page, pane = columns.page, columns.pane
    pane.focus()
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    columns.at(f"/chats/{columns.chat}")
    columns.opener.press("Enter")
    expect(pane).to_be_focused()
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    expect(columns.opener).to_be_focused()
    columns.opener.press("Enter")
    expect(pane).to_be_visible()
    page.set_viewport_size({"width": 1100, "height": 800})
    expect(pane).to_have_count(0)
    expect(columns.opener).to_be_hidden()
    expect(columns.main.get_by_role("button", name="Next version")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(pane).to_be_visible()


def keeps_one(columns: Columns) -> None:
    """The one that is kept is opened, and what is sent to it is shown as sent; Back leads to both again."""
    page, main, pane = columns.page, columns.main, columns.pane
    pane.get_by_role("button", name="Keep this one").press("Enter")
    columns.at(f"/chats/{columns.other}")
    expect(main.get_by_role("button", name="Unarchive the other")).to_be_visible()
    assert columns.server.ask("GET", f"/api/chats/{columns.chat}")["archived"]
    columns.thread.say("echo four")
    expect(columns.questions()[0]).to_contain_text("echo four")
    expect(main.locator(".unsent")).to_have_count(0)
    page.go_back()
    columns.at(f"/chats/{columns.chat}/beside/{columns.other}")
    expect(columns.questions()[1]).to_contain_text("echo four")
