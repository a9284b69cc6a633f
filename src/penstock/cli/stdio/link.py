"""Connection of a program on stdin and stdout with the server: found or started, asked, and followed through cuts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from penstock._version import __version__
from penstock.chat.history.entries import Numbered, decode_one
from penstock.cli.serve.client import Rejected, ServerClient, ServerOptions, data_of
from penstock.cli.serve.serving import HELD, Serving, find
from penstock.config.data import data_directory, open_private
from penstock.errors import PenstockError, TransportError, UsageError
from penstock.run import inside

START_SECONDS = 30.0
"""Seconds in which a server that is started has to answer."""

PATIENCE_SECONDS = 60.0
"""Seconds for which a server that does not answer is asked again: it may be started anew."""

PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0
"""Seconds between two attempts: the first and the longest."""

MAX_MESSAGE_BYTES = 16 * 1024
"""Bytes of the messages of a server that does not start."""

MAX_LOG_BYTES = 1024 * 1024
"""Size in bytes from which the next hidden server begins the file of messages anew."""

PING = ":"
"""Name of a line of a stream that has no entry."""

LOG = "acp.log"
"""File of the data directory with the messages of the hidden server."""

Answer = TypeVar("Answer")


UNKNOWN_FIELD = "contains unknown field"
"""Words of a server that gets a field of a newer version."""


class ServerVersion(msgspec.Struct):
    """Version in the description of a server, whatever else that has."""

    version: str


class StdioOptions(ServerOptions):
    """Options of the command line."""

    agent: str | None
    server: str | None


class TurnStep(NamedTuple):
    """Part of the stream of a turn."""

    rows: list[Numbered]
    is_live: bool = False
    """True if the turn's entries so far have been read."""


class ServerLink:
    """Connection with the server of a data directory, or with the one that the options name."""

    def __init__(self, options: StdioOptions) -> None:
        self._options = options
        self._named = None if options.server is None else named(options.server)
        self._starting = threading.Lock()

    def client(self) -> ServerClient:
        """Return a client of the server; start a hidden one if none runs.

        Raises:
            UsageError: there is no server and none can be started, or its token cannot be read.
        """
        if self._named is not None:
            return ServerClient(self._options, self._named)
        with self._starting:
            data = data_of(self._options)
            serving = _found(data) or start_hidden(data)
            return ServerClient(self._options, serving)

    def is_hidden(self) -> bool:
        """Return whether the server is a hidden one, without a page."""
        serving = None if self._named is not None else _found(data_of(self._options))
        return serving is not None and serving.hidden

    def ask(self, method: str, path: str, kind: type[Answer], body: object = None, *, key: str | None = None) -> Answer:
        """Return the answer to a request that may be repeated, as `ServerClient.ask`; wait for a server that starts.

        Raises:
            UsageError: the server rejects it.
            TransportError: the server does not answer in time.
        """
        return self._patiently(lambda client: client.ask(method, path, kind, body, key=key))

    def upload(self, path: str, content: bytes, kind: type[Answer]) -> Answer:
        """Return the answer to an upload; it may be repeated, and raises the errors of `ask`."""
        return self._patiently(lambda client: client.upload(path, content, kind))

    def download(self, path: str) -> bytes:
        """Return the bytes of a file; raise the errors of `ask`."""
        return self._patiently(lambda client: b"".join(client.download(path)))

    def _patiently(self, request: Callable[[ServerClient], Answer]) -> Answer:
        end, pause = time.monotonic() + PATIENCE_SECONDS, PAUSE_SECONDS
        while True:
            try:
                return self._once(request)
            except TransportError:
                if time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _once(self, request: Callable[[ServerClient], Answer]) -> Answer:
        client = self.client()
        try:
            return request(client)
        except Rejected as error:
            raise _explained(client, error) from error

    def answer(self, chat: str, question: str, answer: str) -> None:
        """Answer a question of the agent, once: if the response is lost, the answer may have been accepted.

        Raises:
            UsageError: the server rejects it.
            TransportError: the server does not answer.
        """
        body = {"id": question, "answer": answer}
        self.client().ask("POST", f"/api/chats/{chat}/questions", dict[str, int], body)

    def follow(self, chat: str, turn: int, after: int = 0, *, stops: bool = False) -> Iterator[TurnStep]:
        """Yield the entries of a turn from one on, until its end; a stream that is cut is continued.

        There is a step at least every 15 seconds, with or without an entry. `stops`: the server stops the turn if this
        process ends first and nobody else follows the chat.

        Raises:
            UsageError: the chat was deleted, or there is no such turn.
            TransportError: the server does not answer in time.
        """
        end, pause, was_live = time.monotonic() + PATIENCE_SECONDS, PAUSE_SECONDS, False
        while True:
            try:
                for name, number, data in self._events(chat, turn, after, "POST" if stops else "GET"):
                    end, pause = time.monotonic() + PATIENCE_SECONDS, PAUSE_SECONDS
                    if name == "end":
                        return
                    if name == "closed":
                        break
                    if name == PING:
                        yield TurnStep([])
                    elif name == "live":
                        if not was_live:
                            was_live = True
                            yield TurnStep([], True)
                    elif number is not None and number > after:
                        after = number
                        yield TurnStep([Numbered(number, 0, decode_one(data))])
            except Rejected:
                raise
            except TransportError:
                if time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _events(self, chat: str, turn: int, after: int, method: str) -> Iterator[tuple[str, int | None, bytes]]:
        name, number, data = "", None, b""
        for line in self.client().stream(f"/api/chats/{chat}/turns/{turn}/entries?after={after}", method):
            field, _, value = line.partition(b": ")
            if field == b"event":
                name = value.decode()
            elif field == b"id":
                number = int(value)
            elif field == b"data":
                data = value
            elif line.startswith(b":"):
                yield PING, None, b""
            elif not line and name:
                yield name, number, data
                name, number, data = "", None, b""


