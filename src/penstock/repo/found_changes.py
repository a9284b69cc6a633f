"""Changes that git finds in a directory between two times, whoever made them.

The two states of the work tree are compared in a private git directory with an index and objects of its own, so nothing
is written into the repository, and its index is not locked. The repository's own settings do not count there, and no
filter, hook, monitor or diff program runs: an agent could have written any of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.config.regular_files import NotRegular, open_regular
from penstock.core.diffs import named
from penstock.errors import PenstockError
from penstock.events import Change, ChangeKind
from penstock.repo.compared import Compared, Problem
from penstock.repo.diffs import KINDS, changes_between, paths_between
from penstock.repo.git import Done, Git, GitError
from penstock.run.programs import stopped_by

SECONDS = 2.0
"""Timeout in seconds for each of the two looks: an agent does not start before the first, or end before the second."""

MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Bytes of an index that is copied: that of a repository with some 500,000 files."""

MAX_SETTING_FILE_BYTES = 256 * 1024
"""Bytes of the repository's own list of ignored files."""

MAX_NAMES = 20_000
"""Number of files that differ from the index at a look: with more, git's list of ignored files is not maintained."""

MAX_READ_FILES = 2_000
"""Number of such files that are read at a look. Others are compared by size and times."""

MAX_READ_BYTES = 32 * 1024 * 1024
"""Bytes of all files that are read at a look."""

MAX_FILE_BYTES = 2 * 1024 * 1024
"""Bytes of the largest file that is read."""

MAX_TEXT_BYTES = 256 * 1024
"""Bytes of the largest file whose lines are compared; of others git says only that they differ."""

MAX_COMPARED = 100
"""Number of files whose lines are compared; others are only named."""

FOLDER = "comparisons"
"""Name of the directory in the data directory in which the private ones are made."""

OLD_SECONDS = 86_400.0
"""Age in seconds from which a private directory counts as left by a server that was killed."""

TAKEN_SETTINGS = frozenset(
    {
        "core.autocrlf",
        "core.eol",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
    }
)
"""Settings of the repository that count: they define how files are compared, and name no program and no file. Those by
which git ignores the time of a file's last change (`core.trustctime`) do not: a program can set all other times."""

OWN_SETTINGS = {
    "core.bare": "false",
    "core.bigFileThreshold": str(MAX_TEXT_BYTES),
    "core.fsync": "none",
    "core.looseCompression": "1",
    "core.safecrlf": "false",
    "core.sparseCheckout": "true",  # a mark of the index that a file is left out does not count if the file is there
}
"""Settings of the private git directory, which is removed again: speed counts, and nothing may stop it."""

NO_FILTERS = "* -filter\n"
"""Attributes that take precedence over all others: no file has a filter."""

NOT_A_REPOSITORY = 128
"""Exit status of git outside a repository, or where it does not trust one."""

LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


class _Look(NamedTuple):
    """State of the directory at one time."""

    tree: str
    status: Mapping[str, tuple[int, ...]]
    """Mode, size, times and number of each file that differs from the index."""
    unread: frozenset[str]
    """Those of them that were not read."""
    new: frozenset[str]
    """Those of them that are not in the index."""


