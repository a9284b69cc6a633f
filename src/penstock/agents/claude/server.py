"""Claude Code over its two-way stream: `claude -p --input-format stream-json --permission-prompt-tool stdio`."""

from __future__ import annotations

from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents._claude_code import dialogue_command
from penstock.agents._claude_server import ClaudeCodeServer


class ClaudeServer(ClaudeCodeServer):
    """Dialogue with Claude Code, and reader of a recorded one."""

    name: ClassVar[str] = "claude"

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command `claude --print` for a two-way stream; the dialogue sends the prompt."""
        return dialogue_command(request, "claude")
