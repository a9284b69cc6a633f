"""The first turn of a chat that begins with a message: both are kept in one step, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from penstock.chat.history.entries import FIRST_TURN, AttachedFile
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.attachments import Attachments
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.log.truncation import fitted
from penstock.chat.service.shared import Shared
from penstock.chat.service.turns.decisions import prompted
from penstock.chat.service.validation import check_max_turns, key_of, made_title, text_of
from penstock.chat.store.protocol import FirstEntry
from penstock.chat.store.rows import ChatRow
from penstock.run.trace_context import of_request


class FirstMessage(NamedTuple):
    """Message with which a chat begins."""

    text: str
    """It may be empty if there are files."""
    key: str | None = None
    """Key by which a repeated message is recognized."""
    files: Sequence[tuple[str, bytes]] = ()
    """Names and contents of files that go with it."""
    most: int | None = None
    """Maximum number of turns of the person that run or wait at once, in all chats."""


class FirstTurns:
    """First turns of the chats of one service."""

    def __init__(self, shared: Shared, chats: Chats, attachments: Attachments) -> None:
        self._shared = shared
        self._chats = chats
        self._attachments = attachments

    async def prepared(self, row: ChatRow, message: FirstMessage) -> tuple[ChatRow, FirstEntry]:
        """Return the row of a new chat, with a title, and the entry of its first turn. Nothing is kept yet.

        Raises:
            Invalid, ContentTooLarge, TooMany: the message is not valid or too large, or its person has too many turns
                or files, or has spent what they may today.
            StoreFailed: the store cannot be read.
        """
        files = await self._attachments.prepared(row.id, message.files, person=row.person, turn=FIRST_TURN)
        text = text_of(message.text, self._shared.limits.max_prompt_bytes, may_be_empty=bool(files))
        if message.most is not None:
            check_max_turns(row.person, sum(it.count_open(row.person) for it in self._chats), message.most)
        self._shared.spending.check(row.person)
        most_bytes = self._shared.store.max_entry_bytes
        entry = prompted(
            Timeline(),
            text,
            "person",
            key_of(message.key),
            self._shared.limits.max_queue,
            most_bytes,
            person=row.person,
            attachments=[AttachedFile(it.id, it.name, it.media_type, it.size) for it, _ in files],
        )
        ((data,), _) = fitted([entry], most_bytes)
        trace = of_request.get()
        if trace is not None:
            self._shared.traces[(row.id, entry.turn)] = trace
        title = row.title or made_title(text if text.strip() else files[0][0].name)
        first = FirstEntry(data, self._shared.now(), entry.key, entry.turn, files)
        return replace(row, title=title), first
