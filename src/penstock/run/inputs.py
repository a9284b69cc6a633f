"""Reads the files of a run before it starts: what goes with the prompt, the schema of the reply, the MCP servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.adapter import MAX_STDIN_BYTES, Image, JsonFile, McpConfig, McpServer, Request, TextFile
from penstock.errors import UsageError, shown
from penstock.run.spec import RunSpec

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Bytes of one image: the least of the limits that the providers of the agents have."""
MAX_IMAGES = 20
"""Images of one prompt: in base64 they stay below what a provider accepts in one request."""
MAX_JSON_BYTES = 100 * 1024
"""Bytes of a file with a schema or with MCP servers: a schema must fit into an argument."""

_SIGNATURES: Mapping[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}


def request_of(spec: RunSpec) -> Request:
    """Return the request of a run with the contents of its files.

    Raises:
        UsageError: a file cannot be read, is too large, or has other contents than it must have.
    """
    attached = [_attachment(path) for path in spec.files]
    images = tuple(file for file in attached if isinstance(file, Image))
    if len(images) > MAX_IMAGES:
        raise UsageError(f"there are {len(images)} images", expected=f"at most {MAX_IMAGES}")
    return msgspec.structs.replace(
        spec.request(),
        files=tuple(file for file in attached if isinstance(file, TextFile)),
        images=images,
        schema=None if spec.schema is None else _json_file(spec.schema),
        mcp_config=None if spec.mcp_config is None else _mcp_config(spec.mcp_config),
    )


def _attachment(path: str) -> TextFile | Image:
    content = _content(path, MAX_STDIN_BYTES)
    kind = image_type(content)
    if kind is not None:
        if len(content) > MAX_IMAGE_BYTES:
            raise UsageError(
                f"the image {shown(path)} has {len(content):,} bytes", expected=f"at most {MAX_IMAGE_BYTES:,}"
            )
        return Image(os.path.abspath(path), kind, content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(
            f"{shown(path)} is neither text nor an image that agents read",
            expected="text in UTF-8, PNG, JPEG, GIF or WebP",
            help="name the file in the prompt, if the agent has a tool that reads it",
        )
    return TextFile(path, text)


def image_type(content: bytes) -> str | None:
    """Return the media type of an image by its first bytes; None if it is not an image that agents read."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, signs in _SIGNATURES.items() if content.startswith(signs)), None)


def _json_file(path: str) -> JsonFile:
    try:
        value = msgspec.json.decode(_content(path, MAX_JSON_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{shown(path)} is not JSON: {error}", expected="one JSON object") from error
    if not isinstance(value, dict):
        raise UsageError(f"{shown(path)} has JSON that is not an object", expected="one JSON object")
    return JsonFile(os.path.abspath(path), value)


def _mcp_config(path: str) -> McpConfig:
    file = _json_file(path)
    servers = file.value.get("mcpServers")
    if not isinstance(servers, dict) or not servers:
        raise UsageError(f"{shown(path)} has no MCP servers", expected='{"mcpServers": {"NAME": {"command": "…"}}}')
    return McpConfig(file.path, tuple(_mcp_server(path, name, fields) for name, fields in servers.items()))


def _mcp_server(path: str, name: str, fields: Any) -> McpServer:
    """Return one server of the file. A server with an address has the type `http` if none is given."""
    try:
        known = {**fields, "name": name}
        known.setdefault("type", "http" if "url" in known else "stdio")
        server = msgspec.convert(known, McpServer)
    except (TypeError, msgspec.ValidationError) as error:
        raise UsageError(f"the MCP server {shown(name)} of {shown(path)} cannot be used: {error}") from error
    if not (server.command if server.type == "stdio" else server.url):
        what = "command" if server.type == "stdio" else "url"
        raise UsageError(f"the MCP server {shown(name)} of {shown(path)} has no {what}")
    return server


def _content(path: str, limit: int) -> bytes:
    """Return the content of a file of at most `limit` bytes.

    Raises:
        UsageError: it cannot be read, is not a regular file, or is larger.
    """
    try:
        if not os.path.isfile(path):
            why = "it is not a regular file" if os.path.exists(path) else "there is no such file"
            raise UsageError(f"{shown(path)} cannot be read: {why}")
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{shown(path)} cannot be read: {error.strerror}") from error
    if len(content) > limit:
        raise UsageError(f"{shown(path)} has more than {limit:,} bytes", expected=f"at most {limit:,} bytes")
    return content
