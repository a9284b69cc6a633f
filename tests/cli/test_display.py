"""The sink that `--to` selects."""

from __future__ import annotations

from types import ModuleType

import pytest

from penstock.cli import replay, run
from penstock.cli.display import OutputContext, make_sink
from penstock.cli.doc import answer
from penstock.cli.options import SINKS, DisplayOptions
from penstock.cli.screen import Screen
from penstock.config.settings import load


@pytest.mark.parametrize("to", SINKS)
def test_each_value_of_to_has_a_sink(to: str) -> None:
    """A value that the command line accepts is not shown as text because nobody has made its sink."""
    options = DisplayOptions(to=to)
    sink = make_sink(options, load({}), "claude", Screen(options), OutputContext())
    assert (type(sink).__name__ == "TextSink") == (to == "text")


@pytest.mark.parametrize("command", [answer, run, replay], ids=lambda it: str(it.__name__))
def test_each_command_shows_text_by_default(command: ModuleType) -> None:
    """Without an option for its output, the value is one that has a sink."""
    assert command.parser().parse(["name"]).to == "text"
