"""Protocol of the store of the chats: the calls that every store implements, whatever keeps the data.

A store keeps the entries of each chat as bytes, numbered 1, 2, 3, … without a gap, beside tables of chats, turns and
directories. Everything that is shown of a chat is a pure function of its entries: what is not in the store has not
happened. The summary of a turn is written in the transaction of the entries that it sums up, so the two never differ.

::

    UsageError
    ├── Conflict       another writer appended: `last` is the chat's last number
    ├── Fenced         another worker claimed the chat: its `epoch` is newer
    ├── Claimed        another node that is alive has claimed the chat: its `owner`
    ├── LeaseLost      the node's lease is over: it must end its runs
    ├── Trimmed        the entries were dropped: `first` is the first that is kept
    ├── Ahead          the number was never given: `last` is the chat's last number
    ├── EntryTooLarge  nothing was appended
    ├── UnknownChat    there is no chat of this id
    └── StoreClosed    the store was closed
    TransportError
    └── StoreFailed    the disk is full, the file is damaged, …: what was acknowledged stays
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.chat.store.costs import CostGroup, CostSum
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, ChatRule, Directory, Share, TurnRow
from penstock.chat.store.search import MAX_KEY, Reader, SearchTexts, StoredHits, Unindexed
from penstock.chat.store.state import StoreState
from penstock.chat.store.words import Term
from penstock.errors import TransportError, UsageError

PAGE_ENTRIES = 500
"""Entries of one read, by default."""

MAX_ENTRY_BYTES = 16 * 1024 * 1024
"""Bytes of the largest entry, by default."""

PAGE_CHATS = 500
"""Chats of one page of the list, by default."""


def clock() -> int:
    """Return the time in milliseconds since 1970. It may step back."""
    return time.time_ns() // 1_000_000


class StoredEntry(NamedTuple):
    """Entry of a chat, as bytes."""

    number: int
    """Number of the entry: from 1, without a gap. It never changes, and is never given twice."""
    at: int
    """Time at which it was appended: milliseconds since 1970, by the clock of the writer."""
    data: bytes
    """Content of the entry, byte for byte as it was appended."""


class Page(NamedTuple):
    """Page of entries of a chat."""

    entries: list[StoredEntry]
    last: int
    """Last number of the chat."""


class Submitted(NamedTuple):
    """Result of `ChatStore.submit`."""

    number: int
    """Number of the entry that has this key."""
    is_new: bool
    """False if an earlier call appended it."""


class FirstEntry(NamedTuple):
    """First entry of a new chat: the prompt of its first turn."""

    data: bytes
    at: int
    key: str | None = None
    turn: int | None = None
    """Number of the turn, as in `ChatStore.submit`."""
    files: Sequence[tuple[Attachment, bytes]] = ()
    """Attachments of the turn, with their contents."""


class Summary(NamedTuple):
    """Summary of a chat, made of its turns."""

    number: int
    """Number of the last entry that the turns include: a reader continues after it."""
    last: int
    """Last number of the chat."""
    turns: list[TurnRow]
    """Newest turns and all unfinished ones, in their order."""


class News(NamedTuple):
    """Notification of chats with entries that may be new, or with another row."""

    chats: Mapping[str, int]
    """Last number of each chat, by its id."""
    all: bool = False
    """True if notifications or entries were lost: any chat may have new entries, or fewer than it had."""
    changed: frozenset[str] = frozenset()
    """Ids of chats whose row was created, changed or deleted."""


class Conflict(UsageError):
    """The chat does not end at the number that the writer named: nothing was appended."""

    def __init__(self, chat: str, after: int, last: int) -> None:
        self.chat: str = chat
        self.after: int = after
        self.last: int = last
        super().__init__(
            f"nothing was appended to the chat {chat!r}: its last entry is {last}, not {after}",
            help="read the new entries, and append after them",
        )


class Fenced(UsageError):
    """Another worker claimed the chat: nothing was appended, and this worker must stop its agent."""

    def __init__(self, chat: str, epoch: int) -> None:
        self.chat: str = chat
        self.epoch: int = epoch
        super().__init__(f"nothing was appended to the chat {chat!r}: another worker has claimed it (epoch {epoch})")


class Claimed(UsageError):
    """Another node, which is alive, has claimed the chat; `owner` is its name."""

    def __init__(self, chat: str, owner: str) -> None:
        self.chat: str = chat
        self.owner: str = owner
        super().__init__(f"the chat {chat!r} was not claimed: the node {owner!r} works on it")


class LeaseLost(UsageError):
    """The node has no lease of this incarnation: others may work on its chats, and it must end its runs."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"the lease of the node {node!r} is over")


