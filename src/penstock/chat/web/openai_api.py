"""OpenAI's interface: agents as models, and their turns as chat completions."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from penstock.chat.errors import NoSuchAgent
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.validation import made_title
from penstock.chat.store.rows import ChatRow
from penstock.chat.web.doors import openai_request
from penstock.chat.web.doors.bodies import CompletionModel, CompletionModels, CompletionRequest
from penstock.chat.web.doors.files import GivenFile
from penstock.chat.web.doors.openai import ChatCompletion, CompletionOptions
from penstock.chat.web.doors.openai_request import TextMessage
from penstock.chat.web.errors import NO_STORE, NoSuchModel
from penstock.chat.web.foreign_turns import Caller, ForeignTurn, ForeignTurns, Key, wants_all

PROTOCOL = "openai:"
"""Beginning of the foreign ids of these chats. A chat without an id has `#` and the name of the request after it."""

OPEN_WEBUI_CHAT = "x-openwebui-chat-id"
CHAT_HEADERS = ("x-penstock-chat", OPEN_WEBUI_CHAT)
"""Headers with a program's id of the chat."""

CHAT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
MAX_TURNS = 200
"""Turns of a chat that is found by its messages; a longer one needs an id."""

NO_IDS = ("new", "null", "undefined", "None")
"""Values that programs send before a chat has an id."""

RETRIES = "x-stainless-retry-count"
"""Header with which OpenAI's clients count the tries of a request, from 0."""


def models(agents: Sequence[AgentView]) -> CompletionModels:
    """Return the agents that are available, and their models, as models."""
    found = []
    for agent in agents:
        if agent.available:
            found += [agent.name, *(f"{agent.name}/{model}" for model in agent.models)]
    return CompletionModels([CompletionModel(name) for name in found])


async def complete(turns: ForeignTurns, request: Request, body: CompletionRequest) -> ASGIApp:
    """Submit a turn, and return the response that follows it.

    Raises:
        NoSuchModel, Invalid, ChatError: the request cannot be done.
    """
    answer = openai_request.side_answer(body)
    if answer is not None:
        return _at_once(body, answer)
    openai_request.check(body)
    files = openai_request.files_of(body)
    is_full = wants_all(request)
    caller = await turns.caller(request)
    async with turns.asking:
        asked = await _asked(turns, request, body, caller, files)
    is_stream = bool(body.stream)
    options = CompletionOptions(
        id=f"chatcmpl-{asked.chat}-{asked.turn}",
        created=turns.service.now() // 1000,
        model=body.model,
        is_full=is_full,
        is_live=is_stream and any(name.startswith("x-openwebui-") for name in request.headers),
        with_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        since=asked.since,
    )
    made = ChatCompletion(asked.turn, options)
    return turns.respond(request, asked, made, whole=None if is_stream else made.response)


def _at_once(body: CompletionRequest, answer: str) -> Response:
    message = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    found = {"id": "chatcmpl-side", "object": "chat.completion", "created": 0, "model": body.model, "choices": [choice]}
    return Response(msgspec.json.encode(found), headers=NO_STORE, media_type="application/json")


async def _asked(
    turns: ForeignTurns, request: Request, body: CompletionRequest, caller: Caller, files: Sequence[GivenFile]
) -> ForeignTurn:
    agent, model = _agent(turns, body.model)
    key = _key(request, body)
    messages = openai_request.said(body.messages)
    id, cwd = _chat_id(request), request.headers.get("x-penstock-cwd")
    found: ChatRow | None
    if id is not None:
        foreign_id = f"{PROTOCOL}{id}"
        named = [row for row, _ in turns.chats(caller, foreign_id) if row.foreign_id == foreign_id]
        found = next((row for row in named if row.agent == agent and _is_there(row, cwd)), None)
        again = await turns.again(found, key) if found is not None else None
    else:
        foreign_id = f"{PROTOCOL}#{key.stem}"
        found, again = await _by_history(turns, agent, cwd, caller, messages, key)
    if again is not None:
        return again
    if found is not None:
        return await turns.ask(found, messages[-1].text, key, files, model=model)
    return await turns.begin(
        openai_request.prompt_of(messages),
        key,
        agent=agent,
        model=model,
        cwd=cwd,
        title=made_title(messages[-1].text) if messages[-1].text.strip() else None,
        foreign_id=foreign_id,
        caller=caller,
        files=files,
    )


async def _by_history(
    turns: ForeignTurns, agent: str, cwd: str | None, caller: Caller, messages: Sequence[TextMessage], key: Key
) -> tuple[ChatRow | None, ForeignTurn | None]:
    """Return the chat that these messages continue, and the turn if this request is a repeat."""
    before = messages[:-1]
    is_continued = any(message.role == "assistant" for message in before)
    now = turns.service.now()
    for row, newest in turns.chats(caller, f"{PROTOCOL}#"):
        is_repeat = newest is not None and key.is_of(newest, now)  # the key names all of the messages
        if row.agent != agent or newest is None or not _is_there(row, cwd):
            continue
        if is_repeat:
            return row, ForeignTurn(row.id, newest.turn)
        if is_continued and openai_request.may_end_with(newest, before[-1]):
            views, earlier = await turns.service.turns(row.id, limit=MAX_TURNS)
            if not earlier and openai_request.is_history(views, before):
                return row, None
    return None, None


def _is_there(row: ChatRow, cwd: str | None) -> bool:
    return cwd is None or os.path.realpath(cwd) == row.cwd


def _agent(turns: ForeignTurns, name: str) -> tuple[str, str | None]:
    """Return the agent and the model of a name: `claude`, `claude/sonnet`, `ccs/glm`.

    Raises:
        NoSuchModel: no agent has it.
    """
    agent, _, model = name.partition("/")
    for named, chosen in ((name, None), (agent, model or None)):
        try:
            turns.service.agents.require(named)
        except NoSuchAgent:
            continue
        return named, chosen
    raise NoSuchModel(f"there is no agent for the model {name[:100]!r}", expected="a model of GET /v1/models")


def _key(request: Request, body: CompletionRequest) -> Key:
    given = request.headers.get("idempotency-key")
    if given is not None:
        name = f"k{openai_request.digest(given)}."
        return Key(f"{name}{openai_request.digest([body.model, body.messages])}", True, name)
    count = request.headers.get(RETRIES, "")
    return Key(f"r{openai_request.digest(body)}", count.isdecimal() and int(count[:9]) > 0)


def _chat_id(request: Request) -> str | None:
    for name in CHAT_HEADERS:
        given = request.headers.get(name, "")
        if CHAT_ID.fullmatch(given) and given not in NO_IDS:
            return given
    return None
