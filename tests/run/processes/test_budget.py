"""Limits of cost, turns and tokens, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.normalizer.outcome import Exit
from penstock.errors import AgentFailed
from penstock.events import Event, RunEnded, ToolCalled
from penstock.run.lifecycle import Limits
from penstock.run.replay import find
from penstock.stream import Stream

if TYPE_CHECKING:
    from run.processes.conftest import Place


@pytest.mark.sample(4)
@pytest.mark.parametrize("end", ["stay", "exit"])
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_turns": 2}, "stopped: the run came to turn 3, the limit is 2"),
        ({"max_tokens": 2500}, "stopped: the run used 3,000 tokens, the limit is 2,500"),
    ],
)
def test_a_run_over_its_limit_is_stopped(
    place: Place, short: Limits, end: str, limit: dict[str, int], reason: str
) -> None:
    """An agent that works on, or that has answered and exited before its output is read, ends in the same way."""
    events: list[Event] = []
    with place.agent("spends", end, limits=short, **limit).run("hi") as run:
        events += run
    ended = place.whole(run, events)
    assert (ended.outcome, ended.cause, ended.reason) == ("cancelled", "budget", reason)
    assert any(isinstance(event, ToolCalled) for event in events)


def test_a_run_at_its_limit_ends_well(place: Place) -> None:
    """As many turns and tokens as are allowed may be used."""
    result = place.agent("spends", "exit", max_turns=6, max_tokens=5000).ask("hi")
    assert (result.outcome, result.rounds) == ("ok", 6)


def test_the_exception_says_why(place: Place, short: Limits) -> None:
    """`ask` raises with the cause and the reason."""
    with pytest.raises(AgentFailed, match="the run came to turn 2, the limit is 1") as caught:
        place.agent("spends", "stay", limits=short).ask("hi", max_turns=1)
    assert (caught.value.outcome, caught.value.cause) == ("cancelled", "budget")


def test_a_replay_ends_in_the_same_way(place: Place, short: Limits, tmp_path: Path) -> None:
    """The recording of a run that met its limit has the outcome, the reason and the cause of the run."""
    with place.agent("spends", "stay", limits=short).run("hi", max_turns=1, record=tmp_path) as run:
        ended = run.wait()
    assert run.record is not None
    found = find(run.record)
    assert isinstance(found.exit, Exit)
    stream = Stream("claude")
    last = [*stream.feed(found.input.read_bytes()), *stream.close(found.exit)][-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.cause, last.reason) == (ended.outcome, ended.cause, ended.reason)
    assert last.cause == "budget"
