"""Claude Code: `claude -p … --output-format stream-json --verbose [--include-partial-messages]`.

And `ccs` profiles, which are Claude Code before another model's server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from penstock.adapter import Command, Request
from penstock.agents._flags import granted, no_profile, option, piped
from penstock.agents._stream_json import ClaudeLike, MessageDelta, MessageStop
from penstock.errors import UsageError
from penstock.updates import MessageEnd, Traits, Update

OUTER_SESSION = (
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
)
"""What Claude Code tells the commands that it runs. A claude that inherits them takes itself for a part of that
session; some versions then refuse to start, or wait."""

CCS_COMMANDS = frozenset(
    {"api", "auth", "browser", "cleanup", "cliproxy", "config", "docker", "doctor", "env", "help", "migrate"}
    | {"persist", "proxy", "setup", "sync", "tokens", "update", "version"}
)
"""First arguments that ccs does not take for profiles but acts upon (7.79.1)."""

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Claude(ClaudeLike):
    """A message ends with its stop reason.

    A `message_stop` without one was made up by the CLI where the server began the message again, or gives
    blocks of it up.
    """

    name: ClassVar[str] = "claude"

    @staticmethod
    def command(request: Request) -> Command:
        """`claude --print`, with the prompt through stdin."""
        no_profile("claude", request)
        return _started(request, "claude")

    def _message_delta(self, api: MessageDelta, lane: str | None) -> Iterator[Update]:
        yield from super()._message_delta(api, lane)
        if api.delta is not None and api.delta.stop_reason is not None:
            yield MessageEnd(lane=lane, stop_reason=api.delta.stop_reason)

    def _message_stop(self, api: MessageStop, lane: str | None) -> Iterator[Update]:
        if api.abandoned_blocks is not None:
            yield MessageEnd(lane=lane, abandoned_from=api.abandoned_blocks.from_block_index)


class Ccs(Claude):
    """The same wire through a proxy whose server may send snapshots for deltas."""

    name: ClassVar[str] = "ccs"
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, armed=True)

    @staticmethod
    def command(request: Request) -> Command:
        """`ccs PROFILE --print`, with claude's flags; without a profile, that of ccs's default account."""
        if request.profile is None:
            return _started(request, "ccs")
        if not _PROFILE.fullmatch(request.profile) or request.profile in CCS_COMMANDS:
            raise UsageError(
                f"{request.profile[:128]!r} is no profile of ccs", expected="the name that 'ccs api create' was given"
            )
        return _started(request, "ccs", request.profile)


def acp(request: Request) -> Command:
    """`claude-agent-acp`, which takes no flags: the dialogue tells it session and permissions."""
    no_profile("claude", request)
    env = {} if request.model is None else {"ANTHROPIC_MODEL": request.model}
    return Command(argv=("claude-agent-acp", *request.args), env=env, unset=OUTER_SESSION)


def _started(request: Request, *program: str) -> Command:
    return piped(
        request,
        *program,
        # Not `-p`: ccs would make a report of its own of it. `--verbose` is required for this format.
        "--print",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        *option("--model", request.model),
        *option("--resume", request.session_id),
        *(("--fork-session",) if request.fork else ()),
        *granted(
            program[0],
            request,
            edits=("--permission-mode=acceptEdits",),
            everything=("--permission-mode=bypassPermissions",),
        ),
        *request.args,
        unset=OUTER_SESSION,
    )
