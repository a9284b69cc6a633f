"""Why the gateway refuses a request, and any error as the answer that tells it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from penstock.chat.errors import Ending, Refusal
from penstock.chat.store.protocol import StoreClosed, StoreFailed
from penstock.errors import PenstockError, UsageError

NO_STORE = {"Cache-Control": "no-store"}
"""Answers that are about a person's chats are kept nowhere."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened, what was expected, and the way out."""

    code: str
    what: str
    expected: str = ""
    way_out: str = ""


class Failure(msgspec.Struct, frozen=True):
    """Any answer from 400 on."""

    error: Problem


class HttpRefusal(Refusal):
    """A request that is refused before a chat hears of it; `headers` go with the answer."""

    def __init__(
        self, what: str, *, expected: str = "", way_out: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(what, expected=expected, way_out=way_out)
        self.headers = headers or {}


class UnknownPerson(HttpRefusal):
    """No token, no cookie, or a wrong one."""

    code, status = "unknown_person", 401


class Refused(HttpRefusal):
    """The request of another origin."""

    code, status = "refused", 403


class NotFound(HttpRefusal):
    """No such address."""

    code, status = "not_found", 404

    def __init__(self) -> None:
        super().__init__("there is nothing at this address", expected="an address of GET /api/openapi.json")


class NoSuchBrowser(HttpRefusal):
    """No browser that is signed in has this id."""

    code, status = "not_found", 404

    def __init__(self) -> None:
        super().__init__("no browser of this id is signed in", expected="an id of GET /api/browsers")


class NotKept(HttpRefusal):
    """The file of the browsers cannot be written."""

    code, status = "failed", 503


class WrongMethod(HttpRefusal):
    """The address takes other methods."""

    code, status = "wrong_method", 405

    def __init__(self, allowed: str) -> None:
        super().__init__("this address does not take this method", expected=allowed, headers={"Allow": allowed})


class BodyTooLarge(HttpRefusal):
    """The body of a request. The rest of it is not read, so the connection ends with it."""

    code, status = "too_large", 413

    def __init__(self, limit: int) -> None:
        super().__init__("the body is too large", expected=f"at most {limit:,} bytes", headers={"Connection": "close"})


class HeadersTooLarge(HttpRefusal):
    """The headers of a request."""

    code, status = "too_large", 431

    def __init__(self, limit: int) -> None:
        super().__init__("the headers are too large", expected=f"at most {limit:,} bytes")


class BodyTooSlow(HttpRefusal):
    """The body of a request did not come in time."""

    code, status = "too_slow", 408

    def __init__(self, seconds: float) -> None:
        what, expected = "the body did not come", f"all of it within {seconds:g} seconds"
        super().__init__(what, expected=expected, headers={"Connection": "close"})


class WrongType(HttpRefusal):
    """The body is of another type than JSON."""

    code, status = "wrong_type", 415

    def __init__(self) -> None:
        super().__init__("the request has the wrong type", expected="Content-Type: application/json")


class WrongHost(HttpRefusal):
    """A host that is not allowed."""

    code, status = "wrong_host", 421

    def __init__(self) -> None:
        super().__init__(
            "the request names a host that is not allowed",
            expected="a name of this machine's loopback, as localhost",
            way_out="allow it, if it is yours: penstock serve --allow-host NAME",
        )


class TooManyRequests(HttpRefusal):
    """Viewers, or logins that failed."""

    code, status = "too_many", 429

    def __init__(self, what: str, seconds: float, expected: str = "") -> None:
        wait = max(1, round(seconds))
        super().__init__(what, expected=expected, way_out=f"wait {wait} s", headers={"Retry-After": str(wait)})


def answer(error: Exception) -> Response:
    """An error as an answer. One that is no `PenstockError` is a bug: nothing of it is told."""
    headers = {**NO_STORE, **getattr(error, "headers", {})}
    if isinstance(error, StoreClosed):
        error = Ending()
    if isinstance(error, Refusal):
        code, status = error.code, error.status
    elif isinstance(error, StoreFailed):
        code, status = "failed", 503
    elif isinstance(error, UsageError):
        code, status = "wrong", 400
    else:
        code, status = "bug", 500
    if status == 503:
        headers.setdefault("Retry-After", "1")
    if isinstance(error, PenstockError) and status != 500:
        problem = Problem(code, error.what, error.expected, error.way_out)
    else:
        problem = Problem(code, "something went wrong inside of Penstock", way_out="its log on stderr says what")
    body = msgspec.json.encode(Failure(problem))
    return Response(body, status, headers, media_type="application/json")
