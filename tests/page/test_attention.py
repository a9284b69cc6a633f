"""What calls a person: the sign of the tab, the time that a turn takes, notifications."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect

AWAY = """
    window.isAway = false;
    window.called = [];
    Object.defineProperty(document, "hidden", { get: () => window.isAway });
    document.hasFocus = () => !window.isAway;
    window.lookAway = (isAway) => {
        window.isAway = isAway;
        document.dispatchEvent(new Event("visibilitychange"));
    };
    const Real = window.Notification;
    window.Notification = class extends Real {
        constructor(title, options) {
            super(title, options);
            window.called.push([title, options.body]);
        }
    };
"""
"""A page that can be looked away from, as a test cannot hide a tab, and that notes its real notifications."""


def called(thread: Thread) -> list[list[str]]:
    """Title and text of each notification so far."""
    told: list[list[str]] = thread.page.evaluate("window.called")
    return told


def is_called(thread: Thread, number: int, title: str, text: str) -> None:
    """Wait for this many notifications, of which this is the newest."""
    deadline = time.monotonic() + PATIENCE / 1000
    while len(told := called(thread)) < number and time.monotonic() < deadline:
        thread.page.wait_for_timeout(100)
    assert told[number - 1 :] == [[title, text]]


def watched(thread: Thread) -> Thread:
    """The same chat, in a page that can be looked away from."""
    thread.page.add_init_script(AWAY)
    thread.page.reload()
    thread.ready()
    return thread


def icon(thread: Thread) -> str:
    """The address of the tab's icon, which the server has."""
    address = thread.page.locator("link[rel=icon]").get_attribute("href") or ""
    assert thread.page.request.get(thread.base + address).headers["content-type"].startswith("image/svg+xml")
    return address


def test_the_tab_says_that_a_chat_asks(workshop: Callable[..., Thread]) -> None:
    """Title and icon have a sign for a question, and none once it is answered."""
    thread = workshop("peer")
    assert icon(thread).endswith("/favicon.svg")
    thread.say("edit")
    expect(thread.page).to_have_title(re.compile(r"^\(1\) edit – Penstock$"), timeout=PATIENCE)
    assert icon(thread).endswith("/favicon-asks.svg")
    thread.button("Yes, once").click()
    expect(thread.page).to_have_title("edit – Penstock", timeout=PATIENCE)
    assert icon(thread).endswith("/favicon.svg")


def test_an_entry_that_moves_keeps_the_focus(workshop: Callable[..., Thread]) -> None:
    """Somebody who goes through the list by keys stays where they are, also where that chat changes its group."""
    thread = workshop("peer")
    thread.say("permission")
    chats = thread.page.get_by_role("navigation", name="Chats")
    entry = chats.get_by_role("region", name="Asks you").get_by_role("link")
    entry.focus()
    thread.page.keyboard.press("Escape")
    thread.ended(1)
    entry = chats.get_by_role("region", name="Today").get_by_role("link")
    expect(entry).to_be_focused()


def test_a_person_elsewhere_is_called(workshop: Callable[..., Thread]) -> None:
    """A question and the end of a turn notify who looks elsewhere, without a word of what is asked."""
    thread = watched(workshop("peer", permissions=["notifications"]))
    thread.button("More").click()
    thread.page.get_by_role("menuitem", name="Notifications").click()
    dialog = thread.page.get_by_role("dialog", name="Notifications")
    box = dialog.get_by_label("When a chat asks you, or its turn has ended")
    box.click()
    expect(box).to_be_checked()  # once the browser has permitted it
    expect(dialog.get_by_role("status")).to_contain_text("never a command")
    dialog.get_by_role("button", name="Close").click()
    assert called(thread) == [["Penstock calls you like this", "When a chat asks you, or its turn has ended."]]
    thread.page.evaluate("window.lookAway(true)")
    thread.server.ask("POST", f"/api/chats/{thread.chat}/turns", {"text": "script"})
    is_called(thread, 2, "peer asks you", "script")
    thread.button("Yes, once").dispatch_event("click")
    is_called(thread, 3, "peer has ended its turn", "script")
    thread.go(thread.server.chat("peer"))
    thread.say("edit")
    expect(thread.page).to_have_title("(1) edit – Penstock", timeout=PATIENCE)
    thread.button("Yes, once").click()
    thread.ended(1)
    expect(thread.page).to_have_title("• edit – Penstock", timeout=PATIENCE)  # the other ended unseen
    assert called(thread) == [], "who looks at the page is not called"


def test_a_long_turn_says_how_long_and_offers_to_call(workshop: Callable[..., Thread]) -> None:
    """From ten seconds on the quiet line has the time; after thirty it is offered to notify, until one decides."""
    thread = workshop("peer")
    thread.say("work")
    thread.runs(1)
    offer = thread.page.get_by_role("group", name="Notifications")
    elapsed = thread.status(1).locator(".elapsed")
    expect(thread.status(1)).to_have_text("Running a command…")
    expect(elapsed).to_have_text(re.compile(r"^1\d s$"), timeout=PATIENCE)
    expect(offer).to_have_count(0)
    expect(offer).to_contain_text("This takes a while.", timeout=PATIENCE)
    expect(elapsed).to_have_text(re.compile(r"^[34]\d s$"))
    offer.get_by_role("button", name="No", exact=True).click()
    expect(offer).to_have_count(0)
    thread.page.reload()
    thread.ready()
    expect(elapsed).to_have_text(re.compile(r"^[3-9]\d s$"), timeout=PATIENCE)
    expect(offer).to_have_count(0)
