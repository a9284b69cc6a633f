"""Texts that came twice are in the report, which never changes what is shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.core.normalizer.doubles import begins_twice
from penstock.events import RunEnded
from penstock.stream import Stream

FIRST = "I will look at the files of the project first, and then"
WHOLE = FIRST + " I will write the report about them."


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (FIRST + WHOLE, len(FIRST)),
        (FIRST + FIRST + WHOLE, len(FIRST)),
        (WHOLE + WHOLE, len(WHOLE)),
        (WHOLE, 0),
        (WHOLE + " Yes. " + WHOLE, 0),
        (WHOLE + FIRST, 0),
        ("yes " * 100, 0),
        ("-" * 500 + WHOLE, 0),
        ("short" + "short" + " and more text than the least", 0),
        ("", 0),
        ("| one | two | three | four | five |\n" + "|---|---|---|---|---|\n" * 30, 0),
    ],
)
def test_what_begins_twice(text: str, size: int) -> None:
    """The text of an attempt that broke off, followed by that of the next one; a pattern is none."""
    assert begins_twice(text) == size


def gemini(*pieces: str, tool_after: int | None = None) -> list[dict[str, Any]]:
    """The lines of a run of gemini, whose wire has no sign of a retry."""
    lines: list[dict[str, Any]] = [{"type": "init", "session_id": "s", "model": "m"}]
    for number, piece in enumerate(pieces):
        lines.append({"type": "message", "role": "assistant", "content": piece, "delta": True, "timestamp": "t"})
        if number == tool_after:
            lines.append({"type": "tool_use", "tool_name": "ls", "tool_id": "a", "parameters": {"path": "."}})
            lines.append({"type": "tool_result", "tool_id": "a", "status": "success", "output": "x"})
    return [*lines, {"type": "result", "status": "success", "stats": {}}]


def report(*lines: dict[str, Any]) -> tuple[str, Stream]:
    """The reply of a run, and its stream."""
    stream = Stream("gemini")
    events = [*stream.feed(msgspec.json.Encoder().encode_lines(lines)), *stream.close()]
    assert isinstance(events[-1], RunEnded)
    return events[-1].reply, stream


def test_a_retry_without_a_sign_is_in_the_report() -> None:
    """The text stays as it came; the report has its length, in the summary too, and no warning."""
    reply, stream = report(*gemini(FIRST[:20], FIRST[20:], FIRST[:20], FIRST[20:], WHOLE[len(FIRST) :]))
    assert reply == FIRST + WHOLE
    assert stream.health.checks == [f"a text of {len(FIRST)} characters came twice"]
    assert stream.health.checks[0] in stream.health.summary("gemini")
    assert not stream.health.warnings


def test_the_same_words_in_another_round_are_no_double() -> None:
    """An agent says the same before two calls; only the same text without anything between is odd."""
    _, stream = report(*gemini(FIRST, FIRST, tool_after=0))
    assert stream.health.checks == []


def claude(*texts: tuple[str, str, str | None]) -> list[str]:
    """The checks of a run of claude with whole texts: id of the message, text, and lane."""
    lines: list[dict[str, Any]] = [
        {
            "type": "assistant",
            "message": {"id": message, "content": [{"type": "text", "text": text}]},
            "parent_tool_use_id": lane,
        }
        for message, text, lane in texts
    ]
    stream = Stream("claude")
    stream.feed(msgspec.json.Encoder().encode_lines([*lines, {"type": "result", "subtype": "success"}]))
    stream.close()
    return stream.health.checks


def test_only_texts_of_the_main_agent_count() -> None:
    """Sub-agents may all say the same; two messages of the main agent with the same text are in the report."""
    assert claude(("a", FIRST, "t"), ("b", FIRST, "t"), ("c", FIRST, "u")) == []
    assert claude(("a", FIRST, None), ("b", FIRST, None)) == [f"a text of {len(FIRST)} characters came twice"]
    twice = claude(("a", FIRST, None), ("b", FIRST, None), ("c", WHOLE, None), ("d", WHOLE, None))
    assert twice == [f"2 texts came twice, the longest of {len(WHOLE)} characters"]


def test_a_message_that_is_opened_again_is_no_double() -> None:
    """More of a message may come after the next one has begun; its earlier text has come once."""
    assert claude(("a", FIRST, None), ("b", WHOLE, None), ("a", "Another text of this message.", None)) == []


def test_memory_of_texts_is_bounded() -> None:
    """Of a round with very many texts, the first ones are remembered."""
    many = [(f"m{number}", f"{number} {FIRST}", None) for number in range(70)]
    assert claude(*many, ("x", f"69 {FIRST}", None)) == []
    assert claude(*many, ("x", f"1 {FIRST}", None)) == [f"a text of {len(FIRST) + 2} characters came twice"]


def test_the_search_is_bounded() -> None:
    """A beginning that comes again and again, each time with another end, is looked for a few times only."""
    assert begins_twice("".join(f"{FIRST} {number}, " for number in range(30))) == 0
