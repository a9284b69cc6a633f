"""Handlers of the server itself: whether it works, its description, and its metrics."""

from __future__ import annotations

import asyncio
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from penstock._version import __version__
from penstock.adapter import Allow
from penstock.chat.store.database import free_bytes
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import browser_of, json_response
from penstock.chat.web.metrics import CONTENT_TYPE
from penstock.chat.web.metrics import text as exposition
from penstock.chat.web.process_figures import process_figures
from penstock.chat.web.security import person_of


async def health(api: Api, request: Request) -> Response:
    """Return whether the server accepts requests."""
    ending = api.watches.ending
    return json_response(schemas.HealthStatus("ending" if ending else "ok"), 503 if ending else 200)


async def ready(api: Api, request: Request) -> Response:
    """Return whether a proxy should send requests here; the log has more about the reason."""
    reason = _reason(api)
    return json_response(schemas.Readiness("unready" if reason else "ready", reason), 503 if reason else 200)


def _reason(api: Api) -> str | None:
    if api.watches.ending:
        return "the server is shutting down"
    if not (api.service.this_node.has_lease and api.security.logins.is_current):
        return "this node cannot reach its database"
    return None if api.service.store_state.failure is None else "the store cannot keep anything"


async def about(api: Api, request: Request) -> Response:
    """Return the description of this server. The browser's cookie is renewed for its full lifetime."""
    limits, person = api.service.limits, person_of(request)
    default = await asyncio.to_thread(api.service.agents.default)
    answer = json_response(
        schemas.About(
            __version__,
            default,
            [*get_args(Allow)],
            limits.max_prompt_bytes,
            limits.max_attachment_bytes,
            schemas.PersonView(person.name, person.role),
            api.service.this_node.home,
            len(api.security.logins.people.all()) > 1,
        )
    )
    browser = browser_of(request)
    if browser is not None and (cookie := api.security.cookie_of(request)):
        answer.headers["Set-Cookie"] = api.security.set_cookie(cookie, secure=browser.secure)
    return answer


async def document(api: Api, request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(api.openapi, media_type="application/json", headers={"Cache-Control": "no-cache"})


async def metrics(api: Api, request: Request) -> Response:
    """Return the metrics for Prometheus."""
    folder = api.runs.data
    free = None if folder is None else await asyncio.to_thread(free_bytes, folder)
    text = exposition(api.watches.metrics, api.service, free, process_figures(), api.audit.lost)
    return Response(text, headers={**NO_STORE, "Content-Type": CONTENT_TYPE})
