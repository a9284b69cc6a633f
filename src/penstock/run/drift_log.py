"""Log of what runs printed that Penstock does not know: `drift.ndjson` in the data directory. It has no texts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from penstock.config.data import data_path
from penstock.core.health import Health

NAME = "drift.ndjson"
MAX_BYTES = 512 * 1024
"""Size in bytes at which the log is put aside as `drift.ndjson.1`: thousands of lines."""


class DriftLine(msgspec.Struct):
    """Kind of a line, or name in `_meta`, that one run had and Penstock does not know."""

    at: int
    """Time in seconds since 1970."""
    agent: str
    version: str | None
    name: str
    place: str
    count: int
    warns: bool


def append(agent: str, health: Health, directory: Path | None = None) -> None:
    """Append the unknown kinds of a run that has ended. A failure to write the log has no other effect."""
    if not health.drift:
        return
    at = int(time.time())
    lines = [DriftLine(at, agent, health.version, it.name, it.place, it.count, it.warns) for it in health.drift]
    path = (directory or data_path()) / NAME
    try:
        if path.exists() and path.stat().st_size > MAX_BYTES:
            path.replace(path.with_name(NAME + ".1"))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, msgspec.json.Encoder().encode_lines(lines))
        finally:
            os.close(fd)
    except OSError:
        return


def lines(directory: Path | None = None) -> list[DriftLine]:
    """Return the lines of the log, the oldest first, without those that cannot be read."""
    path = (directory or data_path()) / NAME
    found = []
    for file in (path.with_name(NAME + ".1"), path):
        try:
            data = file.read_bytes()
        except OSError:
            continue
        for line in data.splitlines():
            try:
                found.append(msgspec.json.decode(line, type=DriftLine))
            except msgspec.DecodeError:
                continue
    return found
