"""Command line. Output for programs goes to stdout, output only for people goes to stderr.

This module finds the command and turns its outcome into an exit status. Slow modules are imported only when they are
needed, and `--version` imports nothing.
"""

from __future__ import annotations

import os
import sys

from penstock.cli.exit_status import CLOSED_PIPE, INTERRUPTED, NOT_EXECUTABLE, NOT_INSTALLED, USAGE

TYPE_CHECKING = False  # `typing` itself takes longer to import than `--version` takes to answer
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

COMMANDS = {
    "run": "penstock.cli.run",
    "read": "penstock.cli.read",
    "demo": "penstock.cli.demo",
    "replay": "penstock.cli.replay",
    "doc": "penstock.cli.doc",
    "loop": "penstock.cli.loop.main",
    "serve": "penstock.cli.serve.main",
    "acp": "penstock.cli.acp",
    "mcp": "penstock.cli.mcp",
    "link": "penstock.cli.link",
    "chats": "penstock.cli.chats",
    "browsers": "penstock.cli.browsers",
    "people": "penstock.cli.people",
    "share": "penstock.cli.share",
    "audit": "penstock.cli.audit",
    "nodes": "penstock.cli.nodes",
    "last": "penstock.cli.last",
    "show": "penstock.cli.show",
    "history": "penstock.cli.history",
    "cost": "penstock.cli.cost",
    "sessions": "penstock.cli.sessions",
    "trees": "penstock.cli.trees",
    "store": "penstock.cli.store",
    "agents": "penstock.cli.agents",
    "models": "penstock.cli.models",
    "drift": "penstock.cli.drift",
    "config": "penstock.cli.config",
    "completion": "penstock.cli.completion",
}
"""Module of each command; its function `command` runs the command."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    args = sys.argv[1:] if argv is None else argv
    if argv is None:
        sys.excepthook = _report_bug
    if args and args[0] in ("--version", "-V"):
        from penstock._version import __version__
        from penstock.cli.console import say

        return _guarded(lambda: say(f"penstock {__version__}\n"))
    return _guarded(lambda: _command(args))


def _command(args: list[str]) -> int:
    first = args[0] if args else ""
    if first in ("help", "--help", "-h") or (not args and os.isatty(0)):
        from penstock.cli.console import say
        from penstock.cli.help import text

        return say(text())
    if first in COMMANDS:
        return _run(first, args[1:])
    if first and not first.startswith("-") and not os.path.exists(first):
        from penstock.agents.registry import AGENTS
        from penstock.errors import UsageError, nearest

        if first.partition("/")[0] in AGENTS:
            raise UsageError(f"{first!r} is an agent and not a command", help=f'to run it: penstock run {first} "…"')
        guess = nearest(first, COMMANDS)
        raise UsageError(
            f"{first!r} is neither a command nor a file",
            expected="a command: " + ", ".join(COMMANDS),
            help=f"did you mean {guess!r}?" if guess else "see penstock --help",
        )
    return _run("read", args)


def _run(name: str, args: list[str]) -> int:
    from importlib import import_module

    status: int = import_module(COMMANDS[name]).command(args)
    return status


def _report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a bug, sanitized, since its message may have any text."""
    from traceback import format_exception

    from penstock.cli.console import notify

    notify("".join(format_exception(kind, error, trace)))


def _guarded(work: Callable[[], int]) -> int:
    """Do the work and return the exit status.

    Only a bug prints a traceback, and nothing can fail when the interpreter exits.
    """
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # argparse's help; everything else is written at once
    except BrokenPipeError:
        # Like cat and grep, exit without a message if the reader has gone.
        from penstock.cli.console import discard_stdout

        discard_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        from penstock.cli.console import notify_error
        from penstock.cli.system_problem import system_problem
        from penstock.errors import AgentNotFound, PenstockError

        problem = error if isinstance(error, PenstockError) else system_problem(error)
        if problem is None:
            raise
        notify_error(problem)
        if isinstance(error, AgentNotFound):
            return NOT_EXECUTABLE if error.executable is False else NOT_INSTALLED
        return USAGE
