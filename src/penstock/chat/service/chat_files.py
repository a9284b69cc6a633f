"""Files in the directories of chats, for clients that see the chat."""

from __future__ import annotations

import asyncio

from penstock.chat.errors import Conflicting
from penstock.chat.service import files
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.files import DirectoryNames, FileNames, FileView
from penstock.chat.service.nodes import ThisNode


class ChatFiles:
    """Files in the directories of the chats of one service, as far as they are on this machine."""

    def __init__(self, chats: Chats, this_node: ThisNode, hidden: tuple[str, ...]) -> None:
        """`hidden`: files and directories that are not shown."""
        self._chats = chats
        self._this_node = this_node
        self._hidden = hidden
        self._names = DirectoryNames()

    async def text(self, id: str, path: str, line: int) -> FileView:
        """Return a part of a text file in the directory of a chat.

        Raises:
            NoSuchChat: there is no such chat.
            Conflicting: the directory is on another machine.
            Invalid, NoSuchFile, UnreadableFile: as `files.read_text`.
        """
        return await asyncio.to_thread(files.read_text, self._directory(id), path, line, self._hidden)

    async def names(self, id: str, typed: str) -> FileNames:
        """Return the files in the directory of a chat whose paths contain what a person has typed.

        Raises:
            NoSuchChat: there is no such chat.
            Conflicting: the directory is on another machine.
            Invalid, NoSuchFile: as `DirectoryNames.find`.
        """
        return await asyncio.to_thread(self._names.find, self._directory(id), typed, self._hidden)

    async def picture(self, id: str, path: str) -> tuple[bytes, str]:
        """Return a picture in the directory of a chat, and its media type.

        Raises:
            NoSuchChat: there is no such chat.
            Conflicting: the directory is on another machine.
            Invalid, NoSuchFile, UnreadableFile: as `files.read_picture`.
        """
        return await asyncio.to_thread(files.read_picture, self._directory(id), path, self._hidden)

    def _directory(self, id: str) -> str:
        row = self._chats.require(id).row
        if not self._this_node.is_home(row):
            raise Conflicting(f"the files of this chat are on the machine {row.home}", help="ask for them there")
        return row.cwd
