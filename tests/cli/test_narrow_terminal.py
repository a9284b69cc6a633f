"""Tables and lines in narrow terminals: no word is broken that fits into a row, and a pipe gets all as it is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

import pytest

from penstock.cli.console import columns as table
from penstock.cli.console import fitted
from penstock.cli.fitting import fitted_table, wrapped
from penstock.sinks.text.wrapping import columns

TIMEOUT = 60
"""Seconds after which a process hangs."""

ID = "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"

ROWS = [
    ("when", "agent", "outcome", "prompt", "session"),
    ("3 min ago", "claude", "ok", "fix the parser of dates, and explain it", ID),
    ("2026-11-30", "codex/gpt", "timed out", "日本語の文章を書いてください、そして直してください", "–"),
]


def _words(text: str) -> list[str]:
    return [word for word in text.split() if word != "·"]


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 110])
def test_no_row_is_wider_than_the_terminal_and_no_word_is_broken(width: int) -> None:
    """Each word is whole in one row. Only a word that is longer than a row is wider than the terminal."""
    lines = fitted_table(ROWS, width).splitlines()
    assert all(columns(line) <= width or line.strip() in (ID, f"session {ID}") for line in lines)
    found = {word for line in lines for word in _words(line)}
    assert {*_words("3 min ago claude ok fix the parser of dates, and explain it"), ID} <= found
    wide = [char for line in lines for char in line if columns(char) == 2]
    assert "".join(wide) == ROWS[2][3]  # Chinese text can break anywhere


def test_a_long_cell_is_wrapped_in_its_column() -> None:
    """A table that is a little too wide keeps its columns, and figures stay aligned right."""
    rows = [("agent", "what it did", "runs"), ("claude", "wrote the tests first, then the parser", "1,204")]
    assert fitted_table(rows, 40, right_from=2) == (
        "agent   what it did                 runs\n"
        "claude  wrote the tests first,     1,204\n"
        "        then the parser\n"
    )  # fmt: skip


def test_a_row_is_a_paragraph_in_a_terminal_that_is_too_narrow_for_its_columns() -> None:
    """Each cell has its heading, one without a value is left out, and the id can be copied."""
    assert fitted_table(ROWS[:2], 50) == (
        "when 3 min ago · agent claude · outcome ok\n"
        "  prompt fix the parser of dates, and explain it\n"
        f"  session {ID}\n"
    )
    cells = [("removed", "/home/user/data/trees/parser", "2 files changed"), ("kept", "/home/user", "")]
    assert fitted_table(cells, 32, has_heads=False) == (
        "removed\n  /home/user/data/trees/parser\n  2 files changed\nkept  /home/user\n"
    )


def test_a_table_that_fits_is_the_one_of_a_pipe() -> None:
    """At its own width and above it has the same bytes."""
    whole = fitted_table(ROWS, None)
    width = max(map(columns, whole.splitlines()))
    assert fitted_table(ROWS, width) == fitted_table(ROWS, 500) == whole
    assert fitted_table(ROWS, width - 1) != whole


def test_lines_are_wrapped_at_blanks_and_commands_are_not() -> None:
    """A line goes on below itself. A command has a row of its own, and no line break is in it."""
    text = (
        "round 12 · check make test · red 12 s\n  to go on:          penstock loop resume parser-7f3a --rounds 5\nend"
    )
    assert wrapped(text, None) == wrapped(text, 200) == text
    assert wrapped(text, 30) == (
        "round 12 · check make test ·\n  red 12 s\n  to go on:\n    penstock loop resume parser-7f3a --rounds 5\nend"
    )
    note = "penstock: all runs are kept: penstock last shows one, penstock history clear removes all\n"
    assert wrapped(note, 50) == (
        "penstock: all runs are kept: penstock last shows\n  one, penstock history clear removes all\n"
    )
    assert wrapped("x" * 50 + "\n", 30) == "x" * 50 + "\n"
    assert wrapped("tree · " + "x" * 50 + "\n", 30) == "tree ·\n  " + "x" * 50 + "\n"


def test_a_table_on_stderr_follows_the_terminal_there() -> None:
    """What a loop writes to stderr fits into that terminal, also if stdout is a pipe; and a pipe beside it gets all."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    assert table(ROWS, fd=theirs) == fitted_table(ROWS, 40) != table(ROWS, fd=1000)
    assert fitted("a " * 40, theirs) == wrapped("a " * 40, 40) != fitted("a " * 40, 1000)
    os.close(ours)
    os.close(theirs)


def _shown(width: int, *words: str) -> str:
    """Return what a command writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    command = [sys.executable, "-m", "penstock", *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs) as process:
        os.close(theirs)
        text = b""
        while piece := _read(ours):
            text += piece
        assert process.wait(TIMEOUT) == 0
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # all have closed the other end
        return b""


def test_a_command_knows_where_its_table_goes() -> None:
    """In a terminal the table fits; in a pipe it is whole, as in a wide terminal."""
    piped = subprocess.run([sys.executable, "-m", "penstock", "agents"], capture_output=True, text=True, check=True)
    assert max(map(len, piped.stdout.splitlines())) > 80
    assert _shown(200, "agents") == piped.stdout
    for width in (40, 60):
        text = _shown(width, "agents")
        assert max(map(len, text.splitlines())) <= width
        assert {word for word in _words(piped.stdout) if word != "–"} <= set(_words(text))