class _CannotCompare(Exception):
    """The directory cannot be compared."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem: Problem = problem


class FoundChanges:
    """Comparison of one directory at two times. Its calls block, and raise nothing."""

    def __init__(self, directory: str, folder: Path, closed: Iterable[str] = ()) -> None:
        """Compare nothing yet.

        Args:
            directory: the directory; it may be a part of a repository.
            folder: directory in which the private one is made.
            closed: files and directories that are left out, unless the directory is in one of them.
        """
        self._directory = directory.rstrip("/") or "/"
        self._folder = folder
        above = tuple(os.path.realpath(it) for it in closed)
        self._closed = tuple(it for it in above if not _is_in(self._directory, it))
        self._private: Path | None = None
        self._git: Git | None = None
        self._below: tuple[str, ...] = ()
        self._before: _Look | None = None
        self._problem: Problem | None = None
        self._until = 0.0
        self._lock = threading.Lock()
        self._is_ended = False

    def begin(self) -> None:
        """Note the state of the directory before. Where there is no repository, nothing is done."""
        if not _has_git_above(self._directory):
            return
        with self._lock, stopped_by(lambda: self._is_ended):
            self._until = time.monotonic() + SECONDS
            try:
                if self._prepare():
                    self._unmark()
                    self._before = self._look()
            except _CannotCompare as error:
                self._problem = error.problem

    def end(self, left_out: Collection[str] = ()) -> Compared | None:
        """Return what differs since `begin`; None if there is no repository.

        `left_out`: absolute paths of files that are not compared.
        """
        if self._before is None:
            return None if self._problem is None else Compared([], self._problem)
        with self._lock, stopped_by(lambda: self._is_ended):
            self._until = time.monotonic() + SECONDS
            try:
                return Compared(self._differences(self._before, self._look(), left_out))
            except _CannotCompare as error:
                return Compared([], error.problem)

    def count(self) -> int | None:
        """Return the number of files that are changed or new since the last commit; None if it is unknown."""
        if not _has_git_above(self._directory):
            return None
        with self._lock, stopped_by(lambda: self._is_ended):
            self._until = time.monotonic() + SECONDS
            try:
                if not self._prepare():
                    return None
                commit = self._run(Git(Path(self._directory)), "rev-parse", "--verify", "HEAD^{commit}")
                if self._private is not None and commit.status == 0:
                    (self._private / "HEAD").write_text(f"{commit.text}\n")
                return _counted(self._asked("status", "--porcelain=v2", "-z", "--ignore-submodules=all").items)
            except (_CannotCompare, OSError):
                return None

    def close(self) -> None:
        """Stop what another thread may still do here, and remove the private directory."""
        self._is_ended = True
        with self._lock:
            if self._private is not None:
                shutil.rmtree(self._private, ignore_errors=True)

    def _prepare(self) -> bool:
        """Make the private git directory; return whether there is a repository."""
        words = "--show-toplevel", "--git-path", "index", "--git-path", "objects", "--git-path", "info/exclude"
        asked = Git(Path(self._directory))
        done = self._run(asked, "rev-parse", "--path-format=absolute", *words, "--show-object-format", "--show-prefix")
        if done.status == NOT_A_REPOSITORY:
            return False
        lines = done.text.split("\n")
        if len(lines) not in (5, 6):  # a path has a line feed
            raise _CannotCompare("failed")
        top, index, objects, ignored, object_format, *inner = lines
        prefix = "".join(inner).rstrip("/")
        if os.path.join(top, prefix).rstrip("/") != self._directory.rstrip("/"):
            raise _CannotCompare("failed")  # its settings name another work tree
        settings = self._settings(asked)
        with _problems():
            private = self._make_private(Path(index), objects, Path(ignored), object_format, settings)
        self._git = Git(Path(top), private, private / "index", is_private=True)
        self._below = (prefix,) if prefix else ()
        return True

    def _settings(self, git: Git) -> dict[str, str]:
        """Return the settings of the repository that count."""
        done = self._run(git, "config", "--local", "--no-includes", "--list", "-z")
        found = {}
        for item in done.items if done.status == 0 else ():
            key, newline, value = item.partition("\n")
            if key in TAKEN_SETTINGS and (value.isalnum() or not newline):
                found[key] = value if newline else "true"
        return found

    def _make_private(
        self, index: Path, objects: str, ignored: Path, object_format: str, settings: Mapping[str, str]
    ) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(self._folder)
        self._private = private = Path(tempfile.mkdtemp(dir=self._folder))
        for name in ("refs", "info", "objects/info", "objects/pack"):
            (private / name).mkdir(parents=True)
        pairs = {**settings, **OWN_SETTINGS}
        if object_format != "sha1":
            pairs |= {"core.repositoryformatversion": "1", "extensions.objectFormat": object_format}
        lines = (f"[{key.partition('.')[0]}]\n\t{key.partition('.')[2]} = {value}\n" for key, value in pairs.items())
        (private / "config").write_text("".join(lines))
        (private / "HEAD").write_text("ref: refs/heads/none\n")
        (private / "info" / "attributes").write_text(NO_FILTERS)
        (private / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        _copy(ignored, private / "info" / "exclude", MAX_SETTING_FILE_BYTES)
        _copy(index, private / "index", MAX_INDEX_BYTES)
        return private

    def _run(self, git: Git, *args: str, data: bytes = b"") -> Done:
        """Run git for as long as is left. Status 0, or that of no repository."""
        with _problems():
            return git.run(*args, data=data, seconds=self._left(), env=LITERAL, accepts=(0, NOT_A_REPOSITORY))

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0 or self._is_ended:
            raise _CannotCompare("slow")
        return left

    def _asked(self, *args: str, data: bytes = b"") -> Done:
        """Run git in the private git directory."""
        assert self._git is not None
        done = self._run(self._git, *args, data=data)
        if done.status:
            raise _CannotCompare("failed")
        return done

    def _unmark(self) -> None:
        """Remove the marks by which git passes over changed files, as an earlier turn could have set them."""
        items = self._asked("ls-files", "-v", "-z", "--", *self._below).items
        self._update([item[2:] for item in items if item[0].islower()], "--no-assume-unchanged")

    def _look(self) -> _Look:
        """Put the files that differ from the private index into it."""
        words = "--name-status", "-z", "--no-renames", "--ignore-submodules=all"
        items = self._asked("diff-files", *words, "--", *self._below).items
        letters = dict(zip(items[1::2], items[::2], strict=True))
        new = self._asked("ls-files", "-o", "--exclude-standard", "-z", "--", *self._below).items
        paths = dict.fromkeys(path for path in (*letters, *new) if not path.endswith("/"))
        if len(paths) > MAX_NAMES:
            raise _CannotCompare("large")
        assert self._git is not None
        status: dict[str, tuple[int, ...]] = {}
        gone: list[str] = []
        read: list[str] = []
        bytes_left = MAX_READ_BYTES
        for path in paths:
            place = os.path.join(self._git.work_tree, path)
            if self._is_closed(place):
                continue
            found = _status(place) if letters.get(path) != "D" else None  # a directory above may be a link now
            if found is None:
                gone.append(path)
                continue
            status[path] = found
            mode, size = found[:2]
            is_small = size <= min(MAX_FILE_BYTES, bytes_left) and len(read) < MAX_READ_FILES
            if is_small and (stat.S_ISLNK(mode) or os.access(place, os.R_OK)):
                read.append(path)
                bytes_left -= size
        self._update(gone, "--force-remove")
        self._update(read, "--add", "--remove", "--replace")
        tree = self._asked("write-tree", "--missing-ok").text
        return _Look(tree, status, frozenset(status) - frozenset(read), frozenset(new))

    def _is_closed(self, path: str) -> bool:
        return any(_is_in(path, it) for it in self._closed)

    def _update(self, paths: Sequence[str], *words: str) -> None:
        if paths:
            listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
            self._asked("update-index", *words, "-z", "--stdin", data=listed)

    def _differences(self, before: _Look, after: _Look, left_out: Collection[str]) -> list[Change]:
        assert self._git is not None
        top = self._git.work_tree
        unread = before.unread | after.unread
        kinds: dict[str, ChangeKind] = {
            path: "delete" if _status(os.path.join(top, path)) is None else _kind(path, before, after)
            for path in unread
            if before.status.get(path) != after.status.get(path)
        }
        with _problems():
            between = paths_between(self._git, before.tree, after.tree, seconds=self._left())
            wanted = [path for path, _ in between if path not in unread and os.path.join(top, path) not in left_out]
            compared = wanted[:MAX_COMPARED]
            found = {path: named(path, kind) for path, kind in kinds.items() if os.path.join(top, path) not in left_out}
            letters = dict(between)
            found |= {path: named(path, KINDS.get(letters[path], "update")) for path in wanted[MAX_COMPARED:]}
            if compared:
                changes = changes_between(
                    self._git, before.tree, after.tree, paths=compared, seconds=self._left(), env=LITERAL
                )
                found |= {it.path: it for it in changes}
        return [_shown(found[path], os.path.join(top, path)) for path in sorted(found)]


@contextlib.contextmanager
def _problems() -> Iterator[None]:
    """Raise _CannotCompare for what git or the file system raises."""
    try:
        yield
    except _CannotCompare:
        raise
    except GitError as error:
        raise _CannotCompare("slow" if error.status is None else "failed") from error
    except (PenstockError, OSError, ValueError) as error:
        raise _CannotCompare("failed") from error


def _counted(items: Sequence[str]) -> int:
    """Return the number of files in the output of `git status --porcelain=v2 -z`."""
    rest = iter(items)
    count = 0
    for item in rest:
        count += item[:1] in "12u?"
        if item.startswith("2 "):
            next(rest, None)  # the path before the file was renamed
    return count


def _kind(path: str, before: _Look, after: _Look) -> ChangeKind:
    return "add" if path in after.new and path not in before.status else "update"


def _shown(change: Change, path: str) -> Change:
    """Return a change with an absolute path, which is text, and without lines that have a secret."""
    from penstock.run.secrets import is_secret_name, secrets_in  # its patterns are slow to load

    is_secret = is_secret_name(path) or bool(change.diff and secrets_in(change.diff.encode("utf-8", "replace")))
    text = os.fsencode(path).decode("utf-8", "replace")
    return msgspec.structs.replace(change, path=text, diff=None if is_secret else change.diff)


def _has_git_above(directory: str) -> bool:
    """Return whether there may be a repository: git is started for no other directory."""
    place = Path(directory)
    return any(os.path.lexists(it / ".git") for it in (place, *place.parents))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _status(path: str) -> tuple[int, ...] | None:
    """Return the status of a file or a link; None if there is neither."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return None
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _copy(source: Path, target: Path, max_bytes: int) -> None:
    """Copy a file with its time, which the index needs. One that is not there, or not a regular file, is left out.

    Raises:
        _CannotCompare: it is too large.
        OSError: it cannot be copied.
    """
    try:
        fd = open_regular(source)
    except (FileNotFoundError, NotRegular):
        return
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _CannotCompare("large")
    target.write_bytes(content)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove_old(folder: Path) -> None:
    """Remove what servers that were killed have left."""
    for path in folder.iterdir():
        try:
            is_old = time.time() - path.lstat().st_mtime > OLD_SECONDS
        except OSError:
            continue
        if is_old:
            shutil.rmtree(path, ignore_errors=True)