def _explained(client: ServerClient, error: Rejected) -> Rejected:
    """Return an error of the server; if it does not know a field of the request, with the versions of both programs."""
    if error.code != "invalid" or UNKNOWN_FIELD not in str(error):
        return error
    try:
        theirs = client.ask("GET", "/api/about", ServerVersion).version
    except PenstockError:
        return error
    explained = Rejected(
        f"the server (Penstock {theirs}) does not know what this program (Penstock {__version__}) sends",
        help="restart the server: it was started before the newer version was installed. "
        "penstock serve also takes the place of one without a page",
    )
    explained.code = error.code
    return explained


def named(url: str) -> Serving:
    """Return the server at this address.

    Raises:
        UsageError: it is not an address.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query:
        raise UsageError("--server has no address of a server", expected="one such as http://127.0.0.1:8377")
    port = port or (443 if parts.scheme == "https" else 80)
    return Serving(url, host, port, name=parts.netloc.rpartition("@")[2])


def start_hidden(data: Path) -> Serving:
    """Start a hidden server for a data directory, and return it when it answers. Of several, one stays.

    Raises:
        UsageError: it does not start, or this process belongs to an agent, with which it would end.
    """
    if inside.marks():
        what = "no server runs, and one that an agent starts would end with the agent"
        raise UsageError(what, help="start one with penstock serve")
    data = data_directory(data)
    with open(data / LOG, "ab", opener=open_private) as log:
        size = os.fstat(log.fileno()).st_size
        if size > MAX_LOG_BYTES:
            log.truncate(0)
            size = 0
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.serve.hidden", str(data)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        status = process.poll()
        serving = _found(data)
        if serving is not None:
            threading.Thread(target=process.wait, daemon=True).start()
            return serving
        if status not in (None, HELD):
            break
        time.sleep(PAUSE_SECONDS)
    with open(data / LOG, "rb") as file:
        file.seek(size)
        lines = file.read(MAX_MESSAGE_BYTES).decode("utf-8", "replace").strip().splitlines()
    raise UsageError(
        "no server runs, and none could be started" + (f": {lines[-1]}" if lines else ""),
        help="start one with penstock serve",
    )


def _found(data: Path) -> Serving | None:
    try:
        return find(data)
    except UsageError:
        return None
