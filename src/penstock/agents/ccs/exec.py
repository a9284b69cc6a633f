"""ccs: `ccs PROFILE -p … --output-format stream-json --verbose`, Claude Code in front of another model's server."""

from __future__ import annotations

import re
from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents._claude_code import ClaudeCode, started
from penstock.errors import UsageError
from penstock.updates import Traits

CCS_COMMANDS = frozenset(
    {"api", "auth", "browser", "cleanup", "cliproxy", "config", "docker", "doctor", "env", "help", "migrate"}
    | {"persist", "proxy", "setup", "sync", "tokens", "update", "version"}
)
"""First arguments that ccs (7.79.1) treats as its own commands and not as profiles."""

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Ccs(ClaudeCode):
    """The same wire through a proxy whose server may send snapshots instead of deltas."""

    name: ClassVar[str] = "ccs"
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, repair_snapshots=True)

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command `ccs PROFILE --print` with claude's flags; no profile: ccs's default account."""
        return started(request, *program(request))


def program(request: Request) -> tuple[str, ...]:
    """Return the words that start Claude Code with the profile of the request.

    Raises:
        UsageError: the profile cannot be one.
    """
    if request.profile is None:
        return ("ccs",)
    if not _PROFILE.fullmatch(request.profile) or request.profile in CCS_COMMANDS:
        raise UsageError(
            f"{request.profile[:128]!r} is not a profile of ccs",
            expected="the name that 'ccs api create' was given",
        )
    return ("ccs", request.profile)
