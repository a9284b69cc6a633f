"""Hidden server of `penstock acp`: `penstock serve` on a Unix socket, which ends when nothing needs it.

It is a process of its own session, so that a turn goes on when the editor is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from penstock.chat.service.service import Service
from penstock.chat.store.database import StoreHeld
from penstock.chat.web.server import Server
from penstock.cli.console import notify_problem
from penstock.cli.exit_status import USAGE
from penstock.cli.serve import server
from penstock.cli.serve.node_options import store_url
from penstock.cli.serve.options import ServeOptions, parser
from penstock.cli.serve.serving import HELD, HIDDEN, is_to_end
from penstock.errors import PenstockError
from penstock.run.locks import take

SOCKET = "acp.sock"
"""Socket of the one hidden server, in the data directory."""

MAX_SOCKET_BYTES = 100
"""Bytes of the longest path of a Unix socket, which every system allows."""

IDLE_SECONDS = 600.0
"""Seconds without a turn after which the server ends."""

LOOK_SECONDS = 0.25
"""Seconds between two looks whether the server is still needed."""


def main(data: Path) -> int:
    """Serve the chats of a data directory until nothing needs it, and return the exit status."""
    fd = os.open(data / HIDDEN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if is_to_end(data) or not take(fd):
        return HELD
    path = data / SOCKET
    place = ["--uds", str(path)] if len(os.fsencode(path)) <= MAX_SOCKET_BYTES else ["--port", "0"]
    options = ServeOptions(**vars(parser().parse([*place, "--root", "/", "--data", str(data)])))
    options.hidden = True
    if store_url(options) is not None:
        notify_problem("the chats are in a database, which needs penstock serve")
        return USAGE
    try:
        return server.run(options, end_when_idle)
    except StoreHeld:
        return HELD
    except PenstockError as error:
        notify_problem(str(error))
        return USAGE


async def end_when_idle(server: Server, service: Service, data: Path) -> None:
    """End the server when no turn runs or waits, after a time, or at once if another server takes over."""
    loop = asyncio.get_running_loop()
    last = loop.time()
    with contextlib.suppress(FileNotFoundError):  # it is a port
        os.chmod(data / SOCKET, 0o600)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        states = {chat.state for chat in service.chat_list.all() if chat.state == "running" or not chat.held}
        if "queued" in states or "running" in states:
            last = loop.time()
        takes_over = "running" not in states and is_to_end(data)
        if takes_over or loop.time() - last > IDLE_SECONDS:
            server.drain()
            return


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
