"""State and copies of files in a git directory that start or redirect something, except settings, hooks and index.

An agent may have written them, so no link is followed, no pipe or device is read, and sizes and counts are limited.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.config.regular_files import read_start
from penstock.repo.place import move_out
from penstock.run import unfinished

NAMES = (
    "commondir",
    "config.worktree",
    "gitdir",
    "objects/info/alternates",
    "objects/info/http-alternates",
    *unfinished.FILES,
    "shallow",
)
"""Files of each git directory. Those of an unfinished operation can start programs."""

FOLDERS = ("branches", "info", "remotes")
"""Directories of which git reads all files. Those in the first and the last one name where it fetches from and pushes
to."""

USUAL_NAMES = frozenset(
    {"exclude", "refs", "shallow", "sparse-checkout", *(name.rpartition("/")[2] for name in unfinished.FILES)}
)
"""Files that git itself changes during a user's work, or that users edit."""

SAMPLE = ".sample"
"""Suffix of hooks that git never runs."""

MAX_FILE_BYTES = 16 << 20
"""Bytes from which a file is compared by size and times only, and is not copied; git's own files are far smaller."""

MAX_ALL_BYTES = 64 << 20
"""Maximum total bytes of files that are read; further files are compared like files that are too large."""

MAX_FILES = 5_000
"""Maximum number of files that are compared: enough for hundreds of worktrees and submodules."""

MAX_ENTRIES = 500_000
"""Maximum number of entries of a git directory that are searched for pipes: enough for many loose objects."""

MAX_DEPTH = 8
"""Maximum depth of directories in the name of a submodule, and of submodules in each other."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileDifference(msgspec.Struct, frozen=True):
    """A file that differs from its earlier state. The fields are as in `Difference`."""

    name: str
    text: str
    is_harm: bool
    restore: str


def put_pipes_aside(common: Path, git_dir: Path, aside: Path) -> list[FileDifference]:
    """Move pipes and devices out of a git directory, since git would wait for them, and return what was moved.

    Sockets stay: git itself has one there, and does not open sockets as files.

    Args:
        common: git directory that all checkouts share.
        git_dir: git directory of the checkout.
        aside: directory into which they are moved.
    """
    moved = []
    for path in (path for top in {common, git_dir} for path in _pipes(str(top))):
        try:
            place = move_out(path, aside, common.parent)
        except OSError:
            continue  # it belongs to somebody else, or is gone; git's time limit still applies
        name = os.path.relpath(path, common)
        text = f"was neither a file nor a directory, so git would have waited for it; it was moved to {place}"
        moved.append(FileDifference(name, text, True, f"rm {_quoted(place)}"))
    return moved


def _pipes(top: str) -> Iterator[str]:
    """Yield the paths of pipes and devices below a directory, and of links to them. No link is entered."""
    todo, left = [top], MAX_ENTRIES
    while todo and left > 0:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif not entry.is_file():
                try:
                    mode = os.stat(entry.path).st_mode
                except OSError:
                    continue  # a dangling link
                if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    yield entry.path


def read_git_files(common: Path, git_dir: Path, copies: Path | None = None) -> dict[str, str]:
    """Return the files by their paths from the common git directory, each with a hash of its kind, mode and content.

    Args:
        common: git directory that all checkouts share.
        git_dir: git directory of the checkout; its settings and HEAD are compared by their values, not as files.
        copies: directory into which they are copied; its earlier content is replaced.
    """
    if copies is None:
        return _Reader(common, git_dir, None).found
    new = copies.with_name(f"{copies.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    found = _Reader(common, git_dir, new).found
    shutil.rmtree(copies, ignore_errors=True)
    os.replace(new, copies)
    return found


def file_differences(
    before: Mapping[str, str], after: Mapping[str, str], common: Path, copies: Path
) -> Iterator[FileDifference]:
    """Yield the differences of files from an earlier state that has copies."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        text = "the file is new" if old is None else "the file was removed" if new is None else "the file was changed"
        is_harm = _is_harm(name, before, after)
        yield FileDifference(name, text, is_harm, _restore(name, before, after, common, copies))


