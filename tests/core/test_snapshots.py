"""The comparison of texts, and the guess for wires whose deltas may be snapshots, as objects."""

from __future__ import annotations

import pytest

from penstock.core.normalizer.snapshots import (
    MIN_PREFIX_CHARS,
    MIN_REPEAT_CHARS,
    Repair,
    SnapshotGuess,
    repair,
)
from penstock.core.normalizer.state import Block, Message
from penstock.updates import Text

EIGHT = "x" * MIN_PREFIX_CHARS
MANY = "y" * MIN_REPEAT_CHARS


@pytest.mark.parametrize(
    ("sent", "received", "final", "expected"),
    [
        ("", "", False, Repair("nothing")),
        ("abc", "abc", True, Repair("nothing")),
        ("abc", "abcd", False, Repair("suffix", "d")),
        ("abc", "ab", False, Repair("nothing")),  # an old snapshot
        ("abc", "ab", True, Repair("diverged", "ab")),  # the truth
        ("abc", "xyz", False, Repair("diverged", "xyz")),
    ],
)
def test_what_a_snapshot_adds(sent: str, received: str, final: bool, expected: Repair) -> None:
    """A snapshot is silent, adds its end, or replaces the text; only a final can shorten it."""
    assert repair(sent, received, final) == expected


def guessed(*deltas: str) -> tuple[list[str], Block]:
    """The guess for each delta of a block, with the text that the block has after each."""
    block = Block("text", None, None, guess=SnapshotGuess())
    assert block.guess is not None
    kinds: list[str] = []
    for delta in deltas:
        size, kind = block.size, block.guess.classify(block, delta)
        kinds.append(kind)
        if kind == "whole":
            block.set_text(delta)
        else:
            block.add(delta[size:] if kind == "snapshot" else delta)
    return kinds, block


@pytest.mark.parametrize(
    ("deltas", "kinds", "text"),
    [
        (["ha", "haha"], ["delta", "delta"], "hahaha"),  # too short to tell
        ([EIGHT, EIGHT + "!"], ["delta", "snapshot"], EIGHT + "!"),
        ([EIGHT[1:], EIGHT + "!"], ["delta", "delta"], EIGHT[1:] + EIGHT + "!"),
        ([EIGHT, EIGHT], ["delta", "delta"], EIGHT * 2),  # a repeat needs more than a prefix
        ([MANY, MANY], ["delta", "snapshot"], MANY),
        ([MANY[1:], MANY[1:]], ["delta", "delta"], MANY[1:] * 2),
        ([EIGHT, EIGHT + "!", EIGHT + "!"], ["delta", "snapshot", "snapshot"], EIGHT + "!"),  # it is known by now
        (["", "a", ""], ["delta", "delta", "delta"], "a"),
        (["Hel", "Hello wor", "Hello world"], ["delta", "delta", "whole"], "Hello world"),
        (["Hel", "lo", "Hello world"], ["delta", "delta", "delta"], "HelloHello world"),
    ],
)
def test_guesses(deltas: list[str], kinds: list[str], text: str) -> None:
    """A delta is a snapshot from eight characters on, a repeat from 32 on, and doubt is for the delta."""
    found, block = guessed(*deltas)
    assert (found, block.text) == (kinds, text)
    assert block.repaired == any(kind != "delta" for kind in kinds)


def test_the_deltas_as_they_came_are_recognized() -> None:
    """An agent that joins its snapshots like deltas sends a text that equals them, and nothing else does."""
    _, block = guessed(EIGHT, EIGHT + "!")
    assert block.is_joined_deltas(EIGHT + EIGHT + "!")
    assert not block.is_joined_deltas(EIGHT + "!")
    assert not Block("text", None, None).is_joined_deltas("")  # no question on other wires


def test_an_early_frame_is_followed_by_its_echo() -> None:
    """Deltas after the full frame are its echo while they repeat it in order; the first one that does not is new."""
    block = Block("text", None, None, guess=SnapshotGuess())
    assert block.guess is not None
    assert not block.guess.is_echo(block, "Hello")
    block.guess.note_final(0)
    assert block.guess.is_early
    block.add("Hello world")
    assert [block.guess.is_echo(block, delta) for delta in ("Hello", " wor", "ld", "!", "Hello")] == [
        *(True, True, True, False, False)
    ]
    assert not block.guess.is_early


def test_a_late_frame_is_not_early() -> None:
    """The full frame after the deltas leaves nothing to wait for, and the first frame counts."""
    guess = SnapshotGuess()
    guess.note_final(5)
    guess.note_final(0)
    assert not guess.is_early


def message_of(text: str, *, final: bool, by_deltas: bool = True) -> tuple[Message, Block]:
    """A message with one block of text."""
    message = Message("m1", 1, explicit=True)
    block = Block("text", message, None, guess=SnapshotGuess())
    assert block.guess is not None
    message.add(block, 0)
    if by_deltas:
        block.guess.classify(block, text)
    block.add(text)
    block.final = final
    return message, block


def final_of(text: str) -> Text:
    """A full frame under another message id."""
    return Text("text", "final", text, message="m2")


def test_a_frame_that_repeats_a_finished_block() -> None:
    """It is found by its text, but only if the text is long enough not to be equal by chance."""
    message, block = message_of("Hello world", final=True)
    assert message.find_repeated("text", "Hello world") is block
    assert message.find_repeated("text", "Hello there") is None
    assert message_of("Done.", final=True)[0].find_repeated("text", "Done.") is None


@pytest.mark.parametrize(
    ("text", "final", "by_deltas", "frame", "expected"),
    [
        ("Hello world", False, True, "Hello world, again", True),
        ("Hello", False, True, "Hello, again", False),  # too short
        ("Hello", False, True, "Hello", True),  # all that came
        ("Hello world", False, True, "Another text", False),
        ("Hello world", True, True, "Hello world", True),
        ("Hello world", True, False, "Hello world", False),  # where texts do not stream, two equal ones are two
        ("Hello world", True, True, "Another text", False),
    ],
)
def test_a_frame_under_another_id(text: str, final: bool, by_deltas: bool, frame: str, expected: bool) -> None:
    """It belongs to the open message if it goes on from its text or repeats what streamed."""
    message, _ = message_of(text, final=final, by_deltas=by_deltas)
    assert message.has_frame(final_of(frame)) == expected
    assert not message.has_frame(Text("text", "delta", frame, message="m2"))


def test_an_early_frame_is_claimed_once() -> None:
    """The place of the first delta is that of the block whose frame came before; a taken place claims nothing."""
    message, block = message_of("Hello world", final=True, by_deltas=False)
    assert block.guess is not None
    block.guess.note_final(0)
    assert message.claim_early(0, "text") is None
    assert message.claim_early(5, "thinking") is None
    assert message.claim_early(5, "text") is block
    assert message.places[5] is block
