from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock import updates as up
from penstock.agents.cline.exec import Cline

read = partial(adapter_harness.read, Cline)


def agent(kind: str, content: str | None = None, **fields: Any) -> dict[str, Any]:
    """An agent event."""
    inner = {"type": kind, **({"contentType": content} if content else {}), **fields}
    return {"ts": "2026-11-20T00:00:00Z", "type": "agent_event", "event": inner}


def hook(name: str, agent_id: str, parent: str | None = None) -> dict[str, Any]:
    """A hook event."""
    return {"type": "hook_event", "hookEventName": name, "agentId": agent_id, "taskId": "t", "parentAgentId": parent}


def test_text_comes_as_deltas_and_the_accumulated_text_is_not_read() -> None:
    """The end of the block is its final text, in the same place."""
    assert read(
        agent("content_start", "text", text="He", accumulated="He"),
        agent("content_start", "text", text="y", accumulated="Hey"),
        agent("content_end", "text", text="Hey"),
    ) == [
        up.Text("text", "delta", "He", "text"),
        up.Text("text", "delta", "y", "text"),
        up.Text("text", "final", "Hey", "text"),
    ]


def test_thinking_has_its_own_place_since_it_ends_late() -> None:
    """Its end comes after that of the text."""
    assert read(
        agent("content_start", "reasoning", reasoning="Hm", redacted=False),
        agent("content_end", "reasoning", reasoning="Hm"),
    ) == [up.Text("thinking", "delta", "Hm", "reasoning"), up.Text("thinking", "final", "Hm", "reasoning")]


def test_hidden_thinking_is_a_notice() -> None:
    """There is nothing to show but that it was there."""
    assert read(agent("content_start", "reasoning", reasoning="", redacted=True)) == [
        up.Notice("redacted", "thinking that the provider hides")
    ]


def test_a_command_streams_its_output_and_returns() -> None:
    """Empty chunks are nothing; the exit code stands in the words of the error."""
    tool = {"toolName": "run_commands", "toolCallId": "c"}
    result = {"query": "x", "result": "[Command exited with code 3]\nout\n", "error": "Command exited with code 3"}
    assert read(
        agent("content_start", "tool", **tool, input={"commands": ["x"]}),
        agent("content_update", "tool", **tool, update={"stream": "stdout", "chunk": ""}),
        agent("content_update", "tool", **tool, update={"stream": "stdout", "chunk": "out\n"}),
        agent("content_end", "tool", **tool, output=[{**result, "success": False}], durationMs=5),
    ) == [
        up.ToolCall("c", "run_commands", {"commands": ["x"]}),
        up.Text("tool_output", "delta", "out\n", call_id="c"),
        up.ToolReturn("c", "out\n", True, 3, "run_commands", duration_ms=5),
    ]


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({"files": [{"path": "/x/calc.py"}]}, "/x/calc.py"),
        ({"files": [{"path": "a", "start_line": 1}, {"path": "b"}]}, "a …"),
        ({"files": [{"path": 7}]}, None),
        ({"files": ["a"]}, None),
        ({"files": []}, None),
        ({"commands": ["ls"]}, None),
    ],
)
def test_files_to_read_are_named_by_their_paths(given: Any, title: str | None) -> None:
    """They come as a list of objects, which is no title for people."""
    tool = {"toolName": "read_files", "toolCallId": "c"}
    assert read(agent("content_start", "tool", **tool, input=given)) == [up.ToolCall("c", "read_files", given, title)]


@pytest.mark.parametrize(
    ("output", "error", "text", "failed"),
    [
        ({"query": "q", "result": "made", "success": True}, None, "made", False),
        ([{"result": "a", "success": True}, {"result": "b", "success": True}], None, "a\nb", False),
        ([{"result": "", "error": "gone", "success": False}], None, "gone", True),
        ("plain", None, "plain", False),
        (None, "not allowed", "not allowed", True),
        ({"answer": 42}, None, '{"answer":42}', False),
        (None, None, "", False),
    ],
)
def test_results_of_tools_have_many_shapes(output: Any, error: Any, text: str, failed: bool) -> None:
    """Text comes out of each, and failure is seen."""
    [done] = read(agent("content_end", "tool", toolName="t", toolCallId="c", output=output, error=error))
    assert done == up.ToolReturn("c", text, failed, None, "t")


