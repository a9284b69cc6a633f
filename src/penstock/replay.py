"""The replaying shell: a recording, at the pace at which it was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.errors import UsageError

MAX_SECONDS = 10 * 365 * 24 * 3600.0
"""No recording is longer; a clock's time since 1970 was written for the time since the start."""

Paced = tuple[bytes, "int | None"]
"""A line (the last one perhaps without its end), and its milliseconds since the start, where they are known."""


def replay(
    path: Path,
    speed: float = 1.0,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Paced]:
    """The lines of a recording, each not before its time; all at once where no times are known.

    Times are seconds since the start, one a line, in a file beside the recording: `run.times` or
    `run.ndjson.times` for `run.ndjson`, or `times` in its folder. `speed` 2 is twice as fast.

    Raises:
        UsageError: the recording or its times cannot be read.
    """
    times = read_times(path)
    lines = _lines(path)
    if not times:
        for line in lines:
            yield line, None
        return
    start = clock()
    for number, line in enumerate(lines):
        moment = times[min(number, len(times) - 1)]  # a recording that was added to: the rest follows at once
        wait = start + moment / speed - clock()
        if wait > 0:
            sleep(wait)
        yield line, int(moment * 1000)


def read_times(path: Path) -> list[float]:
    """The times of a recording, empty where there are none.

    Raises:
        UsageError: a line of the times is no number.
    """
    for beside in (path.with_suffix(".times"), path.with_name(path.name + ".times"), path.with_name("times")):
        if beside != path and beside.is_file():
            return _parsed(beside)
    return []


def _parsed(file: Path) -> list[float]:
    times: list[float] = []
    for number, line in enumerate(file.read_text("utf-8", "replace").split(), 1):
        try:
            moment = float(line)
        except ValueError:
            moment = -1.0
        if not 0 <= moment < MAX_SECONDS:  # false for nan as well
            what = f"{file}:{number}: {line[:40]!r} is no time"
            raise UsageError(what, expected="seconds since the start, one a line")
        times.append(moment)
    return times


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}", expected="a recording") from error
