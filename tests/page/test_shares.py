"""A chat that is shared: the dialog that makes the link, and the page that it opens, for a browser without a login."""

from __future__ import annotations

from collections.abc import Callable

from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE
from playwright.sync_api import Page, expect


def owner_at(server: Server, devices: Callable[..., Device], chat: str) -> Page:
    """The page of the owner at a chat."""
    page = devices().sign_in(server.ask("POST", "/api/link", {})["url"])
    expect(page.get_by_role("link", name="New chat", exact=True)).to_be_visible(timeout=PATIENCE)
    page.goto(f"{server.url}/chats/{chat}")
    return page


def test_a_chat_is_shared_read_and_revoked(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """The link is made in the menu; a stranger reads the chat up to this turn, and then nothing."""
    server = own_server()
    chat = server.chat("quick")
    server.ask("POST", f"/api/chats/{chat}/turns", {"text": "<b>what</b> is a pelican?"})
    owner = owner_at(server, devices, chat)
    expect(owner.locator("[data-state=completed]")).to_have_count(1, timeout=PATIENCE)
    owner.get_by_role("button", name="Chat menu").click()
    owner.get_by_role("menuitem", name="Share a link").click()
    dialog = owner.get_by_role("dialog", name="Share a link")
    dialog.get_by_label("Also what the agent did").check()
    dialog.get_by_role("button", name="Make a link").click()
    link = dialog.get_by_role("textbox", name="Link").input_value()
    assert link.startswith(f"{server.url}/s#")
    expect(dialog.get_by_text("Up to turn 1, with details")).to_be_visible(timeout=PATIENCE)

    stranger = devices()
    page = stranger.page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(link)
    expect(page.locator(".prompt")).to_have_text("<b>what</b> is a pelican?", timeout=PATIENCE)
    expect(page.locator(".prose")).not_to_be_empty(timeout=PATIENCE)
    page.get_by_text("What the agent did").click()
    expect(page.locator(".items > li")).not_to_have_count(0, timeout=PATIENCE)
    assert page.locator("textarea, input").count() == 0
    assert page.context.cookies() == []
    assert link.partition("#")[2] not in "".join(url.partition("#")[0] for url in asked)

    dialog.get_by_role("button", name="Revoke: Up to turn 1").click()
    expect(dialog.get_by_text("Up to turn 1")).to_have_count(0, timeout=PATIENCE)
    stranger.allow("404")
    page.reload()
    expect(page.get_by_role("heading", name="There is nothing to show")).to_be_visible(timeout=PATIENCE)


def test_a_turn_that_runs_is_followed(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """The page shows the end of a turn that was running when it was opened."""
    server = own_server()
    chat = server.chat("halfway")
    server.ask("POST", f"/api/chats/{chat}/turns", {"text": "wait"})
    made = server.ask("POST", f"/api/chats/{chat}/shares", {})
    page = devices().page()
    page.goto(made["url"])
    expect(page.get_by_text("The agent works…")).to_be_visible(timeout=PATIENCE)
    server.gate.touch()
    expect(page.locator("[data-state=completed]")).to_have_count(1, timeout=PATIENCE)
    expect(page.get_by_text("The agent works…")).to_have_count(0)
