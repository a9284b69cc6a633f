from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import events
from penstock.events import Event
from penstock.testing.verify import Violation, verify, verify_cut

ME: dict[str, Any] = {"agent": "x"}
run_started = partial(events.RunStarted, agent="x")
message_started = partial(events.MessageStarted, agent="x")
block_started = partial(events.BlockStarted, agent="x")
delta = partial(events.Delta, agent="x")
revised = partial(events.BlockRevised, agent="x")
notice = partial(events.Notice, "info", "status", "working", agent="x")
replied = partial(events.Replied, agent="x")


def unknown(value: object) -> Any:
    """Return a value that the types of events forbid, as a stream of another version may have it."""
    return value


def block_ended(block: int, kind: events.Kind, text: str, complete: bool = True, **more: Any) -> Event:
    """The end of a block, whole unless told otherwise."""
    return events.BlockEnded(block, kind, text, complete, **ME, **more)


def message_ended(message: int, status: events.MessageStatus = "ok", **more: Any) -> Event:
    """The end of a message, `ok` unless told otherwise."""
    return events.MessageEnded(message, status, **ME, **more)


def called(call_id: str, value: Any = None, **more: Any) -> Event:
    """A call of the shell."""
    return events.ToolCalled(call_id, "Bash", value or {"command": "ls"}, "ls", "execute", **ME, **more)


def returned(call_id: str, text: str = "a.txt", complete: bool = True, **more: Any) -> Event:
    """A result that is no error."""
    return events.ToolReturned(call_id, text, False, complete, **ME, **more)


def ended(reply: str = "", outcome: events.Outcome = "ok", rounds: int = 1, **more: Any) -> Event:
    """The end of the run."""
    return events.RunEnded(outcome, reply, rounds, **ME, **more)


def block(number: int, *deltas: str, kind: events.Kind = "text", complete: bool = True, **more: Any) -> list[Event]:
    """A block with its deltas; `more` goes to each of its events."""
    return [
        block_started(number, kind, **more),
        *(delta(number, kind, text, **more) for text in deltas),
        block_ended(number, kind, "".join(deltas), complete, **more),
    ]


def message(number: int, *inner: Event, status: events.MessageStatus = "ok", **more: Any) -> list[Event]:
    """A message that holds `inner`; `more` goes to its start and end."""
    return [message_started(number, **more), *inner, message_ended(number, status, **more)]


def output(number: int, call_id: str | None, *deltas: str, **more: Any) -> list[Event]:
    """A block of tool output; `more` goes to its start."""
    start, *rest = block(number, *deltas, kind="tool_output")
    return [msgspec.structs.replace(start, call_id=call_id, **more), *rest]


def text_only() -> list[Event]:
    """One message; the same delta twice is two."""
    return [
        run_started(session_id="s", model="m"),
        notice(),
        *message(1, *block(1, "ha", "ha", "!", "!")),
        replied("haha!!", False),
        ended("haha!!"),
    ]


def thinking_and_tools() -> list[Event]:
    """Two rounds, parallel calls whose inputs interleave, output that streams, a block that is returned to."""
    return [
        events.Malformed(1, "no JSON", "{", **ME),
        run_started(),
        run_started(session_id="s"),
        message_started(1, message_id="msg_1"),
        block_started(1, "thinking", message=1),
        delta(1, "thinking", "Hm"),
        block_started(2, "text", message=1),
        delta(2, "text", "I look."),
        delta(1, "thinking", "…"),
        block_ended(1, "thinking", "Hm…"),
        block_ended(2, "text", "I look."),
        block_started(3, "tool_input", message=1, name="Bash", call_id="a"),
        block_started(4, "tool_input", message=1, name="Bash", call_id="b"),
        delta(3, "tool_input", '{"comm'),
        delta(4, "tool_input", "{}"),
        delta(3, "tool_input", 'and":"ls"}'),
        block_ended(3, "tool_input", '{"command":"ls"}'),
        called("a", message=1),
        block_ended(4, "tool_input", "{}"),
        called("b"),
        *output(5, "a", "a.", "txt"),
        returned("a"),
        message_ended(1, stop_reason="tool_use", message_id="msg_1"),
        events.UsageReported(input_tokens=3, **ME),
        run_started(model="m"),
        returned("b", exit_code=0),
        *message(2, *block(6, "Done.")),
        replied("Done.", False),
        notice(),
        replied("Done.", False),
        ended("Done.", rounds=2),
    ]


