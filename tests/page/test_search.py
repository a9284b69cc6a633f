"""The palette: chats are found by their words, and everything is done by the keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable

from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect
from waiting import until

TURNS = 14
HOSTILE = "<img src=x onerror='document.title=1'> \u202e a needle9 *here*"


def test_a_turn_is_found_and_opened_by_the_keyboard(server: Server, at: Callable[..., Thread]) -> None:
    """Ctrl+K, words and Enter open the turn where it stands, also in the chat that is open; actions are there too."""
    chat = server.chat("quick", title="Of a search")
    for number in range(1, TURNS + 1):
        words = HOSTILE if number == 2 else f"message{number} of many"
        server.ask("POST", f"/api/chats/{chat}/turns", {"text": words})

    def found(words: str) -> bool:
        hits = server.ask("GET", f"/api/search?q={words}")["hits"]
        return any((hit["chat"], hit["kind"]) == (chat, "prompt") for hit in hits)

    until(lambda: found("needle9") and found(f"message{TURNS}"))
    thread = at("quick")
    page = thread.page

    def open_hit(words: str, turn: int) -> None:
        page.keyboard.press("Control+k")
        field = page.get_by_role("combobox", name="Search chats and actions")
        expect(field).to_be_focused(timeout=PATIENCE)
        field.fill(words)
        hit = page.locator(f"[role=option][data-item='hit {chat} {turn}']")
        expect(hit).to_be_visible(timeout=PATIENCE)
        expect(hit.locator("mark")).to_have_text(words)
        assert hit.locator("img").count() == 0
        for _ in range(page.get_by_role("option").count()):
            if hit.get_attribute("aria-selected") == "true":
                break
            field.press("ArrowDown")
        expect(hit).to_have_attribute("aria-selected", "true")
        expect(field).to_have_attribute("aria-activedescendant", hit.get_attribute("id") or "")
        field.press("Enter")
        expect(field).to_have_count(0)
        expect(page).to_have_url(re.compile(rf"/chats/{chat}$"), timeout=PATIENCE)
        expect(page.locator(f".thread [data-turn='{turn}']")).to_be_in_viewport(timeout=PATIENCE)

    open_hit("needle9", 2)
    expect(page.locator(f".thread [data-turn='{TURNS}']")).not_to_be_in_viewport()
    open_hit(f"message{TURNS}", TURNS)
    open_hit("needle9", 2)

    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search chats and actions")
    expect(field).to_be_focused(timeout=PATIENCE)
    field.fill("archive")
    expect(page.get_by_role("option", name="Archive")).to_have_attribute("aria-selected", "true", timeout=PATIENCE)
    field.press("Enter")
    until(lambda: server.ask("GET", f"/api/chats/{chat}")["archived"])
    page.keyboard.press("Control+k")
    expect(field).to_be_focused(timeout=PATIENCE)
    field.press("Escape")
    expect(field).to_have_count(0)

    page.set_viewport_size({"width": 390, "height": 780})
    page.keyboard.press("Control+k")
    field.fill("needle9")
    expect(page.locator(f"[role=option][data-item='hit {chat} 2']")).to_be_visible(timeout=PATIENCE)
    wide = "() => [...document.querySelectorAll('dialog, dialog *')].filter((it) => it.scrollWidth > innerWidth).length"
    assert page.evaluate(wide) == 0
