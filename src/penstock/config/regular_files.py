"""Opening and reading of regular files that another program may have replaced by something else.

A pipe would be waited for, a device may have no end, and a link leads to a file that its maker may not read. The kind
is therefore checked on the open file, after an open that waits for nothing. Links in the directories of a path are
followed; who does not trust them opens the directories one in the other, and passes the descriptor of the last one.
"""

from __future__ import annotations

import errno
import os
import stat

UNOPENED = frozenset({errno.ENXIO, errno.EOPNOTSUPP, errno.EISDIR})
"""Error numbers of an open that no regular file causes: of a socket, and of a directory that would be written."""


class NotRegular(OSError):
    """A path leads to a directory, a pipe, a device or a socket."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.ENXIO, "not a regular file", os.fspath(path))


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, within: int | None = None, follows: bool = False
) -> int:
    """Open a regular file that is there, and return its descriptor.

    Args:
        path: its path.
        flags: `os.O_RDONLY` or `os.O_RDWR`.
        within: descriptor of the directory from which a relative path leads; the working directory by default.
        follows: whether the last part of the path may be a symbolic link.

    Raises:
        NotRegular: it is something else.
        OSError: it cannot be opened. The number is `errno.ELOOP` for a link that is not followed.
        ValueError: the path has a NUL.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, dir_fd=within)
    except OSError as error:
        if error.errno in UNOPENED:
            raise NotRegular(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotRegular(path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_start(path: str | os.PathLike[str], most: int, *, within: int | None = None, follows: bool = False) -> bytes:
    """Return the first bytes of a regular file, at most `most`; the other arguments and errors are of `open_regular`.

    Raises:
        NotRegular, OSError, ValueError: it cannot be opened or read.
    """
    with open(open_regular(path, within=within, follows=follows), "rb") as file:
        return file.read(most)


def content_of(
    path: str | os.PathLike[str], most: int, *, within: int | None = None, follows: bool = False
) -> bytes | None:
    """Return the content of a regular file; None if it cannot be read, or has more than `most` bytes.

    The other arguments are those of `open_regular`.
    """
    try:
        content = read_start(path, most + 1, within=within, follows=follows)
    except (OSError, ValueError):
        return None
    return content if len(content) <= most else None
