"""Repair of the input line after the terminal has become narrower.

Such a terminal divides the rows of the line into several, so that the line begins further above than the library
assumes, and it would draw the line anew below its own beginning. A terminal that cuts rows off instead needs no repair,
and nothing tells the two apart: only tmux, which is known to divide them, is repaired.
"""

from __future__ import annotations

import os
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.layout.screen import Screen


class Reflow:
    """Repair of one application's drawing."""

    def __init__(self, application: Application[Any]) -> None:
        self._rows: list[int] = []
        """Columns of the drawn rows, down to that of the cursor."""
        self._cursor = 0
        """Column of the cursor."""
        self._width = 0
        if os.environ.get("TMUX"):
            application.after_render += self._note
            application.before_render += self._go_up

    def _note(self, application: Application[Any]) -> None:
        """Note what was drawn."""
        screen = application.renderer.last_rendered_screen
        self._rows = []
        self._width = application.output.get_size().columns
        if screen is not None:
            at = screen.get_cursor_position(application.layout.current_window)
            self._rows, self._cursor = [_columns(screen, row) for row in range(at.y + 1)], at.x

    def _go_up(self, application: Application[Any]) -> None:
        """Before it is drawn anew: erase the rows that the terminal has made of those above the cursor."""
        width = application.output.get_size().columns
        rows, self._rows = self._rows, []
        if rows and 0 < width < self._width:
            more = sum(max(size - 1, 0) // width for size in rows[:-1]) + self._cursor // width
            application.output.cursor_up(more)
            application.output.erase_down()


def _columns(screen: Screen, number: int) -> int:
    """Return the columns of a row without spaces at its end."""
    row = screen.data_buffer[number]
    return max((column + row[column].width for column in row if row[column].char.strip()), default=0)
