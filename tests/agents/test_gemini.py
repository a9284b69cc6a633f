from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock import updates as up
from penstock.agents.gemini.exec import Gemini
from penstock.events import Cause, PlanItem

read = partial(adapter_harness.read, Gemini)


def test_the_assistants_text_is_deltas_and_the_prompt_is_not_shown() -> None:
    """Only what the model says is text."""
    assert read(
        {"type": "message", "role": "user", "content": "prompt"},
        {"type": "message", "role": "assistant", "content": "Hi", "delta": True},
    ) == [up.Text("text", "delta", "Hi", "text")]


def test_a_message_is_whole_only_where_the_wire_says_so() -> None:
    """A delta that lost its mark must not replace the text before it."""
    assert read({"type": "message", "role": "assistant", "content": "x"}) == [up.Text("text", "delta", "x", "text")]
    assert read({"type": "message", "role": "assistant", "content": "x", "delta": None}) == [
        up.Text("text", "delta", "x", "text")
    ]
    assert read({"type": "message", "role": "assistant", "content": "x", "delta": False}) == [
        up.Text("text", "final", "x", "text")
    ]


def test_content_in_another_shape_still_comes_out() -> None:
    """Parts are joined as they are."""
    line = {"type": "message", "role": "assistant", "content": [{"text": "a"}, {"text": "b"}], "delta": True}
    assert read(line) == [up.Text("text", "delta", "ab", "text")]


def test_a_call_and_its_result() -> None:
    """Name, id and input of the call; output of the result, after which the model speaks anew."""
    assert read(
        {"type": "tool_use", "tool_name": "ls", "tool_id": "c1", "parameters": {"dir": "."}},
        {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "a\nb"},
    ) == [up.ToolCall("c1", "ls", {"dir": "."}), up.ToolReturn("c1", "a\nb"), up.RoundEnd()]


def test_a_result_without_output_is_empty_and_one_with_an_error_is_an_error() -> None:
    """`output` is absent where the display is no text; the error's words are its text."""
    assert read({"type": "tool_result", "tool_id": "c1", "status": "success"})[0] == up.ToolReturn(
        "c1", output_reported=False
    )
    failed = {
        "type": "tool_result",
        "tool_id": "c1",
        "status": "error",
        "error": {"type": "x", "message": "no such tool"},
    }
    assert read(failed)[0] == up.ToolReturn("c1", "no such tool", True)
    assert read({"type": "tool_result", "tool_id": "c1", "status": "error", "output": "why"})[0] == up.ToolReturn(
        "c1", "why", True
    )


def test_todos_are_a_plan() -> None:
    """The input of the todo tool is the whole plan."""
    todos = [{"description": "a", "status": "in_progress"}, {"description": "b", "status": "cancelled"}]
    found = read({"type": "tool_use", "tool_name": "write_todos", "tool_id": "c", "parameters": {"todos": todos}})
    assert found[1] == up.Plan([PlanItem("a", "in_progress"), PlanItem("b", "completed")])


def test_success_carries_the_totals() -> None:
    """Cached tokens are inside the input."""
    stats = {"input_tokens": 1000, "output_tokens": 6, "cached": 50, "input": 950, "duration_ms": 360}
    assert read({"type": "result", "status": "success", "stats": stats}) == [
        up.Result(usage=up.Usage(1000, 6, 50), duration_ms=360)
    ]


@pytest.mark.parametrize(
    ("type", "message", "reason", "cause"),
    [
        ("unknown", '[API Error: {"error":{"code":500,"message":"busy"}}]', "API Error: busy", "provider"),
        ("unknown", '[API Error: {"error":{"status":"UNAUTHENTICATED","message":"key"}}]', "API Error: key", "auth"),
        ("unknown", "[API Error: a [b] (Status: RESOURCE_EXHAUSTED)]\nPlease wait.", None, "rate_limit"),
        ("unknown", "[API Error: plain words]", "[API Error: plain words]", None),
        ("unknown", "[API Error: plain words]\nPlease wait and try again later. To increase", None, "rate_limit"),
        ("unknown", "[API Error: ", None, None),
        ("FatalTurnLimitedError", "turn limit", "turn limit", "budget"),
        (["FatalTurnLimitedError"], "turn limit", "turn limit", None),
        ("ModelNotFoundError", "[API Error: none]", "[API Error: none]", "missing"),
    ],
)
def test_an_error_has_the_words_and_the_cause_of_its_fields(
    type: Any, message: str, reason: str | None, cause: Cause | None
) -> None:
    """The class of the error names the cause, or the status that the provider gave."""
    error = {"type": type, "message": message}
    expected = up.Result(is_error=True, reason=reason or message, cause=cause)
    assert read({"type": "result", "status": "error", "error": error}) == [expected]


def test_an_error_without_words_is_an_error() -> None:
    """A broken stream ends with status `error`, no error object and exit status 0."""
    reason = "gemini ended with an error and gave no message"
    assert read({"type": "result", "status": "error", "error": None}) == [up.Result(is_error=True, reason=reason)]


def test_an_error_line_is_no_end() -> None:
    """It is shown with its severity."""
    assert read(
        {"type": "error", "severity": "warning", "message": "loop"},
        {"type": "error", "severity": None, "message": "turns"},
    ) == [up.Notice("error", "loop", "warning"), up.Notice("error", "turns", "error")]


def test_the_first_line_and_unknown_ones() -> None:
    """Session and model; a new kind keeps its text."""
    assert read({"type": "init", "session_id": "s", "model": "m"}) == [up.RunStart(session_id="s", model="m")]
    assert list(Gemini().read({"type": "thought", "content": "hm"})) == [up.Unknown("thought", "hm")]
    assert list(Gemini().read(3)) == [up.Unknown()]


@pytest.mark.parametrize("value", [None, 7, True, "x", [], [None], {}, {"a": {"b": None}}])
def test_no_value_is_fatal(value: Any) -> None:
    """Every kind of line is read whatever its fields hold."""
    found = read(
        {"type": "message", "role": "assistant", "content": value, "delta": value},
        {"type": "tool_use", "tool_name": "write_todos", "parameters": value},
        {"type": "tool_result", "output": value, "error": value},
        {"type": "error", "message": value},
        {"type": "result", "error": value, "stats": value},
    )
    msgspec.json.encode(found)
    assert isinstance(found[-1], up.Result)
