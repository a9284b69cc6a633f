"""Handlers of event streams: of a chat, a document or a loop, of several, and of one turn."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from penstock.chat.errors import Invalid, NoSuchChat, NoSuchRun, NotAllowed
from penstock.chat.people.persons import Person
from penstock.chat.people.rights import may_read
from penstock.chat.store.rows import ChatRow
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.broadcast import WatchedLog
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import NUMBER, StreamHeaders, number_of
from penstock.chat.web.list_stream import ListLog
from penstock.chat.web.security import person_of
from penstock.chat.web.sse import EventStream, FollowedLog
from penstock.config.ownership import ownership_in

LIST = "list"
"""Name by which a stream follows what changes in the list of chats."""

FOLLOWED = re.compile(r"(?P<name>list|(?:runs/)?[A-Za-z0-9][A-Za-z0-9_-]{0,63})(?::(?P<after>[0-9]{1,18}))?")
"""Pattern of what a stream follows: the list, a chat, a document or a loop; and the last number that is known."""

LAST_ID = re.compile(r"(?P<after>[0-9]{1,18})(?:-(?P<at>[0-9]{1,18}))?")
"""Pattern of the last `id` that a client of one stream knows: a number, and the time of its entry if it asked for that.
"""

MAX_FOLLOWED = 100
"""Maximum number of chats of one stream: more than a browser shows. Each is held in memory while it is followed."""


async def events(api: Api, request: Request, chat: str) -> ASGIApp:
    """Return the event stream of a chat."""
    api.service.chat(chat)
    return _stream(api, request, chat, None, partial(api.sees_chat, chat))


async def run_events(api: Api, request: Request, run: str) -> ASGIApp:
    """Return the event stream of a document or loop."""
    sees = _sees_run(await api.runs.folder(run))
    return _stream(api, request, f"run {run}", partial(api.runs.log, run), sees)


async def all_events(api: Api, request: Request) -> ASGIApp:
    """Return one stream of several chats, documents and loops, and of what changes in the list."""
    if request.method == "HEAD":
        return StreamHeaders()
    given = request.query_params.get("chats", "")
    asked = [FOLLOWED.fullmatch(one) for one in given.split(",")]
    if not given or len(asked) > MAX_FOLLOWED or None in asked:
        raise Invalid("chats cannot be this", expected=f"list, ID or ID:NUMBER, at most {MAX_FOLLOWED}, with commas")
    times = request.query_params.get("at", "").split(",")
    followed = [
        await _followed(api, request, it["name"], it["after"], at)
        for it, at in zip_longest(asked, times[: len(asked)], fillvalue="")
        if isinstance(it, re.Match)
    ]
    return EventStream(
        api.watches,
        followed,
        is_named=True,
        deltas=request.query_params.get("delta") == "1",
        ping=api.ping,
        patience=api.patience,
        watched=partial(api.security.watched, request),
        seen=partial(api.security.seen, request),
    )


async def turn_entries(api: Api, request: Request, chat: str, turn: int) -> ASGIApp:
    """Return the entries of a turn as a stream, which ends with the turn."""
    return await _entries(api, request, chat, turn, stops=False)


async def followed_entries(api: Api, request: Request, chat: str, turn: int, body: schemas.NoBody) -> ASGIApp:
    """Return the entries of a turn as `turn_entries`; the turn is stopped when its last client has left."""
    return await _entries(api, request, chat, turn, stops=True)


async def _entries(api: Api, request: Request, chat: str, turn: int, *, stops: bool) -> ASGIApp:
    from penstock.chat.web.doors.turn_entries import TurnEntries
    from penstock.chat.web.foreign_turns import ForeignTurn

    view, rows = await api.service.turn(chat, turn)
    after = number_of(request, "after", 0, 0, 2**53)
    assert after is not None
    mapper = TurnEntries(turn, after)
    if request.method == "HEAD":
        return StreamHeaders()
    if view.finalized:
        whole = await asyncio.to_thread(lambda: mapper.take(rows) + mapper.close(""))
        return Response(whole, headers=NO_STORE, media_type="text/event-stream")
    return api.foreign_turns.respond(request, ForeignTurn(chat, turn), mapper, stops=stops)


def _stream(
    api: Api,
    request: Request,
    name: str,
    log: Callable[[], WatchedLog] | None,
    sees: Callable[[Person], bool],
) -> ASGIApp:
    if request.method == "HEAD":
        return StreamHeaders()
    last = LAST_ID.fullmatch(request.headers.get("last-event-id") or request.query_params.get("after") or "")
    after, at = (None, None) if last is None else (int(last["after"]), last["at"])  # no number leads to a snapshot
    is_timed = at is not None or request.query_params.get("times") == "1"
    return EventStream(
        api.watches,
        [FollowedLog(name, after, log, at=None if at is None else int(at), is_timed=is_timed)],
        deltas=request.query_params.get("delta") == "1",
        ping=api.ping,
        patience=api.patience,
        watched=partial(api.security.watched, request, sees=sees),
    )


async def _followed(api: Api, request: Request, name: str, number: str | None, time: str) -> FollowedLog:
    """Return what a stream follows by this name; a person who may not see it is told that it does not exist."""
    after = None if number is None else int(number)
    if name == LIST:
        watched, log = list_of(api, request)
        return FollowedLog(watched, after, log, name)
    kind, _, id = name.rpartition("/")
    try:
        if kind:
            api.check(request, "read", None, await api.ownership(id))
            sees_run = _sees_run(await api.runs.folder(id))
            return FollowedLog(f"run {id}", after, partial(api.runs.log, id), name, sees_run)
        await api.service.node.find(id)
        api.check(request, "read", id)
    except (NoSuchChat, NoSuchRun, NotAllowed):
        return FollowedLog(name, after, name=name, is_missing=True)
    at = int(time) if NUMBER.fullmatch(time) else None
    return FollowedLog(id, after, name=name, sees=partial(api.sees_chat, id), at=at)


def list_of(api: Api, request: Request) -> tuple[str, Callable[[], ListLog]]:
    """Return the name of the list that a person sees, and a function that makes its log."""
    person = person_of(request)
    sees = partial(_sees_in_list, api, person.name)
    return f"list of {person.name}", lambda: ListLog(api.service, sees, person)


def _sees_in_list(api: Api, name: str, chat: ChatRow) -> bool:
    person = api.security.logins.people.find(name)
    return person is not None and may_read(person, chat)


def _sees_run(folder: Path) -> Callable[[Person], bool]:
    """Return a function that returns whether a person may see the document or loop of a folder."""
    return lambda person: may_read(person, ownership_in(folder))