def sub_agent() -> list[Event]:
    """The sub-agent's message is open inside that of the top lane, and outlives it."""
    lane: dict[str, Any] = {"parent": "task"}
    return [
        message_started(1),
        called("task", {"prompt": "look"}),
        message_started(2, **lane),
        block_started(1, "text"),
        *block(2, "from below", **lane),
        called("inner", **lane),
        delta(1, "text", "from above"),
        block_ended(1, "text", "from above"),
        message_ended(1),
        returned("inner", **lane),
        message_ended(2, **lane),
        returned("task"),
        *message(3, *block(3, "Both.")),
        ended("Both."),
    ]


def superseded() -> list[Event]:
    """An attempt with one whole and one unfinished block is given up; the second one says the first's text again."""
    return [
        *message(
            1,
            *block(1, "Let me see", kind="thinking"),
            *block(2, "The ans", complete=False),
            status="superseded",
        ),
        notice(),
        *message(2, *block(3, "The answer.")),
        ended("The answer."),
    ]


def revised_while_open() -> list[Event]:
    """A revision, with new text after it."""
    return [
        *message(
            1,
            block_started(1, "text"),
            delta(1, "text", "one two"),
            revised(1, "text", "one 2"),
            delta(1, "text", " three"),
            block_ended(1, "text", "one 2 three"),
        ),
        ended("one 2 three"),
    ]


def revised_late() -> list[Event]:
    """Revisions after the end of the block, inside its message and after it."""
    return [
        *message(1, *block(1, "one two"), revised(1, "text", "one two, three")),
        revised(1, "text", "1 2 3"),
        ended("1 2 3"),
    ]


def truncated() -> list[Event]:
    """The recap keeps less than the deltas had."""
    return [
        *message(
            1,
            block_started(1, "text"),
            delta(1, "text", "abc"),
            delta(1, "text", "def"),
            block_ended(1, "text", "abcd", truncated=True),
        ),
        ended("abcd"),
    ]


def cut_off() -> list[Event]:
    """The stream stops while a tool runs and the input of another is open."""
    return [
        message_started(1),
        block_started(1, "tool_input", name="Bash"),
        block_ended(1, "tool_input", "", complete=False),
        called("a"),
        message_ended(1, "cut"),
        returned("a", "", complete=False),
        ended(outcome="cut_off"),
    ]


def two_runs() -> list[Event]:
    """Two runs share an output; each has its own numbers and its own end."""
    first, second = ([msgspec.structs.replace(event, run=number) for event in text_only()] for number in (1, 2))
    return [event for pair in zip(first, second, strict=True) for event in pair]


def nothing_but_the_end() -> list[Event]:
    """The shortest run."""
    return [ended(outcome="empty", rounds=0)]


GOOD = [
    text_only,
    thinking_and_tools,
    sub_agent,
    superseded,
    revised_while_open,
    revised_late,
    truncated,
    cut_off,
    two_runs,
    nothing_but_the_end,
]


@pytest.mark.parametrize("stream", GOOD)
def test_a_good_stream_is_accepted(stream: Callable[[], list[Event]]) -> None:
    """The judge finds nothing in streams that keep the contract."""
    assert verify(stream()) == []


@pytest.mark.parametrize("stream", GOOD)
def test_a_good_stream_is_accepted_from_the_wire(stream: Callable[[], list[Event]]) -> None:
    """Written as NDJSON and read back, a good stream is still good."""
    lines = events.encode(stream()).splitlines()
    assert verify(map(events.decode, lines)) == []


UNLOSABLE = (
    events.MessageStarted,
    events.BlockStarted,
    events.BlockEnded,
    events.MessageEnded,
    events.RunEnded,
)
UNREPEATABLE = (*UNLOSABLE, events.BlockRevised, events.ToolCalled, events.ToolReturned)


@pytest.mark.parametrize("stream", GOOD)
def test_a_lost_event_of_the_life_cycle_is_found(stream: Callable[[], list[Event]]) -> None:
    """Whichever start or end is taken out of a good stream, the judge notices."""
    whole = stream()
    for index, event in enumerate(whole):
        if isinstance(event, UNLOSABLE):
            assert verify(whole[:index] + whole[index + 1 :]), event


