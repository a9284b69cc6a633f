"""Copies of files into a directory that confined runs write: a link that one of them has put there leads nowhere."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.config.regular_files import open_regular

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_missing(source: str, target: str) -> None:
    """Copy the regular files below a directory to where there is nothing of that name; make the directories.

    What cannot be copied is left out, so that no run can keep a later one from being confined. Directories of the
    target are opened one in the other, and no link is followed.
    """
    with suppress(OSError), _directory(os.path.dirname(target), None) as parent:
        _copy(source, os.path.basename(target), parent)


def _copy(source: str, name: str, parent: int) -> None:
    entries = list(os.scandir(source))
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    with _directory(name, parent) as target:
        there = set(os.listdir(target))
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    _copy(entry.path, entry.name, target)
                elif entry.name not in there:
                    _copy_file(entry.path, entry.name, target)


@contextmanager
def _directory(name: str, parent: int | None) -> Iterator[int]:
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def _copy_file(source: str, name: str, directory: int) -> None:
    """Copy a file under another name first, so that half of it never has its name."""
    with open(open_regular(source), "rb") as file:
        facts = os.fstat(file.fileno())
        unfinished = f".{uuid.uuid4().hex}"
        try:
            with open(os.open(unfinished, _NEW, 0o600, dir_fd=directory), "wb") as copy:
                shutil.copyfileobj(file, copy)
                os.fchmod(copy.fileno(), stat.S_IMODE(facts.st_mode) & 0o700)
            os.rename(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=directory)
            raise
