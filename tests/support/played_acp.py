"""The agent of `penstock acp` at a socket, whose server plays recordings as turns."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from played_link import PlayedLink, Turns

from penstock.cli.acp.agent import AcpAgent
from penstock.cli.stdio.link import StdioOptions


@contextmanager
def listening(turns: Turns, folder: Path) -> Iterator[Path]:
    """Serve each connection to a socket as an agent of its own that plays these turns."""
    path = folder / "acp.sock"
    with socket.socket(socket.AF_UNIX) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.cli.acp.agent.ServerLink", lambda _: PlayedLink(turns))
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket) -> None:
    def answer(client: socket.socket) -> None:
        with client:
            options = StdioOptions()
            options.agent = "claude"
            AcpAgent(options, client.fileno(), client.fileno()).serve()

    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(client,), daemon=True).start()
