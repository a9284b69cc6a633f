"""Replay of a file or a run's recording, at its original pace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from penstock.adapter import Adapter
from penstock.agents import registry
from penstock.config.rules import ABOVE_0, check
from penstock.core.normalizer.outcome import Exit
from penstock.errors import UsageError
from penstock.run import recording

MAX_SECONDS = 10 * 365 * 24 * 3600.0
"""Seconds that no recording exceeds: a larger value is a clock's time since 1970, not the time since the start."""

LONGEST_SLEEP_SECONDS = 3600.0
"""Seconds of one sleep: a replay may have to wait for longer than a clock can sleep, and then sleeps several times."""

MAX_NAMED = 5
"""Number of recordings, the newest ones, that are listed if the user has to choose one of several."""

Paced = tuple[bytes, "int | None"]
"""Line (the last one may lack its end), and its milliseconds since the start, if they are known."""


def replay(
    path: Path,
    speed: float = 1.0,
    *,
    whole: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Paced]:
    """Yield the lines of a recording, none of them before its time; all at once if no times are known.

    Times are seconds since the start, one a line, in a file beside the recording: `run.times` or
    `run.ndjson.times` for `run.ndjson`, or `times` in its folder. `speed` 2 is twice as fast.
    `whole`: a last line without its end was cut off, and is skipped.

    Raises:
        UsageError: the recording or its times cannot be read, or the speed is not a valid one.
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
        time_of_line = times[min(number, len(times) - 1)]  # lines were added to the recording: they follow at once
        wait = start + time_of_line / speed - clock()
        while wait > 0:
            sleep(min(wait, LONGEST_SLEEP_SECONDS))
            wait -= LONGEST_SLEEP_SECONDS
        yield line, int(round(time_of_line * 1000, 3))  # 1.001 * 1000 is less than 1001


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Recording to replay. If it is only a file, nothing else is known of it."""

    input: Path
    agent: str | None = None
    """Adapter that reads it: the agent's name, with its route if that has another wire."""
    label: str | None = None
    is_resumed: bool = False
    """Whether the run continued a session, as far as that changes how it is read."""
    exit: Exit | None = None
    """End of the run."""
    cut: str | None = None
    """Reason why the end is missing; None if it is not. A last line without its end is then not a line."""

    def reader(self) -> str | Adapter:
        """Return the adapter that reads it, or the name of one.

        Raises:
            UnknownAgent: there is no such agent any more.
        """
        if self.agent is not None and self.is_resumed:
            return registry.make(self.agent, is_resumed=True)
        return self.agent or "auto"


def find(path: Path) -> Recording:
    """Return the recording at `path`: a file, the folder of a recording, or a folder with one of them.

    Raises:
        UsageError: there is none in the folder, or there are several; the `meta.json` of one cannot be read.
    """
    if not os.path.isdir(path):  # also handles a name that is too long, for which pathlib raises
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
            pass  # the meta.json beside it is another program's
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
        is_resumed=meta.is_resumed,
        exit=_exit(meta.ended) if meta.ended else None,
        cut=cut,
    )


def _plain(text: str) -> str:
    """Return text without control characters: a recording may come from somebody else, and must not move the cursor."""
    return "".join(filter(str.isprintable, text))


def _reader(meta: recording.Meta) -> str:
    plain = meta.agent.partition("/")[0]
    entry = registry.AGENTS.get(plain)
    two_way = entry is not None and meta.route in entry.routes and meta.route != "exec"
    return f"{plain}/{meta.route}" if two_way else meta.agent


def _exit(ended: recording.Ended) -> Exit:
    status = ended.exit_status
    if ended.reason is None and status:
        status = None  # Penstock stopped an agent that did not exit after its answer: this is not a reason
    return Exit(
        code=status if status is not None and status >= 0 else None,
        signal=-status if status is not None and status < 0 else None,
        cancelled=ended.outcome == "cancelled",
        timed_out=ended.outcome == "timed_out",
        why=ended.reason or "",
        cause="budget" if ended.cause == "budget" else None,
    )


def read_times(path: Path, *, whole: bool = False) -> list[float]:
    """Return the times of a recording; empty if there are none. `whole`: without the last one, if its line has no end.

    Raises:
        UsageError: a line of the times is not a number.
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
        if not 0 <= time_of_line < MAX_SECONDS:  # also false for nan
            what = f"{file}:{number}: {line[:40]!r} is not a time"
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
