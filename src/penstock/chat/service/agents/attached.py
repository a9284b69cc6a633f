"""Attachments of a turn as its agent gets them: files of a private directory, and what the prompt says of them.

An agent gets a picture by its own wire if its route has one, and short texts in the prompt. It reads everything else
from the directory, which also a confined run can read. The directory stays until the chat is deleted, since an agent
may read a file again in a later turn.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.chat.history.entries import AttachedFile
from penstock.chat.service.media import BINARY, PICTURES, TEXT, clean_name
from penstock.chat.store.arguments import check_chat
from penstock.config.data import open_private
from penstock.errors import UsageError
from penstock.run.inputs import MAX_IMAGE_BYTES

FOLDER = "attachments"
"""Name of the directory in the data directory."""

INLINE_BYTES = 64 * 1024
"""Bytes of a prompt with the texts in it. With them it fits into an argument, and leaves the model's context free."""

NO_TOOLS_BYTES = 512 * 1024
"""The same for an agent without tools, which could not read a file: as many as a message may have."""


class PlacedFile(NamedTuple):
    """Attachment in the directory of its chat."""

    id: str
    path: str
    media_type: str
    size: int


class AttachmentFolders:
    """Directories with the attachments of chats, one for each chat. Its calls block."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the directory that has them all. It is made when it is needed."""
        self._folder = folder

    def of(self, chat: str) -> Path:
        """Return the directory of a chat. It may not exist."""
        check_chat(chat)
        return self._folder / chat

    def place(self, chat: str, files: Iterable[tuple[AttachedFile, bytes]]) -> list[PlacedFile]:
        """Write attachments into the directory of a chat, each into one of its own, so that names do not collide.

        Raises:
            OSError: they cannot be written.
        """
        placed = []
        for file, content in files:
            folder = self.of(chat) / file.id
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / clean_name(file.name)
            with open(path, "wb", opener=open_private) as opened:
                opened.write(content)
            placed.append(PlacedFile(file.id, str(path), file.media_type, file.size))
        return placed

    def remove(self, chat: str) -> None:
        """Remove the directory of a chat."""
        shutil.rmtree(self.of(chat), ignore_errors=True)

    def keep(self, chats: Collection[str]) -> None:
        """Remove the directories of all other chats: they were deleted while this process did not run."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if name not in chats:
                shutil.rmtree(self._folder / name, ignore_errors=True)


class GivenFiles(NamedTuple):
    """What an agent gets of the attachments of a turn."""

    prompt: str
    files: tuple[str, ...]
    """Paths of the pictures and texts that go with the prompt as `penstock run --file` has it."""


def given_files(
    agent: str, prompt: str, placed: Sequence[PlacedFile], *, takes_images: bool, has_tools: bool
) -> GivenFiles:
    """Return the prompt for an agent, and the files that go with it; the prompt names all others by their paths.

    Raises:
        UsageError: the agent has no tool that could read a file.
    """
    if not placed:
        return GivenFiles(prompt, ())
    left = (INLINE_BYTES if has_tools else NO_TOOLS_BYTES) - len(prompt.encode(errors="replace"))
    files: list[str] = []
    named: list[PlacedFile] = []
    for file in placed:
        if file.media_type in PICTURES and takes_images and file.size <= MAX_IMAGE_BYTES:
            files.append(file.path)
        elif file.media_type == TEXT and file.size <= left:
            files.append(file.path)
            left -= file.size
        elif not has_tools:
            what = f"{agent} cannot read the file {os.path.basename(file.path)!r}"
            raise UsageError(what, expected="a text, or a picture if its model sees", help="use another agent")
        else:
            named.append(file)
    asked = prompt if prompt.strip() else "See the attached files."
    if named:
        asked += "\n\nAttached files, which you can read:\n" + "\n".join(_line(file) for file in named)
    return GivenFiles(asked, tuple(files))


def _line(file: PlacedFile) -> str:
    kind = "" if file.media_type == BINARY else f"{file.media_type}, "
    return f"- {unicodedata.normalize('NFC', file.path)} ({kind}{file.size:,} bytes)"
