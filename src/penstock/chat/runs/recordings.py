"""Events of one recording, read as it grows."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from penstock import events as ev
from penstock.agents import registry
from penstock.chat.errors import NoSuchRun
from penstock.config.regular_files import open_regular
from penstock.errors import PenstockError
from penstock.run import recording
from penstock.run.recording import Meta, read_meta
from penstock.run.replay import Recording, find
from penstock.stream import Stream

READ_BYTES = 4 * 1024 * 1024
"""Bytes of a recording that are read at once; the limit leaves time for other clients."""


class RecordingReader:
    """Reader of the events of a recording that another process writes.

    Args:
        folder: folder of the recording.
    """

    def __init__(self, folder: Path) -> None:
        self.over: bool = False
        """True if its end was read."""
        self._input = folder / recording.INPUT
        self._times_file = folder / recording.TIMES
        self._folder = folder
        self._stream: Stream | None = None
        self._offset = self._times_offset = 0
        self._rest = self._times_rest = b""
        self._times: list[int] = []
        self._lines = 0

    def read(self, *, is_live: bool) -> list[ev.Event]:
        """Return the new events. `is_live`: the run may continue if its end is not recorded."""
        if self.over:
            return []
        found = self._found()
        if found is None:
            self.over = not is_live
            return []
        # The end is read before the bytes, so that with an end all bytes are there.
        has_ended = found.exit is not None or not is_live
        stream = self._opened(found)
        events: list[ev.Event] = []
        while True:
            data = self._more(self._input, self._offset)
            self._offset += len(data)
            events += self._feed(stream, data)
            if not data:
                break
        if has_ended:
            self.over = True
            if self._rest and found.cut is None:
                events += stream.feed(self._rest, self._at())
            events += stream.close(found.exit, self._at())
        return events

    def _found(self) -> Recording | None:
        try:
            return find(self._folder) if self._input.is_file() else None
        except PenstockError:
            return Recording(input=self._input, cut="its meta.json cannot be read")

    def _opened(self, found: Recording) -> Stream:
        if self._stream is None:
            try:
                adapter = registry.make(found.agent or "generic", is_resumed=found.is_resumed)
            except PenstockError:
                adapter = registry.make("generic")  # an agent of another version, or of a plug-in
            self._stream = Stream(adapter)
        return self._stream

    def _feed(self, stream: Stream, data: bytes) -> list[ev.Event]:
        self._read_times()
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[ev.Event] = []
        for line in lines:
            events += stream.feed(line + b"\n", self._at())
            self._lines += 1
        return events

    def _at(self) -> int | None:
        if not self._times:
            return None
        return self._times[min(self._lines, len(self._times) - 1)]

    def _read_times(self) -> None:
        """Read the new times; they are written after their lines, so the newest ones may not be there yet."""
        while data := self._more(self._times_file, self._times_offset):
            self._times_offset += len(data)
            *lines, self._times_rest = (self._times_rest + data).split(b"\n")
            for line in lines:
                try:
                    self._times.append(int(float(line) * 1000))
                except (ValueError, OverflowError):
                    self._times.append(self._times[-1] if self._times else 0)

    @staticmethod
    def _more(path: Path, offset: int) -> bytes:
        try:
            fd = open_regular(path)
        except OSError:
            return b""
        try:
            return os.pread(fd, READ_BYTES, offset)
        finally:
            os.close(fd)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is in a folder, wherever its links lead."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def recordings_in(folder: Path, owner: Path) -> list[tuple[Path, Meta, int]]:
    """Return the recordings in a folder with their metadata and their start in milliseconds, the oldest first.

    Links that lead out of the folder of the owner are not followed.
    """
    found = []
    try:
        if not is_inside(folder, owner):
            return []
        entries = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    for path in entries:
        try:
            meta = read_meta(path)
        except PenstockError:
            continue
        if meta is not None:
            found.append((path, meta, started_at(meta)))
    return sorted(found, key=lambda one: (one[2], one[0].name))


def started_at(meta: Meta) -> int:
    """Return the start of a recording in milliseconds since 1970; 0 if it is damaged."""
    try:
        return int(datetime.fromisoformat(meta.started_at).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def events_of(folder: Path, *, is_live: bool) -> list[ev.Event]:
    """Return all events of a recording so far.

    Raises:
        NoSuchRun: there is no recording.
    """
    if not (folder / recording.INPUT).is_file():
        raise NoSuchRun("the run has no recording")
    return RecordingReader(folder).read(is_live=is_live)
