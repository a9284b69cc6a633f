"""`penstock chats`: lists, stops, deletes and exports the chats of the server on this machine, for its operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from penstock.chat.history.frames import TurnView
from penstock.chat.service.chats.chat_view import ChatView
from penstock.cli.console import columns, pass_on, say
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options
from penstock.cli.sessions import MAX_TITLE_CHARS, when
from penstock.errors import UsageError, shown
from penstock.run.history import now_ms
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.styles import duration

ACTIONS = ("stop", "delete", "export")
FORMS = ("ndjson", "markdown", "html")
ID = re.compile(r"[0-9a-f]{1,64}")
PAGE_TURNS = 200
"""Number of turns in one request: the most that the server returns."""

EXAMPLES = """\
examples:
  penstock chats                          the chats, the one used last first, and since when an agent works
  penstock chats stop 0f3a…               stop what runs in a chat, and take back what waits
  penstock chats export 0f3a… > chat.ndjson
  penstock chats export 0f3a… --to html --details > chat.html
  penstock chats delete 0f3a… 17be…       stop what runs, and delete the chats for ever
  sudo -u penstock penstock chats --data /var/lib/penstock

An export is one JSON object a line: the chat, then each turn, the oldest first, with what its agent did as `events`.
With --to it is a file for people.
"""


class ChatsOptions(ServerOptions):
    """Options of the command line."""

    action: str | None
    ids: list[str]
    json: bool
    archived: bool
    to: str | None
    details: bool


class ChatList(msgspec.Struct):
    """Answer with all chats."""

    chats: list[ChatView]


class SomeTurns(msgspec.Struct):
    """Answer with some turns of a chat, the oldest first."""

    turns: list[TurnView]
    earlier: bool


class ExportedTurn(msgspec.Struct):
    """Line of an export."""

    turn: TurnView
    events: Sequence[msgspec.Raw]


def command(args: Sequence[str]) -> int:
    """Run `penstock chats` and return the exit status.

    Raises:
        UsageError: no server is running, its token cannot be read or is different, or there is no such chat.
        TransportError: the server does not answer, or cannot do it now.
    """
    options = ChatsOptions(**vars(parser().parse(args)))
    _check(options)
    client = ServerClient(options)
    if options.action is None:
        return _list(client, as_json=options.json, with_archived=options.archived)
    chats = [client.ask("GET", f"/api/chats/{id}", ChatView) for id in options.ids]  # all of them, before one changes
    for chat in chats:
        if options.action == "export" and options.to in ("markdown", "html"):
            path = f"/api/chats/{chat.id}/export?form={options.to}&details={int(options.details)}"
            for part in client.download(path):
                pass_on(part)
        elif options.action == "export":
            for line in exported(client, chat):
                pass_on(line)
        elif options.action == "delete":
            client.ask("DELETE", f"/api/chats/{chat.id}", type(None))
            say(f"deleted {chat.id}  {_title(chat)}\n")
        else:
            stopped = client.ask("POST", f"/api/chats/{chat.id}/stop", dict[str, list[int]], {})["turns"]
            what = f"stopped turns: {', '.join(map(str, stopped))}" if stopped else "nothing ran and nothing waited"
            say(f"{chat.id}  {_title(chat)}: {what}\n")
    return 0


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List the chats of the server on this machine, stop what runs in them, delete or export them."
    made = Parser("chats", text, examples=EXAMPLES, arguments="[stop|delete|export ID…] [options]")
    text = "stop, delete or export; without one, the chats are listed"
    made.add_argument("action", nargs="?", choices=ACTIONS, metavar="ACTION", help=text)
    made.add_argument("ids", nargs="*", metavar="ID", help="chats, as the list names them")
    add_options(made)
    made.add_argument("--json", action="store_true", help="list the chats as one JSON object a line")
    text = "form of an export: ndjson (the default), markdown or html"
    made.add_argument("--to", choices=FORMS, metavar="FORM", help=text)
    text = "with what the agent did in each turn, in an export as markdown or html"
    made.add_argument("--details", action="store_true", help=text)
    made.add_argument("--archived", action="store_true", help="list archived chats too")
    return made


def exported(client: ServerClient, chat: ChatView) -> Iterator[bytes]:
    """Yield the lines of an export: the chat, and each turn with its events, the oldest first.

    A turn that is still running is exported as far as it has come.
    """
    encode = msgspec.json.Encoder().encode
    yield encode({"chat": chat}) + b"\n"
    for number in range(1, chat.turns + 1, PAGE_TURNS):
        path = f"/api/chats/{chat.id}/turns?limit={PAGE_TURNS}&before={number + PAGE_TURNS}"
        for turn in client.ask("GET", path, SomeTurns).turns:
            if turn.turn < number:  # turns may be missing, so a page may reach back to earlier ones
                continue
            events = client.lines(f"/api/chats/{chat.id}/turns/{turn.turn}/details?format=ndjson")
            yield encode(ExportedTurn(turn, events)) + b"\n"


def as_text(chats: Sequence[ChatView], since: dict[str, int], now: int) -> str:
    """Return the chats as a table for people. `since`: the start time of each chat's running turn."""
    rows = [("used", "state", "agent", "turns", "title", "chat")]
    for chat in chats:
        began = since.get(chat.id)
        works = "" if began is None else f", {duration(max(0, now - began), whole=True)}"
        rows.append((when(chat.used_at, now), _state(chat) + works, chat.agent, str(chat.turns), _title(chat), chat.id))
    return columns(rows)


