"""Handlers of chats: listed, found, added up, begun, changed and deleted."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.errors import Invalid
from penstock.chat.people.rights import Right, reader_of
from penstock.chat.service.first_turn import FirstMessage
from penstock.chat.service.validation import depth_of
from penstock.chat.store import permits
from penstock.chat.store.costs import MAX_DAYS, CostGroup
from penstock.chat.store.search import MAX_KEY
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.callers import depth_of_caller
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import json_response, key_of, number_of, sees_of
from penstock.chat.web.handlers.streams import list_of
from penstock.chat.web.security import person_of

LIST_CURSOR = re.compile(r"([0-9]{1,16})-([A-Za-z0-9_-]{1,64})")
"""Time and id of the last chat of a page."""

COST_DAYS = 30
"""Days of the costs that are returned unless a request names another number."""

DECIDED = ("visibility", "pinned", "archived")
"""Fields of a chat that only those change who decide about the chat itself: all who see it have the same."""


async def chats(api: Api, request: Request) -> Response:
    """Return the chats that the person may see: all, or a page of them with the number at which it was made."""
    limit = number_of(request, "page", None, 1, schemas.MAX_PAGE_CHATS)
    if limit is None:
        return json_response(schemas.ChatPage(api.service.chat_list.all(sees_of(request), person=person_of(request))))
    before, number = _cursor_of(request), None
    if before is None:
        number = await api.watches.number(*list_of(api, request))  # first: what changes from here on is streamed
    known = request.query_params.get("with", "")
    found, following = api.service.chat_list.page(
        sees_of(request), before=before, limit=limit, known=known, person=person_of(request)
    )
    cursor = None if following is None else "{}-{}".format(*following)
    return json_response(schemas.ChatPage(found, cursor or UNSET, UNSET if number is None else number))


async def find(api: Api, request: Request) -> Response:
    """Find turns and titles of chats by their words."""
    query = request.query_params.get("q", "")
    before = number_of(request, "cursor", MAX_KEY, 0, MAX_KEY)
    assert before is not None
    return json_response(await api.service.find(query, reader_of(person_of(request)), before=before))


async def costs(api: Api, request: Request) -> Response:
    """Return what turns have cost: those of the person, or all for one who sees all chats."""
    by: CostGroup | None = next((it for it in get_args(CostGroup) if it == request.query_params.get("by", "day")), None)
    if by is None:
        raise Invalid("costs cannot be added up by this", expected=", ".join(get_args(CostGroup)))
    days = number_of(request, "days", COST_DAYS, 1, MAX_DAYS)
    assert days is not None
    return json_response(await api.service.costs(by, days, reader_of(person_of(request)), sees_of(request)))


async def create(api: Api, request: Request, body: schemas.NewChat) -> Response:
    """Create a chat. One that continues a conversation of a terminal is for owners: it is that of the server's user."""
    right: Right = "begin" if body.session is None else "operate"
    api.check(request, right, None)
    person = person_of(request)
    first = None
    if body.text is not None or body.files:
        files = [(it.name, it.content) for it in body.files]
        first = FirstMessage(body.text or "", key_of(request), files, person.max_runs)
    with permits.acting(api.permit(request, right, None)):
        made = await api.service.create(
            agent=body.agent,
            cwd=body.cwd,
            model=body.model,
            title=body.title,
            allow=body.allow,
            home=body.home,
            id=body.id,
            depth=max(depth_of(body.depth), await depth_of_caller(request)),
            person=person.name,
            visibility=body.visibility,
            effort=body.effort,
            session=body.session,
            tree=body.tree,
            first=first,
        )
    return json_response(made, 201, {"Location": f"/api/chats/{made.id}"})


async def chat(api: Api, request: Request, chat: str) -> Response:
    """Return one chat."""
    return json_response(api.service.chat(chat, person_of(request)))


async def commands(api: Api, request: Request, chat: str) -> Response:
    """Return the commands that the agent of a chat offers."""
    found = await api.service.commands.of_chat(chat, person_of(request).name)
    return json_response({"commands": found})


async def mark_read(api: Api, request: Request, body: schemas.ReadChats) -> Response:
    """Note the newest turns that the person has read."""
    await api.service.read_marks.mark(person_of(request).name, body.chats)
    return Response(status_code=204, headers=NO_STORE)


async def change(api: Api, request: Request, chat: str, body: schemas.Changes) -> Response:
    """Change a chat and return it. Who sees it, and where lists have it, is decided by its person or an owner."""
    right: Right = "manage" if any(getattr(body, name) is not msgspec.UNSET for name in DECIDED) else "drive"
    api.check(request, right, chat)
    with permits.acting(api.permit(request, right, chat)):
        changed = await api.service.change(chat, person_of(request), **body.fields())
    return json_response(changed)


async def delete(api: Api, request: Request, chat: str) -> Response:
    """Delete a chat."""
    await api.service.delete(chat)
    return Response(status_code=204, headers=NO_STORE)


async def land_plan(api: Api, request: Request, chat: str) -> Response:
    """Return what landing the work in the tree of a chat would do."""
    return json_response(await api.service.trees.plan(chat))


async def land(api: Api, request: Request, chat: str, body: schemas.LandChat) -> Response:
    """Land the work in the tree of a chat."""
    return json_response(await api.service.trees.land(chat, body.seen, body.message))


async def terminal(api: Api, request: Request, chat: str) -> Response:
    """Return how the conversation of a chat goes on in a terminal."""
    return json_response(api.service.terminal(chat))


async def remove_rule(api: Api, request: Request, chat: str, rule: str) -> Response:
    """Remove a rule of a chat and return the chat."""
    return json_response(await api.service.remove_rule(chat, rule, person_of(request)))


def _cursor_of(request: Request) -> tuple[int, str] | None:
    given = request.query_params.get("cursor")
    if given is None:
        return None
    found = LIST_CURSOR.fullmatch(given)
    if found is None:
        raise Invalid("cursor cannot be this", expected="the cursor of a page of chats")
    return int(found[1]), found[2]
