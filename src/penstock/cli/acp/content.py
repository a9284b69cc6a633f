"""Content of a prompt of ACP as the text for an agent and the files that go with it. No address is ever fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.chat.errors import ChatError, Invalid
from penstock.chat.service.media import PICTURES, media_type_of
from penstock.chat.web.doors.files import GivenFile, base64_file, check_count, checked_file
from penstock.cli.stdio.peer import INVALID_PARAMS, RpcError


class Resource(msgspec.Struct, frozen=True):
    """File or other resource that the client has read: its text, or its bytes in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None


class ContentBlock(msgspec.Struct, frozen=True):
    """Block of a prompt."""

    type: str
    text: str | None = None
    uri: str | None = None
    data: str | None = None
    resource: Resource | None = None


class GivenPrompt(NamedTuple):
    """Prompt of a client."""

    text: str
    """It may be empty if there are files."""
    files: list[GivenFile]


def given_prompt(blocks: Sequence[ContentBlock]) -> GivenPrompt:
    """Return the text of a prompt, with links and resources by their names, and its pictures and resources as files.

    Raises:
        RpcError: there is content that an agent does not get, or none at all.
    """
    parts: list[str] = []
    files: list[GivenFile] = []
    try:
        for block in blocks:
            if block.type == "text" and block.text is not None:
                parts.append(block.text)
            elif block.type == "resource_link" and block.uri is not None:
                parts.append(path_of(block.uri))
            elif block.type == "image":
                files.append(_picture(block, len(files) + 1))
            elif block.type == "resource" and block.resource is not None:
                parts.append(path_of(block.resource.uri))
                files.extend(_resource(block.resource))
            else:
                what = f"a prompt cannot have {block.type[:40]!r} here"
                raise Invalid(what, expected="text, links, images and resources", help="name a file instead")
        check_count(files)
    except ChatError as error:
        raise RpcError(INVALID_PARAMS, str(error), {"reason": error.code}) from error
    text = "".join(parts)
    if not files and not text.strip():
        raise RpcError(INVALID_PARAMS, "the prompt is empty; expected a message for the agent")
    return GivenPrompt(text, files)


def path_of(uri: str) -> str:
    """Return the path of a file, or the address of something else, as one word of a prompt."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" and parts.path else uri


def _picture(block: ContentBlock, number: int) -> GivenFile:
    if not block.data:
        raise Invalid("an image has no data", expected="its bytes in base64, as addresses are not fetched")
    file = base64_file(block.data, "")
    kind = media_type_of(file.content)
    if kind not in PICTURES:
        raise Invalid("an image is of another kind", expected="PNG, JPEG, GIF or WebP")
    return GivenFile(_name(block.uri or "") or f"picture-{number}.{kind.removeprefix('image/')}", file.content)


def _resource(resource: Resource) -> list[GivenFile]:
    """Return the file of a resource; None for an empty text, whose name in the prompt is enough."""
    name = _name(resource.uri) or "resource"
    if resource.text is not None:
        return [checked_file(resource.text.encode(), name)] if resource.text else []
    if resource.blob is None:
        raise Invalid("a resource has no content", expected="its text, or its bytes in base64")
    return [base64_file(resource.blob, name)]


def _name(uri: str) -> str:
    """Return the last part of the path of an address."""
    try:
        return unquote(urlsplit(uri).path).rpartition("/")[2]
    except ValueError:
        return ""
