"""Parts of a request in the form of codex's app server: the input of a turn, and MCP servers."""

from __future__ import annotations

from typing import Any

from penstock.adapter import McpConfig, Request


def turn(request: Request, prompt: str) -> dict[str, Any]:
    """Return the parameters of a turn, without its thread."""
    params: dict[str, Any] = {
        "input": [text_input(prompt), *({"type": "localImage", "path": it.path} for it in request.images)]
    }
    if request.effort is not None:
        params["effort"] = request.effort
    if request.schema is not None:
        params["outputSchema"] = request.schema.value
    return params


def text_input(text: str) -> dict[str, Any]:
    """Return a text as a part of the user's message."""
    return {"type": "text", "text": text, "text_elements": []}


def mcp_servers(config: McpConfig) -> dict[str, Any]:
    """Return MCP servers as codex's settings have them."""
    servers: dict[str, Any] = {}
    for server in config.servers:
        if server.type == "stdio":
            servers[server.name] = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
        else:
            servers[server.name] = {"url": server.url, "http_headers": dict(server.headers)}
    return servers
