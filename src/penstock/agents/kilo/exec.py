"""kilo: `kilo run --format json`, which prints what opencode prints."""

from __future__ import annotations

from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents.opencode.exec import OpenCode, run_command


class Kilo(OpenCode):
    """Adapter of `kilo run --format json`."""

    name: ClassVar[str] = "kilo"

    @staticmethod
    def command(request: Request) -> Command:
        """Return `kilo run` with the prompt through stdin."""
        return run_command(request, "kilo")


def acp(request: Request) -> Command:
    """Return `kilo acp`, which has no flags for model and permissions: the dialogue sets everything."""
    return Command(argv=("kilo", "acp", *request.args))
