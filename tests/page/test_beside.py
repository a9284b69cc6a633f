"""What is beside the thread in a wide window: changes, details and files of one pane, each with an address."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from chatpage import cast, filling
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import expect

from penstock.chat.history.entries import ChangesFound
from penstock.events import Change

WIDE = {"width": 1440, "height": 800}
DIFF = """@@ -1,3 +1,4 @@
 def total(prices):
-    '''The sum.'''
+    '''The
+    sum of <b>.'''
     return sum(prices)
"""


@pytest.fixture
def thread(at: Callable[..., Thread], own_server: Callable[..., Server]) -> Thread:
    """A chat of twelve turns in a wide window; git found a change of Python code in each."""
    server = own_server(config=cast.workshop)
    (server.root / "prices.py").write_text("def total(prices):\n    return sum(prices)\n")
    thread = at("qwen", of=server, viewport=WIDE)
    thread.ask("delegate")
    thread.device.allow("ERR_", "status of 503")
    server.end()
    change = Change(f"{server.root}/prices.py", "update", added=2, removed=1, diff=DIFF)
    filling.repeat(server.data / "chats.db", thread.chat, 12, ChangesFound(1, [change]))
    server.start()
    thread.go(thread.chat)
    return thread


def test_one_pane_beside_the_thread(thread: Thread) -> None:
    """Tabs lead to changes, details and files of a turn; Back, reload and Escape do what they do elsewhere."""
    page, pane = thread.page, thread.page.locator(".side-pane")
    tabs = page.get_by_role("navigation", name="Beside the thread").get_by_role("link")
    title = pane.get_by_role("heading", level=2).first
    link = thread.turn(5).locator(".to-record")
    link.scroll_into_view_if_needed()
    link.press("Enter")
    expect(title).to_have_text("Details of turn 5")
    expect(pane).to_be_focused()
    expect(pane.locator(".item").first).to_be_visible()
    expect(thread.composer).to_be_visible()
    expect(tabs).to_have_text(["Changes", "Details", "Files"])
    expect(tabs.nth(1)).to_have_attribute("aria-current", "true")

    tabs.first.press("Enter")
    expect(title).to_have_text("Changes of turn 5")
    expect(page).to_have_url(re.compile(r"/turns/5/changes$"))
    words = pane.locator(".diff [class*=hljs-string]")
    expect(words).to_have_text(["'''The sum.'''", "'''The", "    sum of <b>.'''"])  # over two lines
    assert pane.locator("b, img").count() == 0

    tabs.last.press("Enter")
    field, files = pane.get_by_role("combobox", name="Find a file"), pane.get_by_role("option")
    field.press_sequentially("rices")
    expect(files).to_have_text(["prices.py"])
    field.press("Escape")
    expect(files).to_have_count(0)
    expect(pane).to_be_visible()
    field.press_sequentially(".")
    expect(files).to_have_count(1)
    field.press("Enter")
    expect(pane.locator(".file-lines li").first).to_have_text("def total(prices):")
    page.reload()
    thread.ready()
    expect(title).to_have_text("prices.py")
    page.go_back()
    expect(pane).to_have_count(0)
    expect(page).to_have_url(re.compile(f"/chats/{thread.chat}$"))
    expect(link).to_be_in_viewport()

    link.press("Enter")
    expect(pane).to_be_focused()
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    expect(link).to_be_focused()


def test_details_beside_a_turn_that_runs(at: Callable[..., Thread], server: Server) -> None:
    """What the agent does appears in the details while the turn runs, also after the server has failed once."""
    thread = at("pondering", viewport=WIDE)
    thread.say("ponder")
    expect(thread.status(1)).to_have_text("Thinking…")
    thread.device.allow("status of 503")
    thread.page.route("**/turns/1/details", lambda route: route.fulfill(status=503), times=1)
    thread.page.goto(f"{thread.base}/chats/{thread.chat}/turns/1")
    pane = thread.page.locator(".side-pane")
    expect(pane.locator(".banner")).to_contain_text("still runs")
    server.gate.touch()
    expect(pane.locator("[data-kind=text]")).to_contain_text("The answer is 42")
    expect(pane.locator(".banner")).to_have_count(0)
    thread.ended(1)
