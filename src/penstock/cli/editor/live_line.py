"""Line below the output of a run in a conversation: its time, agent, model and level, while the agent works.

What is above it is only ever appended to. Before any output the line is erased, and afterwards it is drawn again in the
row below the cursor, which stays where the output goes on. So nothing has to be known about the rows above, and a
terminal that is resized or divides its rows has nothing to repair: all below the cursor is erased.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from penstock.cli.console import one_line, set_below
from penstock.cli.editor.typed_ahead import in_foreground
from penstock.sinks.text.wrapping import columns

SEPARATOR = " · "
MIN_COLUMNS, MIN_ROWS = 20, 4
"""Size of the smallest terminal in which the line is drawn."""

# Index and cursor up: there is a row below now, and the cursor is where it was. Then it is saved, and restored.
_BEGIN, _END = "\x1bD\x1b[A\x1b7\r\x1b[B", "\x1b8"

ERASE = f"{_BEGIN}\x1b[J{_END}".encode()
"""Codes that erase all below the row of the cursor. At the first place of the screen, a code that erases all from the
cursor on would make tmux keep the line in its history."""

_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNSURE = re.compile(
    "[^ -~\u00a1-\u02ff\u0370-\u052f\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u259f"
    "\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
)
"""Characters that terminals disagree about: the column after them is not known."""


def fitting(parts: Sequence[str], width: int) -> str:
    """Return the parts in one line of at most this many columns: the last ones are left out until the others fit."""
    kept = [one_line(part) for part in parts if part]
    while len(kept) > 1 and columns(SEPARATOR.join(kept)) > width:
        kept.pop()
    text = SEPARATOR.join(kept)
    while text and columns(text) > width:
        text = text[:-1]
    return text


class LiveLine:
    """Line below the output. Use it in a `with` block around a run, and `draw` it whenever nothing is to be written.

    Args:
        text: function that returns the line for a width in columns.
        is_dim: whether it is drawn with less contrast, which needs a code for it.
        fd: the terminal.
    """

    def __init__(self, text: Callable[[int], str], *, is_dim: bool, fd: int = 1) -> None:
        self._text = text
        self._on, self._off = ("\x1b[0;2m", "\x1b[0m") if is_dim else ("", "")
        self._fd = fd
        self._terminals = {number for number in (1, 2) if os.isatty(number)}
        self._drawn = ""
        """Text of the line on the screen; "" if it is not there."""
        self._size = _size(fd)
        """Size of the terminal at the last drawing."""
        self._column: int | None = 0
        """Column of the cursor; None if unknown: the line is not drawn then."""

        self._is_away = False
        """Whether this program was in the background at the last drawing, and others wrote here."""

    def __enter__(self) -> None:
        set_below(self)

    def __exit__(self, *_: object) -> None:
        self.hide()
        set_below(None)

    def before(self, fd: int, data: bytes) -> bytes:
        """Return this output with what has to be written before it, so that it does not meet the line."""
        if fd not in self._terminals:
            return data
        self._note(data)
        if self._drawn:
            self._drawn = ""
            return ERASE + data
        return data

    def _note(self, data: bytes) -> None:
        """Note where the cursor is after this output."""
        text = _CODES.sub("", data.decode(errors="replace"))
        tail = text[text.rfind("\n") + 1 :]
        if len(tail) < len(text):
            self._column = 0
        if self._column is None or _UNSURE.search(tail):
            self._column = None
        else:
            self._column += columns(tail)

    def draw(self) -> None:
        """Draw the line, unless it is there already."""
        if not in_foreground(self._fd):
            self._is_away = True
            return
        if self._is_away:  # a shell that brings it back ends its own line
            self._is_away, self._column = False, 0
        width, rows = size = _size(self._fd)
        is_resized, self._size = size != self._size, size
        if is_resized and self._column:
            self._column = None  # the terminal may have divided the row of the cursor
        text = ""
        # In the last column the cursor would not come back to the same place.
        if self._column is not None and self._column < width and width >= MIN_COLUMNS and rows >= MIN_ROWS:
            text = self._text(width - 1)
        if text == self._drawn and not is_resized:
            return
        before, self._drawn = ERASE if self._drawn else b"", text
        line = f"{_BEGIN}{self._on}{text}{self._off}{_END}".encode(errors="replace") if text else b""
        self._put(before + line)

    def hide(self) -> None:
        """Erase the line, until it is drawn again."""
        if self._drawn:
            self._drawn = ""
            self._put(ERASE)

    def _put(self, data: bytes) -> None:
        try:
            os.write(self._fd, data)
        except OSError:
            pass  # it hung up, which is noticed elsewhere


def _size(fd: int) -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:  # it hung up
        return 0, 0
    return columns, rows
