"""Updates at random, however senseless, for the tests of all that reads events."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.events import Event, PlanItem

# Small alphabets, so that ids, places and texts meet again and again.
LANES = st.sampled_from([None, None, None, "c1", "c2"])
MESSAGES = st.sampled_from([None, None, "m1", "m2"])
PLACES = st.sampled_from([None, 0, 0, 1, 2, "p"])
CALLS = st.sampled_from(["c1", "c2", "c3"])
MAYBE_CALLS = st.sampled_from([None, None, "c1", "c2"])
NAMES = st.sampled_from([None, "Bash", ""])
KINDS = st.sampled_from(["text", "text", "text", "thinking", "tool_input", "tool_output"])
WORDS = ["", "a", "ab", "abc", "a\nb", "haha", "ha", "!", "The whole text ", "The whole text so far", "😀"]
CLEAN = st.sampled_from(WORDS) | st.text(max_size=8)
TEXTS = CLEAN | st.sampled_from(["\ud83d", "\ude00", "a\ud83d", "\ude00b"])
"""Only text in pieces has halves of characters; the stream cleans all else before the normalizer sees it."""

INPUTS = st.sampled_from([None, {}, {"command": "ls"}, {"command": "😀"}, [1], "x", 1.5, {"a": {"b": [None]}}])
USAGES = st.builds(
    up.Usage,
    input_tokens=st.none() | st.integers(-1, 10),
    output_tokens=st.none() | st.integers(0, 10),
    cost_usd=st.none() | st.floats(0, 1),
)
OPTIONS = st.builds(ev.Option, id=CALLS, label=CLEAN, kind=st.sampled_from(get_args(ev.OptionKind)))
STATUSES = st.sampled_from(["pending", "in_progress", "completed"])

UPDATES = st.one_of(
    *[
        st.builds(
            up.Text,
            kind=KINDS,
            mode=st.sampled_from(["delta", "delta", "snapshot", "final"]),
            text=TEXTS,
            place=PLACES,
            message=MESSAGES,
            lane=LANES,
            call_id=MAYBE_CALLS,
        )
    ]
    * 4,
    st.builds(up.RunStart, session_id=st.sampled_from([None, "s1", "s2"]), model=st.sampled_from([None, "m"])),
    st.builds(up.MessageStart, message=MESSAGES, lane=LANES),
    st.builds(
        up.MessageEnd,
        message=MESSAGES,
        lane=LANES,
        status=st.sampled_from([None, None, "ok", "superseded", "cut"]),
        stop_reason=st.sampled_from([None, "end_turn"]),
        abandoned_from=st.sampled_from([None, None, 0, 1]),
    ),
    st.builds(up.BlockStart, kind=KINDS, place=PLACES, message=MESSAGES, lane=LANES, call_id=MAYBE_CALLS, name=NAMES),
    st.builds(up.BlockEnd, place=PLACES, message=MESSAGES, lane=LANES, kind=st.none() | KINDS, call_id=MAYBE_CALLS),
    st.builds(
        up.ToolCall,
        call_id=CALLS,
        name=st.sampled_from(["Bash", "Read", ""]),
        input=INPUTS,
        place=PLACES,
        message=MESSAGES,
        lane=LANES,
    ),
    st.builds(
        up.ToolReturn,
        call_id=CALLS,
        text=CLEAN,
        is_error=st.booleans(),
        exit_code=st.sampled_from([None, 0, 3]),
        name=NAMES,
        lane=LANES,
    ),
    st.builds(up.Phase, phase=st.sampled_from(["commentary", "final"]), message=MESSAGES, lane=LANES),
    st.builds(up.RoundEnd, lane=LANES),
    st.builds(up.Plan, items=st.lists(st.builds(PlanItem, text=CLEAN, status=STATUSES), max_size=2), lane=LANES),
    st.builds(
        up.ModelUsage,
        usage=USAGES,
        model=st.sampled_from([None, "m"]),
        message=MESSAGES,
        lane=LANES,
        whole=st.booleans(),
    ),
    st.builds(
        up.Notice,
        code=st.sampled_from(["retry", "status", "error"]),
        text=CLEAN,
        level=st.sampled_from(["info", "error"]),
        lane=LANES,
    ),
    st.builds(
        up.Question,
        id=CALLS,
        text=CLEAN,
        ask=st.sampled_from(get_args(ev.Ask)),
        options=st.none() | st.lists(OPTIONS, max_size=3),
        blocking=st.booleans(),
        free_text=st.booleans(),
        title=st.none() | CLEAN,
    ),
    st.builds(up.Answer, id=CALLS, by=st.sampled_from(get_args(ev.AnsweredBy)), text=st.none() | CLEAN, lane=LANES),
    st.builds(up.Failure, reason=CLEAN),
    st.builds(
        up.Result,
        reply=st.none() | CLEAN,
        is_error=st.booleans(),
        reason=st.none() | CLEAN,
        session_id=st.sampled_from([None, "s1"]),
        usage=st.none() | USAGES,
        cancelled=st.booleans(),
        stop_reason=st.sampled_from([None, "end_turn", "max_tokens"]),
    ),
    st.builds(up.Unknown, wire_type=st.sampled_from([None, "new"]), text=st.none() | CLEAN, lane=LANES),
)

EXITS = st.none() | st.builds(
    Exit,
    code=st.sampled_from([None, 0, 1]),
    signal=st.sampled_from([None, 15]),
    cancelled=st.booleans(),
    timed_out=st.booleans(),
)

TRAITS = {
    "plain": up.Traits(),
    "block_ends": up.Traits(block_ends=True),
    "finals": up.Traits(block_ends=True, finals=True),
    "only_finals": up.Traits(finals=True),
    "repair_snapshots": up.Traits(block_ends=True, repair_snapshots=True),
    "regular_end": up.Traits(regular_end=True),
}


def events_from(traits: up.Traits, updates: list[up.Update], exit: Exit | None = None) -> list[Event]:
    """The events of a normalizer that is given `updates` and closed, twice."""
    normalizer = Normalizer("test", traits)
    for update in updates:
        normalizer.apply(update)
    normalizer.close(exit)
    events = normalizer.drain()
    normalizer.close(exit)
    for update in updates[:3]:
        normalizer.apply(update)
    assert normalizer.drain() == [], "there are events after the end"
    return events
