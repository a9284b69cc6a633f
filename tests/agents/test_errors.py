"""An error that an agent reports, and nothing after it, is the run's end: an error, on every wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.agents import registry
from penstock.core.normalizer.outcome import KILLED, Exit
from penstock.events import Event, RunEnded
from penstock.stream import Stream
from penstock.testing.verify import verify

Line = dict[str, Any]

WHY = "Quota exceeded"
SERVER = {"threadId": "t", "turnId": "u"}
ERRORS: dict[str, list[list[Line]]] = {
    "claude": [
        [{"type": "stream_event", "event": {"type": "error", "error": {"type": "overloaded_error", "message": WHY}}}],
        [
            {
                "type": "assistant",
                "error": "rate_limit",
                "message": {
                    "id": "m",
                    "role": "assistant",
                    "model": "<synthetic>",
                    "content": [{"type": "text", "text": WHY}],
                },
            }
        ],
    ],
    "codex": [[{"type": "error", "message": WHY}], [{"type": "turn.failed", "error": {"message": WHY}}]],
    "codex/server": [[{"method": "error", "params": {**SERVER, "error": {"message": WHY}, "willRetry": False}}]],
    "gemini": [
        [{"type": "error", "severity": "error", "message": WHY}],
        [{"type": "init", "session_id": "s", "model": "m"}, {"type": "error", "message": WHY}],
    ],
    "opencode": [[{"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": WHY}}}]],
    "kilo": [[{"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": WHY}}}]],
    "opencode/server": [
        [
            {
                "event": {
                    "id": "evt_0",
                    "type": "session.status",
                    "properties": {"sessionID": "s", "status": {"type": "busy"}},
                }
            },
            {
                "event": {
                    "id": "evt_1",
                    "type": "session.error",
                    "properties": {"sessionID": "s", "error": {"name": "APIError", "data": {"message": WHY}}},
                }
            },
        ]
    ],
    "cursor": [[{"type": "error", "message": WHY, "session_id": "s"}], [{"type": "error", "error": {"message": WHY}}]],
    "qwen": [[{"type": "stream_event", "event": {"type": "error", "error": {"message": WHY}}}]],
    "copilot": [
        [{"type": "session.error", "id": "i", "timestamp": "t", "data": {"message": WHY}}],
        [{"type": "error", "id": "i", "timestamp": "t", "data": {"message": WHY}}],
    ],
    "pi": [
        [{"type": "agent_end", "messages": [{"role": "assistant", "stopReason": "error", "errorMessage": WHY}]}],
        [
            {
                "type": "message_end",
                "message": {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": WHY},
            }
        ],
    ],
    "pi/server": [
        [
            {"type": "agent_end", "messages": [{"role": "assistant", "stopReason": "error", "errorMessage": WHY}]},
            {"type": "agent_settled", "aborted": False},
        ],
        [{"id": "penstock-prompt", "type": "response", "command": "prompt", "success": False, "error": WHY}],
    ],
    "cline": [[{"type": "agent_event", "ts": "t", "event": {"type": "error", "error": {"message": WHY}}}]],
    "kimi": [[{"type": "error", "message": WHY}]],
    "droid": [[{"type": "error", "source": "agent_loop", "message": WHY, "timestamp": 1, "session_id": "s"}]],
    "goose": [
        [{"type": "error", "error": WHY}],
        [
            {
                "type": "message",
                "message": {"id": "m", "role": "assistant", "content": [{"type": "error", "message": WHY}]},
            }
        ],
    ],
    "vibe": [[{"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": WHY}}]],
    "ccs": [[{"type": "stream_event", "event": {"type": "error", "error": {"message": WHY}}}]],
    "ollama": [[{"error": WHY}]],
    "acp": [[{"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": WHY}}]],
    "generic": [
        [{"type": "error", "message": WHY}],
        [{"event": "error", "error": {"message": WHY}}],
        [{"kind": "run_error", "data": {"errorText": WHY}}],
    ],
}
PLAIN = {"type": "error", "message": WHY}
"""What many programs print, and a later version of any may."""
CASES = [(agent, lines) for agent, cases in ERRORS.items() for lines in cases]
CASES += [(agent, [PLAIN]) for agent in ("claude", "ccs", "qwen", "pi", "cline")]


def read(agent: str, lines: list[Line], exit: Exit | None = None) -> list[Event]:
    """The events of these lines, which keep the contract."""
    stream = Stream(agent)
    events = stream.feed(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)) + stream.close(exit)
    assert verify(events) == []
    return events


def test_every_agent_is_here() -> None:
    """A new agent says how it reports an error."""
    assert {name.partition("/")[0] for name in ERRORS} == set(registry.AGENTS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("exit", [None, Exit(code=0)], ids=["unknown", "status 0"])
@pytest.mark.parametrize(("agent", "lines"), CASES)
def test_an_error_and_then_nothing_is_an_error(agent: str, lines: list[Line], exit: Exit | None) -> None:
    """The outcome says so, and the reason is the agent's own."""
    end = read(agent, lines, exit)[-1]
    assert isinstance(end, RunEnded)
    assert end.outcome == "error"
    assert WHY in (end.reason or "")


def test_a_stream_that_goes_on_after_an_error_and_breaks_is_cut_off() -> None:
    """The error was not its end."""
    text = {"type": "message", "role": "assistant", "content": "Again", "delta": True}
    end = read("gemini", [{"type": "error", "message": WHY}, text])[-1]
    assert isinstance(end, RunEnded)
    assert end.outcome == "cut_off"


def test_a_warning_is_no_error() -> None:
    """Only what the agent itself calls an error is one."""
    end = read("gemini", [{"type": "error", "severity": "warning", "message": "A loop"}])[-1]
    assert isinstance(end, RunEnded)
    assert end.outcome == "cut_off"


def test_a_signal_is_no_error_of_the_agents() -> None:
    """An agent that was killed was cut off, whatever it said before."""
    end = read("gemini", [{"type": "error", "message": WHY}], Exit(signal=9))[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reason) == ("cut_off", KILLED)
