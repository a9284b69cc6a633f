"""kimi's wire: results without a flag, retries and the end. The shapes are those of kimi 2.1.0."""

from __future__ import annotations

from typing import Any

import adapter_harness
import pytest

from penstock.core.normalizer.outcome import Exit
from penstock.events import Notice, RunEnded, ToolCalled, ToolReturned
from penstock.stream import Stream

HINT = {"role": "meta", "type": "session.resume_hint", "session_id": "session_1"}


def call(name: str, arguments: str) -> dict[str, Any]:
    """A message with one call."""
    made = {"type": "function", "id": "c1", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "I do it.", "tool_calls": [made]}


def result(text: str) -> dict[str, Any]:
    """Its result."""
    return {"role": "tool", "tool_call_id": "c1", "content": text}


def test_nothing_says_that_a_file_was_written() -> None:
    """A call that failed has the same fields, so its change is proposed only."""
    for said in ("Wrote 2 bytes to a", 'Invalid args for tool "Write": must have required property'):
        events = adapter_harness.run("kimi", call("Write", '{"path":"a","content":"b\\n"}'), result(said), HINT)
        [called] = adapter_harness.of(events, ToolCalled)
        [back] = adapter_harness.of(events, ToolReturned)
        assert [change.path for change in called.changes or ()] == ["a"]
        assert (back.text, back.changes or None, back.status_reported) == (said, None, False)


@pytest.mark.parametrize(
    ("said", "text", "status"),
    [
        ("out\nCommand failed with exit code: 3.", "out", 3),
        ("Command failed with exit code: 3.", "", 3),
        ("Command failed with exit code: 3.\nout", "Command failed with exit code: 3.\nout", None),
        ("out", "out", None),
    ],
)
def test_the_status_of_a_command(said: str, text: str, status: int | None) -> None:
    """It is in the last line, which is kimi's own; elsewhere it is output."""
    [back] = adapter_harness.of(adapter_harness.run("kimi", call("Bash", "{}"), result(said), HINT), ToolReturned)
    assert (back.text, back.exit_code, back.is_error) == (text, status, status is not None)


def test_a_retry_has_its_attempt_and_its_cause() -> None:
    """All figures are in the line."""
    retry = {"role": "meta", "type": "turn.step.retrying", "failed_attempt": 1, "max_attempts": 10, "status_code": 529}
    [notice] = adapter_harness.of(
        adapter_harness.run("kimi", {**retry, "error_message": "Busy."}, {"role": "assistant", "content": "Hi."}, HINT),
        Notice,
    )
    assert (notice.code, notice.text, notice.cause) == ("retry", "Busy.", "overloaded")
    assert (notice.attempt, notice.max_attempts) == (1, 10)


def test_an_end_without_its_line_is_not_good() -> None:
    """A failure is on stderr alone."""
    stream = Stream("kimi")
    stream.feed(b'{"role":"assistant","content":"Hi."}\n')
    end = stream.close(Exit(code=1, stderr="error: failed to run prompt: 401 No such key."))[-1]
    assert isinstance(end, RunEnded)
    assert end.outcome == "error"
    assert "No such key" in str(end.reason)
