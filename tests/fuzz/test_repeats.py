"""What an agent says again is silent: lines that name what they repeat may come twice, at once or late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.events import BlockEnded, BlockRevised, Delta, Event, PlanChanged, RunEnded, ToolCalled, ToolReturned
from penstock.stream import Stream
from penstock.testing import feeds, verify

if TYPE_CHECKING:
    from conftest import Recording

REPEATABLE = {
    "claude": {"user", "result"},
    "ccs": {"user", "result"},
    "qwen": {"user", "result"},
    "codex": {"thread.started", "item.started", "item.completed", "turn.completed"},
    "copilot": {"assistant.message", "assistant.reasoning", "tool.execution_start", "tool.execution_complete"},
    "gemini": {"init", "tool_use", "tool_result", "result"},
    "opencode": {"text", "reasoning", "tool_use"},
    "pi": {"session", "tool_execution_start", "tool_execution_end", "turn_end", "agent_end"},
    "cline": {"run_result"},
}
"""Lines that carry an identity, or that are the end: a repeat of one is no new thing."""

BETWEEN = {"gemini": {"tool_use", "tool_result"}}
"""Lines that part one message from the next where nothing else does: late, they would part what belongs together."""


def said(events: list[Event]) -> dict[str, Any]:
    """What a reader of a stream holds in the end."""
    end = events[-1]
    assert isinstance(end, RunEnded)
    plans = [tuple(event.items) for event in events if isinstance(event, PlanChanged)]
    return {
        "live": [(event.block, event.text) for event in events if isinstance(event, Delta)],
        "blocks": [(event.kind, event.text) for event in events if isinstance(event, BlockEnded)],
        "revised": [event.text for event in events if isinstance(event, BlockRevised)],
        "calls": [(event.call_id, event.input) for event in events if isinstance(event, ToolCalled)],
        "returns": [(event.call_id, event.text) for event in events if isinstance(event, ToolReturned)],
        # A plan is a state: one that is said again after another one stands again, until the other is repeated too.
        "plans": list(dict.fromkeys(plans)),
        "plan": plans[-1:],
        "end": (end.outcome, end.reply, end.rounds, end.session_id),
    }


@pytest.mark.sample(9)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "one line later"])
def test_repeats_are_silent(recording: Recording, late: bool) -> None:
    """Each line of a kind that names itself, said twice: the reader gets everything once."""
    kinds = REPEATABLE.get(recording.agent, set())
    if late:
        kinds = kinds - BETWEEN.get(recording.agent, set())
    lines: list[bytes] = []
    waiting: list[bytes] = []
    for line in recording.data.split(b"\n"):
        again = bool(line) and json.loads(line).get("type") in kinds
        lines += [line, *waiting]
        waiting = [line] if again else []
        if not late:
            lines += waiting
            waiting = []
    lines += waiting
    events = feeds.whole(Stream(recording.agent), b"\n".join(lines))
    assert verify(events) == []
    assert said(events) == said(feeds.whole(Stream(recording.agent), recording.data))


def test_an_answer_said_again_is_one_answer(recording: Recording) -> None:
    """A whole stream that a broken pipe brings twice ends once, and the contract holds."""
    events = feeds.whole(Stream(recording.agent), recording.data + b"\n" + recording.data)
    assert verify(events) == []
    assert [type(event) for event in events].count(RunEnded) == 1
