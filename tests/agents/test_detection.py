from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agents.detection import candidates, detect, explain
from penstock.agents.registry import AGENTS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def lines(data: bytes) -> list[Any]:
    """The values of the lines that are JSON."""
    values = []
    for line in data.split(b"\n"):
        try:
            values.append(json.loads(line))
        except ValueError:
            continue
    return values


def test_every_recording_is_detected_from_its_first_line(recording: Any) -> None:
    """And no later line says otherwise.

    ccs prints claude's wire and kilo that of opencode, and claude's server prints that of its `exec` too.
    """
    agent = {"ccs": "claude", "kilo": "opencode"}.get(recording.agent, recording.agent)
    values = lines(recording.data)
    if values:
        assert detect(values[0]) == agent
        assert {detect(value) for value in values} <= {agent, agent.removesuffix("/server"), None}
        assert all(len([*candidates(value)]) <= 1 for value in values), "one line is two agents'"


@pytest.mark.parametrize(
    ("line", "agent"),
    [
        ({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/", "permissionMode": "default"}, "cursor"),
        ({"type": "system", "subtype": "hook_started", "uuid": "u", "session_id": "s", "hook_id": "h"}, "claude"),
        ({"type": "system", "subtype": "init", "uuid": "u", "session_id": "s", "permission_mode": "yolo"}, "qwen"),
        ({"type": "system", "subtype": "other", "uuid": "u", "session_id": "s", "data": {}}, None),
        ({"type": "assistant", "message": {"content": []}, "session_id": "s", "timestamp_ms": 1}, "cursor"),
        ({"type": "assistant", "message": {"id": "msg_1"}, "session_id": "s", "uuid": "u"}, "claude"),
        ({"type": "assistant", "message": {"content": "hi"}}, None),
        ({"type": "thinking", "subtype": "delta", "text": "x", "session_id": "s"}, "cursor"),
        ({"type": "tool_call", "subtype": "started", "call_id": "c", "tool_call": {}}, "cursor"),
        ({"type": "tool_call", "name": "ls", "arguments": {}}, None),
        ({"type": "turn.started"}, "codex"),
        ({"type": "message", "role": "user", "content": "x"}, None),
        ({"type": "text", "text": "x"}, None),
        ({"type": "error", "message": "x"}, None),
        ({"model": "m", "response": "x", "done": False}, "ollama"),
        ({"error": "no such model"}, "ollama"),
        ({"error": {"message": "x"}}, None),
        ({"type": "message_start", "message": {"role": "user", "content": []}}, "pi"),
        ({"id": 0, "result": {"userAgent": "x/1", "codexHome": "/h", "platformOs": "linux"}}, "codex/server"),
        ({"method": "thread/started", "params": {"thread": {"id": "t"}}}, "codex/server"),
        ({"method": "item/agentMessage/delta", "params": {"threadId": "t", "turnId": "u"}}, "codex/server"),
        ({"method": "turn/started", "params": {"threadId": "t", "turn": {}}}, None),
        ({"jsonrpc": "2.0", "method": "item/x", "params": {"threadId": "t", "turnId": "u"}}, None),
        ({"jsonrpc": "2.0", "id": 0, "result": {"userAgent": "x", "codexHome": "/h"}}, None),
        ({"method": "item/x", "params": []}, None),
        ({"event": {"id": "evt_1", "type": "server.connected", "properties": {}}}, "opencode/server"),
        ({"event": {"id": "e1", "type": "x"}}, None),
        ({"event": "evt_1"}, None),
        ({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}}, "acp"),
        ({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {}}}, "acp"),
        ({"method": "session/update", "params": {"sessionId": "s", "update": {}}}, None),
        ({"jsonrpc": "2.0", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}, None),
        ({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-03-26", "capabilities": {}}}, None),
        ({"type": 5}, None),
        ({}, None),
        ([], None),
        ("text", None),
        (None, None),
    ],
)
def test_lines_that_tell_and_lines_that_could_be_anothers(line: object, agent: str | None) -> None:
    """No guess where fields leave a doubt."""
    assert detect(line) == agent


@given(JSON, st.sampled_from(["system", "assistant", "result", "message_start", "tool_call", "a.b", "init", "text"]))
def test_no_value_raises(value: Any, kind: str) -> None:
    """An answer is an agent's name or None."""
    for line in (value, {"type": kind, "message": value, "event": value, "data": value, "part": value}):
        assert detect(line) is None or detect(line) in AGENTS
        assert explain(line) is None or "\n" not in explain(line)  # type: ignore[operator]
    explain(msgspec.json.encode(value).decode())


CLAUDE_RESULT = {"type": "result", "subtype": "success", "result": "x", "session_id": "s", "uuid": "u"}
CLAUDE_LIST = [{"type": "system", "subtype": "init", "claude_code_version": "2", "session_id": "s"}, CLAUDE_RESULT]


@pytest.mark.parametrize(
    ("given_", "flag"),
    [
        (CLAUDE_LIST, "stream-json --verbose"),
        (CLAUDE_RESULT, "stream-json --verbose"),
        (json.dumps(CLAUDE_LIST), "stream-json --verbose"),
        (json.dumps(CLAUDE_LIST, separators=(",", ":"))[:-20], "stream-json --verbose"),
        (json.dumps({"session_id": "s", "response": "x", "stats": {}}, indent=2), "stream-json` (gemini)"),
        (json.dumps({"session_id": "s", "response": "x", "stats": {}}, indent=2)[:-2], "stream-json` (gemini)"),
        ('{\n  "session_id": "s",\n', "over several lines"),
        ('{\n  "type": "x"\n}\n', "over several lines"),
        ("OpenAI Codex v0.169.0 (research preview)\n--------\n", "codex exec --json"),
        ({"jsonrpc": "2.0", "id": 0, "result": {}}, "JSON-RPC"),
        ({"id": 0, "result": {"userAgent": "x"}}, "JSON-RPC"),
        ('{"method":"turn/started","params":{}}\n{"method":"x","params":{}}\n', "JSON-RPC"),
        (b'data: {"a": 1}\n\n', "SSE"),
        ("event: message\ndata: {}\n", "SSE"),
    ],
)
def test_formats_that_are_no_stream_name_the_flag(given_: object, flag: str) -> None:
    """One line that says what it is and what to use."""
    said = explain(given_)
    assert said is not None
    assert flag in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "given_",
    ["", "Hello, I am text.", "{", '{"type":"assistant"}', '{"a":1}\n{"a":2}\n', {"type": "x"}, [], [1], 5, None],
)
def test_what_may_be_a_stream_is_left_alone(given_: object) -> None:
    """No advice on a suspicion; a lone bracket is one."""
    expected = given_ == "{"
    assert (explain(given_) is not None) == expected


def test_a_stream_of_events_is_not_explained_away(recording: Any) -> None:
    """No recording is taken for another format."""
    assert explain(recording.data) is None
