"""All documents and loops of the data directory, for clients.

The id of a document or loop is looked up in the listing of its folder: no input from a client becomes a path.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from penstock import events as ev
from penstock.chat.errors import Conflicting, Invalid, LandingConflict, NoSuchRun
from penstock.chat.history.details import Details, details_of
from penstock.chat.history.entries import Entry, Numbered, TurnBegan
from penstock.chat.history.frames import TurnView
from penstock.chat.runs import documents, loops
from penstock.chat.runs.documents import DocumentReader
from penstock.chat.runs.loops import LoopReader
from penstock.chat.runs.recordings import events_of
from penstock.chat.runs.timeline import RunTimeline
from penstock.chat.runs.views import RoundChanges, RunDetails, RunView, StepOutput
from penstock.chat.store import permits
from penstock.config.ownership import Ownership, RunVisibility, ownership_in, write_ownership
from penstock.doc.state import FOLDER as DOCUMENTS
from penstock.doc.state import DocumentState, state_in
from penstock.errors import UsageError
from penstock.loop.fold import fold
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import FILE_NAME, process_of, read_rows
from penstock.loop.landing import land_loop
from penstock.loop.loops import FOLDER as LOOPS
from penstock.loop.loops import LoopFolder
from penstock.loop.state import LoopState
from penstock.repo.git import GitError
from penstock.repo.landing import NotLanded
from penstock.run.recording import Meta

POLL_SECONDS = 0.25
"""Seconds between two reads of a watched document or loop."""

MAX_LISTED = 200
"""Maximum number of documents and loops in the list, those used last: people do not read longer lists."""

MAX_MESSAGE_CHARS = 100_000
"""Maximum characters of a message to a loop, because every later prompt of the loop contains it."""

_log = logging.getLogger("penstock.gateway")

Reader = TypeVar("Reader", bound="RunReader")


class RunReader(Protocol):
    """Reader of one document or loop. It is used by one thread at a time."""

    def read(self) -> Iterator[tuple[int, Entry | ev.Event]]:
        """Yield the entries that are new, each with its time."""
        ...

    def details(self) -> RunDetails:
        """Return the state after the entries that were read."""
        ...

    def recording(self, turn: int) -> tuple[Path, Meta, bool]:
        """Return the recording of a turn, and whether its run may continue."""
        ...


class RunLog:
    """One watched document or loop: it is read again and again until its last viewer leaves.

    Args:
        make: makes its reader, in a thread.
    """

    def __init__(self, make: Callable[[], RunReader]) -> None:
        self.shown: RunTimeline | None = None
        """Its timeline, once it was read."""
        self._make = make
        self._reader: RunReader | None = None
        self._watchers: list[Callable[[bool], None]] = []
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> RunTimeline:
        """Read it for the first time.

        Raises:
            NoSuchRun: it does not exist, or cannot be read.
        """
        self._reader = await asyncio.to_thread(self._make)
        timeline = RunTimeline()
        await self._read(self._reader, timeline)
        self.shown = timeline
        if self._watchers:
            self._task = asyncio.create_task(self._follow(self._reader, timeline), name="penstock run")
        return timeline

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Call `watcher` whenever the timeline has changed, with True if clients should see it at once."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[bool], None]) -> None:
        """Stop calling `watcher`."""
        self._watchers.remove(watcher)
        if not self._watchers and self._task is not None:
            self._task.cancel()

    async def _read(self, reader: RunReader, timeline: RunTimeline) -> tuple[bool, bool]:
        """Read the new entries. Return whether anything has changed, and whether clients should see it at once."""
        entries, details = await asyncio.to_thread(lambda: ([*reader.read()], reader.details()))
        is_urgent = timeline.take(entries)
        is_changed = timeline.show(details)
        return bool(entries) or is_changed, is_urgent or is_changed

    async def _follow(self, reader: RunReader, timeline: RunTimeline) -> None:
        while self._watchers:
            await asyncio.sleep(POLL_SECONDS)
            try:
                has_changed, is_urgent = await self._read(reader, timeline)
            except (UsageError, OSError, ValueError) as error:
                _log.warning("a document or loop cannot be read: %s", error)
                continue  # it is being written, or was removed: try again while a client watches
            if has_changed:
                for watcher in [*self._watchers]:
                    watcher(is_urgent)


class Runs:
    """Documents and loops of one data directory.

    Args:
        data: the data directory; None: there is none, and the list is empty.
    """

    def __init__(self, data: Path | None) -> None:
        self.data = data
        """Data directory; None if there is none."""
        self._states: dict[str, tuple[int, LoopState]] = {}  # of loops, with the sizes of their journals

    async def listed(self, sees: Callable[[Ownership], bool]) -> list[RunView]:
        """Return the documents and loops that somebody sees, the one used last first."""
        return await asyncio.to_thread(self._listed, sees)

    async def folder(self, id: str) -> Path:
        """Return the folder of a document or loop, which has its ownership.

        Raises:
            NoSuchRun: it does not exist.
        """
        return await asyncio.to_thread(self._folder, id)

    async def change(self, id: str, *, person: str | None, visibility: RunVisibility | None) -> RunDetails:
        """Change to whom a document or loop belongs, or who sees it, and return it; None stays as it is.

        Raises:
            NoSuchRun: it does not exist.
        """

        def write() -> RunDetails:
            folder = self._folder(id)
            permits.check()  # a document or loop is no row of the store
            before = ownership_in(folder)
            write_ownership(folder, Ownership(person or before.person, visibility or before.visibility))
            return _read_on(self._reader(id)).details()

        return await asyncio.to_thread(write)

    async def details(self, id: str) -> RunDetails:
        """Return one document or loop.

        Raises:
            NoSuchRun: it does not exist, or cannot be read.
        """
        return await asyncio.to_thread(lambda: _read_on(self._reader(id)).details())

    def log(self, id: str) -> RunLog:
        """Return the log of a document or loop for its watchers."""
        return RunLog(lambda: self._reader(id))

    async def turn(self, id: str, turn: int) -> list[ev.Event]:
        """Return the events of a turn.

        Raises:
            NoSuchRun: it does not exist.
        """

        def read() -> list[ev.Event]:
            path, _, is_live = _read_on(self._reader(id)).recording(turn)
            return events_of(path, is_live=is_live)

        return await asyncio.to_thread(read)

    async def turn_details(self, id: str, turn: int) -> Details:
        """Return the details of a turn.

        Raises:
            NoSuchRun: it does not exist.
        """

        def read() -> Details:
            reader = self._reader(id)
            timeline = RunTimeline()
            timeline.take(reader.read())
            path, meta, is_live = reader.recording(turn)
            view = timeline.turns.turns.get(turn) or TurnView(turn, "", agent=meta.agent)
            began = Numbered(0, view.began_at or 0, TurnBegan(turn, meta.agent, ""))
            events = enumerate(events_of(path, is_live=is_live), 1)
            return details_of(view, [began, *(Numbered(n, began.at + (event.at or 0), event) for n, event in events)])

        return await asyncio.to_thread(read)

    async def output(self, id: str, step: int) -> StepOutput:
        """Return the output of a command of a loop.

        Raises:
            NoSuchRun: there is no such loop or step, or it has no output.
        """
        return await asyncio.to_thread(lambda: self._read_loop(id).output(step))

    async def changes(self, id: str, number: int, candidate: int = 0) -> RoundChanges:
        """Return the changes of a round of a loop, or of a candidate in it, by its number from 1.

        Raises:
            NoSuchRun: there is no such loop, round or candidate, or it has no changes.
        """
        return await asyncio.to_thread(lambda: self._read_loop(id).changes(number, candidate))

    async def stop(self, id: str, *, now: bool) -> RunDetails:
        """Ask a loop to end after its step, or at once, and return it.

        Raises:
            NoSuchRun: there is no such loop.
            Conflicting: it does not run.
        """

        def put() -> RunDetails:
            reader = self._read_loop(id)
            if not reader.is_live:
                raise Conflicting("the loop does not run", expected="a loop that runs")
            permits.check()
            LoopInbox(reader.folder).put("stop_now" if now else "stop")
            return reader.details()

        return await asyncio.to_thread(put)

    async def land(self, id: str, *, squash: bool) -> RunDetails:
        """Merge the result of a loop into the branch that is checked out, and return the loop.

        Raises:
            NoSuchRun: there is no such loop.
            Conflicting: it runs, or has nothing to land.
            LandingConflict: files are in conflict or in the way. Nothing was changed.
        """

        def merge() -> RunDetails:
            reader = self._read_loop(id)
            assert self.data is not None  # it has the loop
            loop = reader.details().loop
            if loop is None or not loop.can_land:
                raise Conflicting("the loop cannot be landed", expected="a loop that has ended, with a commit")
            permits.check()
            try:
                result, _ = land_loop(self.data, LoopFolder(reader.folder, reader.state), squash=squash)
            except GitError as error:
                raise Conflicting(error.what, help=error.help) from error
            if isinstance(result, NotLanded):
                raise LandingConflict(result.reason, help=result.help, paths=result.conflicts)
            return _read_on(reader).details()

        return await asyncio.to_thread(merge)

    async def message(self, id: str, text: str) -> RunDetails:
        """Write to the agents of a loop, or answer its question, and return it.

        Raises:
            NoSuchRun: there is no such loop.
            Invalid: the text is empty or too long.
        """
        if not text.strip():
            raise Invalid("the message is empty", expected="what you want to say")
        if len(text) > MAX_MESSAGE_CHARS:
            raise Invalid("the message is too long", expected=f"at most {MAX_MESSAGE_CHARS:,} characters")

        def put() -> RunDetails:
            reader = self._read_loop(id)
            permits.check()
            LoopInbox(reader.folder).put("message", text, is_of_person=True)
            return reader.details()

        return await asyncio.to_thread(put)

    # --- in a thread ---

    def _listed(self, sees: Callable[[Ownership], bool]) -> list[RunView]:
        seen = [(id, state) for id, state in self._documents() if sees(ownership_in(state.directory))]
        found = [documents.view_of(id, state) for id, state in seen]
        for id, folder in self._loops():
            ownership = ownership_in(folder)
            if not sees(ownership):
                continue
            with contextlib.suppress(UsageError, OSError, ValueError):  # begun and not written, or of another version
                is_live = process_of(folder) is not None  # before its rows
                state = self._loop_state(folder)
                found.append(loops.view_of(id, state, ownership, is_live=is_live and state.ended is None))
        return sorted(found, key=lambda run: run.used_at, reverse=True)[:MAX_LISTED]

    def _reader(self, id: str) -> RunReader:
        for document, state in self._documents():
            if document == id:
                return DocumentReader(id, state)
        return self._loop(id)

    def _folder(self, id: str) -> Path:
        """Return the folder of a document or loop.

        Raises:
            NoSuchRun: it does not exist.
        """
        for loop, folder in self._loops():
            if loop == id:
                return folder
        for document, state in self._documents():
            if document == id:
                return state.directory
        raise NoSuchRun

    def _loop(self, id: str) -> LoopReader:
        """Return the reader of a loop.

        Raises:
            NoSuchRun: there is no loop with this id.
        """
        for loop, folder in self._loops():
            if loop == id:
                return LoopReader(id, folder)
        raise NoSuchRun

    def _read_loop(self, id: str) -> LoopReader:
        """Return the reader of a loop, after it has read all rows."""
        return _read_on(self._loop(id))

    def _loop_state(self, folder: Path) -> LoopState:
        """Return the state of a loop, which is folded again only if its journal has grown."""
        size = (folder / FILE_NAME).stat().st_size
        known = self._states.get(folder.name)
        if known is None or known[0] != size:
            known = self._states[folder.name] = (size, fold(read_rows(folder)))
        return known[1]

    def _loops(self) -> Iterator[tuple[str, Path]]:
        if self.data is not None:
            for folder in folders(self.data / LOOPS):
                yield f"loop-{folder.name}", folder

    def _documents(self) -> Iterator[tuple[str, DocumentState]]:
        if self.data is None:
            return
        for folder in folders(self.data / DOCUMENTS):
            with contextlib.suppress(UsageError):  # it is damaged: `penstock doc status` reports it
                state = state_in(self.data, folder)
                if state is not None and state.directory.name == folder.name:
                    yield f"doc-{hashlib.sha256(folder.name.encode()).hexdigest()[:16]}", state


def _read_on(reader: Reader) -> Reader:
    """Read all rows that are new, and return the reader."""
    for _ in reader.read():
        pass
    return reader


def folders(path: Path) -> list[Path]:
    """Return the directories in a directory. Links are left out: they may lead elsewhere."""
    try:
        return sorted(it for it in path.iterdir() if it.is_dir() and not it.is_symlink())
    except OSError:
        return []
