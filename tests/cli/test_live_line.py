"""The line below the output of a conversation, and its keys: Esc, Shift+Tab and Ctrl-Z."""

from __future__ import annotations

import re
import shlex
import shutil
import sys

import pytest
from tmux_screen import Screen

from penstock.cli.editor.live_line import fitting

from .test_line_editor import CLAUDE, CTRL_D, LEFT, UP, Place, place, working

__all__ = ["place"]

pytestmark = pytest.mark.slow
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

ESC, SHIFT_TAB = "\x1b", "\x1b[Z"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"

PIECES = """\
import sys
from penstock.cli.console import Output, notify
from penstock.cli.editor.live_line import LiveLine

pieces = [
    "One line.\\n", "words that ", "come slowly", " and go on to the end of ", "the row ", "x" * 90, "yz\\n",
    "\\x1b[1mbold \\x1b[0m", "and not\\n", "漢字も", "表示します" * 9, "。\\n", "👍🏽 an emoji", " and text\\n",
    "e\\u0301 a mark", "\\ttab\\n", "שלום ", "עולם\\n", "a" * WIDTH, "\\n", "b" * (WIDTH - 1), "c\\n",
    "漢" * (WIDTH // 2), "!\\n",
]
line = LiveLine(lambda width: f"below {width}", is_dim=True)
output = Output(1, is_styled=True)
if sys.argv[1] == "with":
    with line:
        line.draw()
        for number, piece in enumerate(pieces * 2):
            output.write(piece)
            line.draw()
            if number % 5 == 4 and piece.endswith("\\n"):
                notify("penstock: a note\\n")
                line.draw()
else:
    for number, piece in enumerate(pieces * 2):
        output.write(piece)
        if number % 5 == 4 and piece.endswith("\\n"):
            notify("penstock: a note\\n")
print("over")
sys.stdin.read()
"""
"""A program that writes text in pieces, with the line below it or without."""