@pytest.mark.parametrize("stream", GOOD)
def test_a_doubled_event_is_found(stream: Callable[[], list[Event]]) -> None:
    """Whichever start, end, revision, call or result comes twice, the judge notices at the second."""
    whole = stream()
    for index, event in enumerate(whole):
        if isinstance(event, UNREPEATABLE):
            found = verify([*whole[: index + 1], event, *whole[index + 1 :]])
            assert found, event
            assert found[0].index == index + 1


@pytest.mark.parametrize("stream", [text_only, thinking_and_tools, sub_agent, superseded, truncated])
def test_a_changed_delta_is_found(stream: Callable[[], list[Event]]) -> None:
    """A delta that is lost or doubled breaks rule 1, where no revision makes up for it."""
    whole = stream()
    for index, event in enumerate(whole):
        if isinstance(event, events.Delta) and not (stream is truncated and event.text == "def"):
            lost = verify(whole[:index] + whole[index + 1 :])
            doubled = verify([*whole[:index], event, *whole[index:]])
            assert 1 in {violation.rule for violation in lost}, event
            assert 1 in {violation.rule for violation in doubled}, event


def test_a_truncated_block_may_lose_its_tail_only() -> None:
    """Deltas behind what is kept can't be judged by the recap, so the truncated end is still a beginning of them."""
    without_tail = [event for event in truncated() if getattr(event, "text", None) != "def"]
    assert [violation.rule for violation in verify(without_tail)] == [1]


def in_message(*inner: Event) -> list[Event]:
    """A run of one message that holds `inner` (from index 1)."""
    return [*message(1, *inner), ended()]


SUB: dict[str, Any] = {"parent": "task"}
START, TEXT, END = block_started(1, "text"), delta(1, "text", "hi"), block_ended(1, "text", "hi")

