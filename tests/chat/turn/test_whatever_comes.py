"""Whatever comes, a turn is one turn: random runs with sub-agents and questions, mutated recordings, no order at all.

Of what is to stay hidden, no word is ever shown.
"""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from random_updates import CLEAN, EXITS, STATUSES, TRAITS, UPDATES, events_from
from turn_judge import FEW, check, conflated, one_by_one

from penstock import updates as up
from penstock.chat.reasoning_tags import strip_tags
from penstock.chat.turn import Assistant, Completed, Streaming, Thinking, Turn, TurnEvent
from penstock.core.normalizer.outcome import Exit
from penstock.events import Event, NoticeCode, Option, PlanItem, QuestionAnswered, QuestionAsked, RunEnded, ToolCalled
from penstock.stream import Stream
from penstock.testing import feeds
from penstock.testing.conformance import mutate

if TYPE_CHECKING:
    from conftest import Recording

# --- random runs -----------------------------------------------------------------------------------

SUB_AGENTS = st.sampled_from(["c1", "c2", "c3"])
MAYBE_SUB = st.none() | SUB_AGENTS
ANY_CODE = st.sampled_from(NoticeCode.__args__)  # type: ignore[attr-defined]
QUESTIONS = st.builds(
    up.Question,
    id=st.sampled_from(["q1", "q2"]),
    text=st.sampled_from(["", "Which one?"]),
    ask=st.just("choice"),
    options=st.none() | st.just([Option("A", "A", "choice"), Option("B", "B", "choice")]),
    blocking=st.booleans(),
    lane=MAYBE_SUB,
)
ANSWERS = st.builds(
    up.Answer, id=st.sampled_from(["q1", "q2"]), by=st.just("person"), text=st.just("A"), lane=MAYBE_SUB
)
MIXED = st.one_of(
    *[UPDATES] * 4,
    *[st.builds(up.Text, kind=st.just("text"), mode=st.just("delta"), text=CLEAN, lane=SUB_AGENTS)] * 2,
    st.builds(up.ToolCall, call_id=SUB_AGENTS, name=st.just("Task"), input=st.none(), lane=MAYBE_SUB),
    st.builds(up.Notice, code=ANY_CODE, text=CLEAN, level=st.sampled_from(["info", "error"]), lane=MAYBE_SUB),
    QUESTIONS,
    ANSWERS,
)


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(MIXED, max_size=30), exit=EXITS, cuts=st.lists(st.integers(0, 80), max_size=4))
@FEW
def test_sub_agents_and_questions_anywhere(
    traits: up.Traits, updates: list[up.Update], exit: Exit | None, cuts: list[int]
) -> None:
    """One turn in order, however its events are cut, and complete wherever they stop."""
    events = events_from(traits, updates, exit)
    out = one_by_one(events)
    check(out)
    edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    turn = Turn()
    assert conflated([e for a, b in itertools.pairwise(edges) for e in turn.feed(events[a:b])]) == conflated(out)
    for edge in edges:
        crashed = Turn()
        check(crashed.feed(events[:edge]) + crashed.close("the server was stopped"))


WORDS = st.text("xyz", min_size=1, max_size=4).map(lambda word: f"HIDDEN{word}")
SEEN = st.sampled_from(["Hello", " ", "\n\n", "`code`", "there."])
KEPT = st.one_of(
    *[st.builds(up.Text, kind=st.just("text"), mode=st.just("delta"), text=SEEN, place=st.just(0))] * 3,
    st.builds(
        up.Text,
        kind=st.just("text"),
        mode=st.just("final"),
        text=WORDS.map(lambda word: f"<think>{word}</think>Whole."),
        place=st.integers(5, 7),
    ),
    st.builds(up.Text, kind=st.just("thinking"), mode=st.just("delta"), text=WORDS, lane=MAYBE_SUB),
    st.builds(up.Text, kind=st.just("text"), mode=st.sampled_from(["delta", "final"]), text=WORDS, lane=SUB_AGENTS),
    st.builds(
        up.ToolCall,
        call_id=SUB_AGENTS,
        name=WORDS,
        input=st.builds(dict, command=WORDS),
        title=WORDS,
        lane=MAYBE_SUB,
    ),
    st.builds(up.Text, kind=st.just("tool_output"), mode=st.just("delta"), text=WORDS, call_id=SUB_AGENTS),
    st.builds(up.ToolReturn, call_id=SUB_AGENTS, text=WORDS, is_error=st.booleans()),
    st.builds(up.Notice, code=ANY_CODE, text=WORDS, lane=MAYBE_SUB),
    st.builds(up.Plan, items=st.lists(st.builds(PlanItem, text=WORDS, status=STATUSES), max_size=2)),
    st.builds(up.Unknown, wire_type=WORDS, text=WORDS),
    st.builds(up.Question, id=WORDS, text=WORDS, ask=st.just("tool"), lane=SUB_AGENTS),
    st.builds(up.MessageStart, message=st.sampled_from(["m1", "m2", "m3"]), lane=MAYBE_SUB),
    st.builds(up.MessageEnd, lane=MAYBE_SUB),
)


@given(updates=st.lists(KEPT, min_size=3, max_size=30))
@FEW
def test_what_is_hidden_is_never_shown(updates: list[up.Update]) -> None:
    """No word of thoughts, calls, results, plans, notices, sub-agents or tags is in a status, bubble or message."""
    out = one_by_one(events_from(up.Traits(block_ends=True), updates))
    assert "HIDDEN" not in check(out).message
    for event in out:
        if isinstance(event, Streaming | Assistant):
            assert "HIDDEN" not in repr(event)


