"""Processes that an earlier Penstock has left running: found by a variable of their environment.

A guard ends what it has started, also if Penstock is killed. If the guards are killed too, only the mark shows whose
processes these are. Where there is no /proc, none are found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from penstock.run.inside import ancestors
from penstock.run.lifecycle import GUARD_SECONDS

WAIT_SECONDS = 2.0
"""Seconds in which guards that have lost Penstock may end their processes themselves."""

ROUND_SECONDS = 0.02
"""Seconds between two looks at the processes."""

START = 19
"""Index of the start time among the words of a process's `stat` that follow its name."""


def end_marked(name: str, value: str) -> bool:
    """End the processes with a variable in their environment, and all below them; return whether none is left.

    This process and those above it are never ended.
    """
    word = os.fsencode(f"{name}={value}")
    kills_at = time.monotonic() + WAIT_SECONDS
    end = kills_at + GUARD_SECONDS
    found: dict[int, bytes] = {}
    while found := _marked(word, found):
        now = time.monotonic()
        if now > end:
            return False
        if now > kills_at:
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # it has ended, or it is another user's
        time.sleep(ROUND_SECONDS)
    return True


def _marked(word: bytes, known: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the living processes with a word in their environment, and those below them, with their starts.

    `known` has those that were found before: one without the word is found by it after those above it have ended.
    """
    starts: dict[int, bytes] = {}
    children: dict[int, list[int]] = {}
    todo: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in filter(str.isdecimal, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name in brackets may hold anything; state and parent follow the last one.
                words = file.read().rpartition(b")")[2].split()
            pid, state, parent, start = int(name), words[0], int(words[1]), words[START]
            if state in (b"Z", b"X"):
                continue
            starts[pid] = start
            children.setdefault(parent, []).append(pid)
            if known.get(pid) == start:
                todo.append(pid)
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if word in file.read().split(b"\0"):
                    todo.append(pid)
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile, or is another user's
    spared = {os.getpid(), *ancestors()}
    found: dict[int, bytes] = {}
    while todo:
        pid = todo.pop()
        if pid not in spared and pid not in found:
            found[pid] = starts[pid]
            todo += children.get(pid, [])
    return found
