"""Programs on stdin and stdout: JSON-RPC with their client, and the server whose chats they use."""

from __future__ import annotations

from penstock.cli.parser import Parser
from penstock.cli.serve.client import add_options


def add_server(made: Parser) -> None:
    """Add the options that name a server, on this machine or another one."""
    text = "address of the server, with --token-file (default: the one of this user on this machine)"
    made.add_argument("--server", metavar="URL", help=text)
    add_options(made)
