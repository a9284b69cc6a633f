from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import updates as up
from penstock.agents.generic.adapter import MAX_DECISIONS, Generic
from penstock.agents.generic.fields import NAME_KEYS, TEXT_KEYS
from penstock.events import (
    BlockEnded,
    BlockRevised,
    Event,
    MessageEnded,
    Notice,
    Replied,
    RunEnded,
    RunStarted,
    ToolCalled,
    ToolReturned,
    Unknown,
    Usage,
)
from penstock.stream import Stream
from penstock.testing.verify import verify

KEYS = st.sampled_from(
    [*NAME_KEYS, *TEXT_KEYS, "delta", "role", "error", "tool", "name", "input", "choices", "usage", "state"]
)
WORDS = st.sampled_from(["delta", "tool_use", "tool_result", "result", "error", "message_start", "user", "", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def run(*lines: Any, events: dict[str, str] | None = None) -> list[Event]:
    """The events of a stream, which keep the contract."""
    stream = Stream(Generic(events))
    told = stream.feed(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)) + stream.close()
    assert verify(told) == []
    assert stream.health.adapter_errors == 0
    return told


def blocks(events: list[Event]) -> list[tuple[str, str]]:
    """Kind and text of the blocks but the inputs of tools."""
    return [(e.kind, e.text) for e in events if isinstance(e, BlockEnded) and e.kind != "tool_input"]


def end(events: list[Event]) -> RunEnded:
    """The last event."""
    assert isinstance(events[-1], RunEnded)
    return events[-1]


@pytest.mark.parametrize("name", ["type", "event", "kind"])
@pytest.mark.parametrize("field", ["text", "content", "delta", "message", "response", "output"])
def test_pieces_under_common_names(name: str, field: str) -> None:
    """Any of the usual names for the kind and the text."""
    events = run({name: "chunk", field: "Hel"}, {name: "chunk", field: "lo"}, {name: "done"})
    assert blocks(events) == [("text", "Hello")]
    assert (end(events).outcome, end(events).reply) == ("ok", "Hello")


def test_what_openai_streams() -> None:
    """Choices with deltas, thoughts, calls whose arguments come in pieces, and a finish reason."""

    def choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices}

    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "ls", "arguments": ""}}
    events = run(
        choice({"role": "assistant", "content": ""}),
        choice({"reasoning_content": "hm"}),
        choice({"content": "lo lo"}),
        choice({"content": "lo lo"}),
        choice({"tool_calls": [call]}),
        choice({"tool_calls": [{"index": 0, "function": {"arguments": '{"p":'}}]}),
        choice({"tool_calls": [{"index": 0, "function": {"arguments": '"x"}'}}]}),
        choice({}, "tool_calls"),
        {"role": "tool", "tool_call_id": "t1", "content": "file"},
        choice({"content": "Done."}),
        {**choice({}, "stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )
    assert blocks(events) == [("thinking", "hm"), ("text", "lo lolo lo"), ("text", "Done.")]
    assert [(e.call_id, e.name, e.input) for e in events if isinstance(e, ToolCalled)] == [("t1", "ls", {"p": "x"})]
    assert [(e.call_id, e.text) for e in events if isinstance(e, ToolReturned)] == [("t1", "file")]
    assert end(events).reply == "Done."
    assert end(events).usage == up.Usage(input_tokens=3, output_tokens=2)


def test_what_anthropic_streams() -> None:
    """Blocks by index, thoughts, and a call's input in pieces."""

    def delta(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    events = run(
        {"type": "message_start", "message": {"id": "m1", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        delta(0, type="thinking_delta", thinking="hmm"),
        delta(1, type="text_delta", text="Hi "),
        delta(1, type="text_delta", text="there"),
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": call},
        delta(2, type="input_json_delta", partial_json='{"a":'),
        delta(2, type="input_json_delta", partial_json="1}"),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    assert blocks(events) == [("thinking", "hmm"), ("text", "Hi there")]
    assert [e.input for e in events if isinstance(e, ToolCalled)] == [{"a": 1}]
    assert [(e.message_id, e.stop_reason) for e in events if isinstance(e, MessageEnded)] == [("m1", "tool_use")]


def test_whole_messages_with_blocks_and_tools() -> None:
    """Content lists, results in the user's role, messages that say the same twice."""
    content = [{"type": "text", "text": "Look."}, {"type": "tool_use", "id": "t1", "name": "ls", "input": {"p": 1}}]
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "gone"}],
        "is_error": True,
    }
    events = run(
        {"type": "assistant", "message": {"role": "assistant", "content": content}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "Done."},
    )
    assert blocks(events) == [("text", "Look."), ("text", "Done."), ("text", "Done.")]
    assert [(e.text, e.is_error, e.complete) for e in events if isinstance(e, ToolReturned)] == [("gone", True, True)]
    assert end(events).reply == "Done.\n\nDone."


@pytest.mark.parametrize(
    "line",
    [
        {"type": "tool_call", "name": "sh", "arguments": '{"a": 1}'},
        {"type": "tool_use", "tool_name": "sh", "parameters": {"a": 1}},
        {"event": "function_call", "data": {"name": "sh", "input": {"a": 1}}},
        {"tool": "sh", "args": {"a": 1}},
        {"type": "message", "tool_calls": [{"function": {"name": "sh", "arguments": '{"a": 1}'}}]},
    ],
)
def test_calls_in_common_shapes(line: dict[str, Any]) -> None:
    """A name and an input; ids are counted where there are none, and the next result is theirs."""
    events = run(line, {"type": "tool_result", "output": "out"}, {"type": "message", "text": "Bye."})
    assert [(e.call_id, e.name, e.input) for e in events if isinstance(e, ToolCalled)] == [("call_1", "sh", {"a": 1})]
    assert [(e.call_id, e.text) for e in events if isinstance(e, ToolReturned)] == [("call_1", "out")]
    assert end(events).reply == "Bye."


def test_a_command_is_a_call_with_its_output() -> None:
    """Started and completed are one call."""
    item = {"id": "i1", "type": "command_execution", "command": "ls", "exit_code": None}
    done = {**item, "aggregated_output": "a\n", "exit_code": 2}
    events = run({"type": "item.started", "item": item}, {"type": "item.completed", "item": done})
    assert [(e.call_id, e.input) for e in events if isinstance(e, ToolCalled)] == [("i1", {"command": "ls"})]
    assert [(e.text, e.exit_code) for e in events if isinstance(e, ToolReturned)] == [("a\n", 2)]


def test_snapshots_and_a_final_that_says_more() -> None:
    """Each text comes once."""
    events = run(
        {"type": "update", "content": "Hello"},
        {"type": "update", "content": "Hello wor"},
        {"type": "update", "content": "Hello world"},
        {"type": "complete", "content": "Hello world!"},
    )
    assert blocks(events) == [("text", "Hello world!")]
    assert not [e for e in events if isinstance(e, BlockRevised)]
    assert end(events).reply == "Hello world!"


def test_a_result_that_joins_rounds_is_not_said_again() -> None:
    """After tools, the text of a result may be all there was."""
    events = run(
        {"type": "token", "text": "Look."},
        {"type": "tool_call", "name": "ls", "input": {}},
        {"type": "tool_result", "output": "x"},
        {"type": "token", "text": "Done."},
        {"type": "result", "text": "Look.Done."},
    )
    assert blocks(events) == [("text", "Look."), ("text", "Done.")]
    assert not [e for e in events if isinstance(e, BlockRevised)]


def test_a_result_alone_is_text_and_reply() -> None:
    """Nothing is lost where nothing was streamed."""
    events = run({"type": "result", "result": "The answer.", "duration_ms": 7, "total_cost_usd": 0.5})
    assert blocks(events) == [("text", "The answer.")]
    assert [(e.reply, e.duration_ms, e.cost_usd) for e in events if isinstance(e, Replied)] == [("The answer.", 7, 0.5)]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "result", "error": "no", "status": "failed"},
        {"type": "error", "message": "no"},
        {"error": {"message": "no"}},
        {"event": "error", "data": '{"message": "no"}'},
        {"type": "turn.failed", "error": {"message": "no"}},
    ],
)
def test_errors_in_common_shapes(line: dict[str, Any]) -> None:
    """The run failed, and says why; the words are no text of the model's."""
    events = run(line)
    assert (end(events).outcome, end(events).reason) == ("error", "no")
    assert blocks(events) == []


def test_a_tools_error_is_not_the_runs() -> None:
    """It belongs to the call."""
    events = run({"type": "tool_result", "tool_call_id": "t", "error": "no"}, {"type": "message", "text": "Bye."})
    assert [(e.text, e.is_error) for e in events if isinstance(e, ToolReturned)] == [("no", True)]
    assert end(events).outcome == "ok"


def test_the_user_is_never_a_block() -> None:
    """By role or by the event's name."""
    events = run(
        {"role": "user", "content": "q"}, {"type": "user_message", "text": "q2"}, {"role": "system", "text": "s"}
    )
    assert blocks(events) == []
    assert [e.text for e in events if isinstance(e, Notice)] == ["q", "q2", "s"]


@pytest.mark.parametrize("key", ["session_id", "sessionId", "sessionID", "thread_id", "conversation_id"])
def test_who_the_agent_is(key: str) -> None:
    """Told once, and when it changes."""
    events = run(
        {"type": "init", key: "a", "model": "m"}, {"type": "token", "text": "x", key: "a"}, {"type": "ping", key: "b"}
    )
    assert [(e.session_id, e.model) for e in events if isinstance(e, RunStarted)] == [("a", "m"), ("b", "m")]


def test_the_configuration_decides() -> None:
    """By the event's own name, above all guessing."""
    lines = [{"type": "beat", "text": "Hel."}, {"type": "beat", "text": "lo."}]
    assert blocks(run(*lines)) == [("text", "Hel."), ("text", "lo.")]
    assert blocks(run(*lines, events={"beat": "delta"})) == [("text", "Hel.lo.")]
    assert blocks(run(*lines, events={"beat": "control"})) == []
    with pytest.raises(ValueError, match="is not a type of event"):
        Generic({"beat": "loud"})


def test_why_is_told_once_for_each_verdict() -> None:
    """Not for every line."""
    events = run(*({"type": "token", "text": "x "} for _ in range(5)))
    told = [e.text for e in events if isinstance(e, Notice) and e.code == "decision"]
    assert told == ["token is read as delta: its name says 'token'"]


def test_what_says_nothing_is_unknown_or_control() -> None:
    """Kinds with a telling name are control, others are told as unknown."""
    events = run({"type": "heartbeat"}, {"type": "blorp", "x": 1}, [1], {"foo": 1})
    assert [e.wire_type for e in events if isinstance(e, Unknown)] == ["blorp", "list", "{foo}"]


def test_the_end_of_a_stream_that_spoke_is_regular() -> None:
    """Nobody knows how such an agent ends."""
    assert end(run({"type": "token", "text": "Hi"})).outcome == "ok"


@settings(deadline=None)
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=5) | JSON, max_size=6))
def test_no_value_raises_and_the_contract_holds(values: list[Any]) -> None:
    """Any JSON, in any order."""
    run(*values)


