"""Waiting in tests: for a condition, for the end of a process, and not for ever."""

from __future__ import annotations

import asyncio
import faulthandler
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds in which a condition becomes true, on a machine that is busy; after them the test fails."""
STEP = 0.005
"""Seconds between two looks at a condition."""
HANGS = 120
"""Seconds after which a test hangs, and is ended."""


def until(true: Callable[..., Any], what: str = "the condition becomes true", seconds: float = PATIENCE) -> Any:
    """Wait until a condition is true, and return what it returned.

    Raises:
        AssertionError: it did not become true in time.
    """
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s: {what}"
        time.sleep(STEP)
    return found


async def until_true(true: Callable[[], object]) -> None:
    """Wait until a condition is true, while the event loop runs.

    Raises:
        TimeoutError: it did not become true in time.
    """
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(STEP)


def group_of(pid: int) -> int | None:
    """The group of a process; None if there is none, or if it has ended and waits for its parent to see it."""
    try:
        state, _, group = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
    except OSError:
        return None
    return None if state in "ZX" else int(group)


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    return group_of(pid) is not None


def no_hang() -> Iterator[None]:
    """Fixture that ends a test which hangs, and prints where it hung."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