def test_an_iteration_is_a_message_with_its_usage() -> None:
    """The totals in the usage event are not those of the call; a cost that is left out beside a total is 0."""
    figures: dict[str, Any] = {
        "inputTokens": 1000,
        "outputTokens": 12,
        "cacheReadTokens": 50,
        "totalInputTokens": 5000,
        "totalCost": 9,
    }
    assert read(agent("iteration_start", iteration=1), agent("usage", **figures), agent("iteration_end")) == [
        up.MessageStart(),
        up.ModelUsage(up.Usage(1000, 12, 50, cost_usd=0.0)),
        up.MessageEnd(),
    ]
    [paid] = read(agent("usage", **figures, cost=0.02))
    assert paid == up.ModelUsage(up.Usage(1000, 12, 50, cost_usd=0.02))
    [unknown] = read(agent("usage", inputTokens=1000))
    assert unknown == up.ModelUsage(up.Usage(1000))


def test_a_sub_agents_events_are_in_its_lane() -> None:
    """Only the hooks around them tell whose they are; `done` in between is not the end."""
    found = read(
        hook("agent_start", "main"),
        agent("content_start", "text", text="a"),
        hook("agent_start", "sub", "main"),
        agent("iteration_start"),
        agent("content_start", "text", text="b"),
        hook("tool_call", "sub", "main"),
        agent("content_end", "text", text="b"),
        hook("agent_end", "sub", "main"),
        agent("done", reason="completed", text="b"),
        agent("content_start", "text", text="c"),
    )
    assert [(update.lane, getattr(update, "text", None)) for update in found] == [  # type: ignore[union-attr]
        (None, "a"),
        ("sub", None),
        ("sub", "b"),
        ("sub", "b"),
        (None, "c"),
    ]


def test_a_sub_agents_lane_is_the_call_that_started_it() -> None:
    """The calls that wait for their sub-agent are served in order, and the end of a call ends its lane."""
    spawn = {"toolName": "spawn_agent"}
    found = read(
        agent("content_start", "tool", **spawn, toolCallId="c1"),
        agent("content_start", "tool", **spawn, toolCallId="c2"),
        hook("agent_start", "s1", "main"),
        agent("content_start", "text", text="a"),
        agent("content_end", "tool", **spawn, toolCallId="c1", output="done"),
        hook("agent_start", "s2", "main"),
        agent("content_start", "text", text="b"),
    )
    assert found[2:] == [
        up.Text("text", "delta", "a", "text", lane="c1"),
        up.ToolReturn("c1", "done", False, None, "spawn_agent"),
        up.Text("text", "delta", "b", "text", lane="c2"),
    ]


def test_a_sub_agent_that_fails_does_not_fail_the_run() -> None:
    """Its error ends its lane; the main agent goes on."""
    found = read(
        hook("agent_start", "sub", "main"),
        hook("agent_error", "sub", "main"),
        agent("error", error={"name": "Error", "message": "busy"}, recoverable=False),
        agent("content_start", "text", text="c"),
    )
    assert found == [up.Notice("error", "busy", "error", "sub"), up.Text("text", "delta", "c", "text")]


def test_the_end_of_the_main_agent_ends_every_lane() -> None:
    """A sub-agent whose end was never told does not keep what follows."""
    found = read(
        hook("agent_start", "sub", "main"), hook("agent_end", "main"), agent("content_start", "text", text="c")
    )
    assert found == [up.Text("text", "delta", "c", "text")]


def test_errors_of_the_run() -> None:
    """One that cline recovers from is a note."""
    error = {"name": "Error", "message": "busy", "stack": "…"}
    assert read(agent("error", error=error, recoverable=True)) == [up.Notice("error", "busy", "warning")]
    assert read(agent("error", error=error, recoverable=False)) == [
        up.Notice("error", "busy", "error"),
        up.Failure("busy"),
    ]


@pytest.mark.parametrize(
    ("fields", "notice"),
    [
        ({"noticeType": "status", "reason": "auto_compaction"}, up.Notice("compaction", "x")),
        ({"noticeType": "recovery", "reason": "api_error"}, up.Notice("retry", "x", "warning")),
        ({"noticeType": "stop", "reason": "mistake_limit"}, up.Notice("status", "x", "warning")),
        ({}, up.Notice("status", "x")),
    ],
)
def test_notices(fields: dict[str, Any], notice: up.Notice) -> None:
    """They are told by what they are about."""
    assert read(agent("notice", message="x", **fields)) == [notice]


