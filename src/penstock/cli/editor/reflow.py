"""Repair of the input line after the terminal has become narrower.

Such a terminal divides the rows of the line into several, so that the line begins further above than the library
assumes, and it would draw the line anew below its own beginning. A terminal that cuts rows off instead needs no repair,
and nothing tells the two apart: only tmux, which is known to divide them, is repaired.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output.vt100 import Vt100_Output


class SizedOutput(Vt100_Output):
    """Output whose size is that of the terminal at the last `measure`, so that one drawing has one size.

    The terminal may change while a drawing is made or written, and is drawn on again after its signal.
    """

    def __init__(self, stdout: TextIO | None = None) -> None:
        self.is_fitting: bool = True
        """Whether the terminal had this size still when the output was last written."""
        self._size = _size()
        super().__init__(stdout or sys.stdout, lambda: self._size, term=os.environ.get("TERM"), enable_cpr=False)

    def measure(self, _: object = None) -> None:
        """Take the size of the terminal."""
        self._size = _size()

    def get_rows_below_cursor_position(self) -> int:
        """Return the rows that are there for certain. Without a number the library draws no line below the prompt."""
        return 1

    def flush(self) -> None:
        """Write what is buffered."""
        self.is_fitting = _size() == self._size
        super().flush()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:  # it hung up
        columns, rows = 0, 0
    return Size(rows=rows or 24, columns=columns or 80)


class Reflow:
    """Repair of one application's drawing. It takes the size of the terminal before each one."""

    def __init__(self, application: Application[Any], output: SizedOutput) -> None:
        self._output = output
        self._rows: list[int] = []
        """Columns of the drawn rows, down to that of the cursor."""
        self._cursor = 0
        """Column of the cursor."""
        self._width = 0
        self._kept: list[int] = []
        """Rows of the drawing before, if this one only writes what has changed since."""
        application.before_render += output.measure
        if os.environ.get("TMUX"):
            application.after_render += self._note
            application.before_render += self._go_up

    def _note(self, application: Application[Any]) -> None:
        """Note what was drawn."""
        screen = application.renderer.last_rendered_screen
        self._width = self._output.get_size().columns
        if screen is None or not self._output.is_fitting:
            # Rows that are wider than the terminal when they are written are cut off; those from before it divides.
            self._rows = self._kept
        else:
            at = screen.get_cursor_position(application.layout.current_window)
            self._rows, self._cursor = [_columns(screen, row) for row in range(at.y + 1)], at.x

    def _go_up(self, application: Application[Any]) -> None:
        """Before it is drawn anew: erase the rows that the terminal has made of those above the cursor."""
        width = self._output.get_size().columns
        rows, self._rows = self._rows, []
        is_whole = application.renderer.last_rendered_screen is None or width != self._width
        self._kept = [] if is_whole else rows
        if rows and 0 < width < self._width:
            more = sum(max(size - 1, 0) // width for size in rows[:-1]) + self._cursor // width
            self._output.cursor_up(more)
            self._output.erase_down()


def _columns(screen: Screen, number: int) -> int:
    """Return the columns of a row without spaces at its end."""
    row = screen.data_buffer[number]
    return max((column + row[column].width for column in row if row[column].char.strip()), default=0)
