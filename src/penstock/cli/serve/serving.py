"""Running server of a data directory: a note of its address, for `penstock link` on the same machine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.config.data import write_private
from penstock.errors import UsageError
from penstock.run.locks import holder, take

SERVING, LOCK, NEXT = "serving.json", "serving.lock", "serving.next"
"""Files of the data directory: the note, the lock that the server holds while it runs, and the lock of one that takes
over from a hidden server."""

HIDDEN = "acp.lock"
"""File that the process of a hidden server locks until it ends."""

HELD = 75
"""Exit status of a hidden server if another server has the data directory, or is about to."""

LOOK_SECONDS = 0.1
"""Seconds between two looks at a hidden server that is to end."""

_log = logging.getLogger("penstock.gateway")


class Serving(msgspec.Struct):
    """Note of a server."""

    url: str
    """Beginning of its links."""
    host: str = ""
    port: int = 0
    path: str | None = None
    """Path of its Unix socket; None if it listens on `host` and `port`."""
    token_file: str | None = None
    """File with its token; None if the token is from the environment."""
    hidden: bool = False
    """True if `penstock acp` has started it, and it gives way to another one."""
    name: str = ""
    """Host that requests name; "" for the loopback."""


@contextmanager
def noted(data: Path, serving: Serving) -> Iterator[None]:
    """Note a server in its data directory while the context lasts. If this fails, the server runs nevertheless."""
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


@contextmanager
def taking_over(data: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait for the end of a hidden server of this data directory; no other one starts while the context lasts.

    It ends when no agent works in it. Its process is waited for: it has the store longer than its note, and no
    note while it starts. `waiting` is called if that is not at once.
    """
    fd = os.open(data / NEXT, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        looks = 0
        while take(fd) and (_is_hidden(data) or holder(data / HIDDEN) is not None):
            looks += 1
            if looks == round(2 / LOOK_SECONDS):
                waiting()
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        os.close(fd)


def is_to_end(data: Path) -> bool:
    """Return whether another server waits for the end of the hidden one."""
    return holder(data / NEXT) is not None


def _is_hidden(data: Path) -> bool:
    try:
        return find(data).hidden
    except UsageError:
        return False


def find(data: Path) -> Serving:
    """Return the note of the server that runs with a data directory.

    The note counts only while the server holds its lock. After its end, another user's server may have its port and
    must not get the token.

    Raises:
        UsageError: no server is running.
    """
    try:
        if holder(data / LOCK) is not None:
            return msgspec.json.decode((data / SERVING).read_bytes(), type=Serving)
    except (OSError, msgspec.DecodeError):
        pass
    raise UsageError(
        f"no server runs with the data directory {data}", help="start one with penstock serve, or name another --data"
    )
