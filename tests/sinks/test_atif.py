"""Trajectories: each recording is valid by the format's own models, and a fold of it gives what the events say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from lazy_modules import LazyModule

from penstock import events as ev
from penstock.sinks.atif import AtifSink
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    import atif

    from conftest import Recording
else:
    atif = LazyModule("atif")

PROMPT = "What is here?"


def trajectory(events: list[ev.Event], **known: Any) -> dict[str, Any]:
    """Return the only trajectory of these events, as JSON has it."""
    lines = AtifSink(**known).render(events).splitlines()
    assert len(lines) == 1
    found: dict[str, Any] = msgspec.json.decode(lines[0])
    atif.Trajectory.model_validate(found, strict=True)
    return found


def lanes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the trajectory and those of its sub-agents."""
    return [found, *found.get("subagent_trajectories", ())]


def test_a_recording_is_a_valid_trajectory(recording: Recording) -> None:
    """The reply, all calls and results, the usage and the end can be read from the trajectory alone."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    found = trajectory(events, prompt=PROMPT, began_ms=0)
    steps = [step for lane in lanes(found) for step in lane["steps"]]

    assert found["steps"][0]["message"] == PROMPT
    calls = {call["tool_call_id"]: call["function_name"] for step in steps for call in step.get("tool_calls", ())}
    assert calls == {event.call_id: event.name for event in events if isinstance(event, ev.ToolCalled)}
    results = [result for step in steps for result in step.get("observation", {}).get("results", ())]
    contents = sorted(result["content"] for result in results if "content" in result)
    assert contents == sorted(event.text for event in events if isinstance(event, ev.ToolReturned))

    said = "".join("".join(step["message"] for step in found["steps"] if step["source"] == "agent").split())
    assert "".join(end.reply.split()) in said
    assert found["extra"]["reply"] == end.reply
    assert found["extra"]["outcome"] == end.outcome
    last = found["steps"][-1]
    assert (last["source"] == "system" and end.outcome in last["message"]) is (end.outcome != "ok")

    usage, totals = end.usage or ev.Usage(), found["final_metrics"]
    assert totals.get("total_prompt_tokens") == usage.input_tokens
    assert totals.get("total_completion_tokens") == usage.output_tokens
    assert totals.get("total_cost_usd") == end.cost_usd
    assert totals["total_steps"] == len(found["steps"])


def test_sub_agents_are_referenced(recording: Recording) -> None:
    """Each embedded trajectory is referenced by exactly one result, and each reference has its trajectory."""
    found = trajectory(feeds.whole(Stream(recording.agent), recording.data))
    results = [
        result
        for lane in lanes(found)
        for step in lane["steps"]
        for result in step.get("observation", {}).get("results", ())
    ]
    named = [each["trajectory_id"] for result in results for each in result.get("subagent_trajectory_ref", ())]
    assert sorted(named) == sorted(lane["trajectory_id"] for lane in found.get("subagent_trajectories", ()))
    for lane in lanes(found):
        for step in lane["steps"]:
            made = {call["tool_call_id"] for call in step.get("tool_calls", ())}
            returned = {each.get("source_call_id") for each in step.get("observation", {}).get("results", ())}
            assert returned - {None} <= made


@pytest.mark.parametrize("lines", range(12))
def test_a_cut_stream_is_no_success(claude_lines: list[bytes], lines: int) -> None:
    """A stream that breaks off after any line ends in a step that says so."""
    events = feeds.whole(Stream("claude"), b"".join(claude_lines[:lines]))
    found = trajectory(events)
    assert found["extra"]["outcome"] != "ok"
    assert found["steps"][-1]["source"] == "system"


@pytest.fixture
def claude_lines() -> list[bytes]:
    """Return the lines of a run with a call, without its result."""
    message = {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "I look."}]}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s1", "model": "m", "cwd": "/x", "tools": ["Bash"]},
        {"type": "assistant", "message": message},
        {"type": "assistant", "message": {**message, "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "message": {**message, "id": "m2", "content": [{"type": "text", "text": "Two files."}]}},
    ]
    return [msgspec.json.encode(line) + b"\n" for line in lines]


def test_what_the_format_has_no_field_for_is_extra() -> None:
    """Superseded texts, notices, questions, arguments that are no object, results without their call."""
    base: dict[str, Any] = {"agent": "a"}
    events: list[ev.Event] = [
        ev.MessageStarted(1, **base),
        ev.BlockStarted(1, "text", 1, **base),
        ev.BlockEnded(1, "text", "first try", True, **base),
        ev.MessageEnded(1, "superseded", **base),
        ev.ToolReturned("lost", "late", False, True, **base),
        ev.Notice("warning", "retry", "again", attempt=1, **base),
        ev.Notice("info", "user", PROMPT, **base),
        ev.Notice("info", "compaction", "shorter", **base),
        ev.MessageStarted(2, **base),
        ev.ToolCalled("t", "run", ["ls"], "ls", "execute", 2, **base),
        ev.QuestionAsked("q", "May I?", True, "command", **base),
        ev.QuestionAnswered("q", "person", "allow", **base),
        ev.ToolReturned("t", "", True, True, exit_code=1, refused=True, **base),
        ev.UsageReported("m", 3, 4, 1, **base),
        ev.UsageReported("m", 1, 1, **base),
        ev.RunEnded("ok", "all done", 2, usage=ev.Usage(4, 5, 1), cost_usd=0.5, at=1500, **base),
    ]
    found = trajectory(events, prompt=PROMPT, began_ms=0)
    assert [(step["source"], step["message"]) for step in found["steps"]] == [
        ("user", PROMPT),
        ("system", ""),
        ("system", "shorter"),
        ("agent", ""),
        ("agent", "all done"),
    ]
    assert found["extra"]["superseded"] == ["first try"]
    assert found["extra"]["notices"] == [{"level": "warning", "code": "retry", "text": "again", "attempt": 1}]
    assert found["extra"]["questions"] == [{"text": "May I?", "by": "person", "option": "allow"}]
    call = found["steps"][3]
    assert call["tool_calls"][0]["arguments"] == {"input": ["ls"]}
    assert call["observation"]["results"][0]["extra"] == {"is_error": True, "exit_code": 1, "refused": True}
    assert call["metrics"] == {"prompt_tokens": 4, "completion_tokens": 5, "cached_tokens": 1}
    assert found["steps"][1]["observation"]["results"] == [{"content": "late", "extra": {"call_id": "lost"}}]
    assert found["steps"][4]["timestamp"] == "1970-01-01T00:00:01.500+00:00"