def test_memory_is_bounded() -> None:
    """Names without end are not all remembered."""
    adapter = Generic()
    for number in range(MAX_DECISIONS * 2):
        adapter.read({"type": f"kind{number}", "text": f"Sentence {number}."})
    assert len(adapter._decisions) == MAX_DECISIONS


@pytest.mark.sample(9)
def test_every_recording_is_readable(recording: Any) -> None:
    """The agents that are known, read as if they were not: all of their last text comes out, by the contract."""
    stream = Stream("generic")
    events = stream.feed(recording.data) + stream.close()
    assert verify(events) == []
    assert stream.health.adapter_errors == 0
    reply = end(events).reply
    # A sub-agent on the same connection is told apart by ids that only its own adapter knows, and what our own
    # bridge puts around a server's events is known to nobody else.
    unknown = ("ccs", "cline", "copilot", "opencode/server")
    known = recording.agent not in unknown and recording.case != "subagent"
    if known and isinstance(recording.expected.get("reply"), str):
        assert recording.expected["reply"][-30:] in reply


def test_changes_of_a_call_without_a_flag_for_errors_are_not_made() -> None:
    """A wire without such a flag has the failure in its text: what the call proposed did not have to happen."""
    call = {"id": "c1", "type": "function", "function": {"name": "Write", "arguments": '{"path":"a","content":"b\\n"}'}}
    said = 'Invalid args for tool "Write"'
    lines = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": said},
    ]
    stream = Stream("generic")
    events = [event for line in lines for event in stream.feed(msgspec.json.encode(line) + b"\n")]
    [called] = [event for event in events if isinstance(event, ToolCalled)]
    [back] = [event for event in events if isinstance(event, ToolReturned)]
    assert [change.path for change in called.changes or ()] == ["a"]
    assert (back.text, back.changes, back.status_reported) == (said, None, False)


