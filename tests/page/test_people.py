"""Several people at one server: what each sees of a chat, and can do with it."""

from __future__ import annotations

from collections.abc import Callable

from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE
from playwright.sync_api import Locator, Page, expect

from penstock.chat.people import persons


def page_of(server: Server, devices: Callable[..., Device], person: str | None = None) -> Page:
    """The page of a person, who is signed in; None: the owner."""
    body = {} if person is None else {"person": person}
    return devices().sign_in(server.ask("POST", "/api/link", body)["url"])


def chats_of(page: Page) -> Locator:
    """The list of chats."""
    return page.get_by_role("navigation", name="Chats")


def menu_of(page: Page) -> list[str]:
    """What the menu of the open chat offers."""
    page.get_by_role("button", name="Chat menu").click()
    names = page.get_by_role("menuitem").all_inner_texts()
    page.keyboard.press("Escape")
    return names


def test_what_is_read_on_one_device_is_read_on_the_others(
    own_server: Callable[..., Server], devices: Callable[..., Device]
) -> None:
    """A chat that went on is unread on both devices of a person, until it is opened on one; others have their own."""
    server = own_server()
    of_ana = {"Authorization": f"Bearer {persons.add(server.data, 'ana', 'member', 0)}"}
    persons.add(server.data, "ben", "viewer", 0)
    desk, phone, ben = (page_of(server, devices, name) for name in ("ana", "ana", "ben"))
    chat = server.ask("POST", "/api/chats", {"agent": "quick", "visibility": "team"}, headers=of_ana)["id"]
    server.ask("POST", f"/api/chats/{chat}/turns", {"text": "hello"}, headers=of_ana)
    for page in (desk, phone, ben):
        expect(page.locator(".dot.unread")).to_have_count(1, timeout=PATIENCE)
    chats_of(desk).get_by_role("link", name="hello").click()
    for page in (desk, phone):
        expect(page.locator(".dot.unread")).to_have_count(0, timeout=PATIENCE)
    new = page_of(server, devices, "ana")
    expect(chats_of(new).get_by_role("link", name="hello")).to_have_count(1, timeout=PATIENCE)
    expect(new.locator(".dot.unread")).to_have_count(0)
    new.reload()
    expect(chats_of(new).get_by_role("link", name="hello")).to_have_count(1, timeout=PATIENCE)
    expect(new.locator(".dot.unread")).to_have_count(0)
    ben.reload()
    expect(ben.locator(".dot.unread")).to_have_count(1, timeout=PATIENCE)


def test_people_see_who_wrote_and_what_they_may_do(
    own_server: Callable[..., Server], devices: Callable[..., Device]
) -> None:
    """A member shares a chat; a viewer reads it without a field to write in; the owner's message has its name."""
    server = own_server()
    of_ana = {"Authorization": f"Bearer {persons.add(server.data, 'ana', 'member', 0)}"}
    persons.add(server.data, "ben", "viewer", 0)
    ana = page_of(server, devices, "ana")
    expect(ana.get_by_text("ana, member")).to_be_visible(timeout=PATIENCE)
    chat = server.ask("POST", "/api/chats", {"agent": "quick"}, headers=of_ana)["id"]
    server.ask("POST", f"/api/chats/{chat}/turns", {"text": "first"}, headers=of_ana)
    ana.goto(f"{server.url}/chats/{chat}")
    expect(ana.locator("[data-state=completed]")).to_have_count(1, timeout=PATIENCE)
    ben = page_of(server, devices, "ben")
    expect(ben.get_by_text("No chats yet.")).to_be_visible(timeout=PATIENCE)
    expect(ben.get_by_role("link", name="New chat", exact=True)).to_have_count(0)
    expect(ben.get_by_role("heading", name="You can read the chats of the team")).to_be_visible()
    expect(ben.locator("textarea, .button")).to_have_count(0)

    settings, place, end = ["Rename and settings", "Heartbeat"], ["Pin", "Archive"], ["Share a link", "Delete"]
    ways_out = ["Open in a terminal", "Save as a file"]
    assert menu_of(ana) == [*settings, *place, "Share with the team", *ways_out, *end]
    ana.get_by_role("button", name="Chat menu").click()
    ana.get_by_role("menuitem", name="Share with the team").click()
    expect(ana.locator(".head-text p")).to_contain_text("team", timeout=PATIENCE)

    ben.goto(ana.url)
    expect(ben.get_by_text("You can read this chat.")).to_be_visible(timeout=PATIENCE)
    expect(ben.locator(".said-by")).to_have_text("ana")
    expect(ben.locator("textarea")).to_have_count(0)
    assert menu_of(ben) == ["Save as a file"]

    owner = page_of(server, devices)
    owner.goto(ana.url)
    owner.get_by_role("textbox", name="Message to quick").fill("second")
    owner.keyboard.press("Enter")
    expect(ana.locator(".said-by")).to_have_text("owner", timeout=PATIENCE)
    expect(ben.locator(".said-by")).to_have_text(["ana", "owner"], timeout=PATIENCE)
