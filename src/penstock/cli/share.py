"""`penstock share`: links that show one chat of the server on this machine to whoever has them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from penstock.chat.service.share_view import DAYS, MAX_DAYS, SHARED, MadeShare, ShareView
from penstock.cli.chats import ID
from penstock.cli.console import columns, notify, pass_on, say
from penstock.cli.options import whole_number
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options
from penstock.cli.sessions import when
from penstock.config.rules import ABOVE_0, whole
from penstock.errors import UsageError, shown
from penstock.run.history import now_ms

LIST, REVOKE = "list", "revoke"

EXAMPLES = """\
examples:
  penstock share 0f3a…                     a link that shows this chat, also what is yet to come, for 7 days
  penstock share 0f3a… --until 3 --days 1  the first three turns, for a day
  penstock share 0f3a… --details           with what the agent did: thoughts, calls and their output
  penstock share list                      the links that work
  penstock share revoke 9c1f… 17be…        from now on, these show nothing

Whoever has such a link can read the chat, without a login. penstock chats lists the chats.
"""


class ShareOptions(ServerOptions):
    """Options of the command line."""

    what: str
    ids: list[str]
    until: int | None
    details: bool
    days: int | None
    json: bool


class ShareList(msgspec.Struct):
    """Answer with all shares."""

    shares: list[ShareView]


def command(args: Sequence[str]) -> int:
    """Run `penstock share` and return the exit status.

    Raises:
        UsageError: no server is running, its token cannot be read or is different, or there is no such chat or share.
        TransportError: the server does not answer, or cannot do it now.
    """
    options = ShareOptions(**vars(parser().parse(args)))
    _check(options)
    client = ServerClient(options)
    if options.what == LIST:
        return _list(client, as_json=options.json)
    if options.what == REVOKE:
        return _revoke(client, options.ids)
    body = {"until": options.until, "details": options.details, "days": options.days or DAYS}
    made = client.ask("POST", f"/api/chats/{options.what}/shares", MadeShare, body)
    if options.json:
        return pass_on(msgspec.json.encode(made) + b"\n")
    notify(f"Whoever has this link can read the chat until {_day(made.share)}; it is shown this once:\n")
    return say(f"{client.serving.url}{SHARED}#{made.url.partition('#')[2]}\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Make, list and revoke links that show one chat to whoever has them."
    made = Parser("share", text, examples=EXAMPLES, arguments="CHAT|list|revoke [ID…] [options]")
    text = "chat to share, as penstock chats names it; or list, or revoke"
    made.add_argument("what", metavar="CHAT", help=text)
    made.add_argument("ids", nargs="*", metavar="ID", help="with revoke: shares, as the list names them")
    text = "last turn that the link shows (default: the whole chat, also what is yet to come)"
    made.add_argument("--until", type=whole_number(ABOVE_0), metavar="TURN", help=text)
    text = "also show what the agent did: its thoughts, and calls of tools with their output"
    made.add_argument("--details", action="store_true", help=text)
    text = f"days after which the link expires (default {DAYS}, at most {MAX_DAYS})"
    made.add_argument("--days", type=whole_number(whole(1, MAX_DAYS)), metavar="N", help=text)
    add_options(made)
    made.add_argument("--json", action="store_true", help="print shares as one JSON object a line")
    return made


def as_text(shares: Sequence[ShareView], now: int) -> str:
    """Return the shares as a table for people."""
    rows = [("made", "expires", "person", "shows", "chat", "share")]
    for it in shares:
        part = "the chat" if it.until is None else f"turns up to {it.until}"
        shows = f"{part}, with details" if it.details else part
        rows.append((when(it.created_at, now), _day(it), it.person, shows, it.chat, it.id))
    return columns(rows)


def _check(options: ShareOptions) -> None:
    if options.what == REVOKE and not options.ids:
        raise UsageError("penstock share revoke needs a share", help="penstock share list lists them")
    if options.what != REVOKE and options.ids:
        raise UsageError(f"{shown(options.ids[0])} is one argument too many", help="one chat is shared at a time")
    makes = options.what not in (LIST, REVOKE)
    if not makes and (options.until is not None or options.details or options.days is not None):
        raise UsageError("--until, --details and --days belong to penstock share CHAT")
    if options.what == REVOKE and options.json:
        raise UsageError("--json is for shares that are made or listed")
    named, lists = (options.ids, "penstock share list") if not makes else ([options.what], "penstock chats")
    for id in named:
        if not ID.fullmatch(id):
            kind = "chat" if makes else "share"
            raise UsageError(f"{shown(id)} is not the id of a {kind}", help=f"{lists} lists them")


def _shares(client: ServerClient) -> list[ShareView]:
    return client.ask("GET", "/api/shares", ShareList).shares


def _list(client: ServerClient, *, as_json: bool) -> int:
    shares = _shares(client)
    if as_json:
        return pass_on(msgspec.json.Encoder().encode_lines(shares))
    return say(as_text(shares, now_ms()) if shares else "No chat is shared.\n")


def _revoke(client: ServerClient, ids: Sequence[str]) -> int:
    chats = {it.id: it.chat for it in _shares(client)}
    if missing := [id for id in ids if id not in chats]:  # before one of them is revoked
        raise UsageError(f"there is no share {missing[0]}", help="penstock share list lists them")
    for id in ids:
        client.ask("DELETE", f"/api/chats/{chats[id]}/shares/{id}", type(None))
        say(f"revoked {id}\n")
    return 0


def _day(share: ShareView) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(share.expires_at / 1000))
