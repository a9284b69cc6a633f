"""The checks at the end of a run: what an agent reports that disagrees with what it reported before."""

from __future__ import annotations

import pytest
from normalized import text

from penstock import updates as up
from penstock.core.health import Health
from penstock.core.normalizer.normalizer import Normalizer
from penstock.events import Usage

NAMELESS = [up.ToolCall("a", "", {"path": "f"}), up.ToolCall("b", "", {"path": "g"})]
EMPTY = [up.ToolCall("a", "Read", {}), up.ToolCall("b", "Read", {})]
RETURNS = [up.ToolReturn("a", "x"), up.ToolReturn("b", "y")]
USED = up.ModelUsage(Usage(input_tokens=7, output_tokens=3), whole=True)


def health_of(updates: list[up.Update]) -> Health:
    """Return the health of a run that ends well."""
    normalizer = Normalizer("test", up.Traits())
    end = up.Result("done", usage=Usage(input_tokens=7, output_tokens=2))
    for update in (*updates, text("done"), end):
        normalizer.apply(update)
    normalizer.close()
    return normalizer.health


@pytest.mark.parametrize(
    ("updates", "checks"),
    [
        ([*NAMELESS, *RETURNS], ["none of 2 calls has a name"]),
        ([*EMPTY, *RETURNS], ["none of 2 calls has an input or a title"]),
        ([*EMPTY[:1], *NAMELESS[1:], *RETURNS], []),
    ],
)
def test_what_disagrees(updates: list[up.Update], checks: list[str]) -> None:
    """Calls without any name or input are in the report, and no warning: a tool may need neither."""
    health = health_of(updates)
    assert (health.checks, health.losses, health.warnings) == (checks, [], [])


@pytest.mark.parametrize(
    ("updates", "loss"),
    [
        ([USED], "the model calls used 3 output tokens, the run by its end 2"),
        ([*EMPTY[:1], up.MessageStart("next")], "calls without a result: 1 of 1"),
        ([up.ToolReturn("a", "x")], "results without a call: 1"),
    ],
)
def test_what_is_lost(updates: list[up.Update], loss: str) -> None:
    """Figures of parts that are more than the whole, and calls and results without the other, are warnings."""
    health = health_of(updates)
    assert (health.checks, health.losses) == ([], [loss])
    assert health.warnings == [f"{loss}: Penstock may not have read all that the agent sent"]
    assert health.warnings[0] in health.summary("test")


def test_what_follows_the_end_is_a_sign_of_a_loss() -> None:
    """A text after the agent's own end may be without what belongs to it: the end was not the last line."""
    normalizer = Normalizer("test", up.Traits())
    for update in (text("done"), up.Result("done"), up.MessageStart("late"), text("more")):
        normalizer.apply(update)
    normalizer.close()
    assert normalizer.health.losses[0] == "text or calls came after the agent's own end"


@pytest.mark.parametrize(
    ("usage", "updates", "losses"),
    [
        (Usage(input_tokens=7, output_tokens=2), [], 1),
        (Usage(input_tokens=7, output_tokens=2), [up.ToolCall("a", "Read", {}), up.ToolReturn("a", "x")], 0),
        (Usage(input_tokens=0, output_tokens=0), [], 0),
        (None, [], 0),
    ],
)
def test_a_final_text_alone_is_a_sign_of_a_loss(usage: Usage | None, updates: list[up.Update], losses: int) -> None:
    """If the model was asked, it has said something before; a call is content too."""
    normalizer = Normalizer("test", up.Traits())
    for update in (*updates, up.Result("done", usage=usage)):
        normalizer.apply(update)
    normalizer.close()
    assert len(normalizer.health.losses) == losses
