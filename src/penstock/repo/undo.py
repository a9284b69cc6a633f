"""The changes of a turn, taken back or made again, in files that are exactly as the turn left or found them.

The diffs of a turn are what its agent reported, so they are data that may be wrong, or meant to do harm. They show what
a file was before; what it was after is known by its digest at the end of the turn (`left_files`). A file is changed if
both fit, it is a text in the directory, and it does not start programs. All other files stay.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from penstock.events import Change
from penstock.repo import patches
from penstock.repo.file_undo import REASONS, Does, FileUndo, Reason
from penstock.repo.held import has_git_name
from penstock.repo.left_files import (
    ABSENT,
    FoundFile,
    LeftFile,
    NotAPlainFile,
    digest_of,
    opened_parent,
    opened_root,
    parts_below,
    read_below,
)
from penstock.repo.project_files import ProjectRules, folded
from penstock.repo.replace_file import Changed, make_file, remove_file, replace_file


class _Stays(Exception):
    """A file cannot be taken back."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class _Side(msgspec.Struct, frozen=True):
    """A file before or after a turn: its name, and its content; None if it does not exist."""

    parts: tuple[str, ...]
    content: bytes | None


class TurnUndo:
    """Changes of one turn, to be taken back or made again. Its calls block.

    Args:
        root: directory of the turn, with all links resolved.
        changes: files that the turn changed, each once, in the order of their first change; paths are absolute.
        left: their states at the end of the turn, by their paths.
        redo: make the changes again after they were taken back.
        patterns: patterns of files that start programs: see `ProjectFiles` in `penstock.agents`.
        closed: files and directories that nothing is written to.
    """

    def __init__(
        self,
        root: str,
        changes: Sequence[Change],
        left: Mapping[str, LeftFile],
        *,
        redo: bool = False,
        patterns: Collection[str] = (),
        closed: Collection[str] = (),
    ) -> None:
        self._root = root
        self._changes = changes
        self._left = left
        self._redo = redo
        self._rules = ProjectRules(patterns, (), {})
        self._closed = [os.path.realpath(path) for path in closed]
        self._planned: dict[tuple[str, ...], bytes | None] = {}

    def plan(self) -> list[FileUndo]:
        """Return what would be done to each file now. Nothing is written.

        Raises:
            UsageError: the directory is not there, or is another one.
        """
        self._planned.clear()
        return self._each(self._note)

    def apply(self) -> list[FileUndo]:
        """Do it, and return what was done to each file. Each is changed in one step, or not at all.

        Raises:
            UsageError: the directory is not there, or is another one. Nothing is done.
        """
        self._planned.clear()
        return self._each(self._make)

    def _each(self, do: Callable[[int, _Side, _Side, int | None], None]) -> list[FileUndo]:
        with opened_root(self._root) as root:
            order = self._changes if self._redo else self._changes[::-1]  # a later file may have an earlier one's name
            found = [self._one(root, change, do) for change in order]
        return found if self._redo else found[::-1]

    def _one(self, root: int, change: Change, do: Callable[[int, _Side, _Side, int | None], None]) -> FileUndo:
        path, to = self._shown(change.path), None if change.to is None else self._shown(change.to)
        try:
            now, wanted = self._sides(root, change)
            if now != wanted:
                do(root, now, wanted, self._left[change.path].mode if self._redo and change.kind == "add" else None)
        except _Stays as stays:
            return FileUndo(path, "stay", to, stays.reason, REASONS[stays.reason])
        except Changed:
            return FileUndo(path, "stay", to, "changed", REASONS["changed"])
        except NotAPlainFile as error:
            return FileUndo(path, "stay", to, error.why, REASONS[error.why])
        except (OSError, ValueError) as error:
            text = f"{REASONS['failed']}: {getattr(error, 'strerror', None) or error}"
            return FileUndo(path, "stay", to, "failed", text)
        return FileUndo(path, _does(now, wanted), to)

    # --- what a file is, and what it becomes ---

    def _sides(self, root: int, change: Change) -> tuple[_Side, _Side]:
        """Return a file as it is now, and as it becomes; both are equal if it is as wanted already.

        Raises:
            _Stays: it stays as it is.
            NotAPlainFile, OSError: it cannot be read.
        """
        old, new = self._parts(change.path), self._parts(change.to or change.path)
        diff = _diff_of(change)
        was, has = self._read(root, old), self._read(root, new)
        left = self._left.get(change.to or change.path)
        if left is None:
            raise _Stays("unknown")
        digest = ABSENT if change.kind == "delete" else left.digest  # its name may be that of another file by now
        is_new = old == new and left.is_new
        if not left.is_new and (old != new or change.kind == "add"):
            raise _Stays("overwritten")
        if digest_of(has) == digest and (old == new or was is None):
            after = _Side(new, has)
            return after, after if self._redo else _Side(old, _before(diff, has, is_new=is_new))
        if (old != new and has is not None) or (was is None) != is_new:
            raise _Stays("changed")
        made = _after(diff, was, is_gone=change.kind == "delete")
        if digest_of(made) != digest:
            raise _Stays("changed")
        before = _Side(old, was)
        return before, _Side(new, made) if self._redo else before

    def _parts(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path below the directory.

        Raises:
            _Stays: it leads elsewhere, or to a file that is not for people to edit.
        """
        parts = parts_below(self._root, path)
        if parts is None:
            raise _Stays("outside")
        names = tuple(map(folded, parts))
        meant = (self._rules.meant(names[:end]) for end in range(1, len(names) + 1))
        starts = any(it is not None and it.kind == "starts" for it in meant)
        is_closed = any(path == it or path.startswith(it.rstrip("/") + "/") for it in self._closed)
        if starts or is_closed or has_git_name("/".join(names)):
            raise _Stays("protected")
        return parts

    def _read(self, root: int, parts: tuple[str, ...]) -> bytes | None:
        if parts in self._planned:
            return self._planned[parts]
        found = read_below(root, parts)
        return None if found is None else found.content

    def _shown(self, path: str) -> str:
        parts = parts_below(self._root, path)
        return path if parts is None else "/".join(parts)

    # --- doing it ---

    def _note(self, root: int, now: _Side, wanted: _Side, mode: int | None) -> None:
        """Note what a file would be, for those that follow in the plan."""
        self._planned |= {now.parts: None, wanted.parts: wanted.content}

    def _make(self, root: int, now: _Side, wanted: _Side, mode: int | None) -> None:
        """Make a file as it is wanted, if it still is as it was read.

        Raises:
            Changed, NotAPlainFile, OSError: it is not changed.
        """
        if now.content is None:
            assert wanted.content is not None
            with opened_parent(root, wanted.parts, makes=True) as folder:
                make_file(folder, wanted.parts[-1], wanted.content, mode)
            return
        found = read_below(root, now.parts)
        if found is None or found.content != now.content:
            raise Changed
        with opened_parent(root, now.parts) as folder:
            if wanted.content is None:
                remove_file(folder, now.parts[-1], found)
            elif now.parts == wanted.parts:
                replace_file(folder, now.parts[-1], found, wanted.content)
            else:
                self._move(root, folder, now.parts[-1], found, wanted.parts, wanted.content)

    def _move(self, root: int, folder: int, name: str, found: FoundFile, to: tuple[str, ...], content: bytes) -> None:
        """Give a file another name and content. If it cannot lose its old name, it does not get the new one."""
        mode = stat.S_IMODE(found.status.st_mode)
        with opened_parent(root, to, makes=True) as target:
            make_file(target, to[-1], content, mode)
            try:
                remove_file(folder, name, found)
            except BaseException:
                remove_file(target, to[-1], FoundFile(content, found.status))
                raise


def _does(now: _Side, wanted: _Side) -> Does:
    if now == wanted:
        return "nothing"
    if now.parts != wanted.parts:
        return "move"
    if now.content is None:
        return "write"
    return "remove" if wanted.content is None else "restore"


def _diff_of(change: Change) -> str:
    """Return the whole diff of a change; "" if the content is the same before and after.

    Raises:
        _Stays: what the file was before is not known.
    """
    if change.truncated:
        raise _Stays("cut")
    if change.diff is None:
        if change.added == 0 and change.kind in ("add", "move"):  # an empty file, or a new name alone
            return ""
        raise _Stays("counted")
    if change.kind != "add" and (change.added is None or change.removed is None):
        raise _Stays("overwritten")  # written as a whole after other changes
    if not patches.is_positioned(change.diff):
        raise _Stays("unplaced")
    return change.diff


def _before(diff: str, after: bytes | None, *, is_new: bool) -> bytes | None:
    """Return the content of a file before a change; there was none if it is new.

    Raises:
        _Stays: the diff is not that of this file.
    """
    try:
        text = patches.taken_back(diff, _text(after))
        if patches.applied(diff, text) != _text(after):
            raise _Stays("unfit")
    except patches.PatchMismatch:
        raise _Stays("unfit") from None
    if is_new and text:
        raise _Stays("unfit")
    return None if is_new else text.encode()


def _after(diff: str, before: bytes | None, *, is_gone: bool) -> bytes | None:
    """Return the content of a file after a change; there is none if it is gone.

    Raises:
        _Stays: the file is not as it was before the change.
    """
    try:
        text = patches.applied(diff, _text(before))
        if patches.taken_back(diff, text) != _text(before):
            raise _Stays("changed")
    except patches.PatchMismatch:
        raise _Stays("changed") from None
    if is_gone and text:
        raise _Stays("changed")
    return None if is_gone else text.encode()


def _text(content: bytes | None) -> str:
    """Return a content as text.

    Raises:
        _Stays: it is not text.
    """
    if content is None:
        return ""
    if b"\0" in content:
        raise _Stays("binary")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _Stays("binary") from None
