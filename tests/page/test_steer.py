"""Messages for an agent that works, in the page: by the keyboard, seen by others, and those that come too late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chatpage import cast
from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import Locator, expect

GIVE = "Give to the agent now"


def stage(folder: Path) -> Path:
    """The configuration of a server with codex's stand-in."""
    return cast.config(folder / "penstock.toml", roles=["quick"], more=[cast.codex(folder)])


def part(thread: Thread, turn: int, number: int) -> Locator:
    """A message that became a part of a turn."""
    return thread.turn(turn).locator(f"[data-part='{number}'] .prompt")


def test_messages_for_an_agent_that_works(
    at: Callable[..., Thread], own_server: Callable[..., Server], devices: Callable[..., Device]
) -> None:
    """What is written and what waits becomes a part of the turn; what came too late is a turn, and says so."""
    mine = own_server(config=stage)
    ears = mine.folder / "ears"
    thread = at("codex", of=mine)
    thread.say("first")
    expect(thread.reply(1)).to_have_text("Working.")
    thread.say("second")
    row = thread.turn(2).get_by_role("button", name=GIVE)
    expect(row).to_be_enabled()
    other = Thread(devices(viewport={"width": 390, "height": 800}), mine)
    other.enter(thread.chat)

    thread.composer.fill("turn <b>left</b>")
    expect(thread.page.locator(".composer").get_by_role("button", name=GIVE)).to_be_enabled()
    thread.composer.press("Control+Enter")
    for seen in (thread, other):
        expect(seen.turn(3).locator(".queued")).to_have_text("Given to the agent, which takes it at its next step")
        expect(seen.turn(3).get_by_role("button", name="Take back")).to_have_count(0)
    row.press("Enter")
    expect(thread.turn(2).locator(".queued")).to_contain_text("Given to the agent")

    ears.touch()
    for seen in (thread, other):
        expect(part(seen, 1, 3)).to_have_text("turn <b>left</b>")
        expect(part(seen, 1, 2)).to_have_text("second")
        expect(seen.turn(2)).to_have_count(0)
        expect(seen.turn(3)).to_have_count(0)
    expect(thread.turn(1)).to_have_attribute("data-state", "running")

    ears.unlink()
    thread.composer.fill("too late")
    thread.composer.press("Control+Enter")
    expect(thread.turn(4).locator(".queued")).to_contain_text("Given to the agent")
    mine.gate.touch()
    for seen in (thread, other):
        seen.ended(1)
        seen.ended(4)
        expect(seen.turn(4).locator(".asked")).to_contain_text("It came too late for the turn before")
    thread.page.reload()
    thread.ready()
    expect(part(thread, 1, 3)).to_have_text("turn <b>left</b>")
    expect(thread.page.locator(".turn[data-turn]")).to_have_count(2)
