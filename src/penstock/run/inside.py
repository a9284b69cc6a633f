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
