"""Flags for effort, files, instructions and tools with the real agents: what they give reaches the model."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playing import Played
    from setups import Bench

import scenarios
from playing import play

from penstock.adapter import Feature
from penstock.agents.registry import AGENTS

SCHEMA = {
    "type": "object",
    "properties": {"penguins": {"type": "integer"}},
    "required": ["penguins"],
    "additionalProperties": False,
}
RULE = "PENGUIN-RULE applies."
EFFORTS = ("low", "high")
"""Two levels: one of them is not the default of the agent."""
HIDES_EFFORT = {"ccs", "droid"}
"""Agents that send no effort to the model of these tests: it is one that they do not know."""
SEES = {"goose": "gpt-4o"}
"""Models of agents that leave out images for a model of which they do not know that it takes them."""
SHELL = {
    "claude": "Bash",
    "ccs": "Bash",
    "opencode": "bash",
    "qwen": "run_shell_command",
    "copilot": "shell",
    "droid": "Execute",
}
"""The shell of each agent, by its own name."""


def png(size: int = 64) -> bytes:
    """A picture of one colour."""
    rows = (b"\0" + bytes((200, 30, 60)) * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    made = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def asked(played: Played) -> str:
    """All that the model was asked, in JSON."""
    assert played.result.outcome == "ok", played.result.reason
    return "\n".join(request.body for request in played.conversation)


def needs(at: Bench, feature: Feature) -> None:
    """Skip the test if the route does not support the feature."""
    if feature not in AGENTS[at.target.agent].routes[at.target.route].supports:
        pytest.skip("the route does not support this")


def test_instructions(at: Bench) -> None:
    """The text is added, and the agent's own instructions stay."""
    needs(at, "system_prompt")
    without = asked(play(at, "scenario=text"))
    with_text = asked(play(at, "scenario=text", system_prompt=RULE))
    assert RULE in with_text
    assert len(with_text) > len(without) - 1000  # dates and ids differ a little; instructions have thousands


def test_effort(at: Bench) -> None:
    """The level arrives at the model."""
    needs(at, "effort")
    if at.target.agent in HIDES_EFFORT:
        pytest.skip("the agent does not send it to this model")
    model: dict[str, Any] = (
        {"model": "claude-opus-4-6"} if at.target.agent == "claude" else {}
    )  # the usual one has no levels
    for effort in EFFORTS:
        body = asked(play(at, "scenario=text", effort=effort, **model))
        assert f'"effort":"{effort}"' in body or f'"reasoning_effort":"{effort}"' in body


def test_image(at: Bench, tmp_path: Path) -> None:
    """The image arrives as it is, or in a form that the agent made of it."""
    needs(at, "images")
    image = tmp_path / "penguin.png"
    image.write_bytes(png())
    model: dict[str, Any] = {"model": SEES[at.target.agent]} if at.target.agent in SEES else {}
    assert b64encode(png()).decode()[:60] in asked(play(at, "scenario=text", files=[image], **model))


def test_text_file(at: Bench, tmp_path: Path) -> None:
    """A text arrives with every agent."""
    text = tmp_path / "penguin.txt"
    text.write_text("Seven penguins.\n", "utf-8")
    assert "Seven penguins." in asked(play(at, "scenario=text", files=[text]))


def test_schema(at: Bench, tmp_path: Path) -> None:
    """The schema arrives, and the reply is the JSON, also if the agent gives the model a tool for it."""
    needs(at, "schema")
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA), "utf-8")
    played = play(at, "scenario=count", schema=schema)
    assert '"penguins"' in asked(played)
    assert json.loads(played.result.reply) == json.loads(scenarios.COUNT)


def test_mcp_servers(at: Bench, tmp_path: Path) -> None:
    """The tool of the server is offered to the model, by itself or, as the server's, behind a search for tools."""
    needs(at, "mcp_config")
    config = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
    config.write_text(json.dumps({"mcpServers": {"zoo": server}}), "utf-8")
    body = asked(play(at, "scenario=text", mcp_config=config))
    assert "Counts penguins" in body or "zoo" in body.replace(str(tmp_path), "")


def test_denied_tool(at: Bench) -> None:
    """A denied tool is not offered to the model, or its call is rejected."""
    needs(at, "deny_tools")
    options: dict[str, Any] = {"deny_tools": [SHELL[at.target.agent]]}
    played = play(at, "scenario=text", **options)
    offered = {tool.name for tool in played.conversation[0].asked.tools}
    if SHELL[at.target.agent] in offered or at.target.agent == "copilot":
        (first, *_) = play(at, "scenario=tools", **options).returned
        assert first.refused


def test_allowed_tool(at: Bench) -> None:
    """An allowed tool runs without a question."""
    needs(at, "allow_tools")
    played = play(at, "scenario=tools", allow="default", allow_tools=[SHELL[at.target.agent]])
    (first, *_) = played.returned
    assert "hi" in first.text
    assert not first.is_error
