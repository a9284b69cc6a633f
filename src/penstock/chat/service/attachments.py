"""Attachments: pictures and files that go with the messages of chats. Each is uploaded before its message is sent."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from penstock.chat.errors import ChatError, ContentTooLarge, Invalid, NoSuchAttachment, NoSuchChat, TooMany
from penstock.chat.history.entries import AttachedFile
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.media import clean_name, media_type_of
from penstock.chat.store.protocol import ChatStore, StoreFailed, UnknownChat
from penstock.chat.store.rows import SENDING, Attachment

MAX_ATTACHMENTS = 10
"""Attachments of one message: agents and providers take more, but people do not look at more."""

UNSENT_MS = 24 * 60 * 60 * 1000
"""Milliseconds for which an attachment is kept whose message is not sent: a draft may wait overnight."""

MAX_TURNS = 2**31
"""Number above that of all turns of a chat."""

MAX_UNSENT = 30
"""Attachments of one chat whose messages are not sent: a few drafts in several browsers."""


class Attachments:
    """Attachments of the chats of one service."""

    def __init__(self, store: ChatStore, chats: Chats, limits: ServiceLimits, now: Callable[[], int]) -> None:
        """`now` returns milliseconds since 1970."""
        self._store = store
        self._chats = chats
        self._limits = limits
        self._now = now

    async def add(self, chat: str, name: str, content: bytes, *, person: str) -> AttachedFile:
        """Keep an attachment for a message of a chat that a person is going to send.

        Raises:
            NoSuchChat: there is no such chat.
            Invalid, ContentTooLarge: it is empty or too large, or a picture with too many pixels.
            TooMany: the chat has too many that are not sent, or the person has uploaded too much.
            StoreFailed: it cannot be kept.
        """
        self._chats.require(chat)
        media_type, now = self._media_type(content), self._now()
        rows = await self._store.list_attachments(chat)
        await self._give_up(chat, rows, now - UNSENT_MS)
        unsent = [it for it in rows if not it.turn]
        if sum(it.created_at >= now - UNSENT_MS for it in unsent) >= MAX_UNSENT:
            what = f"{MAX_UNSENT} files of this chat wait for their messages"
            raise TooMany(what, help="send the messages, or remove some of the files")
        await self.check_space(person, len(content))
        made = Attachment(uuid.uuid4().hex, chat, clean_name(name), media_type, len(content), now, person)
        await self._put(made, content)
        return attached_file(made)

    async def prepared(
        self, chat: str, files: Sequence[tuple[str, bytes]], *, person: str, turn: int
    ) -> list[tuple[Attachment, bytes]]:
        """Return the attachments of a message that are kept together with it, with their contents.

        Raises:
            Invalid, ContentTooLarge, TooMany, StoreFailed: as `add`; or there are too many.
        """
        if len(files) > MAX_ATTACHMENTS:
            raise Invalid(f"a message has {len(files)} files", expected=f"at most {MAX_ATTACHMENTS}")
        if files:
            await self.check_space(person, sum(len(content) for _, content in files))
        now, made = self._now(), []
        for name, content in files:
            kind = self._media_type(content)
            file = Attachment(uuid.uuid4().hex, chat, clean_name(name), kind, len(content), now, person, turn)
            made.append((file, content))
        return made

    def _media_type(self, content: bytes) -> str:
        most = self._limits.max_attachment_bytes
        if not content:
            raise Invalid("the file is empty", expected="a file with content")
        if len(content) > most:
            raise ContentTooLarge(f"the file has {len(content):,} bytes", expected=f"at most {most:,} bytes")
        return media_type_of(content)

    async def check_space(self, person: str, size: int) -> None:
        """Check that a person may upload this many bytes more.

        Raises:
            TooMany: the person has uploaded too much.
            StoreFailed: the store cannot be read.
        """
        if await self._store.attached_bytes(person) + size > self._limits.max_attached_bytes:
            what = f"the files in the chats of {person} reach {self._limits.max_attached_bytes:,} bytes"
            raise TooMany(what, help="delete chats with files that are no longer needed")

    async def put(self, chat: str, file: AttachedFile, content: bytes, *, person: str, turn: int = 0) -> None:
        """Keep an attachment with a known id, unless the chat has it. One with a `turn` belongs to its message.

        Raises:
            NoSuchChat: there is no such chat.
            StoreFailed: it cannot be kept.
        """
        if all(it.id != file.id for it in await self._store.list_attachments(chat)):
            made = Attachment(file.id, chat, file.name, file.media_type, file.size, self._now(), person, turn)
            await self._put(made, content)

    async def _put(self, made: Attachment, content: bytes) -> None:
        try:
            await self._store.put_attachment(made, content, unsent_before=self._now() - UNSENT_MS)
        except UnknownChat as error:
            raise NoSuchChat(made.chat) from error

    async def find(self, chat: str, id: str) -> tuple[AttachedFile, bytes]:
        """Return an attachment of a chat, with its content.

        Raises:
            NoSuchAttachment: the chat does not have it.
            StoreFailed: the store cannot be read.
        """
        row = next((it for it in await self._store.list_attachments(chat) if it.id == id), None)
        content = None if row is None else await self._store.read_attachment(chat, id)
        if row is None or content is None:
            raise NoSuchAttachment
        return attached_file(row), content

    async def remove(self, chat: str, id: str) -> None:
        """Remove an attachment that was not sent. One that was sent stays with its message.

        Raises:
            NoSuchChat: there is no such chat.
            StoreFailed: it cannot be removed.
        """
        try:
            await self._store.delete_attachment(chat, id)
        except UnknownChat as error:
            raise NoSuchChat(chat) from error

    async def chosen(self, chat: str, ids: Sequence[str]) -> list[AttachedFile]:
        """Return the attachments that a message names, in its order.

        Raises:
            Invalid: there are too many, or one is not an attachment of this chat.
            StoreFailed: the store cannot be read.
        """
        if not ids:
            return []
        if len(ids) > MAX_ATTACHMENTS or len({*ids}) < len(ids):
            raise Invalid(f"a message has {len(ids)} files", expected=f"at most {MAX_ATTACHMENTS} different ones")
        rows = {it.id: it for it in await self._store.list_attachments(chat)}
        if not rows.keys() >= {*ids}:
            raise Invalid("this chat does not have one of the files", expected="ids of files that were uploaded to it")
        return [attached_file(rows[id]) for id in ids]

    @asynccontextmanager
    async def sending(self, chat: str, files: Sequence[AttachedFile]) -> AsyncIterator[Callable[[int], None]]:
        """Keep attachments from being dropped while their message is sent, and note its turn, which the caller passes.

        Raises:
            StoreFailed: the store cannot be changed, and nothing was submitted.
        """
        turns: list[int] = []
        ids = [file.id for file in files]
        if not ids:
            yield turns.append
            return
        before = {it.id: it.turn for it in await self._store.list_attachments(chat)}
        await self._store.note_attachments(chat, ids, SENDING)
        try:
            yield turns.append
        except ChatError:  # nothing was submitted; after another error it may have been
            with contextlib.suppress(StoreFailed):
                for id in ids:
                    await self._store.note_attachments(chat, [id], before.get(id, 0))
            raise
        if turns:
            with contextlib.suppress(StoreFailed):
                await self._store.note_attachments(chat, ids, turns[0])

    async def _give_up(self, chat: str, rows: Sequence[Attachment], before: int) -> None:
        """Note as not sent what was being sent before a time, and what no turn has.

        Its message could not be kept, or Penstock was ended while it was sent.
        """
        left = {it.id for it in rows if it.turn == SENDING and it.created_at < before}
        origin = self._chats.require(chat).row.origin
        left -= {origin.conversation} if origin is not None else set()
        if left:
            turns, _ = await (await self._chats.fresh_log(chat)).turns(None, MAX_TURNS)
            left -= {file.id for view in turns for file in view.attachments or ()}
            await self._store.note_attachments(chat, sorted(left), 0)


def attached_file(row: Attachment) -> AttachedFile:
    """Return an attachment as messages name it."""
    return AttachedFile(row.id, row.name, row.media_type, row.size)
