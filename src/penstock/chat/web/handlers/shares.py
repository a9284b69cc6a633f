"""Handlers of shares, and of what they show."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.errors import NoSuchChat, NotAllowed
from penstock.chat.service.share_view import SHARED, MadeShare, view_of
from penstock.chat.store import permits
from penstock.chat.web import schemas, shares
from penstock.chat.web.api import Api
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import (
    MAX_PAGE_TURNS,
    PAGE_TURNS,
    address_of,
    file_response,
    json_response,
    number_of,
)
from penstock.chat.web.security import person_of


async def list_shares(api: Api, request: Request) -> Response:
    """Return the shares of the chats that the person may manage."""
    found = [it for it in await api.service.shares.listed() if _may_manage(api, request, it.chat)]
    return json_response({"shares": [*map(view_of, found)]})


def _may_manage(api: Api, request: Request, chat: str) -> bool:
    try:
        api.check(request, "manage", chat)
    except (NoSuchChat, NotAllowed):
        return False
    return True


async def share(api: Api, request: Request, chat: str, body: schemas.NewShare) -> Response:
    """Make a link that shows a chat."""
    made, code = await api.service.shares.make(
        chat, person=person_of(request).name, until=body.until, details=body.details, days=body.days
    )
    return json_response(MadeShare(view_of(made), f"{address_of(request)}{SHARED}#{code}"), 201)


async def revoke_share(api: Api, request: Request, chat: str, share: str) -> Response:
    """Revoke a share."""
    await api.service.shares.revoke(chat, share)
    return Response(status_code=204, headers=NO_STORE)


async def shared_chat(api: Api, request: Request) -> Response:
    """Return what a share shows of its chat."""
    before = number_of(request, "before", None, 1, 2**53)
    after = number_of(request, "after", 0, 0, 2**53)
    limit = number_of(request, "limit", PAGE_TURNS, 1, MAX_PAGE_TURNS)
    assert after is not None
    assert limit is not None
    share, row, permit = await shares.found(request, api.service, api.security.logins.people)
    with permits.acting(permit):
        made = json_response(await shares.shown(api.service, share, row, before=before, after=after, limit=limit))
    permit()  # what was read is sent only while the link shows it
    return made


async def shared_details(api: Api, request: Request) -> Response:
    """Return what the agent did in a turn of a shared chat."""
    turn = number_of(request, "turn", 1, 1, 2**53)
    assert turn is not None
    share, _, permit = await shares.found(request, api.service, api.security.logins.people)
    with permits.acting(permit):
        made = await shares.details(api.service, share, turn)
    permit()
    return Response(made, headers=NO_STORE, media_type="application/json")


async def shared_attachment(api: Api, request: Request) -> Response:
    """Return an attachment of a turn of a shared chat."""
    turn = number_of(request, "turn", 1, 1, 2**53)
    assert turn is not None
    share, _, permit = await shares.found(request, api.service, api.security.logins.people)
    with permits.acting(permit):
        file, content = await shares.attachment(api.service, share, turn, request.query_params.get("id", ""))
    permit()
    return file_response(request, file, content)
