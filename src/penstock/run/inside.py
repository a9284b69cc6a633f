"""Whether this process was started by an agent or a check: its environment, and those of its ancestors, show it.

A program can clear its own environment, and not those of its ancestors. One that leaves its parents becomes a child of
the guard, which is below the process that runs the loop. Where there is no /proc, only the own environment is known.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.run.process import MARK

LOOP_MARK = "PENSTOCK_LOOP"
"""Environment variable of agents and checks of a loop, with its id."""

FOLDER_MARK = "PENSTOCK_LOOP_FOLDER"
"""Environment variable of agents and checks of a loop, with its folder: ids repeat in other data directories."""

DEPTH = "PENSTOCK_DEPTH"
"""Environment variable of agents with the number of agents that are above and including this one, each asked for by the
one before through a server."""

MAX_DEPTH = 2
"""Depth from which on an agent may ask for no other one."""

MAX_ANCESTORS = 1_000
"""Ancestors that are looked at: a bound for a table of processes that changes meanwhile."""


def ancestors() -> tuple[int, ...]:
    """Return the ids of the processes above this one, the nearest first; empty where there is no /proc."""
    found: list[int] = []
    pid = os.getppid()
    while pid > 0 and len(found) < MAX_ANCESTORS:
        found.append(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
    return tuple(found)


def depth(environ: Mapping[str, str]) -> int:
    """Return the depth of a process with this environment; 0 for one that no agent has started."""
    given = environ.get(DEPTH, "")
    return int(given) if given.isdecimal() and len(given) < 5 else 0


def depth_of_client(port: int, server_port: int) -> int:
    """Return the depth of the process of this machine that has connected to a server; 0 if it is not found.

    Of the processes with a depth, it is the one that has the socket of this `port`.
    """
    sockets = {b"socket:[%b]" % inode for inode in _sockets(port, server_port)}
    try:
        names = os.listdir("/proc") if sockets else []
    except OSError:
        return 0
    found = 0
    for name in filter(str.isdecimal, names):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                words = (os.fsdecode(word).partition("=") for word in file.read().split(b"\0"))
            of_process = depth({name: value for name, _, value in words})
            if of_process > found and _has_socket(name, sockets):
                found = of_process
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def _sockets(port: int, server_port: int) -> set[bytes]:
    """Return the inodes of the sockets that are connected from one port to another."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", "rb") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        ends = (b":%04X" % port, b":%04X" % server_port)
        found |= {row[9] for row in rows if len(row) > 9 and row[1].endswith(ends[0]) and row[2].endswith(ends[1])}
    return found


def _has_socket(pid: str, sockets: set[bytes]) -> bool:
    folder = f"/proc/{pid}/fd".encode()
    for name in os.listdir(folder):
        try:
            if os.readlink(folder + b"/" + name) in sockets:
                return True
        except OSError:
            continue  # it was closed
    return False


def marks() -> frozenset[str]:
    """Return what started this process: `run` for an agent, `loop ID` for an agent or a check of a loop."""
    found = _marks_of(os.environ)
    for pid in ancestors():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = (os.fsdecode(word).partition("=") for word in file.read().split(b"\0"))
        except OSError:
            continue  # it has ended, or belongs to another user
        found |= _marks_of({name: value for name, _, value in words})
    return frozenset(found)


def _marks_of(environ: Mapping[str, str]) -> set[str]:
    found = {"run"} if environ.get(MARK) else set()
    return found | ({f"loop {environ[LOOP_MARK]}"} if environ.get(LOOP_MARK) else set())
