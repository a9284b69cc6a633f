"""Server that runs with a data directory: it notes how it can be reached, for `penstock link` on the same machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.config.data import write_private
from penstock.errors import UsageError
from penstock.run.locks import holder, take

SERVING, LOCK = "serving.json", "serving.lock"
"""Files of the data directory: the note, and the lock that the server holds while it runs."""

_log = logging.getLogger("penstock.gateway")


class Serving(msgspec.Struct):
    """Note of a server."""

    url: str
    """Beginning of its links."""
    host: str = ""
    port: int = 0
    path: str | None = None
    """Path of its Unix socket; None: it listens on `host` and `port`."""
    token_file: str | None = None
    """File with its token; None if it has the token of the environment."""


@contextmanager
def noted(data: Path, serving: Serving) -> Iterator[None]:
    """Note a server in its data directory, for as long as the context lasts. If that fails, it serves nevertheless."""
    fd = -1
    try:
        fd = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if take(fd):
            write_private(data / SERVING, msgspec.json.encode(serving))
    except OSError as error:
        _log.warning("penstock link does not find this server: %s", error)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)  # which also unlocks it


def find(data: Path) -> Serving:
    """Return the note of the server that runs with a data directory.

    Only while its lock is held: another user's server may have its port once it has ended, and must not get the token.

    Raises:
        UsageError: none runs.
    """
    try:
        if holder(data / LOCK) is not None:
            return msgspec.json.decode((data / SERVING).read_bytes(), type=Serving)
    except (OSError, msgspec.DecodeError):
        pass
    raise UsageError(
        f"no server runs with the data directory {data}", help="start one with penstock serve, or name another --data"
    )
