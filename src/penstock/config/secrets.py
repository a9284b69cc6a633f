"""Secrets of this process: removes variables from its environment, and hides the process from others.

An agent is a process of the same user. On Linux it could read `/proc/PID/environ`, which has the variables that this
process was started with, even if they were removed later.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_DUMPABLE = 4


def take_variable(name: str) -> str | None:
    """Remove a variable from the environment and return it; overwrite its text in the memory that the system shows."""
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
    """Hide the environment, memory and open files of this process from other processes of this user, on Linux.

    They are not hidden from root. Programs that this process starts are not hidden.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
