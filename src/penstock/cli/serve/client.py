"""Client of the server on this machine, for the operator's commands: `penstock link`, `penstock chats`."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.cli.options import string
from penstock.cli.parser import Parser
from penstock.cli.serve.serving import Serving, find
from penstock.config.data import data_path
from penstock.config.rules import PATH
from penstock.errors import TransportError, UsageError

SECONDS = 15.0
"""Timeout in seconds for a request: longer than a server waits for its database."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Maximum bytes of an answer: the events of a turn with many large results have several megabytes."""

Answer = TypeVar("Answer")


class ServerOptions:
    """Options that name the server and its token."""

    data: Path | None
    token_file: Path | None

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def add_options(made: Parser) -> None:
    """Add the options that name the server and its token."""
    path = string(PATH)
    text = "data directory of the server (default ~/.local/share/penstock)"
    made.add_argument("--data", type=lambda word: Path(path(word)), metavar="DIR", help=text)
    text = "file with its token, if it is not the one that it was started with"
    made.add_argument("--token-file", type=lambda word: Path(path(word)), metavar="F", help=text)


class SocketConnection(http.client.HTTPConnection):
    """Connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock: socket.socket = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


class RejectedRequest(msgspec.Struct):
    """Body of an answer that says what is wrong."""

    detail: str = ""
    help: str = ""


class ServerClient:
    """Client of the server that runs with a data directory.

    Raises:
        UsageError: no server is running, or its token cannot be read.
    """

    def __init__(self, options: ServerOptions) -> None:
        named = None if options.token_file is None else _token(options.token_file)
        try:
            data = data_path(options.data)
        except OSError as error:
            raise UsageError(f"this directory cannot be used: {error.strerror}", help="--data DIR") from error
        self.serving: Serving = find(data)
        file = self.serving.token_file
        self._token = named or _token(Path(file) if file else None)

    def ask(self, method: str, path: str, kind: type[Answer], body: object = None) -> Answer:
        """Return the answer to a request, as JSON of this kind.

        Raises:
            UsageError: the token is not the server's, or the server rejects the request.
            TransportError: the server does not answer, or cannot do it now.
        """
        data = self._answer(method, path, body)
        try:
            return msgspec.json.decode(data or b"null", type=kind)
        except msgspec.DecodeError as error:
            raise _silent(error) from error

    def lines(self, path: str) -> Sequence[msgspec.Raw]:
        """Return the lines of an answer in NDJSON; raise the errors of `ask`."""
        return [msgspec.Raw(line) for line in self._answer("GET", path).splitlines()]

    def _answer(self, method: str, path: str, body: object = None) -> bytes:
        headers = {"Host": "localhost", "Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
            response = connection.getresponse()
            data = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _silent(error) from error
        finally:
            connection.close()
        if response.status == http.HTTPStatus.UNAUTHORIZED:
            raise UsageError("the token is not that of the server", expected="the one that it was started with")
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _problem(response.status, data)
        return data

    def _connection(self) -> http.client.HTTPConnection:
        if self.serving.path is not None:
            return SocketConnection(self.serving.path)
        return http.client.HTTPConnection(self.serving.host, self.serving.port, timeout=SECONDS)


def _token(file: Path | None) -> str:
    from penstock.chat.web.auth import TOKEN_VARIABLE, check_token, read_token  # completion needs only the parser

    if TOKEN_VARIABLE in os.environ:
        return check_token(os.environ[TOKEN_VARIABLE], TOKEN_VARIABLE)
    if file is None:
        what = f"the server has the token of its environment ({TOKEN_VARIABLE})"
        raise UsageError(what, help="set the variable here as well, or name --token-file")
    return read_token(file)


def _silent(error: Exception) -> TransportError:
    return TransportError(f"the server does not answer: {error}", help="look at its log")


def _problem(status: int, data: bytes) -> UsageError | TransportError:
    try:
        found = msgspec.json.decode(data, type=RejectedRequest)
    except msgspec.DecodeError:
        found = RejectedRequest()
    kind = TransportError if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR else UsageError
    return kind(f"the server answers: {found.detail or status}", help=found.help)
