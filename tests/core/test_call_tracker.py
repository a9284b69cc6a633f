"""The call tracker as an object: order of input, call, output and result; ids; repeats; its memory."""

from __future__ import annotations

import sys
from statistics import mode
from types import FrameType
from typing import Any, TypeVar

import pytest

from penstock import updates as up
from penstock.core.health import Health
from penstock.core.normalizer import calls as calls_module
from penstock.core.normalizer.calls import MAX_CALLS, CallTracker
from penstock.core.normalizer.emitter import Emitter
from penstock.core.normalizer.messages import Messages
from penstock.core.normalizer.outcome import RunOutcome
from penstock.core.normalizer.permissions import Permissions
from penstock.core.normalizer.run_info import RunInfo
from penstock.core.normalizer.state import Lane, place_key
from penstock.core.normalizer.waits import Waits
from penstock.events import BlockEnded, BlockRevised, Delta, Event, MessageEnded, ToolCalled, ToolReturned

T = TypeVar("T", bound=Event)


class Bench:
    """A tracker with the parts that it needs, and no normalizer around it."""

    def __init__(self) -> None:
        self.emitter = Emitter("test", None)
        self.health = Health()
        top = Lane(None)
        outcome = RunOutcome(top, regular_end=False)
        self.messages = Messages(
            self.emitter,
            up.Traits(block_ends=True),
            self.health,
            top,
            outcome,
            RunInfo(self.emitter),
            lambda block: self.calls.input_ended(block),
        )
        self.calls = CallTracker(
            self.emitter, self.messages, outcome, Permissions(False), self.health, up.Traits(), Waits()
        )
        self.lane = top

    def stream_input(self, call_id: str, name: str | None, text: str) -> None:
        """Stream the input of a call, as `Texts` does."""
        call = self.calls.track(call_id, name, None)
        message = self.lane.open_message or self.messages.open(self.lane, "m1", explicit=True)
        call.block = self.messages.register(self.lane, message, place_key(call_id, "tool_input"), "tool_input", call_id)
        call.block.name = name
        self.messages.put(call.block, text)

    def output(self, call_id: str, text: str) -> bool:
        """Stream output of a call; return whether it has a block."""
        block = self.calls.output_block(up.Text("tool_output", "delta", text, call_id=call_id))
        if block is not None:
            self.messages.put(block, text)
        return block is not None

    def names(self) -> list[str]:
        """The types of the events since the last call, in their order."""
        return [type(event).__name__ for event in self.emitter.drain()]


def of_type(events: list[Event], kind: type[T]) -> list[T]:
    """The events of one type."""
    return [event for event in events if isinstance(event, kind)]


def test_input_comes_before_its_call_and_its_result() -> None:
    """A call that comes whole is a block of input that starts and ends, then the call, then its result."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}))
    bench.calls.apply_return(up.ToolReturn("c1", "a.txt"))
    assert bench.names() == [
        *("MessageStarted", "BlockStarted", "Delta", "BlockEnded", "ToolCalled", "ToolReturned", "MessageEnded")
    ]


def test_input_waits_for_its_name() -> None:
    """Input without a name emits nothing until the call brings the name, and its text is not lost."""
    bench = Bench()
    bench.stream_input("c1", None, '{"command":')
    assert bench.names() == ["MessageStarted"]
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}))
    events = bench.emitter.drain()
    assert [event.text for event in of_type(events, Delta)] == ['{"command":', '"ls"}']
    assert [event.name for event in of_type(events, ToolCalled)] == ["Bash"]


def test_output_waits_for_its_call() -> None:
    """Output that comes first is emitted right after its call."""
    bench = Bench()
    assert bench.output("c1", "early")
    assert bench.names() == []
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}))
    assert bench.names()[-3:] == ["ToolCalled", "BlockStarted", "Delta"]
    assert bench.output("c1", " late")
    assert bench.names() == ["Delta"]


def test_output_that_ended_before_its_call_ends_after_it() -> None:
    """Output that was complete before its call was emitted is one whole block behind it."""
    bench = Bench()
    bench.output("c1", "all")
    output = bench.calls.track("c1", None, None).output
    assert output is not None
    bench.messages.end_block(output)
    bench.calls.apply_call(up.ToolCall("c1", "Bash", None))
    assert bench.names()[-4:] == ["ToolCalled", "BlockStarted", "Delta", "BlockEnded"]


def test_a_result_comes_before_the_end_of_its_sub_agent() -> None:
    """The lane that a call started ends after the call returned, and the message of the call after both."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Task", {}))
    bench.calls.apply_call(up.ToolCall("c2", "Bash", {}, lane="c1"))
    bench.calls.apply_return(up.ToolReturn("c2", "", lane="c1"))
    bench.calls.apply_call(up.ToolCall("c3", "Bash", {}, lane="c1"))
    bench.emitter.drain()
    bench.calls.apply_return(up.ToolReturn("c1", "done"))
    ends = [(type(event), event.parent) for event in bench.emitter.drain()]
    assert ends == [(ToolReturned, None), (MessageEnded, "c1"), (MessageEnded, None)]


