"""A chat as a file that the browser saves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chatpage import filling
from chatpage.device import NARROW, Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect

TURNS = 130
"""More than the page loads at first, and than one request for earlier ones brings."""


def saved(thread: Thread, form: str = "Markdown", *, has_details: bool = False) -> tuple[str, str]:
    """Name and text of the file that the page saves of its chat."""
    thread.button("Chat menu").click()
    thread.page.get_by_role("menuitem", name="Save as a file").click()
    dialog = thread.page.get_by_role("dialog", name="Save this chat")
    dialog.get_by_role("radio", name=form).check()
    dialog.get_by_label("With the details of each turn").set_checked(has_details)
    with thread.page.expect_download(timeout=PATIENCE) as download:
        dialog.get_by_role("link", name="Save").click()
    expect(dialog).to_have_count(0)
    return download.value.suggested_filename, Path(download.value.path()).read_text("utf-8")


def test_a_chat_is_saved_with_its_details_or_without(workshop: Callable[..., Thread]) -> None:
    """The file has the prompt and the reply; what the agent did only if a person wants it."""
    thread = workshop("qwen")
    thread.ask("delegate")
    name, text = saved(thread)
    assert name == "delegate.md"
    assert text.startswith("# delegate\n\nqwen in `")
    assert "> delegate\n" in text
    assert "### qwen\n\nAll looked.\n" in text
    assert "I will ask a sub-agent." not in text
    _, text = saved(thread, has_details=True)
    assert "**Text**\n\n> I will ask a sub-agent.\n" in text
    assert "> ```\n> the inner file\n> ```" in text
    assert text.count("All looked.") == 1
    assert text.endswith("### qwen\n\nAll looked.\n")


def test_a_saved_page_is_read_without_the_server(
    workshop: Callable[..., Thread], devices: Callable[..., Device]
) -> None:
    """Alone it has its style and its folded details, breaks no policy, and asks nobody for anything."""
    thread = workshop("qwen")
    thread.ask("delegate")
    name, text = saved(thread, "HTML", has_details=True)
    assert name == "delegate.html"
    for options in ({"viewport": NARROW}, {"color_scheme": "dark"}):
        page = devices(**options).page()
        page.route("**/*", lambda route: route.fulfill(body=text, content_type="text/html"))
        page.goto("http://127.0.0.1/delegate.html")
        expect(page.get_by_role("heading", level=1)).to_have_text("delegate")
        expect(page.get_by_text("All looked.")).to_be_visible()
        expect(page.get_by_text("I will ask a sub-agent.")).to_be_hidden()
        page.locator("summary").click()
        expect(page.get_by_text("I will ask a sub-agent.")).to_be_visible()
        assert page.evaluate("performance.getEntriesByType('resource').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("getComputedStyle(document.querySelector('.asked')).borderRadius") == "10px"


def test_all_turns_are_saved_not_only_those_that_are_shown(
    at: Callable[..., Thread], own_server: Callable[..., Server]
) -> None:
    """A chat of more turns than the page has loaded is saved whole, each turn once and in order."""
    server = own_server()
    thread = at("quick", of=server)
    thread.ask("first")
    thread.page.goto("about:blank")
    server.end()
    filling.repeat(server.data / "chats.db", thread.chat, TURNS)
    server.start()
    thread.go(thread.chat)
    assert thread.page.locator("[data-turn]").count() < TURNS
    _, text = saved(thread)
    prompts = [line for line in text.splitlines() if line.startswith("> prompt number ") or line == "> first"]
    assert prompts == ["> first", *(f"> prompt number {number}" for number in range(2, TURNS + 1))]