def _is_harm(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a user's own work rarely makes this difference. It may add, move and remove worktrees."""
    last = name.rpartition("/")[2]
    if last in USUAL_NAMES:
        return False
    unit = _unit(name, before) or _unit(name, after)
    is_new, is_gone = not _has(before, unit), not _has(after, unit)
    if unit and name.startswith("worktrees/"):
        return not (is_new or is_gone or last in {"HEAD", "gitdir"})
    return not (unit and is_new)


def _unit(name: str, state: Mapping[str, str]) -> str:
    """Return the directory of the worktree, submodule or rebase that contains a file, or `sequencer`; "" for others."""
    parents = (name[:end] for end, character in enumerate(name) if character == "/")
    marks = {"worktrees": "gitdir", "modules": "config", "rebase-merge": "git-rebase-todo", "sequencer": "opts"}
    mark = marks.get(name.partition("/")[0])
    return next((one for one in parents if mark and f"{one}/{mark}" in state), "")


def _has(state: Mapping[str, str], folder: str) -> bool:
    return any(one.startswith(f"{folder}/") for one in state)


def _restore(name: str, before: Mapping[str, str], after: Mapping[str, str], common: Path, copies: Path) -> str:
    """Return the command that restores a file. The command does not follow a link in place of a directory."""
    parents = (name[:end] for end, character in enumerate(name) if character == "/")
    name = next((parent for parent in parents if parent in after), name)
    target, kept = common / name, copies / name
    if name not in before and not _has(before, name):
        unit = _unit(name, after)
        return f"rm -rf {_quoted(common / unit if unit and not _has(before, unit) else target)}"
    if not os.path.lexists(kept):
        return f"ls -ld {_quoted(target)}"  # it was too large to be kept, so the user can only look at it
    return f"mkdir -p {_quoted(target.parent)} && rm -rf {_quoted(target)} && cp -pPR {_quoted(kept)} {_quoted(target)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


class _Reader:
    """Reader of the files of one repository. Each directory is opened from its parent, so that no link is followed."""

    def __init__(self, common: Path, git_dir: Path, copies: Path | None) -> None:
        self.found: dict[str, str] = {}
        self._copies = copies
        own = os.path.relpath(git_dir, common)
        self._own = {os.path.normpath(f"{own}/{name}") for name in ("HEAD", "config.worktree")}
        self._left = MAX_ALL_BYTES
        try:
            fd = os.open(common, _OPEN_FOLDER & ~os.O_NOFOLLOW)  # the user may have made `.git` a link
        except OSError:
            return
        try:
            self._git_dir(fd, "", 0)
        finally:
            os.close(fd)

    def _git_dir(self, fd: int, prefix: str, depth: int) -> None:
        for name in NAMES:
            *folders, last = name.split("/")
            self._in_folders(fd, prefix, folders, last)
        for name in FOLDERS:
            with self._folder(fd, prefix, name) as folder:
                self._all(folder, f"{prefix}{name}/")
        if depth >= MAX_DEPTH:
            return
        with self._folder(fd, prefix, "worktrees") as worktrees:
            for name in _names(worktrees):
                with self._folder(worktrees, f"{prefix}worktrees/", name) as worktree:
                    if worktree is not None:
                        self._file(worktree, f"{prefix}worktrees/{name}/", "HEAD")
                        self._git_dir(worktree, f"{prefix}worktrees/{name}/", depth + 1)
        self._modules(fd, prefix, "modules", depth + 1)

    def _modules(self, fd: int, prefix: str, name: str, depth: int) -> None:
        with self._folder(fd, prefix, name) as folder:
            prefix = f"{prefix}{name}/"
            for inner in _names(folder):
                with self._folder(folder, prefix, inner) as module:
                    if module is None:
                        continue
                    names = _names(module)
                    if "config" in names or "HEAD" in names:
                        self._file(module, f"{prefix}{inner}/", "config")
                        with self._folder(module, f"{prefix}{inner}/", "hooks") as hooks:
                            self._all(hooks, f"{prefix}{inner}/hooks/")
                        self._git_dir(module, f"{prefix}{inner}/", depth)
                if folder is not None and not {"config", "HEAD"} & {*names} and depth < MAX_DEPTH:
                    self._modules(folder, prefix, inner, depth + 1)  # the name of a submodule may have slashes

    def _in_folders(self, fd: int, prefix: str, folders: list[str], last: str) -> None:
        if not folders:
            self._file(fd, prefix, last)
            return
        with self._folder(fd, prefix, folders[0]) as folder:
            if folder is not None:
                self._in_folders(folder, f"{prefix}{folders[0]}/", folders[1:], last)

    def _all(self, folder: int | None, prefix: str) -> None:
        for name in _names(folder):
            if folder is not None and not name.endswith(SAMPLE):
                self._file(folder, prefix, name)

    @contextmanager
    def _folder(self, fd: int | None, prefix: str, name: str) -> Iterator[int | None]:
        """Open a directory. Anything else in its place, such as a link, is recorded as a file."""
        opened = None
        if fd is not None and len(self.found) < MAX_FILES:
            try:
                opened = os.open(name, _OPEN_FOLDER, dir_fd=fd)
            except FileNotFoundError:
                pass
            except OSError:
                self._file(fd, prefix, name)
        try:
            yield opened
        finally:
            if opened is not None:
                os.close(opened)

    def _file(self, fd: int, prefix: str, name: str) -> None:
        path = f"{prefix}{name}"
        if path in self._own or len(self.found) >= MAX_FILES:
            return
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=fd)
                self._note(path, status, os.fsencode(target))
                if self._copies is not None:
                    self._place(path).symlink_to(target)
            elif stat.S_ISREG(status.st_mode) and status.st_size <= min(MAX_FILE_BYTES, self._left):
                self._left -= status.st_size
                content = read_start(name, MAX_FILE_BYTES, within=fd)
                self._note(path, status, content)
                if self._copies is not None:
                    place = self._place(path)
                    place.write_bytes(content)
                    place.chmod(stat.S_IMODE(status.st_mode))
            elif stat.S_ISREG(status.st_mode):
                self._note(path, status, f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}".encode())
            else:
                self._note(path, status, b"")
        except FileNotFoundError:
            return
        except OSError as error:
            self.found[path] = f"cannot be read: {error.errno}"

    def _note(self, path: str, status: os.stat_result, content: bytes) -> None:
        self.found[path] = f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"

    def _place(self, path: str) -> Path:
        assert self._copies is not None
        place = self._copies / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place


def _names(folder: int | None) -> list[str]:
    """Return the names in a directory, up to the number that is compared."""
    return sorted(os.listdir(folder))[:MAX_FILES] if folder is not None else []