def test_a_call_and_its_result_in_one_event() -> None:
    """The state of a call has its result; while it runs there is none; a state that failed is a failure."""
    effect = {"type": "effect", "id": "e", "detail": {"toolName": "write_file", "input": {"path": "a", "content": "x"}}}
    states: list[Any] = [
        ({"status": "running"}, []),
        ({"status": "completed", "outputText": "done"}, [("done", False)]),
        ({"status": "failed", "error": "no such folder"}, [("no such folder", True)]),
    ]
    for state, returned in states:
        events = run({**effect, "state": state}, {"role": "assistant", "content": "Ready."})
        found = [event for event in events if isinstance(event, ToolReturned) and event.complete]
        assert [(event.text, event.is_error) for event in found] == returned
        assert sum(isinstance(event, ToolCalled) for event in events) == 1
        assert end(events).reply == "Ready."


def test_an_end_after_an_error_is_no_success() -> None:
    """An error that nothing follows but the end is the reason; text after it shows that the agent went on."""
    error, over = {"type": "error", "error": "the provider is gone"}, {"type": "complete", "total_tokens": None}
    said = {"role": "assistant", "content": "It works again."}
    assert (end(run(error, over)).outcome, end(run(error, over)).reason) == ("error", "the provider is gone")
    assert end(run(said, error, over)).outcome == "error"
    assert (end(run(error, said, over)).outcome, end(run(error, said, over)).reply) == ("ok", "It works again.")


def test_figures_of_the_end_itself() -> None:
    """Counts that an event has without an object around them are the usage."""
    events = run({"role": "assistant", "content": "Hi."}, {"type": "complete", "input_tokens": 9, "output_tokens": 2})
    assert end(events).usage == Usage(input_tokens=9, output_tokens=2)