def screen_of(words: str, place: Place, columns: int, rows: int = 8) -> Screen:
    """Return a terminal of tmux with a command of the shell in it."""
    env = {**place.env, "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
    return Screen(words, env, place.folder, columns=columns, rows=rows)


@needs_tmux
@pytest.mark.parametrize("columns", [40, 80])
def test_the_text_above_is_as_without_the_line(place: Place, columns: int) -> None:
    """Wherever a piece of text ends, also at the margin and after characters of unclear width, the next one follows."""
    script = place.folder / "pieces.py"
    script.write_text(PIECES.replace("WIDTH", str(columns)), "utf-8")
    shown = []
    for word in ("with", "without"):
        screen = screen_of(shlex.join([sys.executable, str(script), word]), place, columns)
        try:
            screen.shows("over")
            shown.append(screen.history)
        finally:
            screen.close()
    assert shown[0] == shown[1]


@needs_tmux
def test_the_line_stays_below_in_any_size(place: Place) -> None:
    """It has time, level, agent and model while the agent works, as far as they fit, and is gone afterwards."""
    words = shlex.join([sys.executable, *CLAUDE, "-i", "wait please"])
    screen = screen_of(words, place, 100, rows=12)
    try:
        screen.shows("s · allow own · claude · m1 · Esc stops\n")
        for width in (33, 120, 40):
            screen.resize(width)
            rest = " · claude · m1" + " · Esc stops" * (width > 40)
            shown = screen.matches(rf"Working\.\n+\d+ s · allow own{re.escape(rest)}\n+\Z")
            assert shown.count("allow own") == 1
        place.go()
        screen.shows("\n>\nallow own · claude · m1\n")
        assert screen.history.count("allow own") == 1
        screen.type("C-d")
        screen.shows("To go on with it")
    finally:
        screen.close()


def test_what_fits() -> None:
    """The last parts are left out until the rest fits; a part with escape sequences is text."""
    parts = ["3 s", "allow edits", "claude", "", "model\x1b[31m", "漢字"]
    assert fitting(parts, 80) == "3 s · allow edits · claude · model\\x1b[31m · 漢字"
    assert fitting(parts, 47) == "3 s · allow edits · claude · model\\x1b[31m"
    assert fitting(parts, 20) == "3 s · allow edits"
    assert fitting(parts, 2) == "3 "


def test_esc_stops_the_run(place: Place) -> None:
    """What was typed stays, and the conversation goes on; neither another key nor a paste stops it."""
    talk = working(place)
    talk.type("queued\r")
    talk.until("queued: queued")
    talk.type(f"half{LEFT}{UP}{PASTE} a line{ESC}")
    talk.until("no longer queued")
    talk.type(f"{PASTED}!\r")
    talk.until("queued: queued", times=2)
    assert "cancelled" not in talk.text
    talk.type(ESC)
    talk.until("cancelled")
    talk.wait(lambda: talk.line.endswith("!"), "the text in the next prompt")
    assert "half" in talk.text
    assert place.prompts == ["wait please"]


def test_shift_tab_changes_the_level(place: Place) -> None:
    """It goes through the levels that the agent has, but not to `all`; while the agent works, for the next prompt."""
    talk = working(place)
    talk.until("allow own · claude · m1 · Esc stops")
    talk.type(SHIFT_TAB)
    talk.until("the next prompt runs with: allow edits")
    talk.until("allow own · claude · m1 · Esc stops")
    place.go()
    talk.until("\nallow edits · claude · m1 · Shift-Tab changes the level")
    for level in ("read", "own", "edits"):
        talk.type(SHIFT_TAB)
        talk.until(f"\nallow {level} · claude · m1 · Shift-Tab changes the level")
    talk.type("again\r")
    talk.until("You said: again")
    talk.asked()
    assert "--permission-mode=acceptEdits" in " ".join(place.words[1]).replace("mode acc", "mode=acc")
    talk.type("/allow all\r")
    talk.until("\nallow all · ")
    for level in ("read", "own", "edits", "all"):
        talk.type(SHIFT_TAB)
        talk.until(f"\nallow {level} · ")
    assert talk.end(CTRL_D) == 0


@needs_tmux
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_ctrl_z_at_work(place: Place) -> None:
    """The shell gets the terminal as it was, without the line; after `fg`, also after `bg`, keys are read again."""
    screen = screen_of("bash --norc", place, 100, rows=24)
    try:
        screen.type("-l", "PS1='$ '; " + shlex.join([sys.executable, *CLAUDE, "-i", "wait please"]))
        screen.type("Enter")
        screen.shows("Esc stops")
        screen.type("C-z")
        assert "Esc stops" not in screen.shows("Stopped")
        screen.type("-l", "stty -a | grep -cw -e -echo -e -icanon; echo modes")
        screen.type("Enter")
        screen.shows("\n0\nmodes\n")
        screen.type("fg", "Enter")
        screen.shows("Esc stops")
        screen.type("C-z")
        screen.matches("(?s)Stopped.*Stopped")
        for command in ("bg", "fg"):
            screen.type(command, "Enter")
        screen.shows("Esc stops")
        screen.type("-l", "text")
        screen.shows("what you type now appears in the next prompt")
        screen.type("Escape")
        screen.shows("> text\n")
    finally:
        screen.close()


def test_errors_in_a_file_have_no_codes(place: Place) -> None:
    """The line is on the terminal; notes to the user that go elsewhere are only text."""
    file = place.folder.parent / "notes"
    command = f"exec {shlex.join([sys.executable, *CLAUDE, '-i', 'wait please'])} 2> {shlex.quote(str(file))}"
    talk = place.talk("-c", f"import os; os.execvp('sh', ['sh', '-c', {command!r}])")
    talk.until("Esc stops")
    talk.type("next\r")
    talk.wait(lambda: "queued: next" in file.read_text("utf-8"), "the note")
    place.go()
    talk.until("You said: next")
    talk.asked()
    assert talk.end(CTRL_D) == 0
    assert "\x1b" not in file.read_text("utf-8")
