"""`penstock link`: a link to sign one browser in to the server on this machine."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.cli.console import notify, say
from penstock.cli.options import string
from penstock.cli.parser import Parser
from penstock.config.data import data_path
from penstock.config.rules import PATH
from penstock.errors import TransportError, UsageError

SECONDS = 15.0
"""Timeout in seconds of the request: longer than a server waits for its database."""

MAX_ANSWER_BYTES = 64 * 1024

EXAMPLES = """\
examples:
  penstock link                                       of the server with the usual data directory
  sudo -u penstock penstock link --data /var/lib/penstock
"""


class LinkOptions:
    """Options of the command line."""

    def __init__(self, data: Path | None, token_file: Path | None) -> None:
        self.data = data
        self.token_file = token_file


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


def command(args: Sequence[str]) -> int:
    """Run `penstock link` and return the exit status.

    Raises:
        UsageError: no server runs, or its token cannot be read or is another one.
        TransportError: the server does not answer.
    """
    options = LinkOptions(**vars(parser().parse(args)))
    from penstock.cli.serve.serving import find

    named = None if options.token_file is None else _token(options.token_file)
    try:
        data = data_path(options.data)
    except OSError as error:
        raise UsageError(f"this directory cannot be used: {error.strerror}", help="--data DIR") from error
    serving = find(data)
    token = named or _token(Path(serving.token_file) if serving.token_file else None)
    if serving.path is not None:
        connection: http.client.HTTPConnection = SocketConnection(serving.path)
    else:
        connection = http.client.HTTPConnection(serving.host, serving.port, timeout=SECONDS)
    code = _code(connection, token)
    notify("Open this link in a browser; it works once, within 15 minutes:\n")
    return say(f"{serving.url}/#code={code}\n")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("link", "Print a link that signs one browser in to the server on this machine.", examples=EXAMPLES)
    path = string(PATH)
    text = "data directory of the server (default ~/.local/share/penstock)"
    made.add_argument("--data", type=lambda word: Path(path(word)), metavar="DIR", help=text)
    text = "file with its token, if it is not the one that it was started with"
    made.add_argument("--token-file", type=lambda word: Path(path(word)), metavar="F", help=text)
    return made


def _token(file: Path | None) -> str:
    from penstock.chat.web.auth import TOKEN_VARIABLE, check_token, read_token

    if TOKEN_VARIABLE in os.environ:
        return check_token(os.environ[TOKEN_VARIABLE], TOKEN_VARIABLE)
    if file is None:
        what = f"the server has the token of its environment ({TOKEN_VARIABLE})"
        raise UsageError(what, help="set the variable here as well, or name --token-file")
    return read_token(file)


def _code(connection: http.client.HTTPConnection, token: str) -> str:
    """Return the code of a new link.

    Raises:
        UsageError: the token is not that of the server.
        TransportError: the server does not answer, or cannot make a link now.
    """
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/api/link", "{}", headers)
        response = connection.getresponse()
        answer = msgspec.json.decode(response.read(MAX_ANSWER_BYTES), type=dict[str, object])
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise TransportError(f"the server does not answer: {error}", help="look at its log") from error
    finally:
        connection.close()
    if response.status == http.HTTPStatus.UNAUTHORIZED:
        raise UsageError("the token is not that of the server", expected="the one that it was started with")
    code = str(answer.get("url", "")).partition("#code=")[2]
    if not code:
        raise TransportError(f"the server made no link: {answer.get('detail', response.status)}")
    return code
