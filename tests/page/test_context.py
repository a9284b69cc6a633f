"""What is left of the model's context, and the new chat that is offered when it is little."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from chatpage import cast
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect
from served import RECORDINGS


def test_a_new_chat_when_little_is_left(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """The fill stands at the field after the turn; the new chat says where it goes on from, and asks nothing."""

    def small(folder: Path) -> Path:
        recording = shutil.copytree(RECORDINGS / "base_for_resume", folder / "small")
        wire = recording / "input.ndjson"
        wire.write_text(wire.read_text("utf-8").replace('"contextWindow":200000', '"contextWindow":1200'), "utf-8")
        return cast.config(
            folder / "penstock.toml", roles=["quick"], more=[cast.agent("small", "claude", recording, 20)]
        )

    server = own_server(config=small)
    thread = at("small", of=server)
    page, old = thread.page, thread.chat
    thread.ask("remember this")
    left = page.locator(".context-left")
    expect(left).to_contain_text("of the context left", timeout=PATIENCE)
    expect(left).to_have_attribute("data-low", "true")
    page.get_by_role("button", name="New chat with a summary").press("Enter")
    expect(page.locator(".origin")).to_contain_text("Goes on from", timeout=PATIENCE)
    new = page.url.rsplit("/", 1)[1]
    assert new != old
    assert server.ask("GET", f"/api/chats/{new}")["turns"] == 0
