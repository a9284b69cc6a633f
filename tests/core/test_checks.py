"""The checks at the end of a run: what an agent reports that disagrees with what it reported before."""

from __future__ import annotations

import pytest
from normalized import text

from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.events import Usage

NAMELESS = [up.ToolCall("a", "", {"path": "f"}), up.ToolCall("b", "", {"path": "g"})]
EMPTY = [up.ToolCall("a", "Read", {}), up.ToolCall("b", "Read", {})]
RETURNS = [up.ToolReturn("a", "x"), up.ToolReturn("b", "y")]
USED = up.ModelUsage(Usage(input_tokens=7, output_tokens=3), whole=True)


@pytest.mark.parametrize(
    ("updates", "checks"),
    [
        ([*NAMELESS, *RETURNS], ["none of 2 calls has a name"]),
        ([*EMPTY, *RETURNS], ["none of 2 calls has an input or a title"]),
        ([*EMPTY[:1], *NAMELESS[1:], *RETURNS], []),
        ([USED], ["the model calls used 3 output tokens, the run by its end 2"]),
    ],
)
def test_what_disagrees(updates: list[up.Update], checks: list[str]) -> None:
    """Calls without any name or input are told, and figures of parts that are more than those of the whole."""
    normalizer = Normalizer("test", up.Traits())
    end = up.Result("done", usage=Usage(input_tokens=7, output_tokens=2))
    for update in (*updates, text("done"), end):
        normalizer.apply(update)
    normalizer.close()
    assert normalizer.health.checks == checks
