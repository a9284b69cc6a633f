"""Causes of failures and retries, and denied calls, as the wires of several agents have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adapter_harness import of, run

from penstock.events import Cause, Notice, RunEnded, ToolReturned
from penstock.stream import Stream

RECORDINGS = Path(__file__).parents[1] / "recordings"


def end_of(agent: str, recording: str) -> tuple[RunEnded, list[Notice]]:
    """The end of a recorded run, and the notices of its retries."""
    stream = Stream(agent, strict=True)
    events = stream.feed((RECORDINGS / recording / "input.ndjson").read_bytes()) + stream.close()
    assert isinstance(events[-1], RunEnded)
    return events[-1], [event for event in of(events, Notice) if event.code == "retry"]


@pytest.mark.parametrize(
    ("agent", "case", "cause"),
    [
        ("pi", "pi/err500", "provider"),
        ("pi", "pi/maxtok", "length"),
        ("copilot", "copilot/err500", "provider"),
        ("gemini", "gemini/err500", "provider"),
        ("cline", "cline/err500", None),
        ("acp", "acp/claude-errstream", "provider"),
        ("acp", "acp/codex-err400_2", "context"),
        ("acp", "acp/codex-errstream_2", "overloaded"),
        ("acp", "acp/codex-maxtok_2", "length"),
        ("acp", "acp/qwen-err400", "context"),
        ("acp", "acp/vibe-err401", "auth"),
    ],
)
def test_a_recorded_failure_has_the_cause_that_its_wire_names(agent: str, case: str, cause: Cause | None) -> None:
    """Cline has a class of the error, which is `unknown` here."""
    end, _ = end_of(agent, case)
    assert (end.outcome, end.cause) == ("error", cause)


def test_retries_of_pi_have_their_attempt_and_their_wait() -> None:
    """All figures are in the line that begins the retry."""
    _, retries = end_of("pi", "pi/err500")
    found = [(notice.cause, notice.attempt, notice.max_attempts, notice.wait_ms) for notice in retries]
    assert found == [("provider", 1, 2, 300), ("provider", 2, 2, 600)]


def test_retries_of_copilot_have_the_cause_of_the_call_that_failed() -> None:
    """The call that failed has its number; the most that copilot tries is not named."""
    _, retries = end_of("copilot", "copilot/err500")
    assert [(notice.cause, notice.attempt) for notice in retries] == [("provider", number) for number in range(1, 6)]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ({"errorType": "quota", "statusCode": 429}, "usage_limit"),
        ({"errorType": "rate_limit"}, "rate_limit"),
        ({"errorType": "context_limit", "statusCode": 400}, "context"),
        ({"errorType": "query", "statusCode": 529}, "overloaded"),
        ({"errorType": ["query"], "statusCode": "529", "errorCode": {}}, None),
    ],
)
def test_an_error_of_copilots_session_has_a_category_or_a_status(data: dict[str, Any], cause: Cause | None) -> None:
    """The category is more exact than the status."""
    events = run(
        "copilot",
        {"type": "session.error", "data": {"message": "It failed.", **data}},
        {"type": "result", "exitCode": 1, "sessionId": "s"},
    )
    assert events[-1].cause == cause  # type: ignore[union-attr]


def test_a_call_that_copilot_denied_is_counted() -> None:
    """Nobody could be asked; a call that fails otherwise is not counted."""
    codes = ("denied", "failure", "rejected")
    calls = [
        {"type": f"tool.execution_{what}", "data": {"toolCallId": code, "toolName": "create", **more}}
        for code in codes
        for what, more in (("start", {}), ("complete", {"success": False, "error": {"message": "No.", "code": code}}))
    ]
    events = run("copilot", *calls, {"type": "result", "exitCode": 0, "sessionId": "s"})
    assert [event.refused for event in of(events, ToolReturned)] == [True, False, True]
    assert events[-1].refused == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("message", "error_class", "cause"),
    [
        ("No such key.", "auth", "auth"),
        ("Too long.", "context_window_exceeded", "context"),
        ("Model reached the maximum output token limit before completing the turn", None, "length"),
        ("It failed.", "unknown", None),
        ("It failed.", {"auth": 1}, None),
    ],
)
def test_an_error_of_cline_has_a_class_or_a_sentence(message: str, error_class: Any, cause: Cause | None) -> None:
    """The result repeats the message without the class."""
    error = {"type": "error", "error": {"message": message}, "errorClass": error_class, "recoverable": False}
    events = run(
        "cline",
        {"type": "agent_event", "event": error},
        {"type": "run_result", "finishReason": "error", "text": message},
    )
    assert (events[-1].outcome, events[-1].cause) == ("error", cause)  # type: ignore[union-attr]