class Trimmed(UsageError):
    """The entries are no longer kept; `first` is the number of the first entry that is, or will be."""

    def __init__(self, chat: str, after: int, first: int) -> None:
        self.chat: str = chat
        self.after: int = after
        self.first: int = first
        super().__init__(
            f"the chat {chat!r} no longer has its entry {after + 1}: what came before {first} was dropped",
            help=f"read after {first - 1}",
        )


class Ahead(UsageError):
    """The chat has not reached the number; `last` is its last one.

    A caller has such a number from another store, or from one that was since restored from a backup.
    """

    def __init__(self, chat: str, number: int, last: int) -> None:
        self.chat: str = chat
        self.number: int = number
        self.last: int = last
        super().__init__(f"the chat {chat!r} has no entry {number}: its last one is {last}", help="read it anew")


class EntryTooLarge(UsageError):
    """An entry is larger than the store accepts. Nothing was appended."""

    def __init__(self, size: int, limit: int) -> None:
        self.size: int = size
        self.limit: int = limit
        super().__init__(f"an entry of {size:,} bytes is too large for the store", expected=f"at most {limit:,} bytes")


class RowChanged(UsageError):
    """A field of the chat's row is not as the writer has read it: the row was not changed."""

    def __init__(self, chat: str) -> None:
        self.chat = chat
        super().__init__(f"the row of the chat {chat!r} has changed", help="read it again, and decide anew")


class UnknownChat(UsageError):
    """There is no chat of this id, or it was deleted."""

    def __init__(self, chat: str) -> None:
        self.chat = chat
        super().__init__(f"the store has no chat {chat!r}")


class StoreClosed(UsageError):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed")


class StoreFailed(TransportError):
    """The disk, the file or the server behind the store failed. Everything that was acknowledged before stays.

    An `append` that failed with this error was most likely not made; `read` shows whether it was. `lasting` means that
    the failure does not pass by itself, and that the store accepts nothing more.
    """

    def __init__(self, what: str, *, expected: str = "", help: str = "", lasting: bool = False) -> None:
        self.lasting = lasting
        super().__init__(what, expected=expected, help=help)


class Subscription(Protocol):
    """Subscription to notifications of new entries, from the time of `ChatStore.subscribe` on."""

    async def next(self) -> News:
        """Wait for a notification. It may be spurious; those of several appends may come as one.

        Raises:
            StoreClosed: the store was closed; no notification follows.
        """
        ...

    def close(self) -> None:
        """End the subscription."""
        ...