def test_a_result_in_a_sub_agent_ends_no_message_of_the_top() -> None:
    """The top's message stays open while its own call runs, whatever returns in a lane below."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Task", {}))
    bench.calls.apply_call(up.ToolCall("c2", "Bash", {}, lane="c1"))
    bench.emitter.drain()
    bench.calls.apply_return(up.ToolReturn("c2", "", lane="c1"))
    ends = [(type(event), event.parent) for event in bench.emitter.drain()]
    assert ends == [(ToolReturned, "c1"), (MessageEnded, "c1")]


def test_output_after_the_result_has_no_block() -> None:
    """A call that has returned has no more output; output that names no call has none at all."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Bash", None))
    bench.calls.apply_return(up.ToolReturn("c1"))
    assert not bench.output("c1", "too late")
    assert not bench.output("", "of no call")


@pytest.mark.parametrize(
    ("repeat", "counted"),
    [(up.ToolCall("c1", "Bash", {"command": "rm"}), 1), (up.ToolReturn("c1", "again"), 1)],
)
def test_a_repeat_is_silent(repeat: up.ToolCall | up.ToolReturn, counted: int) -> None:
    """A call or a result that comes again emits nothing and is counted."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}))
    bench.calls.apply_return(up.ToolReturn("c1", "a.txt"))
    bench.emitter.drain()
    if isinstance(repeat, up.ToolCall):
        bench.calls.apply_call(repeat)
    else:
        bench.calls.apply_return(repeat)
    assert bench.names() == []
    assert bench.health.suppressed_duplicates == counted


def test_ids_are_made_up_in_order() -> None:
    """Calls without ids get their own; results without ids go to the oldest one that waits, then to new ones."""
    bench = Bench()
    for command in ("a", "b"):
        bench.calls.apply_call(up.ToolCall("", "Bash", {"command": command}))
    for text in ("1", "2", "3"):
        bench.calls.apply_return(up.ToolReturn("", text))
    events = bench.emitter.drain()
    assert [event.call_id for event in of_type(events, ToolCalled)] == ["call-1", "call-2"]
    assert [(event.call_id, event.text) for event in of_type(events, ToolReturned)] == [
        *(("call-1", "1"), ("call-2", "2"), ("call-3", "3"))
    ]


def test_another_spelling_is_no_revision() -> None:
    """Input is compared by value; an input that really differs revises the block before the call."""
    same, other = Bench(), Bench()
    for bench, command in ((same, "ls"), (other, "rm")):
        bench.stream_input("c1", "Bash", '{ "command" : "ls" }')
        bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": command}))
    assert not of_type(same.emitter.drain(), BlockRevised)
    assert [event.text for event in of_type(other.emitter.drain(), BlockRevised)] == ['{"command":"rm"}']


def test_a_call_after_the_end_of_its_input() -> None:
    """A call whose input the wire ended before is emitted in its message, and its other input is a revision."""
    same, other = Bench(), Bench()
    for bench, command in ((same, "ls"), (other, "rm")):
        bench.stream_input("c1", "Bash", '{"command":"ls"}')
        block = bench.calls.track("c1", None, None).block
        assert block is not None
        bench.messages.end_block(block)
        bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": command}))
    assert same.names()[-2:] == ["BlockEnded", "ToolCalled"]
    assert other.names()[-3:] == ["BlockEnded", "BlockRevised", "ToolCalled"]


def test_input_that_streamed_without_an_id() -> None:
    """Input whose deltas name no call is that of the call at its place, or of the one that comes next."""
    bench = Bench()
    message = bench.messages.open(bench.lane, "m1", explicit=True)
    block = bench.messages.register(bench.lane, message, 3, "tool_input")
    bench.messages.put(block, '{"command":"ls"}')
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}, place=3))
    events = bench.emitter.drain()
    assert [event.text for event in of_type(events, BlockEnded)] == ['{"command":"ls"}']
    assert block.call_id == "c1"


def test_a_value_that_json_cannot_express_is_compared_by_its_text() -> None:
    """Input whose JSON is the streamed text is no revision, even if its value equals nothing."""
    bench = Bench()
    bench.stream_input("c1", "odd", "null")
    bench.calls.apply_call(up.ToolCall("c1", "odd", float("nan")))
    assert not of_type(bench.emitter.drain(), BlockRevised)


def test_input_that_was_streamed_in_part_is_completed() -> None:
    """Input whose streamed text begins the complete one gets the rest as a delta."""
    bench = Bench()
    bench.stream_input("c1", "Bash", '{"command":')
    bench.calls.apply_call(up.ToolCall("c1", "Bash", {"command": "ls"}))
    assert [event.text for event in of_type(bench.emitter.drain(), Delta)] == ['{"command":', '"ls"}']


@pytest.mark.parametrize("known", ["called", "returned", "nameless"])
def test_input_that_ends_is_a_call_once(known: str) -> None:
    """Input that ends makes no call that was emitted, that has returned, or whose name never came."""
    bench = Bench()
    bench.stream_input("c1", None if known == "nameless" else "Bash", "{}")
    call = bench.calls.track("c1", None, None)
    call.called, call.returned = known == "called", known == "returned"
    bench.messages.end(up.MessageEnd("m1"))
    assert "ToolCalled" not in bench.names()


def test_output_without_text_waits_for_nothing() -> None:
    """Output that had no text when its call came starts no block."""
    bench = Bench()
    bench.output("c1", "")
    bench.calls.apply_call(up.ToolCall("c1", "Bash", None))
    bench.calls.apply_return(up.ToolReturn("c1"))
    assert bench.names().count("BlockStarted") == 1


def test_input_that_ends_with_its_message_is_a_call() -> None:
    """A call that the wire never repeats is emitted when its message ends whole, before the message's end."""
    bench = Bench()
    bench.stream_input("c1", "Bash", '{"command":"ls"}')
    bench.messages.end(up.MessageEnd("m1"))
    events = bench.emitter.drain()
    assert [event.input for event in of_type(events, ToolCalled)] == [{"command": "ls"}]
    assert [type(event) for event in events[-2:]] == [ToolCalled, MessageEnded]


