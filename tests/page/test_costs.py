"""What turns have cost, in the page."""

from __future__ import annotations

from collections.abc import Callable

from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect
from waiting import until

HOSTILE = "<img src=x onerror='document.title=1'> \u202e of costs"


def test_costs_by_day_and_by_chat(server: Server, at: Callable[..., Thread]) -> None:
    """The palette opens the table; by chat it has the titles as text, and a click opens the chat."""
    chat = server.chat("quick", title=HOSTILE)
    server.ask("POST", f"/api/chats/{chat}/turns", {"text": "count this"})
    until(lambda: any(it["name"] == chat for it in server.ask("GET", "/api/costs?by=chat")["sums"]))
    page = at("quick").page
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search chats and actions")
    expect(field).to_be_focused(timeout=PATIENCE)
    field.fill("costs")
    action = page.locator("[role=option][data-item='do Costs']")
    expect(action).to_be_visible(timeout=PATIENCE)
    for _ in range(page.get_by_role("option").count()):
        if action.get_attribute("aria-selected") == "true":
            break
        field.press("ArrowDown")
    expect(action).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    dialog = page.get_by_role("dialog", name="Costs")
    expect(dialog.locator("thead th")).to_have_text(
        ["day", "turns", "cost", "tokens in", "out", "without cost"], timeout=PATIENCE
    )
    expect(dialog.locator("tbody tr")).not_to_have_count(0)
    dialog.get_by_label("One line for each").select_option("chat")
    link = dialog.locator(f"a[href='/chats/{chat}']")
    expect(link).to_contain_text("<img src=x", timeout=PATIENCE)
    assert dialog.locator("img").count() == 0
    link.evaluate("it => it.click()")
    expect(page).to_have_url(f"{server.url}/chats/{chat}", timeout=PATIENCE)
    expect(dialog).to_have_count(0)
