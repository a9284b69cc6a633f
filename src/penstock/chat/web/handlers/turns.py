"""Handlers of turns: messages, the queue, answers, and what an agent did."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock import events as ev
from penstock.chat.errors import Conflicting
from penstock.chat.history.changes import FileChanges
from penstock.chat.history.details import details_of
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.callers import depth_of_caller
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import (
    MAX_PAGE_TURNS,
    PAGE_TURNS,
    format_of,
    json_response,
    key_of,
    lines_response,
    number_of,
)
from penstock.chat.web.security import person_of


async def prompt(api: Api, request: Request, chat: str, body: schemas.Prompt) -> Response:
    """Queue a prompt and return the number of its turn."""
    person = person_of(request)
    turn, is_new = await api.service.prompt(
        chat,
        body.text,
        key=key_of(request),
        person=person.name,
        most=person.max_runs,
        attachments=body.attachments,
        now=body.now,
        stops=body.stops,
        steers=body.steers,
    )
    return json_response(schemas.TurnNumber(turn), 202 if is_new else 200)


async def branch(api: Api, request: Request, chat: str, turn: int, body: schemas.NewBranch) -> Response:
    """Make a new chat that begins before a message, and send the message there if the request asks for it."""
    person = person_of(request)
    made = await api.service.branch(
        chat,
        turn,
        agent=body.agent,
        sends=body.send,
        tree=body.tree,
        key=key_of(request),
        depth=await depth_of_caller(request),
        person=person.name,
        most=person.max_runs,
    )
    return json_response(made, 200 if made.repeated else 201, {"Location": f"/api/chats/{made.chat.id}"})


async def edit(api: Api, request: Request, chat: str, turn: int, body: schemas.EditedMessage) -> Response:
    """Change the text of a message that waits."""
    await api.service.queue.edit(chat, turn, body.text, edits=body.edits, person=person_of(request).name)
    return json_response(schemas.TurnNumber(turn), 202)


async def send_now(api: Api, request: Request, chat: str, turn: int, body: schemas.SendNow) -> Response:
    """Let a message that waits begin before the others."""
    await api.service.queue.send_now(chat, turn, stops=body.stops, person=person_of(request).name)
    return json_response(schemas.TurnNumber(turn), 202)


async def steer(api: Api, request: Request, chat: str, turn: int, body: schemas.SteerTurn) -> Response:
    """Give a message that waits to the agent of the running turn."""
    await api.service.queue.steer(chat, turn, body.into, person=person_of(request).name)
    return json_response(schemas.TurnNumber(turn), 202)


async def move(api: Api, request: Request, chat: str, body: schemas.Order) -> Response:
    """Put the messages that wait into another order."""
    await api.service.queue.move(chat, body.seen, body.turns, person=person_of(request).name)
    return json_response(schemas.TurnNumbers(body.turns), 202)


async def stop(api: Api, request: Request, chat: str, body: schemas.Stop) -> Response:
    """Stop a turn, or all, and return the numbers of the stopped turns."""
    found = await api.service.stop(chat, body.turn, queued=body.queued, person=person_of(request).name)
    return json_response(schemas.TurnNumbers(found), 202)


async def release(api: Api, request: Request, chat: str, body: schemas.NoBody) -> Response:
    """Release the turns that a stop holds back, and return their numbers."""
    return json_response(
        schemas.TurnNumbers(await api.service.queue.release(chat, person=person_of(request).name)), 202
    )


async def answer(api: Api, request: Request, chat: str, body: schemas.AnswerBody) -> Response:
    """Answer a question and return the number of the turn that continues."""
    turn = await api.service.answer(chat, body.id, body.answer, person=person_of(request).name, always=body.always)
    return json_response(schemas.TurnNumber(turn), 202)


async def turns(api: Api, request: Request, chat: str) -> Response:
    """Return a page of turns, in the order of the conversation."""
    before = number_of(request, "before", None, 1, 2**53)
    limit = number_of(request, "limit", PAGE_TURNS, 1, MAX_PAGE_TURNS)
    assert limit is not None
    found, earlier = await api.service.turns(chat, before=before, limit=limit)
    return json_response(schemas.TurnPage(found, earlier))


async def details(api: Api, request: Request, chat: str, turn: int) -> Response:
    """Return everything that the agent did in a turn, as details for people or as events."""
    form = format_of(request)
    view, rows = await api.service.turn(chat, turn)
    if form == "json":
        made = await asyncio.to_thread(lambda: msgspec.json.encode(details_of(view, rows)))
        return Response(made, headers=NO_STORE, media_type="application/json")
    return await lines_response([row.what for row in rows if isinstance(row.what, ev.Base)])


async def turn_changes(api: Api, request: Request, chat: str, turn: int) -> Response:
    """Return the files that a turn changed."""
    return await _changes_response(await api.service.changes.of_turn(chat, turn))


async def chat_changes(api: Api, request: Request, chat: str) -> Response:
    """Return the files that the newest turns of a chat changed."""
    return await _changes_response(await api.service.changes.of_chat(chat))


async def undo_plan(api: Api, request: Request, chat: str, turn: int) -> Response:
    """Return what would be done to the files of a turn."""
    redo = number_of(request, "redo", 0, 0, 1) == 1
    return json_response(await api.service.undos.plan(chat, turn, redo=redo))


async def undo(api: Api, request: Request, chat: str, turn: int, body: schemas.UndoTurn) -> Response:
    """Take the changes of a turn back, or make them again."""
    person = person_of(request).name
    return json_response(await api.service.undos.make(chat, turn, redo=body.redo, key=key_of(request), person=person))


async def _changes_response(found: FileChanges) -> Response:
    return Response(
        await asyncio.to_thread(msgspec.json.encode, found), headers=NO_STORE, media_type="application/json"
    )


async def activity(api: Api, request: Request, chat: str, turn: int) -> Response:
    """Return what the agent of a turn does now."""
    return json_response(await api.service.activity(chat, turn))


async def trajectory(api: Api, request: Request, chat: str, turn: int) -> Response:
    """Return a turn that has ended as a trajectory for evaluation tools."""
    from penstock.chat.web.doors.atif import turn_trajectory  # few servers are asked for one

    view, rows = await api.service.turn(chat, turn)
    if not view.finalized:
        raise Conflicting(f"turn {turn} has not ended", help="ask again when it is completed")
    return Response(
        await asyncio.to_thread(turn_trajectory, view, rows), headers=NO_STORE, media_type="application/json"
    )
