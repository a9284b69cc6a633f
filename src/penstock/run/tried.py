"""Views of confined runs in which bubblewrap has started a program, so that the same view is tried once.

A try takes as long as the start of the run itself. What is kept is a hash of bubblewrap's words and of the machine as
it is since it was started: a new kernel, another name space or another bubblewrap begins anew. If a view no longer
works, its run fails with bubblewrap's own words, is never without confinement, and is tried again the next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence

FOLDER = "tried"
"""Directory in the data directory, with an empty file for each view."""
MAX_VIEWS = 500
"""Number of views; with one more, all are forgotten."""


def has_worked(data: str, words: Sequence[str]) -> bool:
    """Return whether bubblewrap has started a program with these words. Its path is the first of them."""
    return os.path.exists(_place(data, words))


def note_worked(data: str, words: Sequence[str]) -> None:
    """Note that bubblewrap has started a program with these words. A directory that cannot be written is no error."""
    place = _place(data, words)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        if len(os.listdir(os.path.dirname(place))) >= MAX_VIEWS:
            forget_all(data)
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def forget_all(data: str) -> None:
    """Forget all views: each is tried again."""
    folder = os.path.join(data, FOLDER)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _place(data: str, words: Sequence[str]) -> str:
    facts = [*words, *_machine(words[0]), str(os.geteuid())]
    return os.path.join(data, FOLDER, hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest())


def _machine(program: str) -> list[str]:
    """Return what a start of the program depends on besides its words."""
    found = []
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            found.append(file.read().decode())
        found += [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "user")]
        status = os.stat(program)
        found += [str(status.st_ino), str(status.st_mtime_ns)]
    return found
