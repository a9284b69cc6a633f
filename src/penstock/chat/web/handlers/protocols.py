"""Handlers of programs of other protocols. The modules of a protocol are imported by its first request."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.doors import bodies
from penstock.chat.web.handlers.parts import json_response


async def models(api: Api, request: Request) -> Response:
    """Return the agents as models of OpenAI's interface."""
    from penstock.chat.web import openai_api

    return json_response(openai_api.models(await api.service.places.agents()))


async def complete_chat(api: Api, request: Request, body: bodies.CompletionRequest) -> ASGIApp:
    """Return a turn as a chat completion of OpenAI's interface."""
    from penstock.chat.web import openai_api

    return await openai_api.complete(api.foreign_turns, request, body)


async def ui_chat(api: Api, request: Request, body: bodies.UiRequest) -> ASGIApp:
    """Return a turn of the default agent as a stream of the AI SDK."""
    return await ui_chat_with(api, request, None, body)


async def ui_chat_with(api: Api, request: Request, agent: str | None, body: bodies.UiRequest) -> ASGIApp:
    """Return a turn of an agent as a stream of the AI SDK."""
    from penstock.chat.web import ai_sdk_api

    return await ai_sdk_api.chat(api.foreign_turns, request, agent, body)


async def ui_stream(api: Api, request: Request, foreign: str) -> ASGIApp:
    """Return the turn that runs in a chat of the AI SDK, from its beginning."""
    from penstock.chat.web import ai_sdk_api

    return await ai_sdk_api.stream(api.foreign_turns, request, foreign)


async def ui_stop(api: Api, request: Request, foreign: str) -> Response:
    """Stop the turns of a chat of the AI SDK, and return their numbers."""
    from penstock.chat.web import ai_sdk_api

    return json_response(schemas.TurnNumbers(await ai_sdk_api.stop(api.foreign_turns, request, foreign)), 202)


async def agui_run(api: Api, request: Request, body: bodies.AgUiRequest) -> ASGIApp:
    """Return a turn of the default agent as a run of AG-UI."""
    return await agui_run_with(api, request, None, body)


async def agui_run_with(api: Api, request: Request, agent: str | None, body: bodies.AgUiRequest) -> ASGIApp:
    """Return a turn of an agent as a run of AG-UI."""
    from penstock.chat.web import agui_api

    return await agui_api.run(api.foreign_turns, request, agent, body)
