"""Checks of a directory that an agent could have replaced: is it the one that was made, and what in it would block git?

The checks use names, so they are reliable only while no process of an agent or a check is alive.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.config.regular_files import NotRegular, read_start
from penstock.errors import UsageError

READ_BY_GIT = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap", ".lfsconfig"})
"""Files in any directory that git, or the filter of git-lfs, opens by itself. A pipe in their place would block it."""

MAX_READ_BYTES = 100 * 1024 * 1024
"""Bytes of such a file from which git ignores it, or needs as much memory as the file is large."""

MAX_LINK_BYTES = 64 * 1024
"""Maximum bytes that are read of a file `.git`, which has only one path."""

MAX_GIT_ENTRIES = 100_000
"""Maximum number of entries of a nested git directory; git is not run on one with more."""

USERS = 0o700
"""Permissions with which the owner of a directory can list, search and change it."""


LEFT_RUNNING = "got a process that cannot be ended"
"""Reason to abandon a tree: the process may change it at any time."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a disk on which nothing can be written. The tree is not at fault then."""


class TreeAbandoned(UsageError):
    """A tree is unusable. It is left unchanged, and a new one can be made from its refs."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        """Reason as a phrase after the name of the tree: `was replaced by a link`."""
        super().__init__(f"the tree {path} {why}", help="what it had at its last round is in its refs")


@contextmanager
def changing(path: str) -> Iterator[None]:
    """Change files of a tree. If a file cannot be changed, such as an immutable one, the tree is abandoned.

    Raises:
        OSError: the disk is full, so another tree would not help.
        TreeAbandoned: the files cannot be changed.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise TreeAbandoned(path, f"cannot be put back: {error}") from error


def identity_of(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return device, inode and owner of a directory; None if it does not exist, or a link or a file is in its place.

    A directory that was removed and made again may get the same inode, and passes: it is as new and as empty as the
    first one was, and whoever made it could have put into the first one whatever is in it.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_uid) if stat.S_ISDIR(found.st_mode) else None


def problem_of(path: str, identity: tuple[int, int, int]) -> str:
    """Return why the directory at a path is not the one that was made, as a phrase; "" if it is.

    Args:
        path: its path.
        identity: device, inode and owner of the one that was made; -1 for an unknown owner.
    """
    found = identity_of(path)
    if found is None:
        return f"was replaced by a {_kind(path)}" if os.path.lexists(path) else "is gone"
    if found[:2] != identity[:2]:
        return "was replaced by another directory"
    if identity[2] not in (-1, found[2]):
        return "belongs to another user now"
    mount = mount_below(path)
    return f"has a file system mounted in it, at {mount}" if mount else ""


def mount_below(path: str) -> str:
    """Return a mount point at or below a directory; "" if there is none, or if it is unknown (not Linux)."""
    top = os.fsencode(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            points = [line.split(b" ", 5)[4] for line in file]
    except OSError:
        return ""
    for point in points:
        name = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), point) if b"\\" in point else point
        if name == top or name.startswith(top + b"/"):
            return os.fsdecode(name)
    return ""


def obstacles(top: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a tree that would block or stop git, each with the reason as a phrase.

    Directories that their owner cannot search or change get these permissions: git could neither read nor remove them.
    """
    todo = [top]
    while todo:
        folder = todo.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue  # its path is too long, or it belongs to somebody else; git reports what it cannot do
        for entry in entries:
            name = entry.name.lower()
            if name == ".git" and folder == top:
                continue
            reason = _obstacle(entry, name, top)
            if reason:
                yield entry.path, reason
            elif entry.is_dir(follow_symlinks=False):
                make_usable(entry.path)
                todo.append(entry.path)


def make_usable(folder: str) -> None:
    """Give the owner of a directory permission to list, search and change it."""
    try:
        mode = os.lstat(folder).st_mode
        if stat.S_ISDIR(mode) and mode & USERS != USERS:
            os.chmod(folder, stat.S_IMODE(mode) | USERS)
    except OSError:
        pass  # it belongs to somebody else


def move_out(path: str, folder: Path, tree: Path) -> Path:
    """Move an entry of a tree, whatever it is, to a new folder below `folder`, and return its new path.

    Nothing is read or followed. If `folder` is on another file system, the entry is moved into a new directory beside
    the tree.

    Raises:
        OSError: the entry cannot be moved.
    """
    name = os.path.basename(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = Path(tempfile.mkdtemp(dir=folder))
    try:
        os.rename(path, target / name)
    except OSError:
        target.rmdir()
        target = Path(tempfile.mkdtemp(prefix=f"{tree.name}.aside-", dir=tree.parent))
        try:
            os.rename(path, target / name)
        except OSError:
            target.rmdir()
            raise
    return target / name


def _kind(path: str) -> str:
    mode = os.lstat(path).st_mode
    return "link" if stat.S_ISLNK(mode) else "file"


def _obstacle(entry: os.DirEntry[str], name: str, top: str) -> str:
    """Return why an entry would stop git; "" if it would not."""
    if name == ".git":
        return _nested(entry.path, top)
    if name not in READ_BY_GIT or entry.is_symlink() or entry.is_dir(follow_symlinks=False):
        return ""  # git does not follow links from these names
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return "is neither a file nor a link, and git would wait for it"
    return f"has {found.st_size:,} bytes, which git would read" if found.st_size > MAX_READ_BYTES else ""


def _nested(path: str, top: str) -> str:
    """Return why a nested `.git` would stop git; "" if git can read it."""
    place = _git_directory(path)
    if place is None:
        return "is neither a file nor a directory"
    if not place:
        return ""
    is_inside, count = os.path.realpath(place).startswith(os.path.realpath(top) + os.sep), 0
    if is_inside:
        make_usable(place)
    for folder, names, files in os.walk(place):
        count += len(names) + len(files)
        if count > MAX_GIT_ENTRIES:
            return "leads to a directory with too many entries for a git directory"
        for name in (*files, *names):
            if is_inside:
                make_usable(os.path.join(folder, name))
            try:
                mode = os.stat(os.path.join(folder, name)).st_mode  # git follows links there
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return f"has a {name} that is neither a file nor a directory, and git would wait for it"
        if folder == place and "objects" in names:
            names.remove("objects")  # git only checks that it exists
    return ""


def _git_directory(path: str) -> str | None:
    """Return the directory to which a nested `.git` leads; "" if there is none, None if it is a pipe or the like."""
    try:
        if os.path.isdir(path):
            return path
        text = os.fsdecode(read_start(path, MAX_LINK_BYTES, follows=True))  # git follows a link too
    except NotRegular:
        return None
    except (OSError, ValueError):
        return ""
    if not text.startswith("gitdir: "):
        return ""
    place = os.path.join(os.path.dirname(path), text.removeprefix("gitdir: ").rstrip("\r\n"))
    return place if "\0" not in place and os.path.isdir(place) else ""
