"""`penstock link`: a link to sign one browser in to the server on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.console import notify, say
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options

EXAMPLES = """\
examples:
  penstock link                                       of the server with the usual data directory
  sudo -u penstock penstock link --data /var/lib/penstock
"""


def command(args: Sequence[str]) -> int:
    """Run `penstock link` and return the exit status.

    Raises:
        UsageError: no server is running, or its token cannot be read or is different.
        TransportError: the server does not answer.
    """
    client = ServerClient(ServerOptions(**vars(parser().parse(args))))
    code = client.ask("POST", "/api/link", dict[str, object], {})["url"]
    link = f"{client.serving.url}/#code={str(code).partition('#code=')[2]}"
    notify("Open this link in a browser; it works once, within 15 minutes:\n")
    return say(f"{link}\n")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("link", "Print a link that signs one browser in to the server on this machine.", examples=EXAMPLES)
    add_options(made)
    return made