def test_input_that_is_no_json_is_its_text() -> None:
    """Input that was cut off by the result is no JSON; the call has it as it is."""
    bench = Bench()
    bench.stream_input("c1", "Bash", '{"command":')
    bench.calls.apply_return(up.ToolReturn("c1", "failed", is_error=True))
    events = bench.emitter.drain()
    assert [event.input for event in of_type(events, ToolCalled)] == ['{"command":']
    assert [type(event) for event in events if isinstance(event, BlockEnded | ToolCalled | ToolReturned)] == [
        *(BlockEnded, ToolCalled, ToolReturned)
    ]


def test_the_round_goes_on_while_a_call_waits() -> None:
    """A message without end marks of its own ends with the last result, not with the first."""
    bench = Bench()
    for call_id in ("c1", "c2"):
        bench.calls.apply_call(up.ToolCall(call_id, "Bash", None))
    bench.calls.apply_return(up.ToolReturn("c1"))
    assert "MessageEnded" not in bench.names()
    bench.calls.apply_return(up.ToolReturn("c2"))
    assert bench.names() == ["ToolReturned", "MessageEnded"]


def test_a_result_ends_the_sub_agent() -> None:
    """What the sub-agent of a call has open is ended with the call's result."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Task", None))
    bench.messages.open(bench.messages.lane("c1"), None)
    bench.calls.apply_return(up.ToolReturn("c1"))
    assert [lane.parent for lane in bench.messages.lanes] == [None]
    assert [event.parent for event in of_type(bench.emitter.drain(), MessageEnded)] == ["c1", None]


def test_calls_above_wait_with_one_of_a_sub_agent() -> None:
    """A question of a sub-agent's sub-agent holds up the calls that started both, also by its lane alone."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("outer", "Task"))
    bench.calls.apply_call(up.ToolCall("inner", "Task", lane="outer"))
    bench.calls.apply_call(up.ToolCall("bash", "Bash", lane="inner"))
    assert [*bench.calls.held_up("bash", None)] == ["bash", "inner", "outer"]
    assert [*bench.calls.held_up(None, "inner")] == ["inner", "outer"]
    assert [*bench.calls.held_up("unknown", "another")] == ["unknown", "another"]


