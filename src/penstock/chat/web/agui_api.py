"""AG-UI: a turn as a run of the protocol, the answer to its question, and the return to a turn."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from penstock import events as ev
from penstock.chat.errors import Conflicting, Invalid, NoSuchChat
from penstock.chat.store.rows import ChatRow
from penstock.chat.web.doors.agui import VERSION, AgUiOptions, AgUiStream
from penstock.chat.web.doors.bodies import AgUiMessage, AgUiPart, AgUiProperties, AgUiRequest, AgUiResume
from penstock.chat.web.doors.files import GivenFile, check_count, data_of
from penstock.chat.web.doors.openai_request import digest
from penstock.chat.web.foreign_turns import Caller, ForeignTurn, ForeignTurns, Key, wants_all
from penstock.core.questions import ALLOW, PERMISSIONS, REJECT

PROTOCOL = "agui:"
"""Beginning of the foreign ids of these chats."""

MAX_ID_CHARS = 128

LEFT_SECONDS = 10.0
"""Seconds after which the turn of a client that closed the connection is stopped. It may return by `attach`."""

MAX_DEPTH = 32
"""Lists and objects in each other in a message, which snapshots repeat. Messages of the protocol have fewer."""

MEDIA = frozenset({"image", "audio", "video", "document", "binary"})
"""Types of parts of a message that are files."""


async def run(turns: ForeignTurns, request: Request, agent: str | None, body: AgUiRequest) -> ASGIApp:
    """Ask for a turn, answer its question, or return to the newest one; return the stream of its events.

    Raises:
        Invalid, ChatError: the request cannot be done.
    """
    if not (0 < len(body.thread_id) <= MAX_ID_CHARS and 0 < len(body.run_id) <= MAX_ID_CHARS):
        raise Invalid("there is no thread or no run", expected=f"ids of 1 to {MAX_ID_CHARS} characters")
    if any(_is_deep(message) for message in body.messages):
        raise Invalid("a message is nested too deeply", expected=f"at most {MAX_DEPTH} lists and objects in each other")
    properties = _properties(body)
    is_full = wants_all(request)
    caller = await turns.caller(request)
    async with turns.asking:
        row = turns.chat_of(f"{PROTOCOL}{body.thread_id}", agent, caller)
        asks_from = 0
        if properties.attach:
            asked, asks_from = await _newest(turns, row, body)
        elif body.resume:
            asked = await _resumed(turns, row, body, body.resume)
        else:
            asked = await _asked(turns, request, row, agent, body, properties, caller)
    options = AgUiOptions(
        body.thread_id,
        body.run_id,
        asked.chat,
        body.messages,
        is_new=(body.protocol_version or "").split(".")[0] == VERSION.split(".")[0],
        is_full=is_full,
        since=asked.since,
        asks_from=max(asked.since, asks_from),
    )
    return turns.respond(request, asked, AgUiStream(asked.turn, options), left=LEFT_SECONDS)


def _is_deep(value: Any, depth: int = 0) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth >= MAX_DEPTH or any(_is_deep(it, depth + 1) for it in inner)


def _properties(body: AgUiRequest) -> AgUiProperties:
    given = body.forwarded_props.get("penstock", {}) if isinstance(body.forwarded_props, dict) else {}
    try:
        return msgspec.convert(given, AgUiProperties)
    except msgspec.ValidationError as error:
        raise Invalid(f"forwardedProps.penstock: {error}", expected="attach or model") from None


async def _newest(turns: ForeignTurns, row: ChatRow | None, body: AgUiRequest) -> tuple[ForeignTurn, int]:
    """Return the newest turn of a thread, whether it runs or not, and the number of the chat's last entry."""
    if row is None:
        raise NoSuchChat(body.thread_id)
    timeline = await turns.service.log(row.id).open()
    views, _ = await turns.service.turns(row.id, limit=1)
    if not views:
        raise Conflicting("the thread has no turn", help="send a message")
    return ForeignTurn(row.id, views[-1].turn), timeline.number


