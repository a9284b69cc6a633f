"""Parts of a request in the form of ACP: the blocks of a prompt, and MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.adapter import McpServer, Request
from penstock.agents._json import as_dict
from penstock.core.decoding import well_formed


def prompt_blocks(request: Request) -> list[dict[str, Any]]:
    """Return the content of a prompt."""
    images = ({"type": "image", "mimeType": it.media_type, "data": it.base64} for it in request.images)
    return [{"type": "text", "text": well_formed(request.prompt)}, *images]


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
    if request.images and as_dict(capabilities.get("promptCapabilities")).get("image") is not True:
        return "the agent cannot be sent an image"
    servers = request.mcp_config.servers if request.mcp_config is not None else ()
    over_http = next((server.name for server in servers if server.type == "http"), None)
    if over_http is not None and as_dict(capabilities.get("mcpCapabilities")).get("http") is not True:
        return f"the agent cannot use MCP servers over HTTP, as {over_http!r}"
    return None
