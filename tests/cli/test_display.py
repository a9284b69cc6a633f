"""The sink that `--to` selects."""

from __future__ import annotations

import pytest

from penstock.cli.display import OutputContext, make_sink
from penstock.cli.options import SINKS, DisplayOptions
from penstock.cli.screen import Screen
from penstock.config.settings import load


@pytest.mark.parametrize("to", SINKS)
def test_each_value_of_to_has_a_sink(to: str) -> None:
    """A value that the command line accepts is not shown as text because nobody has made its sink."""
    options = DisplayOptions(to=to)
    sink = make_sink(options, load({}), "claude", Screen(options), OutputContext())
    assert (type(sink).__name__ == "TextSink") == (to == "text")
