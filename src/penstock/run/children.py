"""Processes that Penstock has started itself, and orphans that have fallen to it because their guards were killed.

Only a command of Penstock's own becomes a subreaper: in a program that uses Penstock as a library, orphans may be that
program's. A guard, and all below it, are in other sessions than Penstock, so a child in Penstock's own session is the
user's: a shell that has started it before it became Penstock (`exec penstock serve > >(logger)`) leaves such children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from penstock.run.lifecycle import GUARD_SECONDS

PR_SET_CHILD_SUBREAPER = 36

KILL_ROUND_SECONDS = 0.005
"""Seconds between two rounds of SIGKILL: the children of a killed process fall to this one."""

PARENT, SESSION = 1, 3
"""Indexes of the parent and the session among the words of a process's `stat` that follow its name."""

_lock = threading.Lock()
_own: set[int] = set()
_is_subreaper = False


def become_subreaper() -> None:
    """Let processes whose guards were killed fall to this one, so that they can be ended (Linux; elsewhere nothing)."""
    global _is_subreaper
    if sys.platform != "linux":
        return
    try:
        from ctypes import CDLL

        _is_subreaper = CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):
        pass  # a Python without ctypes: what is above each guard still ends its orphans


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process of Penstock's own, with the options of `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
        ValueError: a word or variable cannot be given to a program.
    """
    with _lock:  # so that it is not taken for an orphan before its id is known
        process = subprocess.Popen(argv, **options)
        _own.add(process.pid)
    return process


def ended(pid: int) -> None:
    """Forget a process of Penstock's own that was reaped."""
    with _lock:
        _own.discard(pid)


def kill_orphans() -> bool:
    """Kill the children of this process that it has not started, with all below them; return whether none is left.

    Those in its own session are spared.
    """
    if not _is_subreaper:
        return True
    end = time.monotonic() + GUARD_SECONDS
    while True:
        with _lock:
            found = [pid for pid in _children() if pid not in _own]
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
                except OSError:
                    pass  # it has ended
        if not found or time.monotonic() > end:
            return not found
        time.sleep(KILL_ROUND_SECONDS)


def _children() -> list[int]:
    """Return the children of this process in other sessions than its own."""
    me, session, found = os.getpid(), os.getsid(0), []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in brackets may hold anything; state and parent follow the last one.
                    words = file.read().rpartition(b")")[2].split()
                if int(words[PARENT]) == me and int(words[SESSION]) != session:
                    found.append(int(name))
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
    return found
