"""What handlers read from requests, and the responses that they make."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock import events as ev
from penstock.chat.errors import Invalid
from penstock.chat.history.entries import AttachedFile
from penstock.chat.people.rights import may_read
from penstock.chat.service.chats.chat_list import Sees
from penstock.chat.store.logins import Browser
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.security import BROWSER, is_https, person_of
from penstock.chat.web.sse import HEADERS

PAGE_TURNS, MAX_PAGE_TURNS = 50, 200
"""Number of turns of one page: the default and the maximum."""

NUMBER = re.compile(r"[0-9]{1,18}")
"""Pattern of the number of an entry or a turn; longer numbers are never assigned."""

KEY = re.compile(r"[!-~]{1,200}")
"""Pattern of an idempotency key: any that every HTTP library can send."""

NDJSON = "application/x-ndjson"


def number_of(request: Request, name: str, default: int | None, least: int, most: int) -> int | None:
    """Return a number of the query, or the default if it has none of this name.

    Raises:
        Invalid: it is not a number of this range.
    """
    given = request.query_params.get(name)
    if given is None:
        return default
    if not NUMBER.fullmatch(given) or not least <= int(given) <= most:
        raise Invalid(f"{name} cannot be this", expected=f"a whole number from {least} to {most}")
    return int(given)


def key_of(request: Request) -> str | None:
    """Return the key by which a repeated request is recognized.

    Raises:
        Invalid: it is not one.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not KEY.fullmatch(key):
        raise Invalid("the Idempotency-Key cannot be this", expected="1 to 200 visible characters of ASCII")
    return key


def format_of(request: Request) -> str:
    """Return the format of details that a request asks for: `json` or `ndjson`.

    Raises:
        Invalid: it is another one.
    """
    form = request.query_params.get("format", "json")
    if form not in ("json", "ndjson"):
        raise Invalid("the details have no such format", expected="format=json or format=ndjson")
    return form


def browser_of(request: Request) -> Browser | None:
    """Return the browser that sent the request; None if it was a program."""
    found: Browser | None = request.scope.get(BROWSER)
    return found


def sees_of(request: Request) -> Sees:
    """Return a function that returns whether the person who sent a request may see a chat."""
    return partial(may_read, person_of(request))


def address_of(request: Request) -> str:
    """Return the beginning of the address that a request was sent to."""
    return f"{'https' if is_https(request) else 'http'}://{request.headers['host']}"


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as JSON."""
    body = msgspec.json.encode(value)
    return Response(body, status, {**NO_STORE, **(headers or {})}, media_type="application/json")


async def lines_response(events: Sequence[ev.Event]) -> Response:
    """Return events as lines of JSON."""
    lines = await asyncio.to_thread(lambda: ev.encode(events))
    return Response(lines, headers={**NO_STORE, "Content-Type": NDJSON})


def file_response(request: Request, file: AttachedFile, content: bytes) -> Response:
    """Return an attachment as a file to download: pages show it as a picture if it is one, and never as a document.

    The policy is for a browser that shows it nevertheless: nothing in it runs, and it has no origin.
    """
    tag = f'"{file.id}"'
    headers = {
        "Cache-Control": "private, no-cache",
        "ETag": tag,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=file.media_type)


class StreamHeaders(Response):
    """Response to HEAD: the headers of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.raw_headers: list[tuple[bytes, bytes]] = [*HEADERS]