def test_a_good_result_tells_the_model_the_answer_and_the_totals() -> None:
    """The totals with the sub-agents in them are taken."""
    usage = {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 0, "cacheWriteTokens": 0, "totalCost": 0}
    line = {
        "type": "run_result", "finishReason": "completed", "text": "Done", "usage": usage,
        "aggregateUsage": {**usage, "inputTokens": 5, "totalCost": 0.25}, "durationMs": 7, "model": {"id": "m"},
    }  # fmt: skip
    assert read(line) == [
        up.MessageEnd(),
        up.RunStart(model="m"),
        up.Result("Done", usage=up.Usage(5, 2, 0, 0), cost_usd=0.25, duration_ms=7),
    ]


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("error", up.Result(is_error=True, reason="busy")),
        ("max_iterations", up.Result(is_error=True, reason="cline stopped: max_iterations")),
        ("aborted", up.Result(is_error=True, reason="cline stopped: aborted", cancelled=True)),
    ],
)
def test_the_text_of_a_bad_result_is_never_the_answer(finish: str, expected: up.Result) -> None:
    """For an error it is the message, and so the reason; the iteration it broke off is over."""
    assert read({"type": "run_result", "finishReason": finish, "text": "busy"}) == [
        up.MessageEnd(status="cut"),
        expected,
    ]


def test_the_lines_around_a_run() -> None:
    """Verbose starts, aborts and teams."""
    assert read({"type": "run_start", "sessionId": "s", "modelId": "m"}) == [up.RunStart(session_id="s", model="m")]
    assert read({"type": "run_abort_requested", "reason": "sigint"}) == [
        up.Notice("status", "abort requested sigint", "warning")
    ]
    assert read({"type": "run_aborted", "reason": "local_abort", "message": "stopped"}) == [
        up.Result(is_error=True, cancelled=True, reason="stopped")
    ]
    assert read(
        {"type": "team_event", "event": {"type": "run_progress", "run": {"id": "r1"}, "message": "halfway"}},
        {"type": "team_event", "event": {"type": "run_progress", "run": {"id": "r1"}, "message": "heartbeat"}},
        {"type": "team_restored", "teamName": "blue"},
    ) == [up.Notice("background", "run_progress r1: halfway"), up.Notice("background", "team restored: blue")]


def test_unknown_kinds_keep_their_text() -> None:
    """Inside an agent event too."""
    assert read(agent("hologram", text="hi")) == [up.Unknown("agent_event/hologram", "hi")]
    assert read(agent("content_start", "image")) == [up.Unknown("agent_event/content_start/image")]
    assert list(Cline().read({"type": "later", "message": "hi"})) == [up.Unknown("later", "hi")]


@pytest.mark.parametrize("value", [None, 7, True, "x", [], [None], {}, {"a": {"b": None}}])
def test_no_value_is_fatal(value: Any) -> None:
    """Every kind of line is read whatever its fields hold."""
    kinds = ("text", "reasoning", "tool")
    fields = dict.fromkeys(
        ("text", "reasoning", "redacted", "input", "update", "output", "error", "recoverable", "message"), value
    )
    found = read(
        *(agent(step, kind, **fields) for step in ("content_start", "content_update", "content_end") for kind in kinds),
        *(agent(kind, **fields, inputTokens=value, cost=value) for kind in ("usage", "notice", "error", "done")),
        {"type": "team_event", "event": value},
        {"type": "run_result", "text": value, "usage": value, "aggregateUsage": value, "model": value},
    )
    msgspec.json.encode(found)
    assert isinstance(found[-1], up.Result)


def test_media_that_the_model_made_are_a_notice() -> None:
    """It has the place, if there is one; a kind of content that is not known stays unknown."""
    assert read(
        agent("content_end", "media", media={"modality": "image", "path": "a.png"}),
        agent("content_end", "media", media={"source": {"type": "url", "url": "https://x"}}),
        agent("content_end", "media", media=[7]),
    ) == [up.Notice("media", "a.png"), up.Notice("media", "https://x"), up.Notice("media", "media was made")]
    assert isinstance(read(agent("content_end", "smell"))[0], up.Unknown)
