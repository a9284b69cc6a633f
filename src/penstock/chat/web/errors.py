"""Errors of HTTP requests, and the response for any error: problem details as in RFC 9457."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from penstock.chat.errors import ChatError, NoSuchChat, ShuttingDown
from penstock.chat.store.protocol import StoreClosed, StoreFailed, UnknownChat
from penstock.errors import PenstockError, UsageError

NO_STORE = {"Cache-Control": "no-store"}
"""Headers of responses about a user's chats: caches must not keep them."""


TITLES = {
    "invalid": "The request is invalid",
    "unauthorized": "Authentication is required",
    "forbidden": "The request is not allowed",
    "not_allowed": "The person may not do this",
    "not_found": "Not found",
    "method_not_allowed": "The method is not allowed",
    "request_timeout": "The request timed out",
    "untrusted_directory": "The directory is not trusted",
    "conflict": "The request conflicts with the state of the chat",
    "content_too_large": "The content is too large",
    "unsupported_media_type": "The media type is not supported",
    "misdirected_request": "The host is not allowed",
    "too_many_requests": "Too many requests",
    "internal_error": "Internal error",
    "shutting_down": "The server is shutting down",
    "store_unavailable": "The store is unavailable",
}
"""Titles of all problems by code; the detail of a problem describes one case."""

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Body of any response from 400 on: problem details of RFC 9457, with `code`, `help` and `paths` as extensions."""

    type: str
    """`urn:penstock:problem:CODE`."""
    title: str
    """Summary of the problem, the same for each code."""
    status: int
    detail: str
    """Description of what happened and what was expected."""
    code: str
    help: str = ""
    """Advice on what to do about it."""
    paths: list[str] = []
    """Files that are the reason."""


def problem(code: str, status: int, detail: str, help: str = "", paths: Sequence[str] = ()) -> Problem:
    """Return the problem of a code."""
    return Problem(f"urn:penstock:problem:{code}", TITLES[code], status, detail, code, help, [*paths])


class HttpError(ChatError):
    """Failure of a request before it reaches a chat; `headers` are sent with the response."""

    def __init__(
        self, what: str, *, expected: str = "", help: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(what, expected=expected, help=help)
        self.headers: Mapping[str, str] = headers or {}


class Unauthorized(HttpError):
    """No token, no cookie, or a wrong one."""

    code = "unauthorized"
    status = 401


class Forbidden(HttpError):
    """A request of another origin."""

    code = "forbidden"
    status = 403


class NotFound(HttpError):
    """No such route."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("there is nothing at this address", expected="an address of GET /api/openapi.json")


class NoSuchModel(HttpError):
    """No agent has the name of this model."""

    code = "not_found"
    status = 404


