"""Recordings that Penstock keeps by itself for some days, so that earlier runs can be shown again.

They are in `recordings` of the data directory, which confined agents do not see. Nothing here fails a run: without the
directory, or with a full disk, the run is not kept, or only its beginning. A recording that is being written is locked,
so that no other process removes it. What is removed is only what has the name and the files of a recording.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from penstock.errors import UsageError
from penstock.run.launch import Launch
from penstock.run.recording import INPUT, META, SENT, SENT_TIMES, STDERR, TIMES, DisplayFacts, RecordingWriter

FOLDER_NAME = "recordings"

MAX_BYTES = 200 * 1000 * 1000
"""Maximum bytes of all recordings: some thousand runs, and a small part of a disk."""
MAX_RUN_BYTES = 50 * 1000 * 1000
"""Maximum bytes of the input and output of one run, so that there is space for others."""
MAX_RUNS = 2000
"""Number of recordings. All of them are looked at in each run, in about 50 ms beside the agent's start."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-[0-9a-f]{8}")
_FILES = frozenset({INPUT, TIMES, SENT, SENT_TIMES, STDERR, META, f"{META}.new"})


class KeptRecording(msgspec.Struct, frozen=True):
    """A recording in the directory."""

    name: str
    started_s: int
    """Time of its start, in seconds since 1970."""
    size: int
    """Bytes of its files."""


class Removed(msgspec.Struct):
    """Result of a removal."""

    runs: int = 0
    size: int = 0
    in_use: int = 0
    """Number of recordings that are being written, which stay."""


class Keeper:
    """Keeper of the recordings in one data directory.

    Args:
        data: the data directory.
        days: age in days from which recordings are removed.
    """

    def __init__(self, data: Path, days: int) -> None:
        self.directory: Path = data / FOLDER_NAME
        self.is_new: bool = False
        """True once this keeper has made the directory."""
        self.problem: str | None = None
        """Reason why a run was not kept, or only in part."""
        self._days = days
        self._writers: list[RecordingWriter] = []

    def begin(self, launch: Launch, display: DisplayFacts) -> RecordingWriter | None:
        """Begin the recording of a run; return None if that is not possible."""
        try:
            self._make_directory()
            writer = RecordingWriter.begin_run(self.directory, launch, display=display, max_bytes=MAX_RUN_BYTES)
        except OSError as error:
            self.problem = self.problem or f"{error.filename or self.directory}: {error.strerror or error}"
            return None
        except UsageError as error:
            self.problem = self.problem or error.what
            return None
        writer.is_announced = False
        try:
            writer.lock()
        except OSError:
            pass  # the file system has no locks
        self._writers.append(writer)
        return writer

    def over(self) -> str | None:
        """Return why a run was not kept, or only in part; None if all of it was kept."""
        return next((writer.problem for writer in self._writers if writer.problem is not None), self.problem)

    def _make_directory(self) -> None:
        """Make the directory, readable only by its owner.

        Raises:
            OSError: it cannot be made, or is something else.
        """
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self.directory.mkdir(mode=0o700)
            self.is_new = True
        except FileExistsError:
            fd = open_directory(self.directory)
            try:
                check_own(fd, self.directory)
            finally:
                os.close(fd)

    def sweep(self) -> Removed:
        """Remove recordings that are too old, and the oldest ones beyond the limits.

        Raises:
            OSError: the directory cannot be read.
        """
        oldest = int(time.time()) - self._days * 24 * 3600
        space_left, runs_left = MAX_BYTES - MAX_RUN_BYTES, MAX_RUNS  # the run that is being recorded may still grow
        needless: list[KeptRecording] = []
        for one in sorted(self.recordings(), key=lambda it: it.started_s, reverse=True):
            space_left, runs_left = space_left - one.size, runs_left - 1
            if space_left < 0 or runs_left < 0 or one.started_s < oldest:
                needless.append(one)
        return self.remove(needless)

    def recordings(self) -> Iterator[KeptRecording]:
        """Yield the recordings that Penstock keeps, in any order.

        Raises:
            OSError: the directory cannot be read.
        """
        try:
            fd = open_directory(self.directory)
        except FileNotFoundError:
            return
        try:
            check_own(fd, self.directory)
            for name in os.listdir(fd):
                if (found := _NAME.fullmatch(name)) and (
                    one := _recording(fd, name, [int(number) for number in found.groups()])
                ) is not None:
                    yield one
        finally:
            os.close(fd)

    def remove(self, recordings: list[KeptRecording]) -> Removed:
        """Remove recordings, but for those that are being written.

        Raises:
            OSError: the directory cannot be read.
        """
        done = Removed()
        if not recordings:
            return done
        fd = open_directory(self.directory)
        try:
            check_own(fd, self.directory)
            for one in recordings:
                found = _remove(fd, one.name)
                if found is None:
                    done.in_use += 1
                elif found:
                    done.runs += 1
                    done.size += one.size
        finally:
            os.close(fd)
        return done


def open_directory(path: str | Path, within: int | None = None) -> int:
    """Open a directory, which is not a link, and return its descriptor. `within` is the one of its parent.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)


def check_own(fd: int, path: Path) -> None:
    """Check that a directory belongs to this user, and that only this user can read it.

    Raises:
        OSError: it does not.
    """
    state = os.fstat(fd)
    if state.st_uid != os.geteuid():
        raise PermissionError(1, "it belongs to another user", str(path))
    if state.st_mode & 0o077:
        os.fchmod(fd, 0o700)


def _recording(directory: int, name: str, time_of_start: list[int]) -> KeptRecording | None:
    """Return the recording in a folder of this name; None if the folder has anything else in it."""
    try:
        fd = open_directory(name, directory)
    except OSError:
        return None  # removed by another process, or no folder
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            return None
        size = 0
        for file in os.listdir(fd):
            state = os.stat(file, dir_fd=fd, follow_symlinks=False)
            if file not in _FILES or not stat.S_ISREG(state.st_mode):
                return None
            size += state.st_size
        year, month, day, hour, minute, second = time_of_start
        started = int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return KeptRecording(name, started, size)


def _remove(directory: int, name: str) -> bool | None:
    """Remove one recording; return whether it is gone by this call, and None if it is being written.

    Its folder goes last, and stays if there is anything else in it.
    """
    try:
        fd = open_directory(name, directory)
    except OSError:
        return False
    try:
        if _is_being_written(fd):
            return None
        for file in sorted(_FILES):
            try:
                os.unlink(file, dir_fd=fd)
            except FileNotFoundError:
                pass
        os.rmdir(name, dir_fd=directory)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def is_being_written(path: str) -> bool:
    """Return whether the run of the recording in this folder is at work."""
    try:
        fd = open_directory(path)
    except OSError:
        return False
    try:
        return _is_being_written(fd)
    finally:
        os.close(fd)


def _is_being_written(folder: int) -> bool:
    try:
        fd = os.open(INPUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # the file system has no locks
    finally:
        os.close(fd)
    return False
