"""Secrets of this process: variables that are taken out of its environment, and what other processes can read of it.

An agent is a process of the same user. On Linux it could read `/proc/PID/environ`, which has the variables that this
process was started with, whatever became of them.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_DUMPABLE = 4


def take_variable(name: str) -> str | None:
    """Remove a variable from the environment and return it; its text is overwritten where the system has it."""
    value = os.environ.get(name)
    if value is None:
        return None
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    found = getenv(os.fsencode(name))
    if found:
        ctypes.memset(found, 0, len(os.fsencode(value)))
    del os.environ[name]
    return value


def hide_process() -> None:
    """Deny other processes of this user the environment, memory and open files of this one, on Linux; not to root.

    Programs that it starts are not hidden.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
