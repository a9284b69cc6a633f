"""Content of a prompt of ACP as the text for an agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.cli.stdio.peer import INVALID_PARAMS, RpcError

FENCE = re.compile(r"^`{3,}", re.MULTILINE)


class Resource(msgspec.Struct, frozen=True):
    """File or other resource that the client has read."""

    uri: str
    text: str | None = None
    blob: str | None = None


class ContentBlock(msgspec.Struct, frozen=True):
    """ContentBlock of content."""

    type: str
    text: str | None = None
    uri: str | None = None
    name: str | None = None
    resource: Resource | None = None


def prompt_text(blocks: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt: links by their names, and the text of resources in fences.

    Raises:
        RpcError: there is content that an agent does not get, or none at all.
    """
    parts: list[str] = []
    attached: list[str] = []
    for block in blocks:
        if block.type == "text" and block.text is not None:
            parts.append(block.text)
        elif block.type == "resource_link" and block.uri is not None:
            parts.append(path_of(block.uri))
        elif block.type == "resource" and block.resource is not None and block.resource.text is not None:
            parts.append(path_of(block.resource.uri))
            attached.append(_fenced(block.resource.uri, block.resource.text))
        else:
            what = f"a prompt cannot have {block.type[:40]!r} here"
            raise RpcError(INVALID_PARAMS, f"{what}; expected text, links and resources of text; name a file instead")
    text = "\n\n".join(["".join(parts), *attached])
    if not text.strip():
        raise RpcError(INVALID_PARAMS, "the prompt is empty; expected a message for the agent")
    return text


def path_of(uri: str) -> str:
    """Return the path of a file, or the address of something else, as one word of a prompt."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" and parts.path else uri


def _fenced(uri: str, text: str) -> str:
    longest = max((len(fence) for fence in FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    newline = "" if text.endswith("\n") else "\n"
    return f"{path_of(uri)}:\n{fence}\n{text}{newline}{fence}"
