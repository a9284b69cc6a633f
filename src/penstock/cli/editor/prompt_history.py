"""Earlier prompts of a directory, which the line editor recalls.

One file of JSON strings for each directory, below `prompts` of the data directory, readable by its owner only. Nothing
here fails a conversation: without the file, prompts are remembered until the end of the program.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import msgspec

from penstock.config.data import write_private
from penstock.config.regular_files import open_regular
from penstock.run.kept import check_own, open_directory
from penstock.sinks.sanitize import clean

FOLDER_NAME = "prompts"

MAX_ENTRIES = 1000
"""Number of prompts that are kept of a directory."""
MAX_ENTRY_CHARS = 20_000
"""Characters of the longest prompt that is kept. A longer one is a pasted file."""
MAX_BYTES = 2_000_000
"""Bytes of one file, which is read and written as a whole with each prompt."""

SUFFIX = ".ndjson"


class PromptHistory:
    """Earlier prompts of one directory.

    Args:
        data: the data directory; None: nothing is read or written.
        directory: the directory of the conversation.
    """

    def __init__(self, data: Path | None, directory: str) -> None:
        self._folder = data / FOLDER_NAME if data is not None else None
        key = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:32]
        self._name = f"{key}{SUFFIX}"
        self.error: OSError | None = None
        """Reason why prompts cannot be kept."""

    def load(self) -> list[str]:
        """Return the prompts, the oldest first, sanitized: another program may have written the file."""
        if self._folder is None:
            return []
        try:
            return [clean(entry) for entry in _entries(self._folder / self._name)]
        except OSError as error:
            self.error = error
            return []

    def append(self, prompt: str) -> None:
        """Keep a prompt, and forget the oldest ones beyond the limits."""
        if self._folder is None or not prompt or len(prompt) > MAX_ENTRY_CHARS:
            return
        try:
            self._append(self._folder, prompt)
        except OSError as error:
            self.error = error

    def _append(self, folder: Path, prompt: str) -> None:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = open_directory(folder)
        try:
            check_own(fd, folder)
            fcntl.flock(fd, fcntl.LOCK_EX)  # another conversation in this directory; it holds the lock for milliseconds
            path = folder / self._name
            entries = _entries(path)
            if entries[-1:] != [prompt]:
                write_private(path, _encoded([*entries, prompt]))
        finally:
            os.close(fd)  # which also unlocks it


def _entries(path: Path) -> list[str]:
    """Return the prompts in a file; lines that cannot be read are skipped.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return []
    with open(fd, "rb") as file:
        file.seek(max(0, os.fstat(fd).st_size - MAX_BYTES))
        data = file.read(MAX_BYTES)
    found = []
    for line in data.splitlines():
        try:
            found.append(msgspec.json.decode(line, type=str))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found[-MAX_ENTRIES:]


def _encoded(entries: list[str]) -> bytes:
    """Return the newest prompts as lines of JSON, within the limits."""
    lines: list[bytes] = []
    left = MAX_BYTES
    for entry in reversed(entries[-MAX_ENTRIES:]):
        line = msgspec.json.encode(entry.encode("utf-8", "replace").decode()) + b"\n"
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return b"".join(reversed(lines))


def clear(data: Path) -> None:
    """Forget the prompts of all directories.

    Raises:
        OSError: they cannot be removed.
    """
    folder = data / FOLDER_NAME
    try:
        fd = open_directory(folder)
    except FileNotFoundError:
        return
    try:
        check_own(fd, folder)
        for name in os.listdir(fd):
            if name.endswith((SUFFIX, f"{SUFFIX}.new")):
                os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
