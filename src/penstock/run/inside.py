"""Whether this process was started by an agent or a check: its environment, and those of its ancestors, show it.

A program can clear its own environment, and not those of its ancestors. One that leaves its parents becomes a child of
the guard, which is below the process that runs the loop. Where there is no /proc, only the own environment is known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

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

PROXIED = "127.112.101.{depth}"
"""Address of the loopback from which the proxy of a confined run asks servers of this machine. It has the depth of the
run's agent, since the process that asks is Penstock's own. Other programs can use it, and only harm themselves."""

MAX_ANCESTORS = 1_000
"""Ancestors that are looked at: a bound for a table of processes that changes meanwhile."""


def ancestors(pid: int | None = None) -> tuple[int, ...]:
    """Return the ids of the processes above `pid`, or this one, the nearest first; empty where there is no /proc."""
    found: list[int] = []
    above = os.getppid() if pid is None else _parent(pid)
    while above > 0 and len(found) < MAX_ANCESTORS:
        found.append(above)
        above = _parent(above)
    return tuple(found)


def depth(environ: Mapping[str, str]) -> int:
    """Return the depth of a process with this environment; 0 for one that no agent has started."""
    given = environ.get(DEPTH, "")
    return int(given) if given.isdecimal() and len(given) < 5 else 0


def own_depth() -> int:
    """Return the depth of this process: the greatest of its environment and those of its ancestors."""
    return max(depth(os.environ), *(depth(_environ(pid)) for pid in ancestors()), 0)


def depth_of_peer(pid: int) -> int:
    """Return the depth of a process that has connected to a Unix socket, as `own_depth`.

    It is `MAX_DEPTH` for one that has ended while its connection is open: nothing shows any more what started it.
    """
    if not os.path.exists(f"/proc/{pid}"):
        return MAX_DEPTH if os.path.exists("/proc/self") else 0
    return max(depth(_environ(each)) for each in (pid, *ancestors(pid)))


def depth_of_proxied(address: str) -> int:
    """Return the depth of the agent whose request the proxy of its run passes on from an address; 0 for all others."""
    before, _, last = address.rpartition(".")
    return int(last) if before == PROXIED.rpartition(".")[0] and last.isdecimal() else 0


def depth_of_client(port: int, server_port: int) -> int:
    """Return the depth of the process of this machine that has connected to a server; 0 if it is not found.

    Of the processes below agents, it is the one that has the socket of this `port`. A process can hide what it has
    open: if no other process has a socket of this user, such a process below an agent is taken for the client.
    """
    sockets = _sockets(port, server_port)
    if not sockets:
        return 0
    depths = _depths()
    found, hidden = 0, 0
    for pid in (pid for pid, each in depths.items() if each):
        has_it = _has_socket(pid, sockets.keys())
        if has_it:
            found = max(found, depths[pid])
        elif has_it is None:
            hidden = max(hidden, depths[pid])
    if found or not hidden or os.geteuid() not in sockets.values():
        return found
    return 0 if any(_has_socket(pid, sockets.keys()) for pid, each in depths.items() if not each) else hidden


def _depths() -> dict[int, int]:
    """Return the processes of this machine with their depths, as `own_depth`."""
    parents: dict[int, int] = {}
    own: dict[int, int] = {}
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return {}
    for pid in pids:
        parents[pid], own[pid] = _parent(pid), depth(_environ(pid))
    found: dict[int, int] = {}
    for pid in pids:
        line = [pid]
        while parents.get(line[-1], 0) > 0 and line[-1] not in found and len(line) < MAX_ANCESTORS:
            line.append(parents[line[-1]])
        below = 0
        for each in reversed(line):
            below = found[each] = max(below, own.get(each, 0), found.get(each, 0))
    return found


def _parent(pid: int) -> int:
    """Return the id of the process above one; 0 if there is none, or it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _environ(pid: int) -> dict[str, str]:
    """Return the environment of a process; empty for one that has ended, or belongs to another user."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = (os.fsdecode(word).partition("=") for word in file.read().split(b"\0"))
    except OSError:
        return {}
    return {name: value for name, _, value in words}


def _sockets(port: int, server_port: int) -> dict[bytes, int]:
    """Return the sockets that are connected from one port to another, with their users."""
    found: dict[bytes, int] = {}
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", "rb") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        ends = (b":%04X" % port, b":%04X" % server_port)
        rows = [row for row in rows if len(row) > 9 and row[1].endswith(ends[0]) and row[2].endswith(ends[1])]
        found |= {b"socket:[%b]" % row[9]: int(row[7]) for row in rows}
    return found


def _has_socket(pid: int, sockets: Collection[bytes]) -> bool | None:
    """Return whether a process has one of these sockets; None if it does not show what it has open."""
    folder = f"/proc/{pid}/fd".encode()
    try:
        names = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:
        return False  # it has ended
    for name in names:
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
        found |= _marks_of(_environ(pid))
    return frozenset(found)


def _marks_of(environ: Mapping[str, str]) -> set[str]:
    found = {"run"} if environ.get(MARK) else set()
    return found | ({f"loop {environ[LOOP_MARK]}"} if environ.get(LOOP_MARK) else set())
