"""Files of a project that agents obey: the lists in their facts, and the words by which an agent ignores them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from penstock.adapter import Request
from penstock.agents import registry
from penstock.agents.acp.dialogue import Acp

PAGE = Path(__file__).parents[2] / "docs" / "agents" / "README.md"
IGNORED = Request(prompt="hi", ignore_project=True)
USUAL = Request(prompt="hi")


def test_every_agent_with_tools_names_its_files() -> None:
    """An agent that works in a directory has settings there; a protocol, a format and a plain model have none."""
    without = {name for name, facts in registry.AGENTS.items() if not facts.project_files.starts}
    assert without == {"ollama", "acp", "generic"}


def test_what_starts_something_for_one_agent_is_no_text_for_another() -> None:
    """The files of all agents together are in one of both lists."""
    found = registry.project_files()
    assert not {*found.starts} & {*found.instructs}
    assert {".claude", ".mcp.json", ".env", "opencode.json", ".codex", ".github/hooks"} <= {*found.starts}
    assert {"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".claude/rules"} <= {*found.instructs}


@pytest.mark.parametrize("agent", [name for name, facts in registry.AGENTS.items() if facts.project_files.starts])
def test_the_page_of_agents_names_them(agent: str) -> None:
    """The row of an agent has all its patterns."""
    rows = PAGE.read_text("utf-8").partition("## Files of a project")[2].splitlines()
    row = next(line for line in rows if line.startswith(f"| {agent} |"))
    files = registry.AGENTS[agent].project_files
    assert {*row.split("`")[1::2]} == {*files.starts, *files.instructs}


@pytest.mark.parametrize(
    ("agent", "route"), [("claude", "exec"), ("claude", "server"), ("ccs", "exec"), ("ccs", "server")]
)
def test_claude_code_is_told_to_ignore_settings(agent: str, route: str) -> None:
    """It reads the user's settings alone, and the instructions of the directory all the same."""
    command, usual = registry.command(agent, route, IGNORED), registry.command(agent, route, USUAL)
    assert {*command.argv} - {*usual.argv} == {"--setting-sources=user", "--add-dir=."}
    assert {*command.env} - {*usual.env} == {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"}


def test_claude_over_acp_is_told_so_when_its_session_opens() -> None:
    """The request has the options of claude's own SDK; other agents get none."""
    for name, is_told in (("@agentclientprotocol/claude-agent-acp", True), ("gemini-cli", False)):
        for request in (IGNORED, USUAL):
            dialogue = Acp(request)
            dialogue.take()
            result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": name, "version": "1"}}
            dialogue.read({"jsonrpc": "2.0", "id": 1000, "result": result})
            params = msgspec.json.decode(dialogue.take().splitlines()[0])["params"]
            expected = {"claudeCode": {"options": {"settingSources": ["user"], "additionalDirectories": ["."]}}}
            assert params.get("_meta") == (expected if is_told and request.ignore_project else None)


def test_the_others_are_started_as_usual() -> None:
    """An agent without such words is not stopped by the request."""
    for agent, facts in registry.AGENTS.items():
        for route in facts.routes:
            if facts.project_files.starts and agent not in ("claude", "ccs"):
                assert registry.command(agent, route, IGNORED) == registry.command(agent, route, USUAL)
