"""Claude Code: `claude -p … --output-format stream-json --verbose [--include-partial-messages]`."""

from __future__ import annotations

from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents._claude_code import ClaudeCode, started, variables
from penstock.agents._variables import CLAUDE_OUTER


class Claude(ClaudeCode):
    """Adapter of Claude Code's stream."""

    name: ClassVar[str] = "claude"

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command `claude --print`, with the prompt through stdin."""
        return started(request, "claude")


def acp(request: Request) -> Command:
    """Return the command `claude-agent-acp`, which has no flags: the dialogue sets session and permissions."""
    env = variables(request) if request.model is None else {"ANTHROPIC_MODEL": request.model, **variables(request)}
    return Command(argv=("claude-agent-acp", *request.args), env=env, unset=CLAUDE_OUTER)
