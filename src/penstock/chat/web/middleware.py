"""Middleware for every request and response: authentication, errors as responses, headers, a line in the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.chat.errors import ShuttingDown
from penstock.chat.people.audit import Audit
from penstock.chat.web import security
from penstock.chat.web.broadcast import Watches
from penstock.chat.web.errors import answer
from penstock.chat.web.routes import ADDRESSES, private_paths
from penstock.chat.web.security import Security
from penstock.chat.web.trusted_proxy import PEER_UID, RejectedProxy
from penstock.errors import PenstockError

PRIVATE = private_paths(ADDRESSES)
"""Paths that need authentication, except those of public routes.

All other paths belong to the page, which holds no private data.
"""

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "PUT")
"""Methods that the log and the metrics name; clients may send any word as a method."""

NAMED = "penstock.address"
"""Key in a scope of the template of its path, once it is known."""

DISCARDED_SECONDS, SILENT_SECONDS, DISCARDED_BYTES = 10.0, 1.0, 16 * 1024 * 1024
"""Limits for receiving an unread body after the response, before the connection is closed: seconds in all, seconds in
which nothing comes, and bytes.

One that is closed earlier is reset, and a client or a proxy that still writes may lose the response.
"""

_log = logging.getLogger("penstock.gateway")


class Middleware:
    """Outermost application."""

    def __init__(
        self,
        inside: ASGIApp,
        security: Security,
        watches: Watches,
        public: Collection[tuple[str, str]],
        headers: Sequence[tuple[bytes, bytes]],
        audit: Audit,
    ) -> None:
        """`public`: methods and paths below `PRIVATE` without authentication; `headers`: those of each response.

        `audit`: record of what is refused before the request reaches its route.
        """
        self.watches = watches
        self._inside = inside
        self._security = security
        self._public = public
        self._headers = headers
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to any request."""
        if scope["type"] != "http":
            raise RuntimeError(f"a scope of the type {scope['type']!r}: the server is configured wrongly")
        received = _Received(scope, receive)
        sent = _Sent(scope, send, self._headers, received)
        began = time.monotonic()
        try:
            try:
                await self._enter(scope, received, sent)
            except Exception as error:
                if sent.status:
                    raise
                if not isinstance(error, PenstockError):
                    _log.exception("a bug: %s failed", _named(scope))
                await answer(error, scope["path"])(scope, received, sent)
        finally:
            self._note(scope, sent.status, time.monotonic() - began)

    async def _enter(self, scope: Scope, receive: Receive, sent: _Sent) -> None:
        request = Request(scope, receive)
        self._security.check_headers(request)
        host = self._security.check_host(request)
        if PRIVATE.match(scope["path"]):
            foreign = self._security.check_origin(request, host)
            if foreign is not None:
                sent.headers.update(security.cors(foreign))
                if request.method == "OPTIONS":
                    await Response(status_code=204, headers=security.preflight(foreign))(scope, receive, sent)
                    return
            if (request.method, scope["path"]) not in self._public:
                try:
                    found = await self._security.identify(request, foreign)
                except RejectedProxy as error:
                    await self._record(request, error)
                    raise
                scope[security.PERSON], scope[security.BROWSER] = found
                logged_in: Callable[[], None] = scope.get("state", {}).get("logged_in", _ignore)
                logged_in()
            if self.watches.ending:
                raise ShuttingDown
        await self._inside(scope, receive, sent)

    async def _record(self, request: Request, error: RejectedProxy) -> None:
        assert self._security.proxy is not None
        uid = request.scope.get("state", {}).get(PEER_UID)
        named = ", ".join(request.headers.getlist(self._security.proxy.header))
        details = {"named": named, **({} if uid is None else {"uid": uid})}
        self._audit.write(None, "proxy", status=error.status, address=security.peer_of(request), details=details)
        await self._audit.settle()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log the request by the template of its path, with its person and chat.

        No query and no other text of the client is logged.
        """
        method, path = _named(scope).split(" ", 1)
        requests = self.watches.metrics.requests
        requests[("method", method), ("path", path), ("status", str(status))] += 1
        if not _log.isEnabledFor(logging.INFO):
            return
        person, chat = scope.get(security.PERSON), scope.get("path_params", {}).get("chat")
        facts = f" by {person.name}" if person is not None else ""
        facts += f" chat {chat}" if person is not None and chat else ""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _log.info("%s %s %s %d in %.0f ms%s", at, method, path, status, seconds * 1000, facts)


class _Received:
    """Wrapper of `receive` that knows whether the whole body was received."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self.is_whole = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        self._receive = receive

    async def __call__(self) -> Message:
        message = await self._receive()
        self.is_whole = not message.get("more_body")  # that was the end of the body, or of the connection
        return message

    async def discard(self) -> None:
        """Receive the rest of the body, within limits."""
        left = DISCARDED_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARDED_SECONDS):
                while not self.is_whole and left > 0:
                    async with asyncio.timeout(SILENT_SECONDS):
                        left -= len((await self()).get("body", b""))


class _Sent:
    """Wrapper of `send` that adds the headers of every response, and ends it once the request was received."""

    def __init__(self, scope: Scope, send: Send, always: Sequence[tuple[bytes, bytes]], received: _Received) -> None:
        self.status = 0
        self._scope = scope
        self._always = always
        self._received = received
        self.headers: dict[str, str] = {}
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            always = security.PART_HEADERS if self._scope.get(security.PART) else self._always
            headers = MutableHeaders(raw=[*message.get("headers", []), *always])
            headers.update(self.headers)
            message = {**message, "headers": headers.raw}
        elif not self._received.is_whole and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._received.discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


def _ignore() -> None:
    """Do nothing, where the server does not count connections."""


def _named(scope: Scope) -> str:
    """Return the method and the template of the path."""
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    return f"{method} {scope.get(NAMED, 'nothing')}"
