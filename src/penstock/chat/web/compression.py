"""Compression of responses by gzip, which every browser and every HTTP library reads."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

MIN_BYTES = 1024
"""Bytes from which a body is compressed: a smaller one is one packet either way."""

LEVEL = 6
"""Level for a body that is made for one request; files of the page are compressed once, at the highest one."""

IN_LOOP_BYTES = 64 * 1024
"""Bytes up to which the event loop compresses a body itself, within a millisecond; a thread does it for larger ones."""

COMPRESSED = ("application/json", "application/x-ndjson")
"""Media types of responses that are compressed."""

_NOT_WANTED = re.compile(r"q=0(\.0*)?")
"""Weight of a coding that a client excludes."""


def accepts_gzip(request: Request) -> bool:
    """Return whether the client reads gzip."""
    for coding in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return not _NOT_WANTED.fullmatch(weight.replace(" ", ""))
    return False


async def compress(request: Request, response: Response, media: Collection[str] = COMPRESSED) -> None:
    """Compress a response if it has one of these media types, a large body, and a client that reads gzip."""
    if response.media_type not in media or len(response.body) < MIN_BYTES:
        return
    body = response.body
    response.headers.append("Vary", "Accept-Encoding")
    if not accepts_gzip(request):
        return
    if len(body) <= IN_LOOP_BYTES:
        packed = gzip.compress(body, LEVEL, mtime=0)
    else:
        packed = await asyncio.to_thread(gzip.compress, bytes(body), LEVEL, mtime=0)
    response.body = packed
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(packed))
