"""Gateway as an ASGI application: the routes, behind the middleware."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from penstock.chat.service.share_view import SHARED
from penstock.chat.store import permits
from penstock.chat.web import openapi, schemas, security
from penstock.chat.web.api import Api
from penstock.chat.web.audited import Audited
from penstock.chat.web.compression import compress
from penstock.chat.web.errors import MethodNotAllowed, NotFound
from penstock.chat.web.middleware import NAMED, PRIVATE, Middleware
from penstock.chat.web.routes import ADDRESSES, PAGES, Address
from penstock.chat.web.static import INDEX, SHARED_INDEX, PageFiles
from penstock.config.ownership import Ownership, ownership_in
from penstock.config.rules import NODE_NAME_PATTERN
from penstock.run.trace_context import TraceContext, of_request, parsed

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Pattern of an id in a path. It has no dot and no slash, so it cannot name another path."""

FOREIGN_ID = re.compile(r"[^/\x00-\x1f\x7f]{1,128}")
"""Pattern of the id of a chat at another program, which chooses it. It is only compared with other ids."""

TURN = re.compile(r"[1-9][0-9]{0,8}")

IDS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "browser": (ID, str),
    "chat": (ID, str),
    "other": (ID, str),
    "run": (ID, str),
    "attachment": (ID, str),
    "share": (ID, str),
    "rule": (ID, str),
    "agent": (ID, str),
    "foreign": (FOREIGN_ID, str),
    "node": (NODE_NAME_PATTERN, str),
    "turn": (TURN, int),
    "step": (TURN, int),
    "round": (TURN, int),
    "candidate": (TURN, int),
}


def make_app(api: Api, files: PageFiles) -> Middleware:
    """Return the application, for a server that passes on the requests of one network."""
    api.openapi = openapi.document()
    routes = [Route(path, _Place(api, path, methods)) for path, methods in _by_path().items()]
    routes += [Route(path, _PageAt(files, path)) for path in PAGES]
    routes.append(Route(SHARED, _PageAt(files, SHARED, SHARED_INDEX)))
    router = Router(routes, redirect_slashes=False, default=_Files(files))
    public = {(address.method, address.path) for address in ADDRESSES if address.public}
    return Middleware(router, api.security, api.watches, public, security.headers(files.inline_scripts), api.audit)


def _by_path() -> dict[str, dict[str, Address]]:
    found: dict[str, dict[str, Address]] = {}
    for address in ADDRESSES:
        found.setdefault(address.path, {})[address.method] = address
    return found


class _Place:
    """ASGI application for all methods of one path."""

    def __init__(self, api: Api, path: str, methods: dict[str, Address]) -> None:
        self._api = api
        self._path = path
        self._methods = methods
        self._allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[NAMED] = self._path
        request = Request(scope, receive)
        of_request.set(_trace(request))
        address = self._methods.get("GET" if request.method == "HEAD" else request.method)
        if address is None:
            raise MethodNotAllowed(self._allowed)
        arguments = _ids(scope)
        audited = Audited(self._api.audit, request, address, arguments)
        async with audited:
            chat: str | None = arguments.get("chat")
            if chat is not None:
                await self._api.service.node.find(chat)
            run: str | None = arguments.get("run")
            folder = None if run is None else await self._api.runs.folder(run)
            self._api.check(request, address.right, chat, _ownership(folder))
            if address.body is not None:
                arguments["body"] = await schemas.read(request, address.body)
                self._api.security.check_still(scope)
                # Again: a body may take its time.
                self._api.check(request, address.right, chat, _ownership(folder))
            # And again where something is read or changed: what the handler waits for may take its time as well.
            permit = self._api.permit(request, address.right, chat, folder)
            with permits.acting(permit):
                answer = await address.handler(self._api, request, **arguments)
            if isinstance(answer, Response):
                await compress(request, answer)
            if address.method == "GET" and permit is not None:
                permit()  # what was read is sent only to one who may still read it
        await answer(scope, receive, send)


def _ownership(folder: Path | None) -> Ownership | None:
    return None if folder is None else ownership_in(folder)


def _trace(request: Request) -> TraceContext | None:
    """Return the trace of a request; None if there is none, or more than one."""
    parents = request.headers.getlist("traceparent")
    return parsed(parents[0], ",".join(request.headers.getlist("tracestate"))) if len(parents) == 1 else None


class _PageAt:
    """ASGI application to serve the page at each path of its views."""

    def __init__(self, files: PageFiles, path: str, name: str = INDEX) -> None:
        self._files = files
        self._path = path
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[NAMED] = self._path
        _ids(scope)
        await _serve(self._files, f"/{self._name}", scope, receive, send)


class _Files:
    """ASGI application for the page's files, and for paths that do not exist."""

    def __init__(self, files: PageFiles) -> None:
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if self._is_lost(request):
            # A user typed the address: the page reports that, and has a link back.
            answer = self._files.answer(request, f"/{INDEX}")
            assert answer is not None
            answer.status_code = 404
            await answer(scope, receive, send)
        else:
            await _serve(self._files, scope["path"], scope, receive, send)

    def _is_lost(self, request: Request) -> bool:
        is_page = "text/html" in request.headers.get("accept", "") and not PRIVATE.match(request.url.path)
        return is_page and request.method == "GET" and request.url.path not in self._files.files


async def _serve(files: PageFiles, name: str, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    answer = files.answer(request, name)
    if answer is None:
        raise NotFound
    scope.setdefault(NAMED, "file")
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed("GET, HEAD")
    scope[security.PART] = files.is_part(name)
    await answer(scope, receive, send)


def _ids(scope: Scope) -> dict[str, Any]:
    """Return the ids of the path.

    Raises:
        NotFound: one of them cannot be an id, so nothing that exists has it.
    """
    found = {}
    for name, text in scope.get("path_params", {}).items():
        pattern, kind = IDS[name]
        if not pattern.fullmatch(text):
            raise NotFound
        found[name] = kind(text)
    return found
