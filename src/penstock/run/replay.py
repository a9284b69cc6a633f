"""The replaying shell: a recording or the record of a run, at the pace at which it was made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from penstock.agents import registry
from penstock.config.rules import ABOVE_0, check
from penstock.core.normalizer.outcome import Exit
from penstock.errors import UsageError
from penstock.run import recording

MAX_SECONDS = 10 * 365 * 24 * 3600.0
"""No recording is longer; a clock's time since 1970 was written for the time since the start."""

LONGEST_SLEEP_SECONDS = 3600.0
"""A replay may be slower than any clock can sleep; the wait is then made of parts."""

MAX_NAMED = 5
"""So many of several records are named, the newest of them, where one must be chosen."""

Paced = tuple[bytes, "int | None"]
"""A line (the last one perhaps without its end), and its milliseconds since the start, where they are known."""


def replay(
    path: Path,
    speed: float = 1.0,
    *,
    whole: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Paced]:
    """The lines of a recording, each not before its time; all at once where no times are known.

    Times are seconds since the start, one a line, in a file beside the recording: `run.times` or
    `run.ndjson.times` for `run.ndjson`, or `times` in its folder. `speed` 2 is twice as fast.
    `whole`: a last line without its end was cut off, and is passed over.

    Raises:
        UsageError: the recording or its times cannot be read, or the speed is none.
    """
    check({"speed": speed}, {"speed": ABOVE_0})
    times = read_times(path, whole=whole)
    lines = (line for line in _lines(path) if not whole or line.endswith(b"\n"))
    if not times:
        for line in lines:
            yield line, None
        return
    start = clock()
    for number, line in enumerate(lines):
        time_of_line = times[min(number, len(times) - 1)]  # a recording that was added to: the rest follows at once
        wait = start + time_of_line / speed - clock()
        while wait > 0:
            sleep(min(wait, LONGEST_SLEEP_SECONDS))
            wait -= LONGEST_SLEEP_SECONDS
        yield line, int(round(time_of_line * 1000, 3))  # 1.001 * 1000 is less than 1001


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to replay. Of a recording that is only a file nothing more than the file is known."""

    input: Path
    agent: str | None = None
    """What reads it: the agent's name, with its route where that has another wire."""
    label: str | None = None
    exit: Exit | None = None
    """How the run ended."""
    cut: str | None = None
    """Why the end is missing, None where it is there: a last line without its end is then no line."""


def find(path: Path) -> Recording:
    """What is to be replayed at `path`: a file, a record's folder, or a folder with one of them.

    Raises:
        UsageError: there is none in the folder, or there are several; a record's `meta.json` cannot be read.
    """
    if not os.path.isdir(path):  # of a name that is too long as well, where pathlib raises
        return _of_file(path)
    found = _of_folder(path)
    if found is not None:
        return found
    try:
        files = [file for entry in path.iterdir() if os.path.isfile(file := entry / recording.INPUT)]
        files.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {str(path)!r}: {why}", expected="a recording") from error
    match [file.parent for file in files]:
        case [folder]:
            return find(folder)
        case []:
            raise UsageError(
                f"there is no record in {str(path)!r}", expected=f"a folder with {recording.INPUT}, or a file"
            )
        case several:
            more = f" and {len(several) - MAX_NAMED} more" if len(several) > MAX_NAMED else ""
            listed = ", ".join(map(str, several[:MAX_NAMED]))
            raise UsageError(
                f"there are {len(several)} records in {str(path)!r}",
                help=f"name one, the newest first: {listed}{more}",
            )


def _of_file(path: Path) -> Recording:
    if path.name == recording.INPUT:
        try:
            return _of_folder(path.parent) or Recording(input=path)
        except UsageError:
            pass  # what lies beside it is somebody else's meta.json
    return Recording(input=path)


def _of_folder(folder: Path) -> Recording | None:
    file = folder / recording.INPUT
    meta = recording.read_meta(folder)
    if meta is None:
        return Recording(input=file) if os.path.isfile(file) else None
    cut = None if meta.problem is None else _plain(meta.problem)
    if cut is None and meta.ended is None:
        cut = "its end was never written: Penstock was killed, or the run still goes on"
    return Recording(
        input=file,
        agent=_reader(meta),
        label=_plain(meta.label) or None,
        exit=_exit(meta.ended) if meta.ended else None,
        cut=cut,
    )


def _plain(text: str) -> str:
    """A record may come from somebody else: its words move no cursor."""
    return "".join(filter(str.isprintable, text))


def _reader(meta: recording.Meta) -> str:
    plain = meta.agent.partition("/")[0]
    entry = registry.AGENTS.get(plain)
    two_way = entry is not None and meta.route in entry.routes and meta.route != "exec"
    return f"{plain}/{meta.route}" if two_way else meta.agent


def _exit(ended: recording.Ended) -> Exit:
    status = ended.exit_status
    if ended.reason is None and status:
        status = None  # Penstock stopped what stayed after its answer: that is no reason
    return Exit(
        code=status if status is not None and status >= 0 else None,
        signal=-status if status is not None and status < 0 else None,
        cancelled=ended.outcome == "cancelled",
        timed_out=ended.outcome == "timed_out",
        why=ended.reason or "",
    )


def read_times(path: Path, *, whole: bool = False) -> list[float]:
    """The times of a recording, empty where there are none. `whole`: not the last one, if its line has no end.

    Raises:
        UsageError: a line of the times is no number.
    """
    for beside in (path.with_suffix(".times"), path.with_name(path.name + ".times"), path.with_name("times")):
        if beside != path and os.path.isfile(beside):
            return _parsed(beside, whole)
    return []


def _parsed(file: Path, whole: bool) -> list[float]:
    times: list[float] = []
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {error.strerror}", expected="the times of a recording") from error
    if whole:
        text = text[: text.rfind("\n") + 1]
    for number, line in enumerate(text.split(), 1):
        try:
            time_of_line = float(line)
        except ValueError:
            time_of_line = -1.0
        if not 0 <= time_of_line < MAX_SECONDS:  # false for nan as well
            what = f"{file}:{number}: {line[:40]!r} is no time"
            raise UsageError(what, expected="seconds since the start, one a line")
        times.append(time_of_line)
    return times


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {str(path)!r}: {why}", expected="a recording") from error
