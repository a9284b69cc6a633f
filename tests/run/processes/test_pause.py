"""Pauses between two reads of growing output, for a reader that shows it at a pace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.events import Delta, RunEnded, RunStarted

if TYPE_CHECKING:
    from run.processes.conftest import Place

NEVER_OVER = 3600.0
"""Seconds of a pause that ends early, or else the test hangs."""


def test_growing_text_is_read_in_few_batches_and_whole_at_the_exit(place: Place) -> None:
    """A hundred pieces, each written by itself, are one batch or two; the exit of the agent ends the pause."""
    run = place.agent("grows").run("hi")
    run.read_pause = NEVER_OVER
    with run:
        batches = []
        for batch in run.batches():
            batches.append([event for event in batch if isinstance(event, Delta)])
            if any(isinstance(event, RunStarted) for event in batch):
                place.make("go")
    assert run.result.outcome == "ok"
    assert sum(len(batch) for batch in batches) == 100
    assert len([batch for batch in batches if batch]) <= 2


def test_the_first_text_is_not_delayed_and_a_cancel_ends_the_pause(place: Place) -> None:
    """What begins a message pauses nothing, so its first text comes at once; a request is carried out at once."""
    run = place.agent("grows_and_stays").run("hi")
    run.read_pause = NEVER_OVER
    seen = []
    with run:
        for event in run:
            seen.append(event)
            if isinstance(event, RunStarted):
                place.make("go")
            elif isinstance(event, Delta):
                run.cancel()
    assert any(isinstance(event, Delta) for event in seen)
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].outcome == "cancelled"
