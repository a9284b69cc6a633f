"""The index: which chats there are, and which directories are trusted. It is a stream of the event log itself.

A row is the whole state of one chat or directory; the newest one of each counts. When the stream is long, what counts
is written again, and what was before is trimmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from penstock.adapter import Allow
from penstock.chat.errors import NoSuchChat
from penstock.chat.service.heartbeat import Heartbeat
from penstock.chat.store.protocol import EventLog, LogFailed, Row, Trimmed

STREAM = "chats"
"""The name of the stream in the log."""

SPARE_ROWS = 100
ROWS_EACH = 4
"""The stream is rewritten when it has more than `ROWS_EACH` rows for each that counts, and `SPARE_ROWS`."""


class Chat(msgspec.Struct, frozen=True, omit_defaults=True, tag="chat"):
    """What is kept of a chat beside its log. Times are milliseconds since 1970."""

    id: str
    agent: str
    cwd: str
    created_at: int
    model: str | None = None
    title: str | None = None
    allow: Allow = "default"
    session_id: str | None = None
    """The agent's name for the conversation, once it told it."""
    heartbeat: Heartbeat | None = None
    heartbeat_since: int = 0
    """When it was set: the first one comes an interval after that."""
    deleted: bool = False
    """Its log is yet to be trimmed."""


class Directory(msgspec.Struct, frozen=True, tag="directory"):
    """A directory that somebody trusts."""

    path: str
    trusted_at: int


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """Nothing is left of the chat."""

    id: str


Item = Chat | Directory | Gone

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)


class Index:
    """The chats and the trusted directories, as the log has them. Make it with `Index.open`."""

    def __init__(self, log: EventLog) -> None:
        self.chats: dict[str, Chat] = {}
        """By id; those that are deleted as well, until they are gone."""
        self.trusted: dict[str, int] = {}
        """Directories, and since when."""
        self._log = log
        self._first = 0  # the number before the first row that is kept
        self._last = 0
        self._sure = False  # whether what is known is what the log has
        self._foreign = False  # there are rows that this version does not know
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, log: EventLog) -> Index:
        """Read it from the log.

        Raises:
            LogFailed: the log cannot be read.
        """
        index = cls(log)
        await index._catch_up()
        return index

    async def put(self, item: Item) -> None:
        """Keep this; when it returns, it is in the log.

        Raises:
            LogFailed: it could not be kept, most likely: what the index has then is what the log has.
        """
        async with self._writing:
            if not self._sure:
                await self._catch_up()
            await self._append([item])
            live = [*self._live()]
            if self._last - self._first > ROWS_EACH * len(live) + SPARE_ROWS and not self._foreign:
                await self._rewrite(live)

    async def _append(self, items: list[Item]) -> None:
        self._sure = False  # until it returns: who is cancelled does not know
        self._last = await self._log.append(STREAM, [_encoder.encode(item) for item in items], after=self._last)
        self._sure = True
        for item in items:
            self._apply(item)

    async def _rewrite(self, live: list[Item]) -> None:
        before = self._last
        if live:
            await self._append(live)
        await self._log.trim(STREAM, before)
        self._first = before

    def _live(self) -> Iterator[Item]:
        yield from self.chats.values()
        for path, since in self.trusted.items():
            yield Directory(path, since)

    async def _catch_up(self) -> None:
        while rows := await self._read():
            for row in rows:
                self._last = row.number
                try:
                    self._apply(_decoder.decode(row.data))
                except (msgspec.DecodeError, UnicodeError):
                    self._foreign = True
        self._sure = True

    async def _read(self) -> list[Row]:
        try:
            return await self._log.read(STREAM, after=self._last)
        except Trimmed as trimmed:
            self._first = self._last = trimmed.first - 1
            return await self._log.read(STREAM, after=self._last)

    def _apply(self, item: Item) -> None:
        if isinstance(item, Chat):
            self.chats[item.id] = item
        elif isinstance(item, Directory):
            self.trusted[item.path] = item.trusted_at
        else:
            self.chats.pop(item.id, None)


class Card:
    """What is kept of one chat in the index. Changes at the same time are made one after another."""

    def __init__(self, chat: Chat, index: Index) -> None:
        self.chat = chat
        """As it is now."""
        self._index = index
        self._changing = asyncio.Lock()
        self._kept = True

    async def change(self, change: Callable[[Chat], Chat]) -> None:
        """Keep what `change` makes of it.

        Raises:
            NoSuchChat: it was deleted.
            LogFailed: it could not be kept, and is as it was.
        """
        async with self._changing:
            if self.chat.deleted:
                raise NoSuchChat(self.chat.id)
            changed = change(self.chat)
            if changed != self.chat or not self._kept:
                await self._index.put(changed)
                self.chat, self._kept = changed, True

    async def keep_session(self, session_id: str) -> None:
        """Go on with this session from now on. Where it cannot be kept, it is with the next change."""
        if session_id == self.chat.session_id:
            return
        try:
            await self.change(lambda chat: replace(chat, session_id=session_id))
        except NoSuchChat:
            pass
        except LogFailed:
            self.chat, self._kept = replace(self.chat, session_id=session_id), False

    async def forget(self) -> None:
        """Nothing is left of the chat.

        Raises:
            LogFailed: it could not be kept.
        """
        await self._index.put(Gone(self.chat.id))
