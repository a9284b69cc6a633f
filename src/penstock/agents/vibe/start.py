"""vibe: `vibe-acp`, which has no flags: the dialogue sets everything."""

from __future__ import annotations

from penstock.adapter import Command, Request


def acp(request: Request) -> Command:
    """Return `vibe-acp`."""
    return Command(argv=("vibe-acp", *request.args))