# name: rule, index of the first violation, events
BAD: dict[str, tuple[int, int, list[Event]]] = {
    # deltas
    "empty delta": (1, 2, in_message(START, delta(1, "text", ""), TEXT, END)),
    "ended text lacks a delta": (1, 4, in_message(START, TEXT, TEXT, END)),
    "ended text has more than the deltas": (1, 3, in_message(START, TEXT, block_ended(1, "text", "hi!"))),
    "ended text is empty": (1, 3, in_message(START, TEXT, block_ended(1, "text", ""))),
    "ended text ignores the revision": (1, 4, in_message(START, TEXT, revised(1, "text", "ho"), END)),
    "ended text lacks what came after the revision": (
        1,
        5,
        in_message(START, TEXT, revised(1, "text", "ho"), TEXT, block_ended(1, "text", "ho")),
    ),
    "truncated text is no beginning": (1, 3, in_message(START, TEXT, block_ended(1, "text", "i", truncated=True))),
    "lone surrogate in a delta": (
        1,
        2,
        in_message(START, delta(1, "text", "\ud83d"), block_ended(1, "text", "\ud83d")),
    ),
    "lone surrogate deep in a tool's input": (1, 1, in_message(called("a", {"k": ["\udc00"]}), returned("a"))),
    "lone surrogate in a result": (1, 2, in_message(called("a"), returned("a", "\ud800"))),
    "lone surrogate in the reply": (1, 0, [ended("\ud800")]),
    # life cycle: blocks
    "delta of an unknown block": (2, 1, in_message(TEXT)),
    "delta after the end": (2, 4, in_message(START, TEXT, END, TEXT)),
    "delta of another kind": (2, 2, in_message(START, delta(1, "thinking", "hi"), END)),
    "delta in another lane": (2, 2, in_message(START, delta(1, "text", "hi", **SUB), END)),
    "end of another kind": (2, 3, in_message(START, TEXT, block_ended(1, "thinking", "hi"))),
    "end in another lane": (2, 3, in_message(START, TEXT, block_ended(1, "text", "hi", **SUB))),
    "end of an unknown block": (2, 1, in_message(END)),
    "block ends twice": (2, 4, in_message(START, TEXT, END, END)),
    "block opened again": (2, 4, in_message(START, TEXT, END, START)),
    "block number used by two messages": (2, 6, [*message(1, *block(1, "a")), *message(2, *block(1, "b")), ended()]),
    "block without any text": (2, 2, in_message(START, block_ended(1, "text", ""))),
    "output without any text": (2, 3, in_message(called("a"), *output(1, "a"), returned("a"))),
    "tool input without a name": (2, 1, in_message(*block(1, "{}", kind="tool_input"))),
    "block outside of a message": (2, 0, [*block(1, "hi"), ended()]),
    "block in a lane without a message": (2, 1, in_message(*block(1, "hi", **SUB))),
    "block of another message": (2, 1, in_message(block_started(1, "text", message=7), TEXT, END)),
    "block of a closed value outside the table": (2, 1, in_message(*block(1, "hi", kind=unknown("code")))),
    # life cycle: messages
    "message inside a message": (
        2,
        1,
        [message_started(1), message_started(2), message_ended(2), message_ended(1), ended()],
    ),
    "message inside a message of a sub-agent": (
        2,
        1,
        [
            message_started(1, **SUB),
            message_started(2, **SUB),
            message_ended(2, **SUB),
            message_ended(1, **SUB),
            ended(),
        ],
    ),
    "message number used twice": (2, 2, [*message(1), *message(1), ended()]),
    "message number used by two lanes": (2, 2, [*message(1), *message(1, **SUB), ended()]),
    "message ends before its block": (2, 3, [message_started(1), START, TEXT, message_ended(1), END, ended()]),
    "message ends twice": (2, 2, [*message(1), message_ended(1), ended()]),
    "message ends in another lane": (2, 1, [message_started(1), message_ended(1, **SUB), ended()]),
    "message that never started ends": (2, 0, [message_ended(1), ended()]),
    # life cycle: calls
    "call outside of a message": (2, 0, [called("a"), returned("a"), ended()]),
    "call in a lane without a message": (2, 1, in_message(called("a", **SUB), returned("a", **SUB))),
    "call of another message": (2, 1, in_message(called("a", message=7), returned("a"))),
    "call made twice": (2, 2, in_message(called("a"), called("a"), returned("a"))),
    "call made after its result": (2, 2, in_message(returned("a"), called("a"))),
    "call id used by two messages": (
        2,
        5,
        [*message(1, called("a")), returned("a"), *message(2, called("a")), ended()],
    ),
    "call returns twice": (2, 3, in_message(called("a"), returned("a"), returned("a"))),
    "result in another lane": (2, 2, in_message(called("a"), returned("a", **SUB))),
    "output of no call": (2, 1, in_message(*output(1, None, "out"))),
    "output of an unknown call": (2, 2, in_message(called("a"), *output(1, "b", "out"), returned("a"))),
    "output after the result": (2, 3, in_message(called("a"), returned("a"), *output(1, "a", "out"))),
    "output that names a message": (2, 2, in_message(called("a"), *output(1, "a", "out", message=1), returned("a"))),
    "output in another lane": (
        2,
        2,
        in_message(
            called("a"),
            block_started(1, "tool_output", call_id="a", **SUB),
            delta(1, "tool_output", "out", **SUB),
            block_ended(1, "tool_output", "out", **SUB),
            returned("a"),
        ),
    ),
    "result before the end of the output": (
        2,
        4,
        in_message(called("a"), *output(1, "a", "out")[:-1], returned("a"), block_ended(1, "tool_output", "out")),
    ),
    # life cycle: the run
    "run starts in a sub-agent": (2, 0, [run_started(**SUB), ended()]),
    "run starts inside a message": (2, 1, in_message(run_started())),
    "reply in a sub-agent": (2, 0, [replied("hi", False, **SUB), ended("hi")]),
    "run ends in a sub-agent": (2, 0, [ended(**SUB)]),
    "notice code outside of the table": (2, 0, [events.Notice("info", unknown("chatter"), "x", **ME), ended()]),
    # discontinuity
    "revised to the same text while open": (5, 3, in_message(START, TEXT, revised(1, "text", "hi"), END)),
    "revised to the same text late": (5, 5, [*message(1, START, TEXT, END), revised(1, "text", "hi"), ended()]),
    "revision that only adds to an open block": (
        5,
        3,
        in_message(START, TEXT, revised(1, "text", "hi!"), block_ended(1, "text", "hi!")),
    ),
    "revision of an unknown block": (2, 0, [revised(1, "text", "hi"), ended()]),
    "revision of another kind": (2, 4, in_message(START, TEXT, END, revised(1, "thinking", "ho"))),
    "revision in another lane": (2, 4, in_message(START, TEXT, END, revised(1, "text", "ho", **SUB))),
    # attempts
    "status outside of the table": (6, 1, [*message(1, status=unknown("retried")), ended()]),
    "reply of a superseded message": (
        6,
        10,
        [
            *message(1, *block(1, "first", complete=False), status="superseded"),
            *message(2, *block(2, "second")),
            ended("first"),
        ],
    ),
    "reply that begins with a superseded message": (
        6,
        10,
        [
            *message(1, *block(1, "first", complete=False), status="superseded"),
            *message(2, *block(2, "second")),
            replied("first\n\nsecond", False),
            ended("second"),
        ],
    ),
    "reply where every message is superseded": (
        6,
        6,
        [*message(1, *block(1, "fi", "rst"), status="superseded"), ended("first", "cut_off")],
    ),
    "reply of a superseded message with a late revision": (
        6,
        6,
        [*message(1, *block(1, "first"), status="superseded"), revised(1, "text", "1st"), ended("1st")],
    ),
    "a status that is not reported": (
        2,
        3,
        [*message(1, called("a")), returned("a", exit_code=0, status_reported=False), ended()],
    ),
    "an output that is not reported": (2, 3, [*message(1, called("a")), returned("a", output_reported=False), ended()]),
    # one end
    "nothing at all": (7, 0, []),
    "no end": (7, 5, message(1, START, TEXT, END)),
    "two ends": (7, 1, [ended(), ended()]),
    "notice after the end": (7, 1, [ended(), notice()]),
    "message after the end": (7, 1, [ended(), *message(1)]),
    "one of two runs has no end": (7, 2, [notice(run=1), ended(run=2)]),
    "event of a run that has ended, after another run": (7, 2, [ended(run=1), ended(run=2), notice(run=1)]),
    "open message at the end": (7, 1, [message_started(1), ended()]),
    "open message of a sub-agent at the end": (7, 1, [message_started(1, **SUB), ended()]),
    "open block at the end": (7, 4, [*message(1, called("a")), *output(1, "a", "o")[:1], ended()]),
    "open call at the end": (7, 3, [*message(1, called("a")), ended()]),
    "outcome outside of the table": (7, 0, [ended(outcome=unknown("success"))]),
    "rounds below 0": (7, 0, [ended(rounds=-1)]),
    "outcome empty with a reply": (7, 0, [ended("hi", outcome="empty")]),
    "rounds that are no number": (7, 0, [ended(rounds=unknown("many"))]),
    "reply that is no text": (7, 0, [replied(unknown(None), False), ended()]),
}