async def _asked(
    turns: ForeignTurns,
    request: Request,
    row: ChatRow | None,
    agent: str | None,
    body: AgUiRequest,
    properties: AgUiProperties,
    caller: Caller,
) -> ForeignTurn:
    text, files = _prompt(body)
    key = Key(f"g{digest([body.run_id, text])}", True)
    return await turns.ask_by_id(
        request,
        row,
        text,
        key,
        foreign_id=f"{PROTOCOL}{body.thread_id}",
        agent=agent,
        model=properties.model,
        caller=caller,
        files=files,
    )


# --- the answer to a question ---


async def _resumed(
    turns: ForeignTurns, row: ChatRow | None, body: AgUiRequest, entries: list[AgUiResume]
) -> ForeignTurn:
    """Answer the questions that the turn waits for. A question of words that is cancelled stops its turn."""
    if row is None:
        raise NoSuchChat(body.thread_id)
    given = [(entry.interrupt_id, entry.status == "cancelled" or entry.payload) for entry in entries]
    key = Key(f"h{digest([body.run_id, given])}", True)
    again = await turns.again(row, key)
    if again is not None:
        return again
    timeline = await turns.service.log(row.id).open()
    answers = {
        entry.interrupt_id: _answer(timeline.questions[entry.interrupt_id], entry)
        for entry in entries
        if entry.interrupt_id in timeline.questions
    }
    if not answers:
        raise Conflicting(
            "no question of this thread waits for this answer",
            help='if it was answered elsewhere, return to the turn: "forwardedProps": {"penstock": {"attach": true}}',
        )
    asked: ForeignTurn | None = None
    for id, answer in answers.items():
        if answer is not None:
            asked = await turns.answer(row, id, answer, key)
    if asked is None:
        assert timeline.running is not None
        asked = ForeignTurn(row.id, timeline.running.turn, timeline.number)
        await turns.stop(row, asked.turn)
    return asked


def _answer(question: ev.QuestionAsked, entry: AgUiResume) -> str | None:
    """Return the answer to a question in words; None if it is a question of words that is cancelled."""
    payload = entry.payload
    if entry.status == "cancelled":
        return REJECT if question.ask in PERMISSIONS else None
    if isinstance(payload, dict):
        payload = payload.get("answer", payload.get("approved"))
    if isinstance(payload, bool):
        return ALLOW if payload else REJECT
    if isinstance(payload, str) and payload.strip():
        return payload
    raise Invalid("the answer to the interrupt is empty", expected='a payload as {"answer": "…"}')


# --- the prompt ---


def _prompt(body: AgUiRequest) -> tuple[str, list[GivenFile]]:
    """Return the text and the files of the last message, which is the user's.

    Raises:
        Invalid: it is not, or it cannot be read.
    """
    if not body.messages:
        raise Invalid("there is no message", expected="a message of the role user at the end")
    try:
        last = msgspec.convert(body.messages[-1], AgUiMessage)
    except msgspec.ValidationError as error:
        raise Invalid(f"the last message: {error}", expected="a message of the role user at the end") from None
    if last.role != "user":
        raise Invalid("the last message is not the user's", expected="a message of the role user at the end")
    if isinstance(last.content, str):
        text, files = last.content, []
    else:
        text = "\n".join(part.text or "" for part in last.content if part.type == "text")
        files = check_count([_file(part) for part in last.content if part.type != "text"])
    if not text.strip() and not files:
        raise Invalid("the message is empty", expected="something to say to the agent")
    return text, files


def _file(part: AgUiPart) -> GivenFile:
    if part.type not in MEDIA:
        raise Invalid(f"the message has a part of the type {part.type[:40]!r}", expected="text and files")
    name = part.filename or part.type
    if part.source is None:  # as versions before 1.0 have it
        return data_of(part.url or f"data:{_type(part.mime_type)};base64,{part.data or ''}", name)
    if part.source.type == "data":
        return data_of(f"data:{_type(part.source.mime_type)};base64,{part.source.value}", name)
    return data_of(part.source.value, name)


def _type(given: Any) -> str:
    return given if isinstance(given, str) else ""
