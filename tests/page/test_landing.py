"""A chat in a worktree of its own, in the browser: begun, worked in, looked at, and landed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from chatpage.device import NARROW
from chatpage.server import Server
from chatpage.thread import Thread
from git_repository import IDENTITY
from playwright.sync_api import expect

AGENT = Path(__file__).parents[1] / "support" / "editing_agent.py"


def config(folder: Path) -> Path:
    """The configuration of an agent that really edits."""
    path = folder / "penstock.toml"
    command = f'command = ["{sys.executable}", "-S", "{AGENT}"]\nadapter = "claude"\n'
    path.write_text(f"[agents.editing]\n{command}[agents.other]\n{command}")
    return path


def git(folder: Path, *words: str) -> str:
    """Run git; what it prints."""
    env = {**os.environ, **IDENTITY}
    return subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def repository(own_server: Callable[..., Server]) -> Server:
    """A server whose root is a repository with a commit."""
    server = own_server(config=config, env=IDENTITY)
    git(server.root, "init", "-q", "-b", "main")
    (server.root / "a.py").write_text("one\n")
    git(server.root, "add", ".")
    git(server.root, "commit", "-qm", "Begin")
    return server


def shot(thread: Thread, name: str) -> None:
    """Take pictures, if pictures are wanted: wide and narrow, light and dark."""
    if folder := os.environ.get("PENSTOCK_SHOTS"):
        for width in (1280, 320):
            thread.page.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark"):
                thread.page.emulate_media(color_scheme=scheme)
                thread.page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png")
        thread.page.set_viewport_size({"width": 1280, "height": 800})


def test_a_chat_in_a_worktree_lands(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """It is offered and off; the look names the files and what stays; then the files are on the branch."""
    server = repository(own_server)
    thread = at("editing", of=server)
    page = thread.page
    page.goto(f"{server.url}/")
    page.get_by_role("combobox", name="Agent").select_option("editing")
    message = page.get_by_role("textbox", name="First message")
    message.fill(json.dumps({"write": {"a.py": "two\n", "<b>.py": "new\n", ".env": "K=1\n"}}))
    box = page.get_by_role("checkbox", name="In a worktree of its own")
    expect(box).not_to_be_checked()
    box.press("Space")
    expect(box).to_be_checked()
    shot(thread, "tree-new")
    message.press("Enter")
    page.get_by_role("dialog", name="Send it nevertheless?").get_by_role("button", name="Send").press("Enter")
    page.wait_for_url(lambda url: "/chats/" in url and not url.endswith(thread.chat))
    thread.chat = page.url.rsplit("/", 1)[1]
    expect(page.locator(".head-text p")).to_contain_text(f"branch penstock/chat-{thread.chat[:8]}")
    expect(thread.turn(1).locator(".changed button")).to_contain_text("3 files changed")
    assert (server.root / "a.py").read_text() == "one\n"
    page.get_by_role("button", name="Chat menu").press("Enter")
    page.get_by_role("menuitem", name="Land…").press("Enter")
    dialog = page.get_by_role("dialog", name="Land this chat")
    expect(dialog.get_by_role("list", name="Changed files").get_by_role("listitem")).to_have_text(
        ["<b>.py +1 −0", "a.py +1 −1"]
    )
    expect(dialog).to_contain_text("will be added to main. Nothing is pushed.")
    expect(dialog).to_contain_text(".env")
    shot(thread, "tree-land")
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    dialog.get_by_role("textbox", name="Commit").fill("Two")
    dialog.get_by_role("button", name="Land", exact=True).press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("main is at ")
    assert git(server.root, "log", "-1", "--format=%s").strip() == "Two"
    assert (server.root / "a.py").read_text() == "two\n"
    assert not (server.root / ".env").exists()


def test_two_agents(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """Both get the first message in a worktree of their own; one is kept, the other archived, and nothing is lost."""
    server = repository(own_server)
    thread = at("editing", of=server, viewport={"width": 1280, "height": 800})  # room for both
    page = thread.page
    page.goto(f"{server.url}/")
    page.get_by_role("combobox", name="Agent").select_option("editing")
    message = page.get_by_role("textbox", name="First message")
    message.fill(json.dumps({"write": {"a.py": "two\n"}}))
    also = page.get_by_role("combobox", name="Also ask")
    also.select_option("other")
    expect(page.get_by_role("checkbox", name="In a worktree of its own")).to_be_checked()
    shot(thread, "also-new")
    message.press("Enter")
    page.get_by_role("dialog", name="Send it nevertheless?").get_by_role("button", name="Send").press("Enter")
    versions = page.get_by_role("group", name="Version 1 of 2 of this message")
    expect(versions).to_be_visible()
    pane = page.get_by_role("complementary", name="Side by side: other")  # by itself, and the field keeps the focus
    for place in (page.get_by_role("main"), pane):
        expect(place.locator(".changed button")).to_contain_text("1 file changed")
    expect(thread.composer).to_be_focused()
    shot(thread, "also-thread")
    versions.get_by_role("button", name="Next version").press("Enter")
    expect(pane).to_have_count(0)
    versions = page.get_by_role("group", name="Version 2 of 2 of this message")
    expect(thread.turn(1).locator(".changed button")).to_contain_text("1 file changed")
    versions.get_by_role("button", name="Keep this one").press("Enter")
    expect(versions.get_by_role("button", name="Unarchive the other")).to_be_visible()
    made = {it["agent"]: it for it in server.ask("GET", "/api/chats")["chats"] if it["turns"]}
    assert {name: it["archived"] for name, it in made.items()} == {"editing": True, "other": False}
    trees = [Path(it["cwd"]) for it in made.values()]
    assert [(it / "a.py").read_text() for it in trees] == ["two\n", "two\n"]
    assert len({*trees}) == 2
    versions.get_by_role("button", name="Unarchive the other").press("Enter")
    expect(versions.get_by_role("button", name="Keep this one")).to_be_visible()
    assert (server.root / "a.py").read_text() == "one\n"
