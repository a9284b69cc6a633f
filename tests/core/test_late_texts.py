"""A whole text that comes late belongs to the message that it names, whatever else is open by then."""

from __future__ import annotations

import pytest

from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.events import BlockRevised, Delta, Event, MessageStarted, RunEnded
from penstock.testing import verify

BLOCK_ENDS = up.Traits(block_ends=True)
FINALS = up.Traits(block_ends=True, finals=True)


def events_of(traits: up.Traits, *updates: up.Update) -> list[Event]:
    """The events of a run of these updates, which keep the grammar."""
    normalizer = Normalizer("test", traits)
    for update in updates:
        normalizer.apply(update)
    normalizer.close()
    events = normalizer.drain()
    assert verify(events) == []
    return events


def message(key: str, text: str, mode: up.Mode = "delta") -> up.Text:
    """Text of the first block of a message."""
    return up.Text("text", mode, text, place=0, message=key)


def test_a_late_whole_text_revises_its_own_message() -> None:
    """The final of an earlier message, which says more, revises that message; the open one goes on untouched."""
    events = events_of(
        BLOCK_ENDS,
        up.MessageStart("m1"),
        message("m1", "The first"),
        up.MessageStart("m2"),
        message("m2", "The second"),
        message("m1", "The first, and all of it", "final"),
        message("m2", " goes on"),
        up.Result(),
    )
    assert [(it.message_id, it.message) for it in events if isinstance(it, MessageStarted)] == [("m1", 1), ("m2", 2)]
    assert [(it.block, it.text) for it in events if isinstance(it, BlockRevised)] == [(1, "The first, and all of it")]
    assert [(it.block, it.text) for it in events if isinstance(it, Delta)] == [
        (1, "The first"),
        (2, "The second"),
        (2, " goes on"),
    ]


@pytest.mark.parametrize("traits", [BLOCK_ENDS, FINALS])
def test_a_late_whole_text_that_says_nothing_new_is_silent(traits: up.Traits) -> None:
    """The final of an earlier message that repeats what was emitted makes no message and no text a second time."""
    updates = (
        up.MessageStart("m1"),
        message("m1", "The first"),
        message("m1", "The first", "final"),
        up.MessageStart("m2"),
        message("m2", "The second"),
        message("m2", "The second", "final"),
    )
    once = events_of(traits, *updates, up.Result())
    again = events_of(traits, *updates[:5], message("m1", "The first", "final"), updates[5], up.Result())
    assert again == once
    ended = again[-1]
    assert isinstance(ended, RunEnded)
    assert ended.reply == "The first\n\nThe second"
