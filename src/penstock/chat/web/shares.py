"""What a share shows of its chat, and to whom: everybody who has its code, without a login.

The code comes in a header. It is in the fragment of the link, which browsers do not send, so it is in no log and in no
`Referer`; the page reads it from there. It gives access to nothing else, and there is no cookie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec
from starlette.requests import Request

from penstock.chat.errors import NoSuchAttachment, NoSuchChat, NoSuchShare, NoSuchTurn, NotAllowed
from penstock.chat.history.details import details_of
from penstock.chat.history.entries import AttachedFile, Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.people.persons import People
from penstock.chat.people.rights import check, reader_of
from penstock.chat.service.service import Service
from penstock.chat.store.permits import Permit
from penstock.chat.store.protocol import UnknownChat
from penstock.chat.store.rows import ChatRow, Share
from penstock.chat.store.search import Reader
from penstock.chat.web import schemas

CODE = "x-penstock-share"
"""Header with the code of a share."""

NEVER = 2**53
"""Number larger than that of any turn."""


class FoundShare(NamedTuple):
    """Share of a request."""

    share: Share
    row: ChatRow
    """Its chat."""
    permit: Permit
    """Permit for what is read through it: it holds while the person who made it may share the chat."""


async def found(request: Request, service: Service, people: People) -> FoundShare:
    """Return the share of a request, and its chat.

    Raises:
        NoSuchShare: there is none, it has expired, or the person who made it may no longer share the chat.
        StoreFailed: the store cannot be read.
    """
    given = request.headers.getlist(CODE)
    if len(given) != 1:
        raise NoSuchShare
    share = await service.shares.find(given[0])
    await service.node.find(share.chat)
    permit = partial(_permitted, share, service, people)
    permit()
    return FoundShare(share, service.row(share.chat), permit)


def _permitted(share: Share, service: Service, people: People) -> Reader:
    """Return who reads what a share shows: the person who made it.

    Raises:
        NoSuchShare: it has expired, or the person may no longer share the chat.
    """
    person = people.find(share.person)
    if person is None or person.added_at > share.created_at or share.expires_at <= service.now():
        raise NoSuchShare  # the person was removed; one of the same name who was added later is another one
    try:
        check(person, "manage", service.row(share.chat))
    except (NoSuchChat, NotAllowed):
        raise NoSuchShare from None
    return reader_of(person)._replace(share=share.id)


async def shown(
    service: Service, share: Share, row: ChatRow, *, before: int | None, after: int, limit: int
) -> schemas.SharedChat:
    """Return a page of turns of a shared chat, oldest first: those between the turns `after` and `before`.

    Raises:
        NoSuchShare: the chat was deleted meanwhile.
        StoreFailed: the store cannot be read.
    """
    end = NEVER if share.until is None else share.until + 1
    try:
        turns, earlier = await service.turns(share.chat, before=min(end, before or end), limit=limit)
    except (NoSuchChat, UnknownChat):
        raise NoSuchShare from None
    return schemas.SharedChat(
        row.title, row.agent, share.expires_at, share.until, share.details, [*_turns(turns, after, share)], earlier
    )


def _turns(views: Iterable[TurnView], after: int, share: Share) -> Iterable[schemas.SharedTurn]:
    """Yield what is shown of turns: the prompts and replies, and nothing of what the agent did or where.

    The files of the prompts are shown with the details.
    """
    for it in views:
        if it.turn > after and it.began_at is not None:
            is_over = it.state == "completed"
            text = it.message if is_over else it.reply or ""
            files = it.attachments if share.details else None
            yield schemas.SharedTurn(it.turn, it.prompt, it.by, it.state, it.asked_at, text, it.outcome, files)


async def attachment(service: Service, share: Share, turn: int, id: str) -> tuple[AttachedFile, bytes]:
    """Return an attachment of a turn of a shared chat.

    Raises:
        NoSuchTurn, NotAllowed: as `details`.
        NoSuchAttachment: the turn does not have it.
        NoSuchShare: the right of the share has ended meanwhile.
    """
    view, _ = await _turn(service, share, turn)
    if not any(it.id == id for it in view.attachments or ()):
        raise NoSuchAttachment
    try:
        return await service.attachments.find(share.chat, id)
    except UnknownChat:
        raise NoSuchShare from None


async def details(service: Service, share: Share, turn: int) -> bytes:
    """Return what the agent did in a turn of a shared chat, as JSON.

    Raises:
        NoSuchTurn: there is no such turn, or the share does not show it.
        NotAllowed: the share shows no details.
    """
    view, rows = await _turn(service, share, turn)

    def encoded() -> bytes:
        made = details_of(view, rows)
        return msgspec.json.encode(schemas.SharedDetails(made.whole, made.items))

    return await asyncio.to_thread(encoded)


async def _turn(service: Service, share: Share, turn: int) -> tuple[TurnView, list[Numbered]]:
    """Return a turn of a shared chat with its entries, if the share shows details.

    Raises:
        NoSuchTurn: there is no such turn, or the share does not show it.
        NotAllowed: the share shows no details.
    """
    if not share.details:
        raise NotAllowed("this link shows no details", expected="a link that was made with details")
    if share.until is not None and turn > share.until:
        raise NoSuchTurn("this link does not show this turn", expected=f"one up to {share.until}")
    try:
        return await service.turn(share.chat, turn)
    except (NoSuchChat, UnknownChat):
        raise NoSuchShare from None