class ChatStore(Protocol):
    """Store of chats. `penstock.chat.store.conformance.check_store` checks a store against these promises.

    All of it belongs to one event loop. All calls raise `UsageError` for an invalid id or number, `StoreFailed` if the
    disk, file or server that keeps the data fails, and `StoreClosed`.

    The calls that people ask for make their change only if the permit of the request, `permits.current`, allows it in
    the transaction of the change: `submit`, `create_chat`, `update_chat`, `delete_chat`, `put_directory`, `put_share`,
    `delete_share`, `put_attachment`, `delete_attachment`, `mark_read`. For entries, rows and attachments, the permit's
    reader also has to see the chat then; otherwise there is none for them (`UnknownChat`).

    The same holds for the calls that read what a chat holds: `read`, `list_turns`, `list_attachments`,
    `read_attachment`. All other reads are Penstock's own.
    """

    @property
    def max_entry_bytes(self) -> int:
        """Size of the largest entry, in bytes."""
        ...

    @property
    def state(self) -> StoreState:
        """State of the store, which its own calls keep up to date."""
        ...

    async def check(self) -> None:
        """Write `CHECK_BYTES` that are no entry where the entries are; note in `state` whether that worked.

        Raises:
            StoreFailed: nothing can be kept now.
        """
        ...

    def has_space(self) -> bool:
        """Return False if the disk is known to have less space than `check` needs. It costs next to nothing."""
        ...

    # --- entries ---

    async def append(
        self,
        chat: str,
        entries: Sequence[bytes],
        *,
        after: int,
        at: int,
        epoch: int | None = None,
        turns: Sequence[TurnRow] = (),
        changes: ChatChanges | None = None,
    ) -> int:
        """Append all entries if `after` is the chat's last number, otherwise none; return the new last number.

        The `changes` of the chat's row and the summaries `turns`, which include all entries up to the new last number,
        are written in the same transaction. When it returns, all of it is kept: it survives a crash or a power cut. If
        the call is cancelled, `read` shows whether the append was made.

        Raises:
            Conflict: the chat ends at another number.
            Fenced: `epoch` is not the newest.
            EntryTooLarge, UnknownChat: nothing was appended.
        """
        ...

    async def submit(
        self,
        chat: str,
        entry: bytes,
        *,
        at: int,
        after: int | None = None,
        key: str | None = None,
        turn: int | None = None,
    ) -> Submitted:
        """Append one entry from anywhere: a prompt, a stop, an answer.

        If the chat has an entry with this `key`, that entry is the result, and nothing is appended. With `after`, the
        entry depends on the entries before it: the chat must end at that number. `turn` is the number of the turn that
        the entry asks for: a store that several machines share queues the turn's job in the same transaction.

        Raises:
            Conflict: the chat ends at another number.
            EntryTooLarge, UnknownChat: nothing was appended.
        """
        ...

    async def claim(self, chat: str, node: str, *, incarnation: uuid.UUID | None = None) -> int:
        """Claim a chat for the worker at `node`; return its epoch, which is newer than any before.

        In a store that several machines share, `incarnation` is that of the node's lease, and the claim holds as long
        as the lease; without it, anyone may claim the chat next. Other stores ignore it.

        Raises:
            Claimed: another node, whose lease is not over, has claimed it.
            LeaseLost: the node has no such lease.
            UnknownChat: there is none.
        """
        ...

    async def release(self, chat: str, epoch: int) -> None:
        """End the claim with this epoch, so that another node may claim the chat. A claim that is over is not an error.

        Appends with the epoch are accepted until the next claim.

        Raises:
            UnknownChat: there is none.
        """
        ...

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ENTRIES) -> Page:
        """Return the entries from number `after + 1` on: at most `limit`, at least one if there is one.

        A page with fewer than `limit` entries does not mean that there are no more: a read of large entries ends early.

        Raises:
            Trimmed: entry `after + 1` was dropped.
            Ahead: `after` is past the last entry.
            UnknownChat: there is none.
        """
        ...

    async def trim(self, chat: str, upto: int) -> None:
        """Drop the entries up to and with number `upto`, and the turns that ended there. Numbers are not given again.

        Raises:
            Ahead: `upto` is past the last entry.
            UnknownChat: there is none.
        """
        ...

    def subscribe(self) -> Subscription:
        """Subscribe to new entries and changed rows of all chats. To miss none, subscribe before a read."""
        ...

    # --- chats ---

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        """Add a chat, with its first entry and attachments if given: all of it is kept, or nothing.

        Raises:
            UsageError: there is one of this id.
            EntryTooLarge: the entry is too large.
        """
        ...

    async def get_chat(self, chat: str) -> ChatRow:
        """Return a chat.

        Raises:
            UnknownChat: there is none.
        """
        ...

    async def list_chats(self, *, after: str = "", limit: int = PAGE_CHATS) -> list[ChatRow]:
        """Return chats in the order of their ids, beginning after the id `after`."""
        ...

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        """Change the row of a chat; return the row as it is then.

        `rules`: those that the row must have; None for any.

        Raises:
            UnknownChat: there is none.
            RowChanged: its rules are not these.
        """
        ...

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        """Note the newest turn that a person has read, of each chat. Return the chats whose mark is now that turn.

        A mark only moves forward, and one that was there before is returned too. Chats that do not exist, or that the
        permit's reader does not see, are left out.
        """
        ...

    async def forget_reader(self, person: str) -> None:
        """Remove the read marks of a person from all chats."""
        ...

    async def delete_chat(self, chat: str) -> None:
        """Delete a chat with its entries and turns.

        Raises:
            UnknownChat: there is none.
        """
        ...

    # --- turns ---

    async def summary(self, chat: str, *, limit: int) -> Summary:
        """Return the newest `limit` turns of a chat and all unfinished ones.

        Raises:
            UnknownChat: there is none.
        """
        ...

    async def list_turns(self, chat: str, *, before: int | None = None, limit: int) -> list[TurnRow]:
        """Return the newest turns of a chat, of those before turn `before`, oldest first.

        Raises:
            UnknownChat: there is none.
        """
        ...

    async def list_expired(self, *, before: int | None, max_bytes: int | None) -> dict[str, int]:
        """Return the chats with turns that ended before the time `before`, or that make the store exceed `max_bytes`.

        The bytes are those of the entries, and of the attachments that were sent.

        For each chat, the result has the number up to which entries are too old or too many. Nothing is dropped.
        """
        ...

    # --- search ---

    async def list_unindexed(self, *, limit: int, home: str | None = None) -> list[Unindexed]:
        """Return turns that have ended, and titles, that are to be indexed: at most `limit`, the newest first.

        In a store that several machines share, those of chats with another `home` are left to it while it lives, and
        for a minute.
        """
        ...

    async def index(self, item: Unindexed, texts: SearchTexts | None, *, at: int = 0) -> None:
        """Index the texts of a turn, or of a chat's title, in place of those before, and remove it from the queue.

        `at` is the time by which a search finds the newest first. Without texts, or if the turn is gone, it is no
        longer found. If the turn or the title has changed since it was listed, it stays in the queue.
        """
        ...

    async def search(self, terms: Sequence[Term], reader: Reader, *, before: int = MAX_KEY, limit: int) -> StoredHits:
        """Return what has all of the terms, of the chats that the reader may see, newest first.

        `before` is the key of the last hit of the page before. It returns within about `SEARCH_SECONDS`.
        """
        ...

    # --- costs ---

    async def costs(self, by: CostGroup, days: Sequence[int], reader: Reader, *, limit: int) -> list[CostSum]:
        """Return what turns have cost that ended since the first of the times `days`: at most `limit` sums.

        They are of the turns that the reader has asked for; of all, if the reader sees all chats. The times are the
        beginnings of days, in their order: sums by day are of those, the newest first. Others begin with the largest.
        """
        ...

    # --- directories ---

    async def list_directories(self) -> list[Directory]:
        """Return all trusted directories, in the order of their paths."""
        ...

    async def put_directory(self, directory: Directory) -> None:
        """Add a directory, or replace it."""
        ...

    async def delete_directory(self, path: str) -> None:
        """Remove a directory, if the store has it."""
        ...

    # --- shares ---

    async def list_shares(self) -> list[Share]:
        """Return all shares, the oldest first. Some may have expired."""
        ...

    async def find_share(self, secret: str) -> Share | None:
        """Return the share with this secret, which may have expired; None if there is none."""
        ...

    async def put_share(self, share: Share) -> None:
        """Add a share, which is deleted with its chat, and drop those that had expired when it was made.

        Raises:
            UnknownChat: there is no such chat.
        """
        ...

    async def delete_share(self, id: str) -> None:
        """Remove a share, if the store has it."""
        ...

    # --- attachments ---

    async def put_attachment(self, attachment: Attachment, content: bytes, *, unsent_before: int) -> None:
        """Add an attachment, which is deleted with its chat or with the turn that was submitted with it.

        Attachments of all chats that were created before `unsent_before` and are not sent yet are dropped.

        Raises:
            UnknownChat: there is no such chat.
        """
        ...

    async def list_attachments(self, chat: str) -> list[Attachment]:
        """Return the attachments of a chat, the oldest first."""
        ...

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        """Return the content of an attachment; None if the chat does not have it."""
        ...

    async def note_attachments(self, chat: str, ids: Sequence[str], turn: int) -> None:
        """Note the turn that is submitted with attachments of a chat; `SENDING` before its number is known."""
        ...

    async def delete_attachment(self, chat: str, id: str) -> None:
        """Remove an attachment that is not sent yet, if the chat has it."""
        ...

    async def attached_bytes(self, person: str) -> int:
        """Return the bytes of all attachments that a person has uploaded."""
        ...
