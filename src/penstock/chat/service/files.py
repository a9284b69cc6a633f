"""Files of a chat's directory, read for clients: their names, a part of a text file, or a picture.

A path comes from a client, who has it from the text of an agent. It leads to a regular file in the directory, with all
links resolved, or nowhere. An agent may replace any part of the path meanwhile: the resolved path is opened folder by
folder, without following links.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

import msgspec

from penstock.chat.errors import ChatError, ContentTooLarge, Invalid
from penstock.chat.service.media import PICTURES, media_type_of
from penstock.config.regular_files import read_start
from penstock.errors import UsageError
from penstock.repo.directory_files import DirectoryFiles, matching
from penstock.repo.left_files import NotAPlainFile, opened_parent, opened_root, parts_below

MAX_PATH_BYTES = 4096
"""Bytes of the longest path, as Linux has it."""

MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of the largest text file: all of it is read to count its lines."""

MAX_PICTURE_BYTES = 16 * 1024 * 1024
"""Bytes of the largest picture; a photograph has less."""

SHOWN_LINES = 4000
"""Lines that are sent of a file, around the one that was asked for: more than a person reads, and soon drawn."""

MAX_NAMES = 50
"""Names that are offered at once: more than a person reads."""

KEPT_DIRECTORIES = 4
"""Directories whose names are kept while somebody types: each may have some megabytes."""

MAX_LINE_CHARACTERS = 2000
"""Characters that are sent of a line."""


class NoSuchFile(ChatError):
    """The directory has no such file, or none that may be read."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("there is no such file in the directory of this chat")


class UnreadableFile(ChatError):
    """The file is of another kind, or too large."""

    code = "conflict"
    status = 409


class FileView(msgspec.Struct):
    """Part of a text file."""

    path: str
    """Path in the directory of the chat, with links resolved."""
    first: int
    """Number of the first line in `lines`."""
    lines: list[str]
    total: int
    """Number of lines of the file."""


class FileNames(msgspec.Struct):
    """Files and folders of a directory whose paths have what was asked for."""

    paths: list[str]
    """Paths in the directory, those of folders with a slash at the end, the most likely ones first."""


class DirectoryNames:
    """Names of the files in the directories of chats, for completion. Its calls block."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, DirectoryFiles] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, root: str, typed: str, hidden: Iterable[str] = ()) -> FileNames:
        """Return the files and folders of a directory whose paths contain what is typed, whatever its case.

        Hidden files, and those that git ignores, are left out, and so is what leads out of the directory `root` or into
        one of the paths `hidden`.

        Raises:
            Invalid: no path has this.
            NoSuchFile: the directory is another one than it was.
        """
        if "\0" in typed or len(os.fsencode(typed)) > MAX_PATH_BYTES:
            raise Invalid("this cannot be a part of the path of a file")
        if os.path.realpath(root) != root:
            raise NoSuchFile
        out_of_sight = [os.path.realpath(it) for it in hidden]

        def is_shown(path: str) -> bool:
            real = os.path.realpath(os.path.join(root, path))
            is_there = os.path.isdir(real) if path.endswith("/") else os.path.isfile(real)
            return is_there and is_inside(real, root) and not any(is_inside(real, it) for it in out_of_sight)

        names = (path for path in self._files(root).paths() if "/." not in f"/{path}")
        return FileNames([*islice(filter(is_shown, matching(names, typed)), MAX_NAMES)])

    def _files(self, root: str) -> DirectoryFiles:
        with self._lock:
            found = self._kept.setdefault(root, DirectoryFiles(root))
            self._kept.move_to_end(root)
            if len(self._kept) > KEPT_DIRECTORIES:
                self._kept.popitem(last=False)
            return found


def read_text(root: str, path: str, line: int, hidden: Iterable[str] = ()) -> FileView:
    """Return the lines of a file around a line; 0 stands for the first.

    Raises:
        Invalid: it cannot be a path.
        NoSuchFile: the directory `root` has no such file, or it is in one of the paths `hidden`.
        UnreadableFile: it is not text, or too large.
    """
    name, data = _read(root, path, MAX_TEXT_BYTES, hidden)
    if b"\0" in data:
        raise UnreadableFile("the file is not text")
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines.pop()
    first = max(0, min(line - SHOWN_LINES // 2, len(lines) - SHOWN_LINES))
    shown = [it[:MAX_LINE_CHARACTERS] for it in lines[first : first + SHOWN_LINES]]
    return FileView(name, first + 1, shown, len(lines))


def read_picture(root: str, path: str, hidden: Iterable[str] = ()) -> tuple[bytes, str]:
    """Return a picture and its media type, which its first bytes decide.

    Raises:
        Invalid: it cannot be a path.
        NoSuchFile: the directory `root` has no such file, or it is in one of the paths `hidden`.
        UnreadableFile: it is not a picture, or too large.
    """
    _, data = _read(root, path, MAX_PICTURE_BYTES, hidden)
    try:
        media = media_type_of(data)
    except ContentTooLarge as error:
        raise UnreadableFile(error.what, expected=error.expected) from error
    if media in PICTURES:
        return data, media
    raise UnreadableFile("the file is not a picture", expected="PNG, JPEG, GIF or WebP")


def _read(root: str, path: str, most: int, hidden: Iterable[str]) -> tuple[str, bytes]:
    """Return the path of a file below the directory, and its content."""
    if not path or "\0" in path or len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise Invalid("this cannot be the path of a file")
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, path))
    name = os.path.relpath(real, real_root)
    is_moved = real_root != root  # the chat has its directory with links resolved: this one became a link later
    if is_moved or not is_inside(real, real_root) or any(is_inside(real, os.path.realpath(it)) for it in hidden):
        raise NoSuchFile
    try:
        data = _start_of(real_root, name, most + 1)
    except (OSError, NotAPlainFile, UsageError) as error:
        raise NoSuchFile from error
    if len(data) > most:
        raise UnreadableFile("the file is too large", expected=f"at most {most // 1024 // 1024} MB")
    return name, data


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is that of a directory or below it. Both have all links resolved."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _start_of(root: str, name: str, most: int) -> bytes:
    """Return the first bytes of a file below a directory, without following any link.

    Raises:
        OSError, NotAPlainFile, UsageError: there is no such file, or a link is in its path.
    """
    parts = parts_below(root, os.path.join(root, name))
    if parts is None:
        raise OSError(errno.ELOOP, "the path leads out")
    with opened_root(root) as top, opened_parent(top, parts) as folder:
        return read_start(parts[-1], most, within=folder)
