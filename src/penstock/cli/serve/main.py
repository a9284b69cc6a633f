"""`penstock serve`: the command. What it serves is imported once the options are known."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.serve.options import ServeOptions, parser

__all__ = ["command", "parser"]


def command(args: Sequence[str]) -> int:
    """Run `penstock serve` until a signal arrives and return the exit status.

    Raises:
        UsageError: the server cannot run with these options.
        TransportError: the log fails.
    """
    options = ServeOptions(**vars(parser().parse(args)))
    from penstock.cli.serve import server

    return server.run(options)