def _check(options: ChatsOptions) -> None:
    if options.action is not None and not options.ids:
        raise UsageError(f"penstock chats {options.action} needs a chat", help="penstock chats lists them")
    if options.action is not None and options.json:
        raise UsageError("--json is for the list", help="an export is JSON already")
    if options.action is not None and options.archived:
        raise UsageError("--archived is for the list", help="the ids of archived chats are valid without it")
    is_file = options.action == "export" and options.to in ("markdown", "html")
    if options.to is not None and options.action != "export":
        raise UsageError("--to is for an export", help="penstock chats export ID --to html")
    if options.details and not is_file:
        raise UsageError("--details is for an export --to markdown or html", help="one as ndjson has all events")
    if is_file and len(options.ids) > 1:
        raise UsageError(f"an export --to {options.to} is of one chat", help="export one after another")
    for id in options.ids:
        if not ID.fullmatch(id):
            raise UsageError(f"{shown(id)} is not the id of a chat", help="penstock chats lists them")


def _list(client: ServerClient, *, as_json: bool, with_archived: bool) -> int:
    found = client.ask("GET", "/api/chats", ChatList).chats
    chats = [chat for chat in found if with_archived or not _is_hidden(chat)]
    if as_json:
        return pass_on(msgspec.json.Encoder().encode_lines(chats))
    if not chats:
        advice = " but archived ones: --archived lists them" if found else ""
        return say(f"There are no chats{advice}.\n")
    since = {chat.id: began for chat in chats if chat.state == "running" and (began := _began(client, chat))}
    return say(as_text(chats, since, now_ms()))


def _began(client: ServerClient, chat: ChatView) -> int | None:
    """Return when the running turn began; None if it has ended meanwhile, or the chat is gone."""
    try:
        found = client.ask("GET", f"/api/chats/{chat.id}/turns", SomeTurns).turns
    except UsageError:
        return None
    return next((turn.began_at for turn in found if turn.state == "running"), None)


def _is_hidden(chat: ChatView) -> bool:
    """Return whether lists leave a chat out: it is archived, and neither works nor asks."""
    return chat.archived and chat.state == "idle" and not chat.asks


def _state(chat: ChatView) -> str:
    if chat.is_away:
        return "away"
    if chat.asks:
        return "asks"
    if chat.held:
        return "held"
    return {"running": "works", "queued": "waits", "idle": "archived" if chat.archived else "idle"}[chat.state]


def _title(chat: ChatView) -> str:
    title = clean_line(chat.title or "New chat")
    return title if len(title) <= MAX_TITLE_CHARS else title[: MAX_TITLE_CHARS - 1] + "…"
