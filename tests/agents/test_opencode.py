from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock import updates as up
from penstock.agents.opencode.exec import OpenCode
from penstock.events import PlanItem

read = partial(adapter_harness.read, OpenCode)


def line(kind: str, **part: Any) -> dict[str, Any]:
    """A line with a part of message `m`."""
    return {"type": kind, "timestamp": 1, "sessionID": "ses", "part": {"id": "p", "messageID": "m", **part}}


def tool(name: str, **state: Any) -> dict[str, Any]:
    """A finished call."""
    return line("tool_use", tool=name, callID="c", state=state)


def test_a_step_is_a_message() -> None:
    """Its start names the session too."""
    assert read(line("step_start")) == [up.RunStart(session_id="ses"), up.MessageStart("m")]


def test_parts_are_whole_blocks_of_their_message() -> None:
    """The part's id is the place, so that order does not matter."""
    assert read(line("reasoning", text="Hm"), line("text", text="Hi")) == [
        up.Text("thinking", "final", "Hm", "p", "m"),
        up.Text("text", "final", "Hi", "p", "m"),
    ]


@pytest.mark.parametrize(("metadata", "code"), [({"compaction_continue": True}, "compaction"), (None, "user")])
def test_synthetic_text_is_not_the_models(metadata: Any, code: str) -> None:
    """What the program says in the user's role is a notice."""
    found = read(line("text", text="Continue", synthetic=True, metadata=metadata))
    assert found == [up.Notice(code, "Continue"), up.RoundEnd()]  # type: ignore[arg-type]


def test_a_command_that_failed_is_an_error_though_its_status_says_completed() -> None:
    """The exit code is in the metadata; the command itself is the title."""
    call, done = read(
        tool("bash", status="completed", input={"command": "x"}, output="out\n", title="Runs x", metadata={"exit": 3})
    )
    assert call == up.ToolCall("c", "bash", {"command": "x"}, message="m")
    assert done == up.ToolReturn("c", "out\n", True, 3, "bash")


def test_a_good_result_is_no_error() -> None:
    """The title that comes with it is not used: where calls are seen as they begin, it comes too late."""
    call, done = read(tool("write", status="completed", input={"filePath": "/a/n.txt"}, output="ok", title="n.txt"))
    assert call == up.ToolCall("c", "write", {"filePath": "/a/n.txt"}, message="m")
    assert done == up.ToolReturn("c", "ok", False, None, "write")


def test_errors_of_tools() -> None:
    """A status of error, and the tool that stands for a call that was no call."""
    assert read(tool("read", status="error", input={}, error="no file"))[-1] == up.ToolReturn(
        "c", "no file", True, None, "read"
    )
    assert read(tool("invalid", status="completed", input={}, output="bad"))[-1] == up.ToolReturn(
        "c", "bad", True, None, "invalid"
    )


def test_a_refused_permission_ends_the_run_unless_more_comes() -> None:
    """Nobody can be asked, so the run stops without an answer."""
    words = "The user rejected permission to use this specific tool call."
    found = read(tool("bash", status="error", input={}, error=words))
    assert found[-2:] == [up.Notice("permission", "bash was not allowed", "warning"), up.Failure(words)]


def test_todos_are_a_plan_and_attachments_are_named() -> None:
    """Neither is lost in the result's text."""
    todos = [{"content": "a", "status": "completed", "priority": "high"}, {"content": "b", "status": "pending"}]
    assert up.Plan([PlanItem("a", "completed"), PlanItem("b", "pending")]) in read(
        tool("todowrite", status="completed", input={"todos": todos})
    )
    assert up.Notice("media", "read: [file image/png]") in read(
        tool("read", status="completed", attachments=[{"type": "file", "mime": "image/png"}])
    )


def test_usage_is_brought_to_one_reading() -> None:
    """Cache is counted into the input and reasoning into the output: together they are opencode's total."""
    tokens = {"total": 1040, "input": 950, "output": 37, "reasoning": 3, "cache": {"write": 0, "read": 50}}
    found = read(line("step_finish", reason="tool-calls", tokens=tokens, cost=0.5))
    assert found == [
        up.ModelUsage(up.Usage(1000, 40, 50, 0, 3, 0.5), message="m", whole=True),
        up.MessageEnd("m", stop_reason="tool-calls"),
        up.RoundEnd(),
    ]


@pytest.mark.parametrize(
    ("reason", "results"),
    [
        ("stop", [up.Result()]),
        ("other", [up.Result()]),
        ("tool-calls", []),
        (None, []),
        ("error", [up.Result(is_error=True, reason="the model call ended with an error")]),
    ],
)
def test_the_step_that_asks_for_no_tools_ends_the_answer(reason: str | None, results: list[up.Update]) -> None:
    """A step without a reason proves nothing."""
    assert read(line("step_finish", reason=reason)) == [
        up.MessageEnd("m", stop_reason=reason),
        *results,
        up.RoundEnd(),
    ]


def test_an_answer_that_was_filtered_says_so() -> None:
    """It is an answer all the same."""
    _, notice, result, _ = read(line("step_finish", reason="content-filter"))
    assert isinstance(notice, up.Notice)
    assert (notice.code, notice.level, result) == ("refusal", "warning", up.Result())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"name": "APIError", "data": {"message": "busy", "statusCode": 500}}, "busy"),
        ({"name": "UnknownError", "data": None}, "UnknownError"),
        ("boom", "boom"),
        (None, "opencode reported an error and gave no message"),
    ],
)
def test_an_error_is_a_failure_that_a_later_answer_takes_back(error: Any, reason: str) -> None:
    """It names the session, since it may be the only line."""
    assert read({"type": "error", "sessionID": "ses", "error": error}) == [
        up.RunStart(session_id="ses"),
        up.Notice("error", reason, "error"),
        up.Failure(reason),
    ]


def test_unknown_lines_keep_their_text() -> None:
    """A new kind has its part's text."""
    assert list(OpenCode().read({"type": "patch", "part": {"text": "hi"}})) == [up.Unknown("patch", "hi")]
    assert list(OpenCode().read(None)) == [up.Unknown()]


@pytest.mark.parametrize("value", [None, 7, True, "x", [], [None], {}, {"a": {"b": None}}])
def test_no_value_is_fatal(value: Any) -> None:
    """Every kind of line is read whatever its fields hold."""
    found = read(
        line("text", text=value, synthetic=value, metadata=value),
        line("reasoning", text=value),
        line("tool_use", tool="todowrite", state=value),
        tool("todowrite", status=value, input=value, output=value, metadata=value, title=value, attachments=value),
        line("step_finish", tokens=value, cost=value),
        line("step_finish", tokens={"input": value, "cache": value}),
    )
    msgspec.json.encode(found)
    assert sum(isinstance(update, up.ToolReturn) for update in found) == 2
