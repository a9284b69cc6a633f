"""ccs over Claude Code's two-way stream: `ccs PROFILE --print --input-format=stream-json …`."""

from __future__ import annotations

from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents._claude_code import dialogue_command
from penstock.agents._claude_server import ClaudeCodeServer
from penstock.agents.ccs.exec import program
from penstock.updates import Traits


class CcsServer(ClaudeCodeServer):
    """Dialogue with Claude Code through a proxy whose server may send snapshots instead of deltas."""

    name: ClassVar[str] = "ccs"
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, repair_snapshots=True, asks_for_all=True)

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command for a two-way stream; ccs passes stdin and claude's flags through."""
        return dialogue_command(request, *program(request))
