"""Handlers of files: attachments, files in the directory of a chat, and a chat as a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.chat.errors import Invalid
from penstock.chat.history.export import html, markdown
from penstock.chat.history.export.parts import ExportWriter, file_name
from penstock.chat.store import permits
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import file_response, json_response, number_of
from penstock.chat.web.security import person_of

EXPORTS: dict[str, tuple[str, str, ExportWriter]] = {
    "markdown": ("text/markdown", "md", markdown),
    "html": ("text/html", "html", html),
}
"""Forms of a chat as a file: media type, ending of the name, and the module that writes it."""


async def attach(api: Api, request: Request, chat: str) -> Response:
    """Keep a picture or a file for a message."""
    limit = api.service.limits.max_attachment_bytes
    content = await schemas.read_bytes(request, limit)
    api.security.check_still(request.scope)
    api.check(request, "drive", chat)  # again: a body may take long to arrive
    name = request.query_params.get("name", "")
    made = await api.service.attachments.add(chat, name, content, person=person_of(request).name)
    return json_response(made, 201)


async def attachment(api: Api, request: Request, chat: str, attachment: str) -> Response:
    """Return a picture or a file of a message."""
    return file_response(request, *await api.service.attachments.find(chat, attachment))


async def detach(api: Api, request: Request, chat: str, attachment: str) -> Response:
    """Remove a file whose message was not sent."""
    await api.service.attachments.remove(chat, attachment)
    return Response(status_code=204, headers=NO_STORE)


async def file(api: Api, request: Request, chat: str) -> Response:
    """Return lines of a text file in the directory of a chat."""
    line = number_of(request, "line", 0, 0, 2**53)
    assert line is not None
    return json_response(await api.service.files.text(chat, request.query_params.get("path", ""), line))


async def file_names(api: Api, request: Request, chat: str) -> Response:
    """Return files in the directory of a chat, by a part of their paths."""
    return json_response(await api.service.files.names(chat, request.query_params.get("q", "")))


async def picture(api: Api, request: Request, chat: str) -> Response:
    """Return a picture in the directory of a chat. Opened by itself, it is an image and nothing else."""
    data, media = await api.service.files.picture(chat, request.query_params.get("path", ""))
    return Response(data, headers={**NO_STORE, "Content-Disposition": "inline"}, media_type=media)


async def export(api: Api, request: Request, chat: str) -> Response:
    """Return a chat as a file for people, as it is read from the store, turn by turn."""
    form = EXPORTS.get(request.query_params.get("form", "markdown"))
    if form is None:
        raise Invalid("a file has no such form", expected="form=markdown or form=html")
    media, suffix, writer = form
    row = api.service.row(chat)
    with_details = number_of(request, "details", 0, 0, 1) == 1

    turns = permits.each(api.service.exports.turns(chat, with_details=with_details))

    async def written() -> AsyncIterator[str]:
        yield writer.head(row.title, row.agent, row.cwd)
        async for turn in turns:
            yield await asyncio.to_thread(writer.turn, turn, row.agent)
        yield writer.end()

    name = quote(file_name(row.title, suffix))
    headers = {**NO_STORE, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    if request.method == "HEAD":
        return Response(headers=headers, media_type=media)
    return StreamingResponse(written(), headers=headers, media_type=media)
