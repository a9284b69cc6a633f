"""The AI SDK's chat: a turn as a stream of its parts, the return to one that runs, and its stop."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from penstock.chat.errors import Conflicting, Invalid, NoSuchChat
from penstock.chat.history.timeline import Timeline
from penstock.chat.store.rows import ChatRow
from penstock.chat.web.doors.ai_sdk import UiOptions, UiStream, shown_before
from penstock.chat.web.doors.bodies import UiMessage, UiRequest
from penstock.chat.web.doors.files import GivenFile, check_count, data_of
from penstock.chat.web.doors.openai_request import digest
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.foreign_turns import Caller, ForeignTurn, ForeignTurns, Key, wants_all
from penstock.chat.web.security import person_of

PROTOCOL = "ai:"
"""Beginning of the foreign ids of these chats."""

MAX_ID_CHARS = 128
HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
VERSIONS = ("5", "6", "7")


async def chat(turns: ForeignTurns, request: Request, agent: str | None, body: UiRequest) -> ASGIApp:
    """Ask for a turn, or answer its question, and return the stream of its parts.

    Raises:
        Invalid, ChatError: the request cannot be done.
    """
    if not 0 < len(body.id) <= MAX_ID_CHARS or not body.messages:
        raise Invalid("there is no chat or no message", expected="the id of a chat and its messages")
    last = body.messages[-1]
    is_answer = last.role == "assistant"
    if body.trigger == "regenerate-message" or (body.message_id is not None and not is_answer):
        raise Invalid("an agent cannot take back what it has done", expected="a new message at the end of the chat")
    sdk, is_full = _shown(request)
    caller = await turns.caller(request)
    async with turns.asking:
        row = turns.chat_of(f"{PROTOCOL}{body.id}", agent, caller)
        if is_answer:
            asked = await _answered(turns, row, body, last)
            message_id = last.id[:MAX_ID_CHARS]
        else:
            asked = await _asked(turns, request, row, agent, body, caller)
            message_id = _message_id(asked)
    options = UiOptions(message_id, sdk, is_full, asked.since, asked.since)
    return _response(turns, request, asked, options)


async def stream(turns: ForeignTurns, request: Request, id: str) -> ASGIApp:
    """Return the turn that runs, from the beginning of its message; 204 if none runs.

    Raises:
        NoSuchChat: there is no such chat.
    """
    row = _require(turns, id, request)
    sdk, is_full = _shown(request)
    timeline = await turns.service.log(row.id).open()
    turn = _current(timeline)
    if turn is None:
        return Response(status_code=204, headers=NO_STORE)
    _, rows = await turns.service.turn(row.id, turn)
    asked = ForeignTurn(row.id, turn, shown_before(rows, sdk))
    options = UiOptions(_message_id(asked), sdk, is_full, asked.since, timeline.number)
    return _response(turns, request, asked, options)


async def stop(turns: ForeignTurns, request: Request, id: str) -> list[int]:
    """Stop the turns of a chat, and return their numbers.

    Raises:
        NoSuchChat: there is no such chat.
    """
    row = _require(turns, id, request)
    return await turns.service.stop(row.id, person=row.person)


def _response(turns: ForeignTurns, request: Request, asked: ForeignTurn, options: UiOptions) -> ASGIApp:
    return turns.respond(request, asked, UiStream(asked.turn, options), stops=False, headers=HEADERS)


def _current(timeline: Timeline) -> int | None:
    running = timeline.running
    if running is not None and running.state == "running":
        return running.turn
    return timeline.ready[0].turn if timeline.ready else None


def _message_id(asked: ForeignTurn) -> str:
    return f"t{asked.turn}.{asked.since}" if asked.since else f"t{asked.turn}"


def _shown(request: Request) -> tuple[int, bool]:
    """Return the version of the AI SDK, and whether all is shown.

    Raises:
        Invalid: the version or the detail is unknown.
    """
    sdk = request.query_params.get("sdk", VERSIONS[0])
    if sdk not in VERSIONS:
        raise Invalid("there is no such sdk", expected="sdk=5, 6 or 7")
    return int(sdk), wants_all(request)


def _require(turns: ForeignTurns, id: str, request: Request) -> ChatRow:
    row = turns.chat_of(f"{PROTOCOL}{id}", None, Caller(person_of(request).name, 0))
    if row is None:
        raise NoSuchChat(id)
    return row


async def _asked(
    turns: ForeignTurns, request: Request, row: ChatRow | None, agent: str | None, body: UiRequest, caller: Caller
) -> ForeignTurn:
    last = body.messages[-1]
    text = _text(last)
    files = _files(last)
    key = Key(f"m{digest([last.id, text])}", True)
    return await turns.ask_by_id(
        request,
        row,
        text,
        key,
        foreign_id=f"{PROTOCOL}{body.id}",
        agent=agent,
        model=body.model,
        caller=caller,
        files=files,
    )


async def _answered(turns: ForeignTurns, row: ChatRow | None, body: UiRequest, last: UiMessage) -> ForeignTurn:
    """Answer the question that the turn waits for, as the last message approves it or not."""
    if row is None:
        raise NoSuchChat(body.id)
    given = {part.approval.id: part.approval for part in last.parts if part.approval is not None}
    timeline = await turns.service.log(row.id).open()
    for id in timeline.questions:
        approval = given.get(id)
        if approval is not None and approval.approved is not None:
            key = Key(f"a{digest([id, approval.approved])}", True)
            return await turns.answer(row, id, "allow" if approval.approved else "reject", key)
    for id, approval in reversed(given.items()):  # the same answer again
        asked = await turns.again(row, Key(f"a{digest([id, approval.approved])}", True))
        if asked is not None:
            return asked
    raise Conflicting("no question of this chat has this answer", help="write it as a message")


def _text(message: UiMessage) -> str:
    if message.role != "user":
        raise Invalid("the last message is not the user's", expected="a message of the role user at the end")
    if others := sorted({part.type for part in message.parts} - {"text", "file"}):
        raise Invalid(f"the message has {', '.join(others)[:80]}", expected="parts of the types text and file")
    text = "\n".join(part.text or "" for part in message.parts if part.type == "text")
    if not text.strip() and all(part.type == "text" for part in message.parts):
        raise Invalid("the message is empty", expected="something to say to the agent")
    return text


def _files(message: UiMessage) -> list[GivenFile]:
    parts = [part for part in message.parts if part.type == "file"]
    return check_count([data_of(part.url or "", part.filename or "file") for part in parts])
