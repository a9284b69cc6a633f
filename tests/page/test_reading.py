"""The place where one reads is kept: over the details, another chat, and a reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chatpage import cast, filling
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import expect

Open = Callable[..., Thread]
SHORT = {"width": 1180, "height": 560}
NEAR = 3
"""Pixels by which a place may differ: the browser rounds."""
SECTION = "## Part {0}\n\n" + "Some words that fill the lines of this part of the reply, so that it is long. " * 6
REPLY = "\n\n".join([SECTION.format(number) for number in range(1, 16)] + ["```py\nx = 1\n```", "| a |\n|---|\n| 1 |"])
AT_REST = """() => new Promise((done) => {
    const scroller = document.querySelector(".thread");
    let [top, height, still] = [NaN, NaN, 0];
    const look = () => {
        still = scroller.scrollTop === top && scroller.scrollHeight === height ? still + 1 : 0;
        [top, height] = [scroller.scrollTop, scroller.scrollHeight];
        if (still > 20) done(top); else requestAnimationFrame(look);
    };
    look();
})"""

UNMOVED = "it => { for (let part = it.parentElement; part; part = part.parentElement) part.scrollTop = 0 }"
"""Move back what is around the thread, which `scrollIntoView` moves as well, and a person cannot."""


@pytest.fixture
def reader(at: Open, own_server: Callable[..., Server]) -> Callable[..., Thread]:
    """Opens a chat with long replies."""

    def stage(folder: Path) -> Path:
        return cast.config(folder / "penstock.toml", more=[cast.parrot("long", folder / "long", [REPLY] * 4)])

    return lambda **options: at("long", of=own_server(config=stage), viewport=SHORT, **options)


def at_heading(thread: Thread, turn: int, part: int) -> float:
    """Read this part of a reply: its distance from the upper edge of the thread."""
    heading = thread.reply(turn).get_by_role("heading", name=f"Part {part}", exact=True)
    heading.evaluate("element => element.scrollIntoView({ block: 'start' })")
    thread.page.mouse.move(600, 300)
    thread.page.mouse.wheel(0, -37)
    return place_of(thread, turn, part)


def place_of(thread: Thread, turn: int, part: int) -> float:
    """The distance of a heading from the upper edge of the thread, once nothing moves."""
    thread.page.evaluate(AT_REST)
    heading = thread.reply(turn).get_by_role("heading", name=f"Part {part}", exact=True)
    found: Any = heading.evaluate(
        "it => it.getBoundingClientRect().top - it.closest('.thread').getBoundingClientRect().top"
    )
    return float(found)


def test_the_place_is_kept(reader: Callable[..., Thread]) -> None:
    """After the details, another chat and a reload one is where one was, to the line; at the end one stays there."""
    thread = reader()
    for number in (1, 2, 3):
        thread.ask("speak", number)
    before = at_heading(thread, 2, 7)
    page = thread.page
    link = thread.turn(2).locator(".to-record")
    link.evaluate("element => element.click()")
    expect(page.locator(".record .item").first).to_be_visible()
    page.go_back()
    thread.ready()
    assert abs(place_of(thread, 2, 7) - before) <= NEAR, "after the details"
    page.get_by_role("link", name="New chat", exact=True).click()
    expect(page.locator(".start")).to_be_visible()
    page.go_back()
    thread.ready()
    assert abs(place_of(thread, 2, 7) - before) <= NEAR, "after another page"
    page.reload()
    thread.ready()
    assert abs(place_of(thread, 2, 7) - before) <= NEAR, "after a reload"
    expect(thread.button("Latest")).to_be_visible()
    thread.button("Latest").click()
    page.evaluate(AT_REST)
    page.reload()
    thread.ready()
    page.evaluate(AT_REST)
    expect(thread.button("Latest")).to_have_count(0)
    left = "element => element.scrollHeight - element.clientHeight - element.scrollTop"
    assert thread.scroller.evaluate(left) <= NEAR

    page.set_viewport_size({"width": 1440, "height": SHORT["height"]})
    before = at_heading(thread, 2, 7)
    thread.scroller.evaluate(UNMOVED)
    link.evaluate("element => element.click()")
    expect(page.locator(".side-pane .item").first).to_be_visible()
    assert abs(place_of(thread, 2, 7) - before) <= NEAR, "beside the details"
    page.keyboard.press("Escape")
    expect(page.locator(".side-pane")).to_have_count(0)
    assert abs(place_of(thread, 2, 7) - before) <= NEAR, "after the details beside it"


def test_keys_go_from_message_to_message(reader: Callable[..., Thread]) -> None:
    """One key goes to the beginning of this turn and of those before, another one down again, and then to the end."""
    thread = reader()
    for number in (1, 2):
        thread.ask("speak", number)
    at_heading(thread, 2, 5)
    thread.scroller.focus()
    top = "it => Math.round(it.getBoundingClientRect().top - it.closest('.thread').getBoundingClientRect().top)"
    for key, turn in [("k", 2), ("k", 1), ("j", 2)]:
        thread.page.keyboard.press(key)
        thread.page.evaluate(AT_REST)
        assert abs(thread.turn(turn).evaluate(top) - 12) <= NEAR, key
    thread.page.keyboard.press("j")
    expect(thread.button("Latest")).to_have_count(0)
    thread.composer.focus()
    thread.page.keyboard.press("Alt+PageUp")
    thread.page.evaluate(AT_REST)
    assert abs(thread.turn(2).evaluate(top) - 12) <= NEAR
    thread.composer.press_sequentially("jk")
    expect(thread.composer).to_have_value("jk")


def test_who_moves_while_the_place_is_restored_goes_where_they_want(reader: Callable[..., Thread]) -> None:
    """A wheel ends the return at once: nothing pulls a reader back."""
    thread = reader()
    for number in (1, 2):
        thread.ask("speak", number)
    at_heading(thread, 1, 5)
    thread.page.reload()
    thread.ready()
    thread.page.mouse.move(600, 300)
    thread.page.mouse.wheel(0, 900)
    thread.page.evaluate(AT_REST)
    after = thread.scroller.evaluate("element => element.scrollTop")
    thread.page.wait_for_timeout(500)
    thread.page.evaluate("() => document.querySelector('.column').style.setProperty('padding-bottom', '99px')")
    thread.page.wait_for_timeout(200)
    assert abs(thread.scroller.evaluate("element => element.scrollTop") - after) <= NEAR


def test_a_place_in_an_earlier_turn_is_loaded(at: Open, own_server: Callable[..., Server]) -> None:
    """A turn that is not among the newest is loaded before the page returns to it."""
    server = own_server()
    thread = at("quick", of=server, viewport=SHORT)
    thread.ask("first")
    thread.device.allow("ERR_", "status of 503")
    server.end()
    filling.repeat(server.data / "chats.db", thread.chat, 60)
    server.start()
    thread.page.reload()
    thread.ready()
    expect(thread.turn(5)).to_have_count(0)
    thread.scroller.evaluate("element => { element.scrollTop = 0 }")
    expect(thread.turn(5)).to_have_count(1)
    thread.page.evaluate(AT_REST)
    thread.turn(5).evaluate("element => element.scrollIntoView({ block: 'start' })")
    thread.page.evaluate(AT_REST)
    thread.page.wait_for_timeout(300)
    thread.page.reload()
    thread.ready()
    expect(thread.turn(5)).to_be_in_viewport()


def test_the_list_shows_the_open_chat(own_server: Callable[..., Server], at: Open) -> None:
    """The row of an older chat is scrolled to, wherever it is in the list."""
    server = own_server()
    oldest = server.chat("quick", title="the oldest")
    for number in range(60):
        server.chat("quick", title=f"chat {number}")
    thread = at("quick", of=server)
    thread.go(oldest)
    expect(thread.page.locator(f"[data-chat='{oldest}']")).to_be_in_viewport()