class NoSuchBrowser(HttpError):
    """No browser that is signed in has this id."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("no browser of this id is signed in", expected="an id of GET /api/browsers")


class StoreUnavailable(HttpError):
    """The file of the browsers cannot be written."""

    code = "store_unavailable"
    status = 503


class MethodNotAllowed(HttpError):
    """The route has other methods."""

    code = "method_not_allowed"
    status = 405

    def __init__(self, allowed: str) -> None:
        super().__init__("this address does not take this method", expected=allowed, headers={"Allow": allowed})


class BodyTooLarge(HttpError):
    """The body is too large. The rest of it is discarded, and the connection is closed."""

    code = "content_too_large"
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__("the body is too large", expected=f"at most {limit:,} bytes", headers={"Connection": "close"})


class HeadersTooLarge(HttpError):
    """The headers are too large."""

    code = "content_too_large"
    status = 431

    def __init__(self, limit: int) -> None:
        super().__init__("the headers are too large", expected=f"at most {limit:,} bytes")


class AmbiguousLength(HttpError):
    """The request has both `Content-Length` and `Transfer-Encoding`: a proxy may have used the other one."""

    def __init__(self) -> None:
        what, expected = "the request has a Content-Length and a Transfer-Encoding", "one of them"
        super().__init__(what, expected=expected, headers={"Connection": "close"})


class RequestTimeout(HttpError):
    """The body did not arrive in time."""

    code = "request_timeout"
    status = 408

    def __init__(self, seconds: float) -> None:
        what, expected = "the request body timed out", f"all of it within {seconds:g} seconds"
        super().__init__(what, expected=expected, headers={"Connection": "close"})


class UnsupportedMediaType(HttpError):
    """The body has another type than the route takes."""

    code = "unsupported_media_type"
    status = 415

    def __init__(self, expected: str = "application/json") -> None:
        super().__init__("the request has the wrong type", expected=f"Content-Type: {expected}")


class MisdirectedRequest(HttpError):
    """The `Host` header names a host that is not allowed."""

    code = "misdirected_request"
    status = 421

    def __init__(self) -> None:
        super().__init__(
            "the request names a host that is not allowed",
            expected="a name of this machine's loopback, as localhost",
            help="allow it, if it is yours: penstock serve --allow-host NAME",
        )


class RateLimited(HttpError):
    """Too many streams, or failed logins."""

    code = "too_many_requests"
    status = 429

    def __init__(self, what: str, seconds: float, expected: str = "") -> None:
        wait = max(1, round(seconds))
        super().__init__(what, expected=expected, help=f"wait {wait} s", headers={"Retry-After": str(wait)})


OPENAI_PATH = re.compile(r"/v1(/|$)")
"""Paths whose clients read errors of OpenAI's interface."""

AGUI_PATH = re.compile(r"/agui(/|$)")
"""Paths whose clients read errors as events of AG-UI."""

OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
"""Types of errors of OpenAI's interface by status; of others `server_error`, or below 500 `invalid_request_error`."""


def answer(error: Exception, path: str = "") -> Response:
    """Return the response for an error to a request of a path.

    Any other exception than a `PenstockError` is a bug; its text is not shown.
    """
    headers = {**NO_STORE, **getattr(error, "headers", {})}
    if isinstance(error, StoreClosed):
        error = ShuttingDown()
    elif isinstance(error, UnknownChat):  # it was deleted, or is not the person's to see, since the request was checked
        error = NoSuchChat(error.chat)
    if isinstance(error, ChatError):
        code, status = error.code, error.status
    elif isinstance(error, StoreFailed):
        code, status = "store_unavailable", 503
    elif isinstance(error, UsageError):
        code, status = "invalid", 400
    else:
        code, status = "internal_error", 500
    if status == 503:
        headers.setdefault("Retry-After", "1")
    if isinstance(error, PenstockError) and status != 500:
        detail = f"{error.what}; expected {error.expected}" if error.expected else error.what
        found = problem(code, status, detail, error.help, getattr(error, "paths", ()))
    else:
        found = problem(code, status, "something went wrong inside of Penstock", "see its log on stderr")
    if OPENAI_PATH.match(path):
        return _openai(found, headers)
    if AGUI_PATH.match(path):
        return _agui(found, headers)
    return Response(msgspec.json.encode(found), status, headers, media_type=MEDIA_TYPE)


def _agui(found: Problem, headers: dict[str, str]) -> Response:
    """Return a problem as the event of a run that failed."""
    message = f"{found.detail}. {found.help}" if found.help else found.detail
    body = {"type": "RUN_ERROR", "message": message, "code": found.code}
    return Response(msgspec.json.encode(body), found.status, headers, media_type="application/json")


def _openai(found: Problem, headers: dict[str, str]) -> Response:
    """Return a problem as an error of OpenAI's interface. A conflict is 403: its clients would repeat a 409."""
    status = 403 if found.status == 409 else found.status
    kind = OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    message = f"{found.detail}. {found.help}" if found.help else found.detail
    body = {"error": {"message": message, "type": kind, "param": None, "code": found.code}}
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")
