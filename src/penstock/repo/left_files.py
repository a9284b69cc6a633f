"""Files of a directory, opened folder by folder without following a link, and their state as a turn has left them.

An agent may replace any part of a path at any time. So a directory is held by its descriptor, and nothing is done by
its name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from penstock.config.regular_files import NotRegular, open_regular
from penstock.errors import UsageError

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of the largest file that is read: a text that people and agents edit is smaller."""

MAX_LEFT_FILES = 1_000
"""Number of files of a turn whose state is noted: more than anybody takes back."""

MAX_LEFT_CHARS = 64 * 1024
"""Characters of their paths, which are together in one entry of a chat."""

ABSENT = ""
"""Digest of a file that is not there."""

Obstacle = Literal["link", "hard_link", "kind", "large", "outside"]
"""Reason why a path is not read: a link at or above it, another name of the file, no regular file, its size."""


class LeftFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a file at the end of a turn."""

    digest: str
    """SHA-256 of its content in hexadecimal digits; `ABSENT` if there is none."""
    mode: int = 0
    """Permission bits."""
    is_new: bool = False
    """True if it is certain that there was none before the turn."""


class FoundFile(msgspec.Struct, frozen=True):
    """Content and status of a regular file."""

    content: bytes
    status: os.stat_result


class NotAPlainFile(Exception):
    """A path does not lead to a regular file that may be read."""

    def __init__(self, why: Obstacle) -> None:
        super().__init__(why)
        self.why: Obstacle = why


def digest_of(content: bytes | None) -> str:
    """Return the digest of a content; None stands for a file that is not there."""
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()


def parts_below(root: str, path: str) -> tuple[str, ...] | None:
    """Return the parts of an absolute path below a directory; None if it is not below it, or not a plain path."""
    above = root.rstrip("/") + "/"
    if not path.startswith(above) or "\0" in path:
        return None
    parts = tuple(path[len(above) :].split("/"))
    return None if any(part in ("", ".", "..") for part in parts) else parts


@contextmanager
def opened_root(root: str) -> Iterator[int]:
    """Open a directory, and yield its descriptor.

    Raises:
        UsageError: it is not the directory that it was: a link is in its place, or in that of one above it.
    """
    try:
        if os.path.realpath(root) != root:
            raise OSError(errno.ELOOP, "a link is in its place")
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the directory {root} cannot be opened: {reason}") from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_parent(root: int, parts: tuple[str, ...], *, makes: bool = False) -> Iterator[int]:
    """Open the directory of a file below `root`, and yield its descriptor.

    Args:
        root: descriptor of the directory.
        parts: parts of the path of the file.
        makes: make the directories that are not there.

    Raises:
        FileNotFoundError: a directory is not there.
        NotAPlainFile: a link, or another file, is in the place of one.
        OSError: one cannot be opened.
    """
    fd = os.dup(root)
    try:
        for part in parts[:-1]:
            if makes:
                try:
                    os.mkdir(part, dir_fd=fd)
                except FileExistsError:
                    pass
            inner = _opened_folder(fd, part)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _opened_folder(fd: int, name: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        is_link = stat.S_ISLNK(os.lstat(name, dir_fd=fd).st_mode)
        raise NotAPlainFile("link" if is_link else "kind") from error


def read_in(folder: int, name: str) -> FoundFile | None:
    """Return a file of an open directory; None if there is none. Nothing is waited for, also not the end of a pipe.

    Raises:
        NotAPlainFile: it is not a regular file that may be read.
        OSError: it cannot be opened or read.
    """
    try:
        fd = open_regular(name, within=folder)
    except FileNotFoundError:
        return None
    except NotRegular as error:
        raise NotAPlainFile("kind") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAPlainFile("link") from error
        raise
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if status.st_nlink > 1:
            raise NotAPlainFile("hard_link")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise NotAPlainFile("large")
    return FoundFile(content, status)


def read_below(root: int, parts: tuple[str, ...]) -> FoundFile | None:
    """Return a file below an open directory; None if there is none.

    Raises:
        NotAPlainFile, OSError: as `opened_parent` and `read_in`.
    """
    try:
        with opened_parent(root, parts) as folder:
            return read_in(folder, parts[-1])
    except FileNotFoundError:
        return None


def left_files(root: str, paths: Iterable[str], is_new: Callable[[str], bool]) -> dict[str, LeftFile]:
    """Return the state of files below a directory; without those that cannot be read, and those after the limits.

    Args:
        root: the directory.
        paths: absolute paths of the files.
        is_new: returns whether it is certain that there was none before the turn.
    """
    found: dict[str, LeftFile] = {}
    chars = 0
    try:
        with opened_root(root) as top:
            for path in paths:
                chars += len(path)
                if len(found) >= MAX_LEFT_FILES or chars > MAX_LEFT_CHARS:
                    break
                parts = parts_below(root, path)
                if parts is None or path in found:
                    continue
                try:
                    file = read_below(top, parts)
                except (NotAPlainFile, OSError, ValueError):
                    continue
                mode = 0 if file is None else stat.S_IMODE(file.status.st_mode)
                found[path] = LeftFile(digest_of(None if file is None else file.content), mode, is_new(path))
    except UsageError:
        pass
    return found
