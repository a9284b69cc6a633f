"""Handlers of what a new chat can have: agents, stored prompts, directories and nodes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.errors import NO_STORE
from penstock.chat.web.handlers.parts import json_response
from penstock.chat.web.security import person_of


async def agents(api: Api, request: Request) -> Response:
    """Return all agents."""
    return json_response({"agents": await api.service.places.agents()})


async def agent_models(api: Api, request: Request, agent: str) -> Response:
    """Return the models that an agent lists."""
    return json_response({"models": await api.service.places.models(agent)})


async def prompts(api: Api, request: Request) -> Response:
    """Return the prompts that the user has stored under names."""
    return json_response({"prompts": await api.service.places.prompts()})


async def agent_commands(api: Api, request: Request, agent: str) -> Response:
    """Return the commands that an agent has listed in a directory, in the person's newest chat there."""
    cwd = request.query_params.get("cwd", "")
    return json_response({"commands": await api.service.commands.of_agent(agent, cwd, person_of(request).name)})


async def workspaces(api: Api, request: Request) -> Response:
    """Return the directories in which agents may work."""
    roots, recent = await api.service.places.workspaces()
    return json_response(schemas.WorkspaceList(roots, recent))


async def directories(api: Api, request: Request) -> Response:
    """Return the directories that continue a path."""
    return json_response({"directories": await api.service.places.directories(request.query_params.get("q", ""))})


async def directory(api: Api, request: Request) -> Response:
    """Return the state of a directory."""
    return json_response(await api.service.places.directory(request.query_params.get("path", "")))


async def sessions(api: Api, request: Request) -> Response:
    """Return conversations of terminals that a chat can continue."""
    found = await api.service.conversations.find(request.query_params.get("q", ""))
    return json_response({"sessions": found})


async def trust(api: Api, request: Request, body: schemas.Trust) -> Response:
    """Trust a directory."""
    return json_response(await api.service.places.trust(body.path, body.home))


async def nodes(api: Api, request: Request) -> Response:
    """Return the nodes; none if there is one machine."""
    return json_response({"nodes": await api.service.this_node.elsewhere.nodes()})


async def remove_node(api: Api, request: Request, node: str) -> Response:
    """Remove a node that does not come back."""
    await api.service.this_node.elsewhere.remove(node)
    return Response(status_code=204, headers=NO_STORE)
