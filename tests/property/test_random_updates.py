"""Any series of updates, however senseless, makes a stream of events that the judge accepts."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from random_updates import EXITS, TRAITS, UPDATES, events_from

from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.events import BlockEnded, BlockRevised, BlockStarted, Delta, RunEnded, decode, encode
from penstock.testing import verify

FEW = examples(12, 120)


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(UPDATES, max_size=30), exit=EXITS)
@FEW
def test_the_judge_accepts_all(traits: up.Traits, updates: list[up.Update], exit: Exit | None) -> None:
    """No exception, no violation, one end, and every event can be written and read again."""
    events = events_from(traits, updates, exit)
    assert verify(events) == []
    assert [type(event) for event in events].count(RunEnded) == 1
    lines = encode(events).split(b"\n")[:-1]
    assert [decode(line) for line in lines] == [decode(encode([event]).rstrip(b"\n")) for event in events]


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(UPDATES, max_size=20), after=st.lists(UPDATES, max_size=5))
@FEW
def test_what_was_said_stands(traits: up.Traits, updates: list[up.Update], after: list[up.Update]) -> None:
    """Later updates change nothing in the events that were already given."""
    normalizer = Normalizer("test", traits)
    for update in updates:
        normalizer.apply(update)
    events = normalizer.drain()
    before = encode(events)
    for update in after:
        normalizer.apply(update)
    normalizer.close()
    assert encode(events) == before
    assert encode(events + normalizer.drain()).startswith(before)


def one_block(traits: up.Traits, updates: list[up.Update]) -> tuple[str, bool]:
    """The text of the only block that `updates` make, and whether it was revised."""
    events = events_from(traits, updates)
    assert verify(events) == []
    told = [event for event in events if isinstance(event, BlockEnded | BlockRevised)]
    assert len([event for event in told if isinstance(event, BlockEnded)]) == bool(told)
    return told[-1].text if told else "", any(isinstance(event, BlockRevised) for event in told)


@given(pieces=st.lists(st.text(max_size=6), min_size=1, max_size=12))
@FEW
def test_growing_snapshots_come_out_as_the_last(pieces: list[str]) -> None:
    """Snapshots that only grow need no revision."""
    texts = ["".join(pieces[: end + 1]) for end in range(len(pieces))]
    text, revised = one_block(up.Traits(), [up.Text("text", "snapshot", text, place=0) for text in texts])
    assert (text, revised) == (texts[-1], False)


@given(
    texts=st.lists(st.text(alphabet="ab", max_size=5), min_size=1, max_size=8), final=st.text(alphabet="ab", max_size=5)
)
@FEW
def test_any_snapshots_come_out_as_the_final(texts: list[str], final: str) -> None:
    """Whatever the snapshots were, the final is the truth."""
    updates: list[up.Update] = [up.MessageStart("m")]
    updates += [up.Text("text", "snapshot", text, place=0, message="m") for text in texts]
    updates += [up.Text("text", "final", final, place=0, message="m"), up.MessageEnd("m")]
    if not final and not any(texts):
        return
    assert one_block(up.Traits(block_ends=True, finals=True), updates)[0] == final


@given(sent=st.text(alphabet="ab ", min_size=1, max_size=8), final=st.text(alphabet="ab ", min_size=1, max_size=8))
@FEW
def test_a_different_final_revises(sent: str, final: str) -> None:
    """A final that goes on adds, one that differs revises, an equal one is silent."""
    updates = [up.Text("text", "delta", char, place=0) for char in sent] + [up.Text("text", "final", final, place=0)]
    text, revised = one_block(up.Traits(block_ends=True, finals=True), list(updates))
    assert text == final
    assert revised == (not final.startswith(sent))


@given(sent=st.text(alphabet="ab ", min_size=1, max_size=8), final=st.text(alphabet="ab ", min_size=1, max_size=8))
@FEW
def test_a_late_final_revises(sent: str, final: str) -> None:
    """A final after its block has ended is silent if equal, else a late revision."""
    updates: list[up.Update] = [up.MessageStart("m"), up.Text("text", "delta", sent, place=0), up.BlockEnd(place=0)]
    updates.append(up.Text("text", "final", final, place=0, message="m"))
    text, revised = one_block(up.Traits(block_ends=True), updates)
    assert (text, revised) == (final, final != sent)


def test_two_messages_may_say_the_same() -> None:
    """Equal texts of two messages are two texts."""
    updates: list[up.Update] = []
    for message in ("m1", "m2"):
        updates += [up.MessageStart(message), up.Text("text", "delta", "Done.", place=0, message=message)]
        updates += [up.Text("text", "final", "Done.", place=0, message=message), up.MessageEnd(message)]
    events = events_from(up.Traits(block_ends=True, finals=True), updates)
    assert [event.text for event in events if isinstance(event, Delta)] == ["Done.", "Done."]
    assert len([event for event in events if isinstance(event, BlockStarted)]) == 2
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reply == "Done.\n\nDone."


def test_surrogate_halves_meet_across_deltas() -> None:
    """Two halves become one character, a lone one U+FFFD."""
    updates: list[up.Update] = [
        up.Text("text", "delta", text, place=0)
        for text in ("a\ud83d", "", "\ude00b", "\ud83d", "c", "\ude00", "\ud83d")
    ]
    assert one_block(up.Traits(), updates) == ("a😀b\ufffdc\ufffd\ufffd", False)
