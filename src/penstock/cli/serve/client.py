"""Client of the server on this machine, for the operator's commands: `penstock link`, `penstock chats`."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.cli.options import string
from penstock.cli.parser import Parser
from penstock.cli.serve.serving import Serving, find
from penstock.config.data import data_path
from penstock.config.rules import PATH
from penstock.errors import TransportError, UsageError
from penstock.run.trace_context import of_environment

SECONDS = 15.0
"""Timeout in seconds for a request: longer than a server waits for its database."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Maximum bytes of an answer: the events of a turn with many large results have several megabytes."""

DOWNLOAD_BYTES = 64 * 1024
"""Number of bytes of a file that are passed on at once."""

STREAM_SECONDS = 60.0
"""Timeout in seconds for the next line of a stream: the server sends one at least every 15 seconds."""

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

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock: socket.socket = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class RejectedRequest(msgspec.Struct):
    """Body of an answer that says what is wrong."""

    detail: str = ""
    help: str = ""
    code: str = ""


class Rejected(UsageError):
    """The server rejects a request. `code` is that of the API."""

    code = ""


class ServerClient:
    """Client of the server that runs with a data directory.

    Raises:
        UsageError: no server is running, or its token cannot be read.
    """

    def __init__(self, options: ServerOptions, serving: Serving | None = None) -> None:
        """`serving`: the server, if it is another one."""
        named = None if options.token_file is None else _token(options.token_file)
        self.serving: Serving = serving or find(data_of(options))
        file = self.serving.token_file
        self._token = named or _token(Path(file) if file else None)

    def ask(self, method: str, path: str, kind: type[Answer], body: object = None, *, key: str | None = None) -> Answer:
        """Return the answer to a request, as JSON of this kind; `key`: its idempotency key.

        Raises:
            UsageError: the token is not the server's, or the server rejects the request.
            TransportError: the server does not answer, or cannot do it now.
        """
        data = None if body is None else msgspec.json.encode(body)
        return _decoded(self._answer(method, path, data, {} if key is None else {"Idempotency-Key": key}), kind)

    def upload(self, path: str, content: bytes, kind: type[Answer]) -> Answer:
        """Send the bytes of a file, and return the answer as `ask`; raise its errors."""
        return _decoded(self._answer("POST", path, content, {"Content-Type": "application/octet-stream"}), kind)

    def lines(self, path: str) -> Sequence[msgspec.Raw]:
        """Return the lines of an answer in NDJSON; raise the errors of `ask`."""
        return [msgspec.Raw(line) for line in self._answer("GET", path).splitlines()]

    def stream(self, path: str, method: str = "GET") -> Iterator[bytes]:
        """Yield the lines of a stream, without their ends, until it ends or is cut; raise the errors of `ask`."""
        with self._opened(path, method) as response:
            while line := response.readline(MAX_ANSWER_BYTES):
                yield line.rstrip(b"\n")

    def download(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file, as they come; raise the errors of `ask`, also if the file is cut off."""
        with self._opened(path) as response:
            while part := response.read(DOWNLOAD_BYTES):
                yield part

    @contextmanager
    def _opened(self, path: str, method: str = "GET") -> Iterator[http.client.HTTPResponse]:
        """Yield an answer that is read as it comes; failures to read it are raised as the errors of `ask`."""
        connection = self._connection(STREAM_SECONDS)
        try:
            connection.request(method, path, None if method == "GET" else b"{}", self._headers())
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                raise _problem(response.status, response.read(MAX_ANSWER_BYTES))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise _silent(error) from error
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        trace = of_environment(os.environ)
        return {
            **({} if trace is None else trace.headers()),
            "Host": self.serving.name or "localhost",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }

    def _answer(self, method: str, path: str, body: bytes | None = None, more: dict[str, str] | None = None) -> bytes:
        """Return the body of an answer; `more`: headers besides those of every request, or in their place."""
        connection = self._connection(SECONDS)
        try:
            connection.request(method, path, body, {**self._headers(), **(more or {})})
            response = connection.getresponse()
            data = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _silent(error) from error
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _problem(response.status, data)
        return data

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self.serving.path is not None:
            return SocketConnection(self.serving.path, seconds)
        if self.serving.url.startswith("https:") and self.serving.name:
            return http.client.HTTPSConnection(self.serving.host, self.serving.port, timeout=seconds)
        return http.client.HTTPConnection(self.serving.host, self.serving.port, timeout=seconds)


def data_of(options: ServerOptions) -> Path:
    """Return the data directory that the options name.

    Raises:
        UsageError: it cannot be used.
    """
    try:
        return data_path(options.data)
    except OSError as error:
        raise UsageError(f"this directory cannot be used: {error.strerror}", help="--data DIR") from error


def _token(file: Path | None) -> str:
    from penstock.chat.web.auth import TOKEN_VARIABLE, check_token, read_token  # completion needs only the parser

    if TOKEN_VARIABLE in os.environ:
        return check_token(os.environ[TOKEN_VARIABLE], TOKEN_VARIABLE)
    if file is None:
        what = f"the server has the token of its environment ({TOKEN_VARIABLE})"
        raise UsageError(what, help="set the variable here as well, or name --token-file")
    return read_token(file)


def _decoded(data: bytes, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(data or b"null", type=kind)
    except msgspec.DecodeError as error:
        raise _silent(error) from error


def _silent(error: Exception) -> TransportError:
    return TransportError(f"the server does not answer: {error}", help="look at its log")


def _problem(status: int, data: bytes) -> UsageError | TransportError:
    if status == http.HTTPStatus.UNAUTHORIZED:
        return UsageError("the token is not that of the server", expected="the one that it was started with")
    try:
        found = msgspec.json.decode(data, type=RejectedRequest)
    except msgspec.DecodeError:
        found = RejectedRequest()
    what = f"the server answers: {found.detail or status}"
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return TransportError(what, help=found.help)
    rejected = Rejected(what, help=found.help)
    rejected.code = found.code
    return rejected
