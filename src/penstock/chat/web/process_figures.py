"""Figures of this process for `/metrics`: memory, open files, time of the processor."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import msgspec

PROC = Path("/proc/self")
"""Directory with the figures on Linux; on other systems two of them are expensive."""

_started_at = time.time()


class ProcessFigures(msgspec.Struct, frozen=True):
    """Figures at one time. Those that the system does not provide are None."""

    started_at: float
    """Time since 1970, in seconds."""
    cpu_seconds: float
    max_fds: int
    open_fds: int | None
    resident_bytes: int | None


def process_figures() -> ProcessFigures:
    """Return the figures of this process as they are now."""
    return ProcessFigures(
        started_at=_started_at,
        cpu_seconds=time.process_time(),
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        open_fds=_open_fds(),
        resident_bytes=_resident_bytes(),
    )


def _open_fds() -> int | None:
    try:
        return len(os.listdir(PROC / "fd")) - 1  # without the one that lists them
    except OSError:
        return None


def _resident_bytes() -> int | None:
    try:
        return int((PROC / "statm").read_text("ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return None
