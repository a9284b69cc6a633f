"""`penstock mcp`: the agents as tools of MCP on stdin and stdout, for other agents.

What it does is imported once the options are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.parser import Parser
from penstock.cli.stdio import add_server

EXAMPLES = """\
examples:
  penstock mcp                      the default agent; a client of MCP starts this command
  penstock mcp --agent NAME         the agent that is asked if a call names none
  penstock mcp --trust              agents may work in the directory of the client

The chats are those of the penstock serve of this user, or of a hidden one that is started if none runs.
"""


def command(args: Sequence[str]) -> int:
    """Run `penstock mcp` until its client has gone, and return the exit status.

    Raises:
        UsageError: the options cannot be used, or this process belongs to an agent that may ask for no other one.
    """
    words = vars(parser().parse(args))
    is_trusted = words.pop("trust")
    from penstock.cli.mcp.server import serve
    from penstock.cli.stdio.link import StdioOptions
    from penstock.cli.stdio.pipes import private_stdout

    with private_stdout() as sink:
        serve(StdioOptions(**words), sink, is_trusted=is_trusted)
    return 0


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Serve the agents to another agent, as tools of MCP (Model Context Protocol) on stdin and stdout."
    made = Parser("mcp", text, examples=EXAMPLES)
    made.add_argument("--agent", metavar="NAME", help="agent that is asked if a call names none")
    text = "trust the directory in which this is started, so that agents may work in it"
    made.add_argument("--trust", action="store_true", help=text)
    add_server(made)
    return made
