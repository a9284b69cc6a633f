"""Stdout of a program whose client reads it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def private_stdout() -> Iterator[int]:
    """Yield stdout, which nothing else can write to while the context lasts: what is printed goes to stderr."""
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)  # never as stdin, if that is closed
    try:
        os.dup2(2, 1)
        yield sink
    finally:
        os.dup2(sink, 1)
        os.close(sink)
