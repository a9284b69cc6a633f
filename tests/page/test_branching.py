"""New chats that begin before a message: to change it, and to ask another agent the same. And the way to a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from chatpage.thread import Thread
from playwright.sync_api import expect

Open = Callable[..., Thread]


def choose(thread: Thread, number: int, label: str) -> None:
    """Choose from the menu of a message, by the keyboard."""
    thread.button(f"More with message {number}").press("Enter")
    thread.page.get_by_role("menuitem", name=label, exact=True).press("Enter")


def moved_on(thread: Thread) -> str:
    """Wait until another chat is open; its id."""
    before = thread.chat
    thread.page.wait_for_url(lambda url: "/chats/" in url and not url.endswith(before))
    thread.chat = thread.page.url.rsplit("/", 1)[1]
    thread.ready()
    return thread.chat


def shot(thread: Thread, name: str) -> None:
    """Take a picture, if pictures are wanted."""
    if folder := os.environ.get("PENSTOCK_SHOTS"):
        thread.page.screenshot(path=f"{folder}/{name}.png")


def check_versions(thread: Thread, old: str, new: str) -> None:
    """Go from the old chat, which is open, to the other version of its second message, and back."""
    versions = thread.turn(2).get_by_role("group", name="Version 1 of 2 of this message")
    expect(versions).to_contain_text("1/2")
    shot(thread, "branch-versions")
    versions.get_by_role("button", name="Next version").press("Enter")
    assert moved_on(thread) == new
    thread.turn(1).get_by_role("button", name="Version before").press("Enter")
    assert moved_on(thread) == old


def test_edited_in_a_new_chat_and_asked_of_another_agent(at: Open) -> None:
    """The message and its files are in the field of a new chat; it and the old one, which stays, lead to each other."""
    thread = at("quick")
    page, server, old = thread.page, thread.server, thread.chat
    thread.ask("one")
    page.locator("input[type=file]").set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"a\n"})
    expect(page.locator(".drafted li[data-state=ready]")).to_have_count(1)
    thread.ask("two", 2)
    shot(thread, "branch-thread")
    thread.button("More with message 2").press("Enter")
    expect(page.get_by_role("menuitem", name="Edit in a new chat")).to_be_focused()
    expect(page.get_by_role("menuitem", name="Ask another agent…")).to_be_in_viewport(ratio=1)
    shot(thread, "branch-menu")
    page.keyboard.press("Enter")
    new = moved_on(thread)
    expect(thread.composer).to_have_value("two")
    expect(page.locator(".drafted li")).to_have_count(1)
    expect(page.locator(".origin")).to_have_text("Goes on from one, before message 2.")
    shot(thread, "branch-edit")
    page.reload()
    thread.ready()
    expect(thread.composer).to_have_value("two")
    thread.ask("two, but better")
    (turn,) = server.turns(new)
    assert (turn["prompt"], [it["name"] for it in turn["attachments"]]) == ("two, but better", ["notes.txt"])
    page.locator(".origin a").press("Enter")
    thread.chat = new
    assert moved_on(thread) == old
    expect(thread.turn(2)).to_be_in_viewport()
    expect(thread.composer).to_have_value("")
    check_versions(thread, old, new)
    assert [it["prompt"] for it in server.turns(old)] == ["one", "two"]
    choose(thread, 2, "Ask another agent…")
    dialog = page.get_by_role("dialog", name="Ask another agent")
    dialog.get_by_role("radio", name=re.compile("^whole")).check()
    shot(thread, "branch-ask")
    ask = dialog.get_by_role("button", name="Ask", exact=True)
    expect(ask).to_be_enabled()  # what can be chosen has been read
    ask.press("Enter")
    other = moved_on(thread)
    thread.ended(1)
    assert server.ask("GET", f"/api/chats/{other}")["agent"] == "whole"
    assert server.turns(other)[0]["prompt"] == "two"
    thread.device.allow("Failed to load resource")  # the old chat, which is asked for once
    server.ask("DELETE", f"/api/chats/{old}")
    page.reload()
    thread.ready()
    expect(page.locator(".origin")).to_have_text(
        "Goes on from a chat that is gone, or not yours to see, before message 2."
    )


def test_the_line_for_a_terminal(at: Open) -> None:
    """The menu of the chat has the line that the server makes; before the first turn it says that there is none."""
    thread = at("quick")
    page, dialog = thread.page, thread.page.get_by_role("dialog", name="Open in a terminal")

    def open_dialog() -> None:
        thread.button("Chat menu").press("Enter")
        page.get_by_role("menuitem", name="Open in a terminal").press("Enter")

    open_dialog()
    expect(dialog).to_contain_text("quick has no conversation of this chat yet.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    thread.ask("one")
    open_dialog()
    line = dialog.locator("pre")
    expect(line).to_have_text(
        re.compile(r"^cd -- .*/shop && penstock run quick --interactive --session=\S+ --allow=own$")
    )
    assert line.text_content() == thread.server.ask("GET", f"/api/chats/{thread.chat}/terminal")["penstock"]
    shot(thread, "terminal")
