"""A turn is taken back beside the thread: looked at, done, seen by everybody, and made again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from chatpage.device import NARROW
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import expect

AGENT = Path(__file__).parents[1] / "support" / "editing_agent.py"


def config(folder: Path) -> Path:
    """The configuration of an agent that really edits."""
    path = folder / "penstock.toml"
    path.write_text(f'[agents.editing]\ncommand = ["{sys.executable}", "-S", "{AGENT}"]\nadapter = "claude"\n')
    return path


def test_a_turn_is_taken_back(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """The look names each file; what is changed before the click stays; a tab that comes later sees it; then redo."""
    server = own_server(config=config)
    (server.root / "a.py").write_text("one\ntwo\n")
    thread = at("editing", of=server)
    page = thread.page
    thread.ask(json.dumps({"write": {"a.py": "one\n2\n", "<b>.py": "new\n"}, "run": "true"}))
    row = thread.turn(1).locator(".changed button")
    expect(row).to_have_text("2 files changed +2 −1")
    row.press("Enter")
    pane = page.get_by_role("complementary", name="Changes")
    undo = pane.get_by_role("region", name="Undo")
    undo.get_by_role("button", name="Undo this turn…").press("Enter")
    expect(undo.get_by_role("listitem")).to_have_text(["a.py gets its text from before", "<b>.py is removed"])
    expect(undo).to_contain_text("A command ran in this turn. Changes by commands are not taken back.")
    do_it = undo.get_by_role("button", name="Undo 2 files")
    expect(do_it).to_be_focused()
    assert (server.root / "a.py").read_text() == "one\n2\n"
    (server.root / "<b>.py").write_text("mine\n")  # between the look and the click
    do_it.press("Enter")
    expect(undo.get_by_role("status")).to_have_text(
        "1 file is as before this turn. <b>.py was changed since, and stays."
    )
    assert (server.root / "a.py").read_text() == "one\ntwo\n"
    assert (server.root / "<b>.py").read_text() == "mine\n"
    expect(row).to_have_text("2 files changed +2 −1 · 1 of 2 undone")
    expect(undo.get_by_role("button", name="Redo…")).to_be_focused()

    page.reload()
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    expect(row).to_have_text("2 files changed +2 −1 · 1 of 2 undone")
    row.press("Enter")
    expect(undo).to_contain_text("This turn: 1 of 2 undone.")
    undo.get_by_role("button", name="Redo…").press("Enter")
    expect(undo.get_by_role("listitem")).to_have_text(["a.py is changed again", "<b>.py was changed since, and stays"])
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    undo.get_by_role("button", name="Redo 1 file").press("Enter")
    expect(undo.get_by_role("status")).to_contain_text("1 file is changed again.")
    expect(row).to_have_text("2 files changed +2 −1")
    assert (server.root / "a.py").read_text() == "one\n2\n"
