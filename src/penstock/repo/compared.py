"""Result of the comparison of a directory at two times."""

from __future__ import annotations

from typing import Literal, NamedTuple

from penstock.events import Change

Problem = Literal["slow", "large", "failed"]
"""Reason why nothing was compared."""


class Compared(NamedTuple):
    """Changes between two times, in the order of their absolute paths, and why there are none."""

    changes: list[Change]
    problem: Problem | None = None
