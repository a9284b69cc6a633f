"""The input line of a conversation in a tmux whose width changes while the line is drawn."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from penstock.cli.editor.reflow import Reflow, SizedOutput

TYPED = "0123456789" * 18
ROWS = f"> {TYPED[:98]}\n  {TYPED[98:]}"
"""The line as the editor draws it in 100 columns."""


class Drawing:
    """A line of 180 characters, which is drawn step by step in a terminal of any width."""

    def __init__(self, app: Application[None], output: SizedOutput, written: io.StringIO) -> None:
        self.columns = 100
        self._app = app
        self._output = output
        self._written = written
        Reflow(app, output)

    @property
    def new(self) -> str:
        """What has been written since this was last asked."""
        self._output.flush()
        written = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return written

    def begin(self) -> None:
        """Begin a drawing."""
        self._app.before_render.fire()

    def write(self) -> None:
        """Make the drawing and write it."""
        with set_app(self._app):
            self._app.renderer.render(self._app, self._app.layout)

    def end(self) -> None:
        """End the drawing."""
        self._app.after_render.fire()


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drawing]:
    """A drawing in tmux."""
    monkeypatch.setenv("TMUX", "x")
    monkeypatch.setenv("TERM", "tmux")
    made: list[Drawing] = []
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((made[0].columns if made else 100, 30)))
    written = io.StringIO()
    with create_pipe_input() as keys:
        output = SizedOutput(written)
        line = FormattedTextControl(ROWS, focusable=True, get_cursor_position=lambda: Point(83, 1))
        app: Application[None] = Application(Layout(Window(line)), input=keys, output=output)
        made.append(Drawing(app, output, written))
        yield made[0]


@pytest.mark.parametrize("late", [False, True])
def test_rows_that_became_several_are_drawn_over(drawing: Drawing, late: bool) -> None:
    """Also if the terminal becomes narrower between the writing of a drawing and the end of it."""
    drawing.begin()
    drawing.write()
    if late:
        drawing.columns = 33
    drawing.end()
    drawing.columns = 33
    assert TYPED[:97] in drawing.new
    drawing.begin()  # a row of 100 columns became four; the cursor was in column 83, which is in the third of its row
    assert drawing.new == "\x1b[5A\x1b[J"


def test_rows_that_were_cut_are_as_many_as_before(drawing: Drawing) -> None:
    """Rows that are wider than the terminal when they are written: what is above them must not be erased."""
    drawing.begin()
    drawing.columns = 33
    drawing.write()
    drawing.end()
    assert TYPED[:97] in drawing.new
    drawing.begin()
    assert drawing.new == ""


def test_rows_from_before_are_divided_even_if_nothing_new_fits(drawing: Drawing) -> None:
    """The terminal becomes narrower during a second drawing, which changes nothing, as completion does."""
    drawing.begin()
    drawing.write()
    drawing.end()
    drawing.begin()
    drawing.columns = 33
    drawing.write()
    drawing.end()
    assert TYPED[:97] in drawing.new
    drawing.begin()
    assert drawing.new == "\x1b[5A\x1b[J"


def test_a_wider_terminal_joins_nothing(drawing: Drawing) -> None:
    """Rows that the editor has made itself stay what they are."""
    drawing.begin()
    drawing.write()
    drawing.end()
    drawing.columns = 120
    assert drawing.new
    drawing.begin()
    assert drawing.new == ""