# --- recordings that went wrong --------------------------------------------------------------------

MANY = at_most(5, 24)
"""Mutations of each agent's recordings."""


@cache
def _events(agent: str, data: bytes) -> list[Event]:
    return feeds.whole(Stream(agent), data)


def of_agents(recordings: list[Recording]) -> list[list[Recording]]:
    """The recordings of each agent that are no long ones: more of the same."""
    some = [case for case in recordings if 0 < len(case.data) < 300_000]
    return [list(cases) for _, cases in itertools.groupby(some, key=lambda case: case.folder.parent)]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Lines that are lost, doubled, moved, changed, and cut short at the end."""
    lines = [line for line in data.split(b"\n") if rng.random() > 0.08]
    for line in rng.sample(lines, min(len(lines), 4)):
        lines.insert(rng.randrange(len(lines) + 1), line)
    for _ in range(len(lines) // 12):
        lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
    lines = [mutate(line, rng) if rng.random() < 0.2 else line for line in lines]
    return b"\n".join(lines[: rng.randrange(len(lines) + 1)] if rng.random() < 0.3 else lines)


def judged(events: list[Event], rng: random.Random) -> list[TurnEvent]:
    """The turn of a run, which is the same in one piece and in two, and complete wherever it is cut."""
    out = one_by_one(events)
    check(out)
    at = rng.randrange(len(events) + 1)
    turn = Turn()
    assert conflated(turn.feed(events[:at]) + turn.feed(events[at:])) == conflated(out)
    crashed = Turn()
    check(crashed.feed(events[:at]) + crashed.close())
    return out


@pytest.mark.parametrize("seed", range(MANY))
def test_mutated_recordings(seed: int, recordings: list[Recording]) -> None:
    """Of every agent: the turn is one turn, and its message what the run came to where the run's end decides."""
    for cases in of_agents(recordings):
        rng = random.Random(f"{cases[0].name} {seed}")
        recording = rng.choice(cases)
        events = feeds.whole(Stream(recording.agent), mutated(recording.data, rng), rng.choice([None, Exit(code=1)]))
        out = judged(events, rng)
        completed, end = out[-1], events[-1]
        assert isinstance(completed, Completed)
        assert isinstance(end, RunEnded)
        if completed.outcome != "ok" and completed.question is None:
            assert completed.outcome == end.outcome
            assert completed.message.strip() == strip_tags(end.reply).strip()
        told = {event.text for event in events if getattr(event, "kind", "") == "thinking" and hasattr(event, "text")}
        assert {event.content for event in out if isinstance(event, Thinking)} <= told


@pytest.mark.parametrize("seed", range(MANY))
def test_questions_and_sub_agents_in_recordings(seed: int, recordings: list[Recording]) -> None:
    """Of every agent: questions, answers and another run's events in a lane between the run's own."""
    for cases in of_agents(recordings):
        rng = random.Random(f"{cases[0].name} lanes {seed}")
        case, other = rng.choice(cases), rng.choice(rng.choice(of_agents(recordings)))
        events = list(_events(case.agent, case.data))
        calls = [event.call_id for event in events if isinstance(event, ToolCalled)] or ["c1"]
        lane = rng.choice(calls)
        beside = [
            e
            for e in _events(other.agent, other.data)
            if not isinstance(e, QuestionAsked | QuestionAnswered | RunEnded)
        ]
        at = rng.randrange(len(events))
        events[at:at] = [msgspec.structs.replace(event, parent=lane) for event in beside[: rng.randrange(60)]]
        asked = rng.random() < 0.5
        for number in range(rng.randrange(4) if asked else 0):
            place, parent = rng.randrange(len(events)), rng.choice([None, lane])
            question = QuestionAsked(f"q{number}", "Which?", rng.random() < 0.6, "choice", agent="test", parent=parent)
            events.insert(place, question)
            if rng.random() < 0.5:
                events.insert(
                    rng.randrange(place, len(events)) + 1,
                    QuestionAnswered(f"q{number}", "person", text="A", agent="test"),
                )
        end = events.pop(next(at for at, event in enumerate(events) if isinstance(event, RunEnded)))
        completed = judged([*events, end], rng)[-1]
        assert isinstance(completed, Completed)
        if not asked:
            whole = one_by_one(_events(case.agent, case.data))[-1]
            assert completed == whole, "a sub-agent changed the message"


@pytest.mark.parametrize("seed", range(MANY * 4))
def test_events_in_no_order(seed: int, recordings: list[Recording]) -> None:
    """Events that no run gives in this order raise nothing, and the turn is still one turn."""
    rng = random.Random(seed)
    pool = [event for cases in of_agents(recordings) for event in _events(*_one_of(cases, rng))]
    events = [event for event in rng.choices(pool, k=150) if not isinstance(event, RunEnded) or rng.random() < 0.05]
    out = one_by_one(events)
    turn = Turn()
    turn.feed(events)
    order = "".join(type(event).__name__[0] for event in out + turn.close())
    assert order.startswith("S")
    assert order.count("C") == 1
    assert order.count("F") == ("A" in order)


def _one_of(cases: list[Recording], rng: random.Random) -> tuple[str, bytes]:
    case = rng.choice(cases)
    return case.agent, case.data
