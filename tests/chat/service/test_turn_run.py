"""The batches of a run: deltas of one block that are read together are one event, and nothing moves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.chat.service.turns.turn_run import READ_PAUSE_SECONDS, TurnRun, merged
from penstock.errors import TransportError
from penstock.run.run import Run

END = ev.RunEnded(agent="a", outcome="ok", reply="", rounds=1)


def text(block: int, words: str) -> ev.Delta:
    """A piece of a block."""
    return ev.Delta(agent="a", block=block, kind="text", text=words)


class Fed:
    """A run whose events a test gives."""

    mark = "mark"
    read_pause = 0.0

    def __init__(self) -> None:
        self.ended = False
        self.answers: list[tuple[str, str]] = []
        self._events: list[ev.Event] = []
        self._failure: TransportError | None = None
        self._notify: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Nothing is started."""

    def on_news(self, call: Callable[[], None]) -> None:
        self._notify = call

    def put(self, *events: ev.Event, failure: TransportError | None = None) -> None:
        """These come from the agent."""
        self._events += events
        self._failure = failure
        self._notify()

    def poll(self) -> list[ev.Event]:
        if not self._events and self._failure is not None:
            self.ended = True
            raise self._failure
        found, self._events = self._events, []
        self.ended = self.ended or END in found
        return found

    def answer(self, id: str, answer: str) -> None:
        self.answers.append((id, answer))

    def cancel(self) -> None:
        self.put(END)

    def kill(self) -> None:
        self.put(END)


def batches(play: Callable[[Fed, TurnRun, list[list[ev.Event]]], Awaitable[None]]) -> list[list[ev.Event]]:
    """The batches of a run while `play` feeds it."""
    found: list[list[ev.Event]] = []

    async def use() -> None:
        fed = Fed()
        run = TurnRun(cast(Run, fed), 1)
        assert fed.read_pause == READ_PAUSE_SECONDS, "growing output is read at the pace at which it is shown"
        await run.start()

        async def follow() -> None:
            async for batch in run.batches():
                found.append(batch)

        following = asyncio.create_task(follow())
        await play(fed, run, found)
        async with asyncio.timeout(20):
            await following

    asyncio.run(use())
    return found


async def settle() -> None:
    """Let the run take what was given to it."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_deltas_that_come_together_are_one_event() -> None:
    """Each notification is one batch; pieces of one block in it are one event, in their place."""

    async def play(fed: Fed, run: TurnRun, found: list[list[ev.Event]]) -> None:
        fed.put(text(1, "a"))
        await settle()
        assert found == [[text(1, "a")]]
        fed.put(text(1, "b"), text(1, "c"), text(2, "x"), text(1, "d"), text(1, "e"))
        await settle()
        assert found[1:] == [[text(1, "bc"), text(2, "x"), text(1, "de")]]
        fed.put(END)

    assert batches(play)[2:] == [[END]]


def test_a_stop_reaches_the_agent_at_once() -> None:
    """The stop is passed on while the run waits for output, and what comes after it is kept."""

    async def play(fed: Fed, run: TurnRun, found: list[list[ev.Event]]) -> None:
        fed.put(text(1, "a"))
        await settle()
        run.cancel()

    assert [event for batch in batches(play) for event in batch] == [text(1, "a"), END]


def test_the_last_text_of_a_run_that_failed_is_kept() -> None:
    """What came before the failure comes before it."""
    kept: list[ev.Event] = []

    async def play(fed: Fed, run: TurnRun, found: list[list[ev.Event]]) -> None:
        fed.put(text(1, "a"))
        await settle()
        fed.put(text(1, "b"), failure=TransportError("the pipe broke"))
        await settle()
        kept.extend(event for batch in found for event in batch)

    with pytest.raises(TransportError):
        batches(play)
    assert kept == [text(1, "a"), text(1, "b")]


_EVENTS = st.lists(
    st.one_of(
        st.builds(text, st.integers(1, 3), st.text(min_size=1, max_size=3)),
        st.builds(lambda words: ev.Notice(agent="a", level="info", code="status", text=words), st.text(max_size=2)),
    ),
    max_size=30,
)


@given(_EVENTS, st.lists(st.integers(1, 5), max_size=30))
def test_merging_changes_no_text_and_no_order(events: list[Any], sizes: list[int]) -> None:
    """However events come in batches, their text and their order are what they were, and what can be merged is."""
    all_merged, left = list[ev.Event](), [*events]
    for size in [*sizes, len(events)]:
        batch, left = left[:size], left[size:]
        out = merged(batch)
        all_merged += out
        pairs = itertools.pairwise(out)
        assert not [1 for a, b in pairs if isinstance(a, ev.Delta) and isinstance(b, ev.Delta) and a.block == b.block]

    def spelled(given: list[ev.Event]) -> list[Any]:
        return [
            part
            for event in given
            for part in ([(event.block, char) for char in event.text] if isinstance(event, ev.Delta) else [event])
        ]

    assert spelled(all_merged) == spelled(events)
