"""`penstock browsers`: lists the browsers that are signed in to the server on this machine, and signs them out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from penstock.cli.console import columns, pass_on, say
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options
from penstock.cli.sessions import when
from penstock.errors import UsageError, shown
from penstock.run.history import now_ms
from penstock.sinks.sanitize import clean_line

SIGN_OUT = "sign-out"
ID = re.compile(r"[0-9a-f]{1,64}")

EXAMPLES = """\
examples:
  penstock browsers                      the browsers that are signed in, the one used last first
  penstock browsers sign-out 9c1f…       from now on, this one and every copy of its cookie are rejected
  penstock browsers sign-out --person ana
  penstock browsers sign-out --all       also the links that browsers have made; tokens of programs stay valid
"""


class BrowsersOptions(ServerOptions):
    """Options of the command line."""

    action: str | None
    ids: list[str]
    person: str | None
    all: bool
    json: bool


class SignedInBrowser(msgspec.Struct):
    """Browser that is signed in, as the server lists it."""

    id: str
    name: str
    created_at: int
    used_at: int
    person: str


class BrowserList(msgspec.Struct):
    """Answer with all browsers."""

    browsers: list[SignedInBrowser]


def command(args: Sequence[str]) -> int:
    """Run `penstock browsers` and return the exit status.

    Raises:
        UsageError: no server is running, its token cannot be read or is different, or no such browser is signed in.
        TransportError: the server does not answer, or cannot do it now.
    """
    options = BrowsersOptions(**vars(parser().parse(args)))
    _check(options)
    client = ServerClient(options)
    found = client.ask("GET", "/api/browsers", BrowserList).browsers
    chosen = [it for it in found if options.person in (None, it.person)]
    if options.action is None:
        if options.json:
            return pass_on(msgspec.json.Encoder().encode_lines(chosen))
        return say(as_text(chosen, now_ms()) if chosen else "No browser is signed in.\n")
    if options.all:
        client.ask("POST", "/api/logout", type(None), {"everywhere": True})
        return say(f"signed out {len(found)} of {len(found)} browsers\n")
    if options.ids:
        known = {it.id for it in found}
        if missing := [id for id in options.ids if id not in known]:  # before one of them is signed out
            raise UsageError(f"no browser {missing[0]} is signed in", help="penstock browsers lists them")
        chosen = [it for it in found if it.id in options.ids]
    for browser in chosen:
        client.ask("DELETE", f"/api/browsers/{browser.id}", type(None))
        say(f"signed out {browser.id}  {clean_line(browser.name)}, {browser.person}\n")
    return 0 if chosen else say("No browser is signed in.\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List the browsers that are signed in to the server on this machine, and sign them out."
    made = Parser("browsers", text, examples=EXAMPLES, arguments="[sign-out ID…] [options]")
    text = "sign-out; without it, the browsers are listed"
    made.add_argument("action", nargs="?", choices=(SIGN_OUT,), metavar="ACTION", help=text)
    made.add_argument("ids", nargs="*", metavar="ID", help="browsers, as the list names them")
    made.add_argument("--person", metavar="NAME", help="only those of this person")
    made.add_argument("--all", action="store_true", help="sign everybody's browsers out")
    add_options(made)
    made.add_argument("--json", action="store_true", help="list the browsers as one JSON object a line")
    return made


def as_text(browsers: Sequence[SignedInBrowser], now: int) -> str:
    """Return the browsers as a table for people."""
    rows = [("used", "signed in", "person", "name", "browser")]
    for it in browsers:
        rows.append((when(it.used_at, now), when(it.created_at, now), it.person, clean_line(it.name), it.id))
    return columns(rows)


def _check(options: BrowsersOptions) -> None:
    if options.action is None:
        if options.all:
            raise UsageError("--all belongs to penstock browsers sign-out")
        return
    if options.json:
        raise UsageError("--json is for the list")
    ways = [bool(options.ids), options.person is not None, options.all]
    if sum(ways) != 1:
        raise UsageError("it is not clear who is to be signed out", expected="ids of browsers, --person NAME, or --all")
    for id in options.ids:
        if not ID.fullmatch(id):
            raise UsageError(f"{shown(id)} is not the id of a browser", help="penstock browsers lists them")
