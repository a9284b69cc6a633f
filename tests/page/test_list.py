"""The list of chats: pinned, archived, by directory, several at once, and titles that are changed in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from chatpage.device import NARROW
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import Locator, Page, expect

Open = Callable[..., Thread]


@pytest.fixture
def list_of(own_server: Callable[..., Server], at: Open) -> Callable[..., tuple[Thread, list[str]]]:
    """Opens the page at the first of some chats, the one used last first; without a name for it, at a new chat."""

    def make(*titles: str, **options: object) -> tuple[Thread, list[str]]:
        server = own_server()
        chats = [server.chat("quick", title=title) for title in reversed(titles)][::-1]
        thread = at("quick", of=server, **options)
        server.ask("DELETE", f"/api/chats/{thread.chat}")
        thread.go(chats[0])
        return thread, chats

    return make


def group(page: Page, name: str) -> Locator:
    """A group of the list."""
    return page.get_by_role("navigation", name="Chats").get_by_role("region", name=name, exact=True)


def titles(of: Locator) -> Locator:
    """The titles in a part of the list."""
    return of.locator(".entry-title")


def choose(page: Page, menu: str, item: str) -> None:
    """Choose from a menu."""
    page.get_by_role("button", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def test_pin_and_archive(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """A pinned chat is first; an archived one is under Archived and found by search, and a message returns it."""
    thread, chats = list_of(*(f"chat {number}" for number in range(10)))
    page = thread.page
    choose(page, "Chat menu", "Pin")
    expect(titles(group(page, "Pinned"))).to_have_text(["chat 0"])
    choose(page, "Chat menu", "Unpin")
    expect(group(page, "Pinned")).to_have_count(0)
    choose(page, "Chat menu", "Archive")
    expect(page.locator(f"[data-chat='{chats[0]}']")).to_have_count(0)
    expect(page.locator(".head p")).to_contain_text("archived")
    expect(thread.composer).to_be_enabled()
    page.reload()
    thread.ready()
    folded = page.get_by_role("button", name="Archived (1)")
    folded.click()
    expect(titles(group(page, "Archived"))).to_have_text(["chat 0"])
    page.get_by_role("button", name="Hide what is archived").click()
    expect(group(page, "Archived")).to_have_count(0)
    page.get_by_label("Find a chat").fill("chat 0")
    expect(titles(group(page, "Archived"))).to_have_text(["chat 0"])
    page.get_by_label("Find a chat").fill("")
    thread.ask("hello")
    expect(titles(group(page, "Today")).first).to_have_text("chat 0")
    expect(folded).to_have_count(0)
    assert thread.server.ask("GET", f"/api/chats/{chats[0]}")["archived"] is False


def test_rows_are_low_and_say_it_all(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """A row has 36 px and one line, and its name for a screen reader has the agent in words."""
    thread, chats = list_of(
        "short", "a title that is much longer than the list is wide, and so has to be cut somewhere"
    )
    rows = thread.page.locator(".row-of-list")
    assert [row.bounding_box()["height"] for row in rows.all()] == [36, 36]  # type: ignore[index]
    expect(thread.page.locator(f"[data-chat='{chats[0]}']")).to_have_accessible_name("short , quick · just now")
    assert thread.page.evaluate(
        "document.querySelector('.side').scrollWidth <= document.querySelector('.side').clientWidth"
    )


def test_by_directory(own_server: Callable[..., Server], at: Open, tmp_path: Path) -> None:
    """The list is grouped by directory once that is chosen, also after a reload."""
    server = own_server()
    folder = Path(server.ask("GET", f"/api/chats/{server.chat('quick', title='above')}")["cwd"])
    (folder / "site").mkdir()
    server.ask("POST", "/api/workspaces", {"path": str(folder / "site")})
    server.chat("quick", title="within", cwd=str(folder / "site"))
    page = at("quick", of=server).page
    choose(page, "More", "Group by directory")
    expect(titles(group(page, "site"))).to_have_text(["within"])
    expect(titles(group(page, folder.name))).to_have_text(["New chat", "above"])
    page.reload()
    expect(group(page, "site")).to_be_visible()
    choose(page, "More", "Group by day")
    expect(titles(group(page, "Today"))).to_have_count(3)


def test_several_at_once_by_keys(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """By x, arrows and Space several chats are selected, archived and unarchived, and deleted after one question."""
    thread, chats = list_of("a", "b", "c", "d")
    thread.device.allow("status of 404")
    page, keys = thread.page, thread.page.keyboard
    row = page.locator(f"a[data-chat='{chats[1]}']")
    row.focus()
    keys.press("x")
    box = page.locator(f"[data-chat='{chats[1]}'] input")
    expect(box).to_be_focused()
    expect(box).to_be_checked()
    keys.press("ArrowDown")
    keys.press("Space")
    bar = page.get_by_role("group", name="Selected chats")
    expect(bar.get_by_role("status")).to_have_text("2 selected")
    expect(bar.get_by_role("button", name="Unarchive")).to_be_disabled()
    bar.get_by_role("button", name="Archive", exact=True).click()
    expect(bar).to_have_count(0)
    expect(titles(group(page, "Today"))).to_have_text(["a", "d"])
    page.get_by_role("button", name="Archived (2)").click()
    page.locator(f"a[data-chat='{chats[1]}']").focus()
    keys.press("x")
    bar.get_by_role("button", name="All", exact=True).click()
    expect(bar.get_by_role("status")).to_have_text("4 selected")
    bar.get_by_role("button", name="Unarchive").click()
    expect(titles(group(page, "Today"))).to_have_text(["a", "b", "c", "d"])
    page.locator(f"a[data-chat='{chats[0]}']").focus()
    keys.press("x")
    page.locator(f"[data-chat='{chats[2]}']").click(modifiers=["Shift"])  # the range begins where one clicked before
    keys.press("Escape")
    expect(bar).to_have_count(0)
    expect(page.locator(f"a[data-chat='{chats[2]}']")).to_be_focused()
    choose(page, "More", "Select chats")
    page.locator(f"[data-chat='{chats[0]}']").click()
    page.locator(f"[data-chat='{chats[2]}']").click(modifiers=["Shift"])
    expect(bar.get_by_role("status")).to_have_text("3 selected")
    thread.server.ask("DELETE", f"/api/chats/{chats[1]}")  # somebody else was faster
    bar.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog).to_contain_text("go for good")
    dialog.get_by_role("button", name="Delete", exact=False).last.click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name="This chat was deleted")).to_have_count(0)
    expect(titles(page.locator("#chats"))).to_have_text(["d"])
    assert [it["id"] for it in thread.server.ask("GET", "/api/chats")["chats"]] == [chats[3]]


def test_what_fails_stays_selected(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """A chat that cannot be archived is named by the reason, and stays selected; the others are archived."""
    thread, chats = list_of("a", "b", "c")
    thread.device.allow("status of 503")
    problem = '{"code": "unavailable", "detail": "the disk is full"}'
    thread.page.route(f"**/api/chats/{chats[1]}", lambda route: route.fulfill(status=503, body=problem))
    choose(thread.page, "More", "Select chats")
    bar = thread.page.get_by_role("group", name="Selected chats")
    bar.get_by_role("button", name="All", exact=True).click()
    bar.get_by_role("button", name="Archive", exact=True).click()
    expect(bar.get_by_role("alert")).to_contain_text("The disk is full")
    expect(bar.get_by_role("status")).to_have_text("1 selected")
    expect(titles(group(thread.page, "Today"))).to_have_text(["b"])


def test_a_title_is_changed_in_place(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """F2 or a click makes a field of the title: Enter and leaving it keep the text, Esc does not."""
    thread, chats = list_of("first", "second")
    page, keys = thread.page, thread.page.keyboard
    heading = page.get_by_role("heading", level=1)
    field = heading.get_by_label("Title")
    page.locator(".thread").focus()
    keys.press("F2")
    expect(field).to_be_focused()
    keys.type("<b>changed</b>")  # what was there is selected
    keys.press("Enter")
    expect(heading).to_have_text("<b>changed</b>")
    expect(heading.get_by_role("button")).to_be_focused()
    expect(page.locator(f"[data-chat='{chats[0]}'] .entry-title")).to_have_text("<b>changed</b>")
    heading.get_by_role("button").click()
    field.fill("not kept")
    keys.press("Escape")
    expect(heading).to_have_text("<b>changed</b>")
    heading.get_by_role("button").click()
    field.fill("left")
    thread.composer.click()
    expect(heading).to_have_text("left")
    heading.get_by_role("button").click()
    field.fill("   ")
    keys.press("Enter")
    expect(heading).to_have_text("left")
    assert thread.server.ask("GET", f"/api/chats/{chats[0]}")["title"] == "left"


def test_the_list_on_a_phone(list_of: Callable[..., tuple[Thread, list[str]]]) -> None:
    """Selecting works in the drawer, and nothing of it is cut."""
    thread, chats = list_of("a", "b", viewport=NARROW)
    page = thread.page
    page.get_by_role("button", name="Chats", exact=True).click()
    choose(page, "More", "Select chats")
    page.locator(f"[data-chat='{chats[0]}']").click()
    bar = page.get_by_role("group", name="Selected chats")
    for button in bar.get_by_role("button").all():
        expect(button).to_be_in_viewport(ratio=1)
    bar.get_by_role("button", name="Archive", exact=True).click()
    expect(page.get_by_role("button", name="Archived (1)")).to_be_visible()
