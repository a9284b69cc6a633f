from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agents.generic.classifier import MAX_HISTORY, MAX_KEYS, StreamEventClassifier, StreamEventType, words

COMPLETE, DELTA, SNAPSHOT, CONTROL, UNKNOWN = StreamEventType


def verdicts(*events: tuple[str, str | None]) -> list[StreamEventType]:
    """What one classifier says of events under one key."""
    classifier = StreamEventClassifier()
    return [classifier.classify(name, content) for name, content in events]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("text_delta", "x", DELTA),
        ("agent_message_chunk", "A whole sentence.", DELTA),
        ("PartialMessage", "x.", DELTA),
        ("download.progress", "x.", DELTA),
        ("content_snapshot", "x", SNAPSHOT),
        ("item.completed", "x", COMPLETE),
        ("message_stop", None, COMPLETE),
        ("result", "", COMPLETE),
        ("done", None, COMPLETE),
        ("content_block_start", None, CONTROL),
        ("text_delta", None, CONTROL),
        ("heartbeat", None, CONTROL),
        ("session.update", None, CONTROL),
        ("message", "", CONTROL),
        ("message", None, UNKNOWN),
        ("", None, UNKNOWN),
    ],
)
def test_names_tell(name: str, content: str | None, expected: StreamEventType) -> None:
    """The words of a name decide where it has telling ones."""
    assert verdicts((name, content)) == [expected]


def test_words_of_names() -> None:
    """Names are cut at case, digits and signs."""
    assert words("contentBlock_delta") == {"content", "block", "delta"}
    assert words("HTTPError/v2") == {"http", "error", "v", "2"}
    assert "complete" not in words("incomplete")


def test_growing_content_is_a_snapshot() -> None:
    """Each begins with the one before; the same one again is one, too."""
    assert verdicts(
        ("update", "Hello"), ("update", "Hello wor"), ("update", "Hello world"), ("update", "Hello world")
    ) == [
        DELTA,
        SNAPSHOT,
        SNAPSHOT,
        SNAPSHOT,
    ]


def test_updates_that_do_not_grow_are_pieces() -> None:
    """An update between start and stop is a delta unless it repeats."""
    assert verdicts(("start", None), ("update", "Hel"), ("update", "lo."), ("stop", None)) == [
        CONTROL,
        DELTA,
        DELTA,
        COMPLETE,
    ]


def test_a_short_beginning_in_common_is_chance() -> None:
    """`a` before `an` is no snapshot."""
    assert verdicts(("update", "a"), ("update", "an")) == [DELTA, DELTA]


@pytest.mark.parametrize(
    ("content", "expected"),
    [('{"a": [1', DELTA), ('{"a": "}', DELTA), ('{"a": "\\"}', DELTA), ('{"a": 1}.', COMPLETE), ("[1].", COMPLETE)],
)
def test_unclosed_json_is_a_piece(content: str, expected: StreamEventType) -> None:
    """Brackets in strings do not count."""
    assert verdicts(("input", content)) == [expected]


def test_counts_decide_where_nothing_else_does() -> None:
    """A sentence by itself is whole; after a run of short ones it is the next piece."""
    assert verdicts(("say", "All is done.")) == [COMPLETE]
    run = [("say", f"piece {number},") for number in range(4)]
    assert verdicts(*run, ("say", "All is done."))[-1] is DELTA
    assert verdicts(*run, ("other", "All is done."))[-1] is COMPLETE


def test_what_was_begun_goes_on_until_it_is_complete() -> None:
    """Each key by itself."""
    classifier = StreamEventClassifier()
    classifier.classify("delta", "a", "one")
    classifier.classify("message", "Whole.", "two")
    assert classifier.is_accumulating("one")
    assert not classifier.is_accumulating("two")
    assert not classifier.is_accumulating("three")
    classifier.classify("completed", "ab", "one")
    assert not classifier.is_accumulating("one")
    classifier.classify("delta", "a", "one")
    classifier.settle()
    assert not classifier.is_accumulating("one")


def test_equal_complete_messages_are_two() -> None:
    """After an end nothing is a snapshot of what came before it."""
    assert verdicts(("result", "Done."), ("say", "Done. And more.")) == [COMPLETE, COMPLETE]


def test_overrides_are_above_all() -> None:
    """By a type's name in any case, or by the type itself; a name that is none is refused."""
    classifier = StreamEventClassifier({"text_delta": "COMPLETE", "blob": CONTROL})
    assert classifier.classify("text_delta", "x") is COMPLETE
    assert "configuration" in classifier.reason
    assert classifier.classify("blob", "x") is CONTROL
    with pytest.raises(ValueError, match="'piece' is not a type of event; there are: complete, delta"):
        StreamEventClassifier({"a": "piece"})


def test_every_verdict_has_a_reason() -> None:
    """It names the witness."""
    classifier = StreamEventClassifier()
    classifier.classify("text_delta", "x")
    assert classifier.reason == "its name says 'delta'"
    classifier.classify("update", "Hello", "k")
    classifier.classify("update", "Hello you", "k")
    assert classifier.reason == "it begins with the content before it and continues"


def test_memory_is_bounded() -> None:
    """The key that was silent longest is forgotten, and history has an end."""
    classifier = StreamEventClassifier()
    for number in range(MAX_KEYS + MAX_HISTORY):
        classifier.classify("delta", "x", str(number))
    assert not classifier.is_accumulating("0")
    assert classifier.is_accumulating(str(MAX_KEYS + MAX_HISTORY - 1))
    assert len(classifier._tracks) == MAX_KEYS
    assert len(classifier._history) == MAX_HISTORY


@given(
    st.lists(st.tuples(st.text(max_size=12), st.none() | st.text(max_size=60), st.sampled_from(["", "a"])), max_size=30)
)
def test_any_events_give_a_verdict_and_a_reason(events: list[tuple[str, str | None, str]]) -> None:
    """Nothing raises, and the same events are judged alike."""
    first, again = StreamEventClassifier(), StreamEventClassifier()
    for event in events:
        verdict = first.classify(*event)
        assert isinstance(verdict, StreamEventType)
        assert first.reason
        assert again.classify(*event) is verdict
