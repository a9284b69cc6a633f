"""`penstock link`: a link to sign one browser in to the server on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.chat.history.entries import OWNER
from penstock.chat.people.persons import check_name
from penstock.cli.console import notify, say
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options

EXAMPLES = """\
examples:
  penstock link                                       of the server with the usual data directory
  penstock link --person ana                          for somebody else, with their rights
  sudo -u penstock penstock link --data /var/lib/penstock
"""


class LinkOptions(ServerOptions):
    """Options of the command line."""

    person: str | None


def command(args: Sequence[str]) -> int:
    """Run `penstock link` and return the exit status.

    Raises:
        UsageError: the name is not valid, no server is running, or its token cannot be read or is different.
        TransportError: the server does not answer.
    """
    options = LinkOptions(**vars(parser().parse(args)))
    if options.person not in (None, OWNER):
        check_name(options.person)
    link = new_link(ServerClient(options), options.person)
    notify("Open this link in a browser; it works once, within 15 minutes:\n")
    return say(f"{link}\n")


def new_link(client: ServerClient, person: str | None = None) -> str:
    """Return a link that signs one browser of a person in; None: of the owner.

    Raises:
        UsageError: the server knows no such person, or its token is different.
        TransportError: the server does not answer.
    """
    body = {} if person is None else {"person": person}
    code = client.ask("POST", "/api/link", dict[str, object], body)["url"]
    return f"{client.serving.url}/#code={str(code).partition('#code=')[2]}"


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("link", "Print a link that signs one browser in to the server on this machine.", examples=EXAMPLES)
    made.add_argument("--person", metavar="NAME", help="sign in this person, whom penstock people has added")
    add_options(made)
    return made
