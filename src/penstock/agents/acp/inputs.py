"""Parts of a request in the form of ACP: the blocks of a prompt, and MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from penstock.adapter import Image, McpServer, Request
from penstock.agents._json import as_dict
from penstock.core.decoding import well_formed


def prompt_blocks(request: Request, capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a prompt. An agent that cannot be sent images gets links to their files."""
    takes_images = as_dict(capabilities.get("promptCapabilities")).get("image") is True
    images = [_image(it) if takes_images else _link(it) for it in request.images]
    return [{"type": "text", "text": well_formed(request.prompt)}, *images]


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image", "mimeType": image.media_type, "data": image.base64}


def _link(image: Image) -> dict[str, Any]:
    path = PurePosixPath(image.path)
    link = {"uri": path.as_uri(), "name": path.name, "mimeType": image.media_type, "size": len(image.content)}
    return {"type": "resource_link", **link}


def mcp_servers(request: Request) -> list[dict[str, Any]]:
    """Return the MCP servers of a session."""
    return [_server(server) for server in request.mcp_config.servers] if request.mcp_config is not None else []


def _server(server: McpServer) -> dict[str, Any]:
    if server.type == "stdio":
        return {"name": server.name, "command": server.command, "args": list(server.args), "env": _pairs(server.env)}
    return {"type": "http", "name": server.name, "url": server.url, "headers": _pairs(server.headers)}


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def lacking_input(capabilities: dict[str, Any], request: Request) -> str | None:
    """Return the reason why an agent with these capabilities cannot be sent the request; None if it can."""
    servers = request.mcp_config.servers if request.mcp_config is not None else ()
    over_http = next((server.name for server in servers if server.type == "http"), None)
    if over_http is not None and as_dict(capabilities.get("mcpCapabilities")).get("http") is not True:
        return f"the agent cannot use MCP servers over HTTP, as {over_http!r}"
    return None
