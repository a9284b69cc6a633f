"""`penstock acp`: Penstock as an agent of ACP on stdio, for editors.

What it does is imported once the options are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.parser import Parser
from penstock.cli.stdio import add_server

EXAMPLES = """\
examples:
  penstock acp                      the default agent; an editor starts this command
  penstock acp --agent NAME
  penstock acp --setup              which agents are logged in, and the login of one
  penstock acp --server https://chat.example.org --token-file TOKEN

The chats are those of the penstock serve of this user, or of a hidden one that is started if none runs.
"""


def command(args: Sequence[str]) -> int:
    """Run `penstock acp` until its client has gone, and return the exit status.

    Raises:
        UsageError: the options cannot be used, or this process belongs to an agent that may ask for no other one.
    """
    words = vars(parser().parse(args))
    if words.pop("setup"):
        from penstock.cli.acp.setup import setup
        from penstock.cli.read import configured

        return setup(configured())
    from penstock.cli.acp.agent import serve
    from penstock.cli.stdio.link import StdioOptions
    from penstock.cli.stdio.pipes import private_stdout

    with private_stdout() as sink:
        serve(StdioOptions(**words), sink)
    return 0


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Serve the agents to an editor, as an agent of ACP (Agent Client Protocol) on stdin and stdout."
    made = Parser("acp", text, examples=EXAMPLES)
    made.add_argument("--agent", metavar="NAME", help="agent of new sessions (default: that of the server)")
    text = "print which agents are logged in and, in a terminal, log in with one; editors start this"
    made.add_argument("--setup", action="store_true", help=text)
    add_server(made)
    return made
