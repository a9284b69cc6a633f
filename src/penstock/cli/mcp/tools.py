"""Tools of `penstock mcp`: what the calling model reads about them, and the arguments that each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

MAX_WAIT_SECONDS = 45
"""Longest `wait_turn`: many clients give up a call after 60 seconds."""


class ListAgents(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class AskAgent(msgspec.Struct, forbid_unknown_fields=True):
    """Prompt for an agent."""

    prompt: Annotated[str, Meta(description="What the agent is asked to do.", min_length=1)]
    agent: Annotated[str | None, Meta(description="Name of the agent, as list_agents has it.")] = None
    chat: Annotated[str | None, Meta(description="Chat of an earlier result, to continue it.")] = None
    cwd: Annotated[str | None, Meta(description="Absolute path of its directory, if not that of the client.")] = None
    model: Annotated[str | None, Meta(description="Model of a new chat, by the agent's own name for it.")] = None
    allow: Annotated[
        Literal["read", "ask"] | None,
        Meta(description="read: the agent only looks. ask: a person is asked before it changes something."),
    ] = None


class WaitTurn(msgspec.Struct, forbid_unknown_fields=True):
    """Turn, and how long to wait for it."""

    chat: Annotated[str, Meta(description="Chat of the turn.")]
    turn: Annotated[int, Meta(description="Number of the turn.", ge=1)]
    seconds: Annotated[float, Meta(description="Seconds to wait.", ge=0, le=MAX_WAIT_SECONDS)] = MAX_WAIT_SECONDS


class StopTurn(msgspec.Struct, forbid_unknown_fields=True):
    """Turn that is stopped."""

    chat: Annotated[str, Meta(description="Chat of the turn.")]
    turn: Annotated[int, Meta(description="Number of the turn.", ge=1)]


class McpTool(NamedTuple):
    """McpTool of the server."""

    arguments: type[msgspec.Struct]
    text: str
    """Description for the calling model."""
    is_read_only: bool = False


TOOLS: dict[str, McpTool] = {
    "list_agents": McpTool(
        ListAgents, "List the coding agents that can be asked, with their models.", is_read_only=True
    ),
    "ask_agent": McpTool(
        AskAgent,
        "Ask a coding agent, wait until it is done, and return its reply. It works in its directory and does not see "
        "this conversation. To continue with it, give the chat of an earlier result.",
    ),
    "start_turn": McpTool(
        AskAgent,
        "Ask a coding agent and return at once, with a chat and a turn for wait_turn. For clients that give up "
        "long calls.",
    ),
    "wait_turn": McpTool(
        WaitTurn,
        "Wait for the end of a turn and return its reply. If it still works by then, the result says what it does.",
        is_read_only=True,
    ),
    "stop_turn": McpTool(StopTurn, "Stop a turn that works."),
}

WITH_TASKS = "ask_agent"
"""Name of the tool whose calls can be tasks: the other ones return soon."""

_RESULT = {
    "type": "object",
    "properties": {
        "chat": {"type": "string"},
        "turn": {"type": "integer"},
        "state": {"enum": ["working", "asks", "ended"]},
        "outcome": {"type": "string"},
        "usage": {"type": "object"},
        "text": {"type": "string"},
    },
    "required": ["chat", "turn", "state", "text"],
}


def listed(*, has_tasks: bool) -> list[dict[str, Any]]:
    """Return all tools as clients list them; `has_tasks`: each says whether its calls can be tasks (2025-11-25)."""
    found = [_listed(name, tool) for name, tool in TOOLS.items()]
    if has_tasks:
        for tool in found:
            tool["execution"] = {"taskSupport": "optional" if tool["name"] == WITH_TASKS else "forbidden"}
    return found


def _listed(name: str, tool: McpTool) -> dict[str, Any]:
    arguments = msgspec.json.schema(tool.arguments)["$defs"][tool.arguments.__name__]
    found = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "description": tool.text,
        "inputSchema": {
            "type": "object",
            "properties": arguments["properties"],
            "required": arguments["required"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": tool.is_read_only},
    }
    return found if name == "list_agents" else {**found, "outputSchema": _RESULT}
