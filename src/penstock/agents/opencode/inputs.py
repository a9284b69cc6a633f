"""Parts of a request in the form of opencode's server: model, prompt, permissions, MCP servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from penstock.adapter import Level, Request, as_json_text
from penstock.agents._json import as_dict, as_list, text_of
from penstock.errors import UsageError


def model_of(name: str | None) -> dict[str, str] | None:
    """Return a model in the form that the server expects.

    Raises:
        UsageError: it has no provider.
    """
    if name is None:
        return None
    provider, slash, model = name.partition("/")
    if not (provider and slash and model):
        raise UsageError(f"{name!r} names no provider", expected="PROVIDER/MODEL", help="`opencode models` lists them")
    return {"providerID": provider, "modelID": model}


def prompt_body(request: Request) -> dict[str, Any]:
    """Return the body of the request that begins a turn."""
    return message_body(request, [{"type": "text", "text": as_json_text(request.prompt)}, *images_of(request)])


def images_of(request: Request) -> list[dict[str, Any]]:
    """Return the images of a request as parts of a message."""
    return [
        {"type": "file", "mime": it.media_type, "filename": _name(it.path), "url": it.data_url} for it in request.images
    ]


def message_body(request: Request, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the body of a message with these parts, for the model and with the settings of a request."""
    body: dict[str, Any] = {"parts": parts}
    model = model_of(request.model)
    schema = request.schema
    given = {
        "model": model,
        "variant": request.effort,
        "system": request.system_prompt,
        "format": None if schema is None else {"type": "json_schema", "schema": schema.value},
    }
    return body | {name: value for name, value in given.items() if value is not None}


_READING = {
    **dict.fromkeys(("glob", "grep", "list", "lsp", "todoread", "todowrite", "skill", "task", "question"), "allow"),
    "read": {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"},
}
_ACTING = ("bash", "edit", "webfetch", "websearch", "codesearch", "external_directory")


def permission_variable(level: Level) -> dict[str, str]:
    """Return the variable with opencode's permissions at a level; none where its configuration decides.

    Changes of files are asked about at `edits` too: the run allows those inside the directory.
    """
    if level in ("own", "all"):
        return {}
    acts = "deny" if level == "read" else "ask"
    permission = {"*": acts, **_READING, **dict.fromkeys(_ACTING, acts)}
    if level == "read":
        permission["external_directory"] = "allow"  # reading elsewhere
    return {"OPENCODE_PERMISSION": msgspec.json.encode(permission).decode()}


def allowed_unasked(agents: Sequence[Any]) -> str:
    """Return what an agent of the configuration may do although `permission_variable` rules it out; "" if nothing.

    The last rule that matches decides, and rules of one agent follow those of the variable. `agents` is what the server
    lists, each with all of its rules.
    """
    if not agents:
        return "actions that it does not list"
    for agent in map(as_dict, agents):
        rules = [as_dict(rule) for rule in as_list(agent.get("permission"))]
        ours = [at for at, rule in enumerate(rules) if rule.get("permission") == rule.get("pattern") == "*"]
        for rule in rules[ours[-1] + 1 if ours and rules[ours[-1]].get("action") != "allow" else 0 :]:
            names = text_of(rule.get("permission"))
            if rule.get("action") == "allow" and any(fnmatchcase(acting, names) for acting in ("bash", "edit")):
                return f"`{names}` to its agent {text_of(agent.get('name'))!r}"
    return ""


def permission_rules(request: Request) -> list[dict[str, str]]:
    """Return the rules of a session for the tools that are allowed and denied; the last one that matches decides."""
    allowed = [{"permission": tool, "pattern": "*", "action": "allow"} for tool in request.allow_tools]
    return [*allowed, *({"permission": tool, "pattern": "*", "action": "deny"} for tool in request.deny_tools)]


def mcp_servers(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the bodies of the requests that add MCP servers."""
    for server in request.mcp_config.servers if request.mcp_config is not None else ():
        if server.type == "stdio":
            command = [server.command, *server.args]
            yield {
                "name": server.name,
                "config": {"type": "local", "command": command, "environment": dict(server.env)},
            }
        else:
            yield {
                "name": server.name,
                "config": {"type": "remote", "url": server.url, "headers": dict(server.headers)},
            }


def _name(path: str) -> str:
    return path.rpartition("/")[2]
