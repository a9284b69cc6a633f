"""Whether a request comes from an agent of this machine, or from a program below one."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from penstock.chat.web.trusted_proxy import PEER_PID
from penstock.run import inside


async def depth_of_caller(request: Request) -> int:
    """Return the number of agents above the process that sends a request; 0 for one that no agent has started.

    At a port it is the process of this machine that has the other end of the connection. What a proxy passes on is the
    proxy's, but for that of a confined run, which shows whose request it is.
    """
    return max(inside.own_depth(), await asyncio.to_thread(_depth, request))


def _depth(request: Request) -> int:
    pid: int | None = request.scope.get("state", {}).get(PEER_PID)
    if pid:  # 0: a process outside of this container
        return inside.depth_of_peer(pid)
    client, server = request.client, request.scope.get("server")
    if client is None or server is None or server[1] is None:
        return 0
    return inside.depth_of_proxied(client.host) or inside.depth_of_client(client.port, server[1])