@pytest.mark.parametrize(("began", "ended"), [(None, 50), (50, None)])
def test_a_duration_needs_both_times(began: int | None, ended: int | None) -> None:
    """Without the time stamp of the call or of its result, the agent's own figure counts."""
    bench = Bench()
    bench.emitter.at = began
    bench.calls.apply_call(up.ToolCall("c1", "Bash"))
    bench.emitter.at = ended
    bench.calls.apply_return(up.ToolReturn("c1", "done", duration_ms=7))
    (returned,) = of_type(bench.emitter.drain(), ToolReturned)
    assert returned.duration_ms == 7


def test_the_end_returns_what_waits() -> None:
    """At the end a call without a result gets one that is not complete; output without a call is dropped."""
    bench = Bench()
    bench.calls.apply_call(up.ToolCall("c1", "Bash", None))
    bench.output("c1", "half")
    bench.output("c2", "of a call that never came")
    bench.emitter.drain()
    bench.calls.close()
    events = bench.emitter.drain()
    assert [(event.call_id, event.complete) for event in of_type(events, ToolReturned)] == [("c1", False)]
    assert [type(event) for event in events] == [BlockEnded, ToolReturned]


def test_calls_that_returned_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the bound, the oldest call that returned is forgotten; if none has, the oldest is ended."""
    assert MAX_CALLS == 4096
    monkeypatch.setattr(calls_module, "MAX_CALLS", 2)
    bench = Bench()
    for call_id in ("c1", "c2"):
        bench.calls.apply_call(up.ToolCall(call_id, "Bash", None))
    bench.calls.apply_return(up.ToolReturn("c2"))
    bench.calls.apply_call(up.ToolCall("c3", "Bash", None))
    assert (bench.calls.find("c1") is not None, bench.calls.find("c2")) == (True, None)
    bench.emitter.drain()
    bench.calls.apply_call(up.ToolCall("c4", "Bash", None))
    assert bench.calls.find("c1") is None
    ended = of_type(bench.emitter.drain(), ToolReturned)
    assert [(event.call_id, event.complete) for event in ended] == [("c1", False)]


def test_what_is_kept_of_results_without_a_call_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that was cut or resumed has results of calls that never came: they are forgotten like others."""
    monkeypatch.setattr(calls_module, "MAX_CALLS", 3)
    bench = Bench()
    for number in range(10):
        bench.calls.apply_return(up.ToolReturn(f"c{number}", "done"))
    assert [number for number in range(10) if bench.calls.find(f"c{number}")] == [7, 8, 9]


def test_a_result_looks_at_no_other_call() -> None:
    """The work for a call does not grow with the calls before it: the last one takes as many steps as the tenth."""
    bench = Bench()
    steps: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        steps[-1] += 1
        return trace

    others = sys.gettrace()
    for number in range(300):
        steps.append(0)
        sys.settrace(trace)
        try:
            bench.calls.apply_call(up.ToolCall(f"c{number}", "Bash", None))
            bench.calls.apply_return(up.ToolReturn(f"c{number}", "done"))
            bench.calls.apply_return(up.ToolReturn(f"result {number}", "done"))
        finally:
            sys.settrace(others)
        bench.emitter.drain()
    assert mode(steps[250:]) == mode(steps[10:60])  # of most: the collector may run in between


def test_a_call_that_was_never_emitted_is_forgotten_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of which only a name or output came makes room without an event."""
    monkeypatch.setattr(calls_module, "MAX_CALLS", 1)
    bench = Bench()
    bench.output("c1", "early")
    bench.calls.apply_call(up.ToolCall("c2", "Bash", None))
    assert bench.calls.find("c1") is None
    assert not of_type(bench.emitter.drain(), ToolReturned)
