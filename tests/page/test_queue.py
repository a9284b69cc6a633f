"""Messages that wait: in their order, until they are taken back, or held until the person sends them."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest
from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from effort import SOAK
from playwright.sync_api import Route, expect

Open = Callable[..., Thread]
MIDDLE = "CJK"
QUIET_MS = 1_000
"""Milliseconds in which a turn would have begun that nothing holds back."""


def filled(at: Open, *texts: str, **options: object) -> Thread:
    """A chat whose first turn runs, with messages behind it."""
    thread = at("halfway", **options)
    thread.say("first")
    thread.writes(1, MIDDLE)
    for number, text in enumerate(texts, 2):
        thread.say(text)
        expect(thread.turn(number)).to_have_attribute("data-state", "queued")
        expect(thread.turn(number).locator(".queued")).to_contain_text("Waits for the turn before it")
    return thread


def waits(thread: Thread, *numbers: int) -> None:
    """Nothing of these turns begins."""
    thread.page.wait_for_timeout(QUIET_MS)
    for number in numbers:
        expect(thread.turn(number)).to_have_attribute("data-state", "queued")
    words = f"{len(numbers)} messages wait" if len(numbers) > 1 else "1 message waits"
    expect(thread.page.get_by_role("group", name="Messages that wait")).to_contain_text(words)


def test_taken_back_without_a_trace(at: Open, server: Server) -> None:
    """A message that is taken back never runs, returns to the field, and leaves nothing, also after a reload."""
    thread = filled(at, "second\nwith a line", "third")
    thread.composer.fill("half of a fourth")
    thread.turn(2).get_by_role("button", name="Take back").click()
    expect(thread.turn(2)).to_have_count(0)
    expect(thread.composer).to_have_value("second\nwith a line\n\nhalf of a fourth")
    expect(thread.composer).to_be_focused()
    server.gate.touch()
    thread.ended(1)
    thread.ended(3)
    thread.page.reload()
    thread.ready()
    expect(thread.turn(3)).to_be_visible()
    expect(thread.turn(2)).to_have_count(0)
    expect(thread.page.get_by_text("Taken back")).to_have_count(0)
    expect(thread.composer).to_have_value("second\nwith a line\n\nhalf of a fourth")


def test_the_answer_to_a_take_back_is_lost(at: Open) -> None:
    """The text returns as soon as the page sees that the turn was taken back, whatever became of the answer."""
    thread = filled(at, "precious")
    thread.device.allow("Failed to load resource")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    thread.page.route(re.compile(r"/stop$"), lose)
    thread.turn(2).get_by_role("button", name="Take back").click()
    expect(thread.composer).to_have_value("precious")
    expect(thread.turn(2)).to_have_count(0)


def test_taking_back_never_stops_a_turn_that_began(at: Open, server: Server) -> None:
    """A message that began a moment before goes on, and its text stays where it is."""
    thread = filled(at, "second")
    began: list[Route] = []
    thread.page.route(re.compile(r"/stop$"), lambda route: began.append(route))
    thread.turn(2).get_by_role("button", name="Take back").click()
    server.gate.touch()
    thread.ended(1)
    server.gate.unlink()
    thread.writes(2, MIDDLE)
    began[0].continue_()
    thread.page.wait_for_timeout(QUIET_MS)
    expect(thread.turn(2)).to_have_attribute("data-state", "running")
    expect(thread.composer).to_have_value("")


@pytest.mark.parametrize("how", ["button", *(["escape"] if SOAK else [])])
def test_a_stop_holds_the_queue(at: Open, server: Server, devices: Callable[..., Device], how: str) -> None:
    """Nothing begins after a stop until the person sends it, in this browser or in another, also after a reload."""
    thread = filled(at, "second", "third")
    other = Thread(devices(), server)
    other.enter(thread.chat)
    if how == "button":
        thread.button("Stop").click()
    else:
        thread.page.keyboard.press("Escape")
    thread.ended(1, "cancelled")
    waits(thread, 2, 3)
    waits(other, 2, 3)
    entry = thread.page.locator(f"[data-chat='{thread.chat}']")
    expect(entry).to_contain_text("waits for you", timeout=PATIENCE)
    other.say("fourth")
    waits(other, 2, 3, 4)
    thread.page.reload()
    thread.ready()
    waits(thread, 2, 3, 4)
    server.gate.touch()
    other.button("Send").first.click()
    for number in (2, 3, 4):
        thread.ended(number)
        other.ended(number)
    expect(thread.page.locator(".held")).to_have_count(0)


def test_what_is_held_returns_to_the_field(at: Open) -> None:
    """Taking back all that a stop holds gives the texts back in their order; what is sent then begins at once."""
    thread = filled(at, "second", "third")
    thread.button("Stop").click()
    thread.ended(1, "cancelled")
    waits(thread, 2, 3)
    thread.page.get_by_role("group", name="Messages that wait").get_by_role("button", name="Take back").click()
    expect(thread.composer).to_have_value("second\n\nthird")
    expect(thread.page.locator(".held")).to_have_count(0)
    thread.composer.press("Enter")
    thread.writes(4, MIDDLE)


def test_a_held_queue_survives_the_server(at: Open, own_server: Callable[..., Server]) -> None:
    """The hold is in the log: a server that is killed and started anew begins nothing by itself."""
    mine = own_server()
    thread = filled(at, "second", of=mine)
    thread.device.allow("Failed to load resource")
    thread.button("Stop").click()
    thread.ended(1, "cancelled")
    waits(thread, 2)
    mine.restart(signal.SIGKILL)
    expect(thread.page.locator(".thread[data-ready=true]")).to_be_visible()
    waits(thread, 2)
    mine.gate.touch()
    thread.button("Send").first.click()
    thread.ended(2)


def shows(thread: Thread, *numbers: int) -> None:
    """Wait until the turns stand in this order."""
    joined = ",".join(map(str, numbers))
    script = "() => [...document.querySelectorAll('.turn[data-turn]')].map(it => it.dataset.turn).join()"
    thread.page.wait_for_function(f"joined => ({script})() === joined", arg=joined, timeout=PATIENCE)


def test_a_queue_by_keyboard_and_on_a_phone(at: Open, server: Server, devices: Callable[..., Device]) -> None:
    """What waits is edited, moved and sent at once; another browser follows, and its older edit does not count."""
    thread = filled(at, "second", "third", "fourth")
    phone = Thread(devices(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True), server)
    phone.enter(thread.chat)
    phone.device.allow("Failed to load resource")

    phone.turn(3).get_by_role("button", name="Edit").tap()
    phone.page.get_by_label("Text of the message").fill("third, from the phone")

    thread.turn(3).get_by_role("button", name="Edit").press("Enter")
    field = thread.page.get_by_label("Text of the message")
    expect(field).to_be_focused()
    field.fill("third, edited")
    field.press("Control+Enter")
    expect(thread.turn(3).locator(".prompt")).to_have_text("third, edited")

    phone.button("Save").tap()
    expect(phone.page.locator(".editing .wrong")).to_contain_text("edited meanwhile")
    phone.button("Cancel").tap()
    expect(phone.turn(3).locator(".prompt")).to_have_text("third, edited")

    thread.turn(4).get_by_role("button", name="Move up").press("Enter")
    shows(thread, 1, 2, 4, 3)
    shows(phone, 1, 2, 4, 3)
    expect(thread.turn(4).get_by_role("button", name="Move up")).to_be_focused()
    thread.page.keyboard.press("Enter")
    shows(thread, 1, 4, 2, 3)
    expect(thread.turn(4).get_by_role("button", name="Move down")).to_be_focused()

    thread.composer.fill("now")
    expect(thread.button("Stop and send").last).to_be_enabled()
    thread.composer.press("Control+Enter")
    thread.ended(1, "cancelled")
    thread.writes(5, MIDDLE)
    shows(phone, 1, 5, 4, 2, 3)
    phone.turn(2).get_by_role("button", name="Stop and send").tap()
    phone.ended(5, "cancelled")
    server.gate.touch()
    for number in (2, 4, 3):
        thread.ended(number)
    thread.page.reload()
    thread.ready()
    shows(thread, 1, 5, 2, 4, 3)
    expect(thread.turn(3).locator(".prompt")).to_have_text("third, edited")


def test_a_command_is_always_allowed_in_this_chat(at: Open) -> None:
    """It is not asked for again until the rule is removed; the level is changed at the field, by the keyboard."""
    thread = at("commander")
    page = thread.page
    thread.say("make a")
    always = page.get_by_role("button", name="Always in this chat")
    expect(always).to_have_count(1)
    expect(page.get_by_role("button", name="for the session")).to_have_count(0)
    always.press("Enter")
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("once")
    rules = page.locator(".rules")
    expect(rules.locator("summary")).to_have_text("1 command always allowed in this chat")

    thread.ask("make a", 2)
    expect(thread.reply(2)).to_have_text("once")
    page.reload()
    thread.ready()
    rules.locator("summary").press("Enter")
    page.get_by_role("button", name="Ask again for make a").press("Enter")
    expect(rules).to_have_count(0)
    thread.say("make a")
    page.locator(".options").get_by_role("button", name="No").press("Enter")
    thread.ended(3)
    expect(thread.reply(3)).to_have_text("no")

    level = page.locator(".permission select")
    before = level.input_value()
    level.focus()
    page.keyboard.press("ArrowUp")
    expect(level).not_to_have_value(before)
    expect(page.locator(".permission .choice")).to_have_attribute("data-level", "all")
    page.reload()
    thread.ready()
    expect(level).not_to_have_value(before)