# These have more than one thing wrong: a bad value is not read on, or an early mistake leaves something open.
SEVERAL = {
    "block of a closed value outside the table",
    "open block at the end",
    "rounds that are no number",
    "status outside of the table",
    "outcome outside of the table",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_stream_is_rejected(name: str) -> None:
    """Each hand-made bad stream breaks the rule that it is meant to break, where it is meant to, first and alone."""
    rule, index, stream = BAD[name]
    found = verify(stream)
    assert (found[0].rule, found[0].index) == (rule, index), found
    assert name in SEVERAL or {violation.rule for violation in found} == {rule}, found


def test_a_violation_says_what_was_and_what_should_be() -> None:
    """The text names the block and both texts."""
    found = verify(in_message(START, TEXT, block_ended(1, "text", "ho")))
    assert found == [Violation(3, 1, "block 1 ends as 'ho'; expected its deltas joined, 'hi'")]


def test_a_violation_about_a_large_text_is_short() -> None:
    """A text of any size is quoted by its beginning and length."""
    large = "a" * 100_000
    found = verify(in_message(START, delta(1, "text", large), END))
    assert len(found[0].text) < 300
    assert "100000 characters" in found[0].text


def test_a_result_without_a_call_is_accepted() -> None:
    """A resumed run may begin with the result of a call from before."""
    assert verify([returned("from before"), ended()]) == []


def test_a_reply_that_was_said_again_is_accepted() -> None:
    """A superseded text may be the reply when a later message says it too, and a short one may be part of it."""
    given_up = message(1, *block(1, "Done.", complete=False), status="superseded")
    assert verify([*given_up, *message(2, *block(2, "Done.")), ended("Done.")]) == []
    assert verify([*given_up, ended("Done. All of it.")]) == []


def test_the_reply_may_equal_what_a_sub_agent_gave_up() -> None:
    """Only messages of the top lane make the reply, so only those can be passed over; blank ones say nothing."""
    given_up = message(1, *block(1, "Done.", complete=False, **SUB), status="superseded", **SUB)
    blank = message(2, *block(2, " ", complete=False), status="superseded")
    assert verify([*given_up, *blank, ended("Done.\n\n \n\nAll.")]) == []


CUTS: dict[str, tuple[int | None, list[Event]]] = {
    "inside a text block": (
        None,
        [
            *thinking_and_tools()[:6],
            block_ended(1, "thinking", "Hm", complete=False),
            message_ended(1, "cut"),
            ended(outcome="cut_off"),
        ],
    ),
    "inside a delta, whose first part is shown": (
        None,
        [
            *thinking_and_tools()[:7],
            delta(2, "text", "I lo"),
            block_ended(2, "text", "I lo", complete=False),
            block_ended(1, "thinking", "Hm", complete=False),
            message_ended(1, "cut"),
            ended("I lo", outcome="cut_off"),
        ],
    ),
    "inside a character": (
        None,
        [
            *thinking_and_tools()[:6],
            delta(1, "thinking", "\ufffd"),
            block_ended(1, "thinking", "Hm\ufffd", complete=False),
            message_ended(1, "cut"),
            ended(outcome="cut_off"),
        ],
    ),
    "with an open call": (
        None,
        [
            *thinking_and_tools()[:20],
            message_ended(1),
            returned("b", "", complete=False),
            returned("a", "", complete=False),
            ended(outcome="cut_off"),
        ],
    ),
    "other text": (
        1,
        [
            *thinking_and_tools()[:4],
            *block(1, "Hmm", kind="thinking", complete=False),
            message_ended(1, "cut"),
            ended(outcome="cut_off"),
        ],
    ),
    "a delta that was jumped over": (
        1,
        [
            *thinking_and_tools()[:4],
            *block(1, "…", kind="thinking", complete=False),
            message_ended(1, "cut"),
            ended(outcome="cut_off"),
        ],
    ),
    "text in another block": (
        1,
        [
            *thinking_and_tools()[:4],
            *block(1, "Hm", kind="text", complete=False),
            message_ended(1, "cut"),
            ended(outcome="cut_off"),
        ],
    ),
    "a call with half of its input": (
        2,
        [
            *message(1, called("a", {"command": "l"}), status="cut"),
            returned("a", "", complete=False),
            ended(outcome="cut_off"),
        ],
    ),
    "a call that the whole does not make": (
        2,
        [*message(1, called("c"), status="cut"), returned("c", "", complete=False), ended(outcome="cut_off")],
    ),
    "no end": (7, thinking_and_tools()[:2]),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_stream_is_the_beginning_of_the_whole(name: str) -> None:
    """A cut stream streams what the whole does as far as it goes, makes none but its calls, and closes."""
    rule, cut = CUTS[name]
    assert [violation.rule for violation in verify_cut(thinking_and_tools(), cut)] == ([rule] if rule else [])


def test_a_cut_stream_revises_as_the_whole_does() -> None:
    """A revision is part of the live channel, and a delta of the same text is no revision."""
    whole = revised_while_open()
    cut = [*whole[:4], block_ended(1, "text", "one 2", complete=False), message_ended(1, "cut"), ended("one 2")]
    other = [*whole[:3], delta(1, "text", "one 2"), block_ended(1, "text", "one twoone 2"), *cut[5:]]
    assert verify_cut(whole, whole) == []
    assert verify_cut(whole, cut) == []
    assert [(violation.index, violation.rule) for violation in verify_cut(whole, other)] == [(3, 1)]


def test_the_judge_is_independent() -> None:
    """Of Penstock it imports the vocabulary of events and nothing else."""
    imported = set()
    for node in ast.walk(ast.parse(Path(verify.__code__.co_filename).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported |= {f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
    ours = {name for name in imported if name.startswith((".", "penstock"))}
    assert ours == {"penstock.events", "penstock.events.Event"}
