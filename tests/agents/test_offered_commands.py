"""Commands that agents offer: from each wire that lists them, live or recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.events import AgentCommand, CommandsChanged, Event, Notice, RunEnded, RunStarted
from penstock.stream import Stream
from penstock.testing import feeds, verify

RECORDINGS = Path(__file__).parents[1] / "recordings"


def read(agent: str, *lines: Any) -> list[Event]:
    """Events of a stream of these lines, which keep the contract."""
    events = feeds.whole(Stream(agent), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert verify(events) == []
    return events


def lists(events: list[Event]) -> list[list[AgentCommand]]:
    """The lists of a run."""
    return [event.commands for event in events if isinstance(event, CommandsChanged)]


@pytest.mark.parametrize(
    ("agent", "case", "count", "first"),
    [
        ("claude", "claude-2.1.332/err400", 44, AgentCommand("deep-research")),
        ("qwen", "qwen-0.24.4/background", 43, AgentCommand("auth")),
        ("ccs", "ccs/legalrepeat", 25, AgentCommand("deep-research")),
        ("acp", "acp/codex-text", 6, AgentCommand("review", "Review my current changes and find issues",
                                                   "optional custom review instructions")),
        ("acp", "acp/gemini-tools", 20, AgentCommand("memory", "Manage memory.")),
    ],
)  # fmt: skip
def test_recorded_lists(agent: str, case: str, count: int, first: AgentCommand) -> None:
    """Each recorded list is one event, after the start, with what its wire has of each command."""
    events = feeds.whole(Stream(agent), (RECORDINGS / case / "input.ndjson").read_bytes())
    [found] = lists(events)
    assert (len(found), found[0]) == (count, first)
    assert isinstance(events[0], RunStarted)


def test_the_answer_of_claude_has_descriptions() -> None:
    """The names of `init` repeat the list of the answer to `initialize`, and its descriptions stay: one event."""
    data = (RECORDINGS / "claude-server-2.1.332" / "goeson" / "input.ndjson").read_bytes()
    [found] = lists(feeds.whole(Stream("claude"), data))
    assert len(found) == 44
    assert found[0].description.startswith("Deep research harness")
    assert {it.name: it.argument for it in found}["rename"] == "[name]"


def test_claude_reports_another_list() -> None:
    """The list that claude reports later replaces the first one."""
    events = read(
        "claude",
        {"type": "system", "subtype": "init", "session_id": "s", "slash_commands": ["a", None, 7, "b"]},
        {"type": "system", "subtype": "commands_changed", "commands": [{"name": "c", "argumentHint": "[x]"}]},
        {"type": "result", "subtype": "success", "result": "Done.", "session_id": "s"},
    )
    assert lists(events) == [[AgentCommand("a"), AgentCommand("b")], [AgentCommand("c", "", "[x]")]]


@pytest.mark.parametrize("value", [None, {}, "review", 3, [None, 3, [], {}, {"name": None}, {"name": ["x"]}]])
def test_odd_lists(value: Any) -> None:
    """A list of another type, or of nothing that has a name, lists nothing and ends nothing."""
    update = {"sessionUpdate": "available_commands_update", "availableCommands": value}
    events = read(
        "acp",
        {"jsonrpc": "2.0", "id": 1000, "result": {"protocolVersion": 1, "agentCapabilities": {}}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}},
        {"jsonrpc": "2.0", "id": 1001, "result": {"sessionId": "s"}},
        {"jsonrpc": "2.0", "id": 1007, "result": {"stopReason": "end_turn"}},
    )
    assert lists(events) == []


def test_lists_before_and_after_the_answer_that_opens_the_session() -> None:
    """A list that precedes the answer to `session/load` counts, though all else before it is history."""

    def offered(*names: str) -> dict[str, Any]:
        commands = [{"name": name, "description": f"Does {name}"} for name in names]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}

    old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
    events = read(
        "acp",
        {"jsonrpc": "2.0", "id": 1000, "result": {"protocolVersion": 1, "agentCapabilities": {}}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": old}},
        offered("a"),
        {"jsonrpc": "2.0", "id": 1003, "result": {}},
        offered("a"),
        offered("a", "b"),
        {"jsonrpc": "2.0", "id": 1007, "result": {"stopReason": "end_turn"}},
    )
    assert [[it.name for it in found] for found in lists(events)] == [["a"], ["a", "b"]]
    assert isinstance(events[0], RunStarted)
    assert events[0].session_id == "s"


def test_the_skills_of_codex() -> None:
    """Those that are turned on are listed by the names that call them, with their short descriptions."""
    skills = [
        {"name": "greet", "description": "Greets", "enabled": True, "path": "/x/SKILL.md"},
        {"name": "off", "description": "Does nothing", "enabled": False},
        {"name": "draw", "description": "Draws, if", "interface": {"shortDescription": "Draw pictures"}},
    ]
    events = read("codex/server", *codex({"result": {"data": [{"cwd": "/d", "skills": skills, "errors": []}]}}))
    assert lists(events) == [[AgentCommand("$greet", "Greets"), AgentCommand("$draw", "Draw pictures")]]


def test_the_commands_of_pi() -> None:
    """Its templates, skills and the commands of its extensions are one list."""
    commands = [
        {"name": "greet", "description": "Greets", "source": "prompt", "sourceInfo": {"path": "/x"}},
        {"name": "skill:draw", "description": "Draws", "source": "skill"},
    ]
    events = read("pi/server", *pi({"success": True, "data": {"commands": commands}}))
    assert lists(events) == [[AgentCommand("greet", "Greets"), AgentCommand("skill:draw", "Draws")]]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "unknown variant"}, "success": False},
        {"result": None, "success": True},
        {"result": {"data": "none"}, "success": True, "data": {"commands": 7}},
        {"result": {"data": [None, {"skills": [None, 3, {}, {"name": ["x"]}]}]}, "success": True, "data": []},
    ],
)
def test_a_list_that_fails(answer: dict[str, Any]) -> None:
    """A version that has no list, or lists in another way, lists nothing, and its run is a good one."""
    for events in (read("codex/server", *codex(answer)), read("pi/server", *pi(answer))):
        assert lists(events) == []
        assert isinstance(events[-1], RunEnded)
        assert (events[-1].outcome, [it for it in events if isinstance(it, Notice)]) == ("ok", [])


def codex(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of codex's app server: a turn, with its answer to the request for a list."""
    item = {"type": "agentMessage", "id": "i", "text": "Done."}
    turn = {"threadId": "t", "turnId": "u"}
    return [
        {"id": 0, "result": {"userAgent": "x"}},
        {"id": 1, "result": {"thread": {"id": "t"}, "model": "m"}},
        {"id": 2, "result": {"turn": {"id": "u"}}},
        {"id": "penstock-skills", **answer},
        {"method": "item/completed", "params": {**turn, "item": item}},
        {"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "completed"}}},
    ]


def pi(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of pi: a run, with its answer to the request for a list."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "stopReason": "stop"}
    responses = [
        ("get_state", "penstock-state", {"success": True, "data": {"sessionId": "s"}}),
        ("prompt", "penstock-prompt", {"success": True, "data": {"disposition": "started"}}),
        ("get_commands", "penstock-commands", answer),
    ]
    return [
        *({"type": "response", "command": command, "id": id, **more} for command, id, more in responses),
        {"type": "agent_start"},
        {"type": "message_start", "message": {**message, "content": []}},
        {"type": "message_end", "message": message},
        {"type": "agent_end", "messages": [message], "willRetry": False},
        {"type": "agent_settled", "aborted": False},
    ]
