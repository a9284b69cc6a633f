"""Files that the calls of a turn changed: their number and lines in its view, their diffs for those who ask for them.

Only changes that the agent reports as made count: those of calls that failed, were denied or have no result are
proposals. A file has one name, however the agent gave it. `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history.details import MAX_ALL_CHARS, MAX_DIFF_LINES, MAX_FILES
from penstock.chat.history.entries import ChangesFound, FilesLeft, Numbered, TurnBegan
from penstock.chat.history.frames import ChangedFiles
from penstock.core.diffs import JoinedChanges, shorten
from penstock.repo.compared import Problem
from penstock.repo.left_files import LeftFile

MAX_COUNTED = 10_000
"""Number of files of a turn that are counted: far more than an edit has. Files after them are left out."""

MAX_PATH_CHARS = 4096
"""Characters of a path: no longer one can be opened."""

HARMLESS: frozenset[ev.ToolKind] = frozenset({"read", "search", "fetch", "think"})
"""Kinds of calls that change no file."""

MAX_LINES = 10**9
"""Lines of one change: an agent reports what it wants, and sums of it have to be numbers that every client reads."""


class OtherChanges(msgspec.Struct, omit_defaults=True):
    """Files of the directory that git found changed between the beginning and the end of a turn, by whomever."""

    changes: list[ev.Change] = []
    """One for each file that the agent did not report, or reported without its lines."""
    more_changes: int = 0
    """Number of files that are left out."""
    problem: Problem | None = None
    """Reason why git did not compare the directory in one of the turns."""


class FileChanges(msgspec.Struct, omit_defaults=True):
    """Changed files with their diffs, in the order in which they were first changed."""

    whole: bool
    """True if no turn of them still runs: nothing more is added."""
    files: int
    """Number of files."""
    changes: list[ev.Change]
    """One for each file. A path below the directory of the chat is relative to it."""
    added: int | None = None
    removed: int | None = None
    more_changes: int = 0
    """Number of files that are left out."""
    earlier: bool = False
    """True if the chat has turns before these."""
    found: OtherChanges | None = None
    """Further changes that git found; None if there are none."""


class ChangesFold:
    """Fold of events to the files that their calls changed."""

    def __init__(self, cwd: str, *, diffs: bool = False) -> None:
        """`cwd`: the directory in which the agent runs. Without `diffs` only names and counts are kept."""
        self.cwd: str = cwd
        """Directory to which the next paths are relative."""
        self.commands: int = 0
        """Number of commands that were called: files that they changed are not among those of the edits."""
        self.left: dict[str, LeftFile] = {}
        """States of the files at the end, by their paths, as far as they were noted."""
        self.is_partial: bool = False
        """True if calls may have changed more than the agent reports with its lines."""
        self.found: OtherChanges | None = None
        """Further changes that git found."""
        self._edits: set[str] = set()  # ids of the edits that have no result yet
        self._unlined: set[str] = set()  # names of the files of which a change was reported without its lines
        self._files = JoinedChanges()
        self._found = JoinedChanges()
        self._diff_chars = MAX_ALL_CHARS if diffs else 0  # that are left for diffs

    def take(self, event: ev.Event) -> None:
        """Apply the next event."""
        if isinstance(event, ev.ToolCalled):
            self.commands += event.tool_kind == "execute"
            if event.tool_kind == "edit":
                self._edits.add(event.call_id)
            elif event.tool_kind not in HARMLESS:
                self.is_partial = True
        elif isinstance(event, ev.ToolReturned):
            self._returned(event)

    def _returned(self, event: ev.ToolReturned) -> None:
        is_made = event.complete and not event.failed and not event.refused
        if event.call_id in self._edits:
            self._edits.discard(event.call_id)
            self.is_partial |= not event.refused and not (is_made and event.changes)
        for change in (event.changes if is_made else None) or ():
            self._add(change)

    def _add(self, change: ev.Change) -> None:
        path = _resolved(change.path, self.cwd)
        if len(self._files) >= MAX_COUNTED and path not in self._files:
            return
        diff, size = change.diff, len(change.diff or "")
        if diff is None:
            self.is_partial = True
            self._unlined |= {path, _resolved(change.to, self.cwd) if change.to else path}
        if size > self._diff_chars:
            diff = None
        else:
            self._diff_chars -= size
        self._files.add(
            replace(
                change,
                path=path,
                to=_resolved(change.to, self.cwd) if change.to else None,
                added=_bounded(change.added),
                removed=_bounded(change.removed),
                diff=diff,
                truncated=change.truncated or diff != change.diff,
            )
        )

    def count(self) -> ChangedFiles | None:
        """Return the number of files and lines; None if nothing was changed."""
        if not len(self._files):
            return None
        changes = self._files.changes()
        return ChangedFiles(len(changes), _total(it.added for it in changes), _total(it.removed for it in changes))

    def joined(self) -> list[ev.Change]:
        """Return the files with their whole diffs and absolute paths."""
        return self._files.changes()

    def paths(self) -> list[str]:
        """Return the names of the files, before and after."""
        return [path for it in self.joined() for path in (it.path, it.to) if path is not None]

    def add_found(self, what: ChangesFound) -> None:
        """Apply the changes that git found in a turn."""
        for change in what.changes:
            self._found.add(change)
        known = self.found or OtherChanges()
        self.found = OtherChanges([], known.more_changes + what.more, known.problem or what.problem)

    def paths_with_lines(self) -> set[str]:
        """Return the names of the files of which all changes were reported with their lines."""
        return {path for path in self.paths() if path not in self._unlined}

    def changes(self, directory: str, *, whole: bool, earlier: bool = False) -> FileChanges:
        """Return the files with their diffs; `directory`: the one below which paths are shown relative to it."""
        count = self.count() or ChangedFiles(0)
        shown, more = _shown(self._files, directory)
        found = None
        if self.found is not None:
            others, left_out = _shown(self._found, directory)
            found = OtherChanges(others, self.found.more_changes + left_out, self.found.problem)
        return FileChanges(whole, count.files, shown, count.added, count.removed, more, earlier, found)


def take_turn(fold: ChangesFold, rows: Iterable[Numbered]) -> None:
    """Apply the entries of one turn."""
    for _, _, what in rows:
        if isinstance(what, TurnBegan):
            fold.cwd = what.cwd
        elif isinstance(what, FilesLeft):
            fold.left = what.files
        elif isinstance(what, ChangesFound):
            fold.add_found(what)
        elif isinstance(what, ev.Base):
            fold.take(what)


def _shown(files: JoinedChanges, directory: str) -> tuple[list[ev.Change], int]:
    """Return files with their names relative to a directory, as far as they are shown, and the number of others."""
    named = [
        replace(it, path=_below(it.path, directory), to=_below(it.to, directory) if it.to else None)
        for it in files.changes()
    ]
    return shorten(named, MAX_ALL_CHARS, MAX_DIFF_LINES, MAX_FILES)


def _resolved(path: str, cwd: str) -> str:
    """Return the absolute path of a file. One that leads upwards stays: without the file system its end is unknown."""
    path = path[:MAX_PATH_CHARS]
    parts = path.split("/")
    if ".." in parts or not path:
        return path
    above = [] if path.startswith("/") else cwd.split("/")
    return "/" + "/".join(part for part in (*above, *parts) if part not in ("", "."))


def _below(path: str, directory: str) -> str:
    """Return a path relative to a directory that it is below; any other path stays."""
    above = directory.rstrip("/") + "/"
    return path.removeprefix(above) if above != "/" and ".." not in path.split("/") else path


def _bounded(lines: int | None) -> int | None:
    return None if lines is None else min(max(lines, 0), MAX_LINES)


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
