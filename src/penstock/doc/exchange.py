"""System calls that replace a file without losing a concurrent save of another program.

`exchange` is one atomic step: the document gets the new text, and the old file gets the other name. What came out can
therefore be compared with what was read, and put back. Linux has it as `renameat2(RENAME_EXCHANGE)`, macOS as
`renamex_np(RENAME_SWAP)`. Some file systems and systems have neither; `docs/doc.md` says what is not promised there.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from pathlib import Path

from penstock.config.regular_files import open_regular

AT_FDCWD = -100
"""Number that stands for the working directory, from Linux' `fcntl.h`."""

RENAME_EXCHANGE = 2
"""Flag of `renameat2`, from Linux' `fs.h`."""

RENAME_SWAP = 2
"""Flag of `renamex_np`, from macOS' `stdio.h`."""

NOT_SUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Error numbers of a system or a file system that cannot exchange two files."""

READ_BYTES = 1024 * 1024
"""Bytes that are asked for at once when a file is read."""

MAX_LEASE_SECONDS = 10.0
"""Seconds in which another program must end its lease on a file; a Samba server asks its client first."""

LEASE_SECONDS = 0.02
"""Seconds between two tries to open such a file."""


class ExchangeUnsupported(OSError):
    """This system or this file system cannot exchange two files. Nothing was changed."""


def exchange(first: Path, second: Path) -> None:
    """Exchange two files of one file system in one step; both exist before and afterwards.

    Raises:
        ExchangeUnsupported: neither the system nor the file system can do it.
        OSError: any other reason, such as EBUSY for a file that is a mount point.
    """
    import ctypes  # only a publish needs it

    libc = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(first), os.fsencode(second)
    ctypes.set_errno(0)
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(one, other, ctypes.c_uint(RENAME_SWAP))
        else:
            failed = libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, ctypes.c_uint(RENAME_EXCHANGE))
    except AttributeError:  # the C library does not have the function
        raise ExchangeUnsupported(errno.ENOSYS, os.strerror(errno.ENOSYS), str(first)) from None
    if failed:
        number = ctypes.get_errno()
        kind = ExchangeUnsupported if number in NOT_SUPPORTED else OSError
        raise kind(number, os.strerror(number), str(first), None, str(second))


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file, with links followed.

    Raises:
        NotRegular: it is something else, such as a pipe, which is not waited for.
        OSError: it cannot be read.
    """
    deadline = time.monotonic() + MAX_LEASE_SECONDS
    while True:
        try:
            fd = open_regular(path, follows=True)
            break
        except BlockingIOError:  # the holder was notified of this open
            if time.monotonic() > deadline:
                raise
            time.sleep(LEASE_SECONDS)
    try:
        parts = []
        while part := os.read(fd, READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes, offset: int = 0) -> None:
    """Write all bytes at an offset of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def write_like(path: Path, data: bytes, model: Path) -> None:
    """Create a file with the mode, the owner and the extended attributes of another, and make it durable.

    Raises:
        OSError: it cannot be created like this. It does not exist then.
    """
    facts = model.stat()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        created = os.fstat(fd)
        if (created.st_uid, created.st_gid) != (facts.st_uid, facts.st_gid):
            os.fchown(fd, facts.st_uid, facts.st_gid)
        _copy_attributes(model, fd)
        os.fchmod(fd, stat.S_IMODE(facts.st_mode))  # after the owner, whose change clears bits of the mode
        os.fsync(fd)
    except BaseException:
        os.close(fd)
        path.unlink()
        raise
    os.close(fd)


def _copy_attributes(model: Path, fd: int) -> None:
    if sys.platform != "linux":
        return
    try:
        names = os.listxattr(model)
    except OSError as error:
        if error.errno in NOT_SUPPORTED:
            return
        raise
    own = set(os.listxattr(fd))
    for name in names:
        value = os.getxattr(model, name)
        if name not in own or os.getxattr(fd, name) != value:
            os.setxattr(fd, name, value)


def write_in_place(path: Path, data: bytes, before: bytes) -> None:
    """Write a file anew through its own inode, and make it durable. If that fails, write the old content again."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        try:
            write_all(fd, data)
        except OSError:
            write_all(fd, before)
            os.ftruncate(fd, len(before))
            raise
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


def is_utf8(text: str) -> bool:
    """Return whether a text from the system can be kept: bytes that are not UTF-8 are halves of characters in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
