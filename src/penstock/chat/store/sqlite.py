"""Store in a SQLite file: everything that `append` acknowledged is on the disk.

One process has the file, and one connection in one thread changes it; see `docs/store.md`.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from penstock.chat.store import costs, permits, search_tables, tables
from penstock.chat.store.arguments import check_chat, check_entries, check_number, check_turns
from penstock.chat.store.costs import CostGroup, CostSum
from penstock.chat.store.database import caution, failure, free_bytes, write_scratch
from penstock.chat.store.protocol import (
    MAX_ENTRY_BYTES,
    PAGE_CHATS,
    PAGE_ENTRIES,
    FirstEntry,
    News,
    Page,
    StoreClosed,
    StoreFailed,
    Submitted,
    Summary,
)
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, ChatRule, Directory, Share, TurnRow
from penstock.chat.store.search import MAX_KEY, Reader, SearchTexts, StoredHits, Unindexed
from penstock.chat.store.state import CHECK_BYTES, StoreState
from penstock.chat.store.subscriptions import StoreSubscription
from penstock.chat.store.tables import Statements
from penstock.chat.store.words import Term
from penstock.chat.store.writer import Outcomes, Readers, StoreWrite, Writer
from penstock.errors import UsageError

READERS = 2
"""Number of threads that read."""

GROUP_SECONDS = 0.01
"""Seconds between two transactions while several chats append: each costs a write to the disk, and wakes two threads.
If every chat of the last transaction has appended again, the next one begins at once."""

SPARE_BYTES = 16 * 1024 * 1024
"""Bytes of the disk that an attachment leaves free for entries: those of the largest one."""

LARGEST_ENTRY = 512 * 1024 * 1024
"""Bytes of the largest entry that every build of SQLite can hold."""


class SqliteStore:
    """`ChatStore` in a file. Create it with `SqliteStore.open`; one event loop uses it.

    If it is not closed, nothing is lost, as nothing is lost in a crash.
    """

    def __init__(self, path: Path, *, max_entry_bytes: int) -> None:
        self.path = path
        self.caution: str | None = caution()
        """Warning about this version of SQLite; None if there is none."""
        self._max_entry_bytes = max_entry_bytes
        self._state = StoreState()
        self._loop = asyncio.get_running_loop()
        self._readers = Readers(path)
        self._pool = ThreadPoolExecutor(READERS, "penstock-store-reader")
        self._subscriptions: set[StoreSubscription] = set()
        self._closing: asyncio.Future[None] | None = None
        self._pending: list[StoreWrite] = []  # changes for the next transaction
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._pending_chats: set[str] = set()  # chats that they append to
        self._flushed_chats: set[str] = set()  # chats that the last transaction appended to
        self._writer: Writer

    @classmethod
    async def open(cls, path: str | os.PathLike[str], *, max_entry_bytes: int = MAX_ENTRY_BYTES) -> SqliteStore:
        """Open the store in a file, which is created if there is none; its folder must exist.

        Raises:
            StoreHeld: another process has it.
            OtherForm: it is of another form, and left as it is.
            UsageError: it is a database, but not a store.
            StoreFailed: it cannot be opened, written or understood.
        """
        check_number("max_entry_bytes", max_entry_bytes, 1)
        if max_entry_bytes > LARGEST_ENTRY:
            raise UsageError(f"max_entry_bytes cannot be {max_entry_bytes:,}", expected=f"at most {LARGEST_ENTRY:,}")
        try:
            real = Path(os.path.realpath(path))  # two names of one file are one store
        except ValueError as error:  # the path contains a NUL
            raise UsageError(f"{str(path)!r} is not the name of a file") from error
        store = cls(real, max_entry_bytes=max_entry_bytes)
        store._writer = await asyncio.to_thread(Writer, real, store._delivered)
        return store

    async def close(self) -> None:
        """Finish the calls that wait, and release the file. A second call does nothing."""
        if self._closing is None:
            self._flush()
            self._closing = self._loop.run_in_executor(None, self._close)
            for subscription in [*self._subscriptions]:
                subscription.close()
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> SqliteStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def max_entry_bytes(self) -> int:
        """As `ChatStore.max_entry_bytes`."""
        return self._max_entry_bytes

    @property
    def state(self) -> StoreState:
        """As `ChatStore.state`."""
        return self._state

    async def check(self) -> None:
        """As `ChatStore.check`."""
        try:
            await asyncio.to_thread(write_scratch, self.path.parent, CHECK_BYTES)
        except OSError as error:
            failed = failure(error, self.path)
            self._state.failed(failed)
            raise failed from error
        await self._change(Statements.rewrite)
        self._state.works()

    def has_space(self) -> bool:
        """As `ChatStore.has_space`."""
        free = free_bytes(self.path.parent)
        return free is None or free >= CHECK_BYTES

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
        """As `ChatStore.append`. Appends are made in the order of the calls."""
        check_chat(chat)
        check_number("after", after)
        check_number("at", at)
        copied, rows = check_entries(entries, self._max_entry_bytes), [*turns]
        last: int = await self._change(
            lambda made: made.append(chat, copied, after, at, epoch, rows, changes), appends_to=chat
        )
        return last

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
        """As `ChatStore.submit`. There are no jobs: the one process that has the file looks for turns itself."""
        check_chat(chat)
        check_number("at", at)
        if after is not None:
            check_number("after", after)
        check_entries([entry], self._max_entry_bytes)
        submitted: Submitted = await self._permitted(
            lambda changes: changes.submit(chat, entry, at, after, key), shown=chat
        )
        return submitted

    async def claim(self, chat: str, node: str, *, incarnation: uuid.UUID | None = None) -> int:
        """As `ChatStore.claim`."""
        check_chat(chat)
        epoch: int = await self._change(lambda changes: changes.claim(chat, node))
        return epoch

    async def release(self, chat: str, epoch: int) -> None:
        """As `ChatStore.release`."""
        check_chat(chat)
        await self._change(lambda changes: changes.release(chat, epoch))

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ENTRIES) -> Page:
        """As `ChatStore.read`."""
        check_chat(chat)
        check_number("after", after)
        check_number("limit", limit, 1)
        page: Page = await self._read_permitted(tables.read, chat, after, limit)
        return page

    async def trim(self, chat: str, upto: int) -> None:
        """As `ChatStore.trim`, in steps, between which others append. If it is cut off, the oldest are trimmed."""
        check_chat(chat)
        check_number("upto", upto)
        while await self._change(lambda changes: changes.trim(chat, upto)):
            pass
        while await self._change(Statements.shrink):
            pass

    def subscribe(self) -> StoreSubscription:
        """As `ChatStore.subscribe`."""
        self._require_open()
        made = StoreSubscription(self._subscriptions.discard)
        self._subscriptions.add(made)
        return made

    # --- chats, turns, directories ---

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        """As `ChatStore.create_chat`. Space for other entries is left free on the disk."""
        check_chat(row.id)
        if first is not None:
            check_number("at", first.at)
            check_entries([first.data], self._max_entry_bytes)
            self._check_space(sum(len(content) for _, content in first.files))
        await self._permitted(lambda changes: changes.create_chat(row, first))

    async def get_chat(self, chat: str) -> ChatRow:
        """As `ChatStore.get_chat`."""
        check_chat(chat)
        row: ChatRow = await self._read(tables.get_chat, chat)
        return row

    async def list_chats(self, *, after: str = "", limit: int = PAGE_CHATS) -> list[ChatRow]:
        """As `ChatStore.list_chats`."""
        check_number("limit", limit, 1)
        rows: list[ChatRow] = await self._read(tables.list_chats, after, limit)
        return rows

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        """As `ChatStore.update_chat`."""
        check_chat(chat)
        row: ChatRow = await self._permitted(lambda made: made.update_chat(chat, changes, rules), shown=chat)
        return row

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        """As `ChatStore.mark_read`."""
        check_turns(turns)
        given, permit = dict(turns), permits.current()
        marked: list[str] = await self._change(lambda changes: changes.mark_read(person, given, permit))
        return marked

    async def forget_reader(self, person: str) -> None:
        """As `ChatStore.forget_reader`."""
        await self._change(lambda changes: changes.forget_reader(person))

    async def delete_chat(self, chat: str) -> None:
        """As `ChatStore.delete_chat`."""
        check_chat(chat)
        await self._permitted(lambda changes: changes.delete_chat(chat))

    async def summary(self, chat: str, *, limit: int) -> Summary:
        """As `ChatStore.summary`."""
        check_chat(chat)
        check_number("limit", limit, 1)
        found: Summary = await self._read(tables.summary, chat, limit)
        return found

    async def list_turns(self, chat: str, *, before: int | None = None, limit: int) -> list[TurnRow]:
        """As `ChatStore.list_turns`."""
        check_chat(chat)
        check_number("limit", limit, 1)
        rows: list[TurnRow] = await self._read_permitted(tables.list_turns, chat, before, limit)
        return rows

    async def list_expired(self, *, before: int | None, max_bytes: int | None) -> dict[str, int]:
        """As `ChatStore.list_expired`."""
        for name, value in (("before", before), ("max_bytes", max_bytes)):
            if value is not None:
                check_number(name, value)
        upto: dict[str, int] = await self._read(tables.list_expired, before, max_bytes)
        return upto

    async def list_unindexed(self, *, limit: int, home: str | None = None) -> list[Unindexed]:
        """As `ChatStore.list_unindexed`."""
        check_number("limit", limit, 1)
        found: list[Unindexed] = await self._read(search_tables.list_unindexed, limit)
        return found

    async def index(self, item: Unindexed, texts: SearchTexts | None, *, at: int = 0) -> None:
        """As `ChatStore.index`."""
        await self._change(lambda changes: changes.index(item, texts, at))

    async def search(self, terms: Sequence[Term], reader: Reader, *, before: int = MAX_KEY, limit: int) -> StoredHits:
        """As `ChatStore.search`."""
        check_number("limit", limit, 1)
        check_number("before", before)
        found: StoredHits = await self._read(search_tables.search, [*terms], reader, before, limit)
        return found

    async def costs(self, by: CostGroup, days: Sequence[int], reader: Reader, *, limit: int) -> list[CostSum]:
        """As `ChatStore.costs`."""
        costs.check_group(by, days, limit)
        found: list[CostSum] = await self._read(costs.costs, by, [*days], reader, limit)
        return found

    async def list_directories(self) -> list[Directory]:
        """As `ChatStore.list_directories`."""
        found: list[Directory] = await self._read(tables.list_directories)
        return found

    async def put_directory(self, directory: Directory) -> None:
        """As `ChatStore.put_directory`."""
        await self._permitted(lambda changes: changes.put_directory(directory))

    async def delete_directory(self, path: str) -> None:
        """As `ChatStore.delete_directory`."""
        await self._change(lambda changes: changes.delete_directory(path))

    # --- shares ---

    async def list_shares(self) -> list[Share]:
        """As `ChatStore.list_shares`."""
        found: list[Share] = await self._read(tables.list_shares)
        return found

    async def find_share(self, secret: str) -> Share | None:
        """As `ChatStore.find_share`."""
        found: Share | None = await self._read(tables.find_share, secret)
        return found

    async def put_share(self, share: Share) -> None:
        """As `ChatStore.put_share`."""
        await self._permitted(lambda changes: changes.put_share(share))

    async def delete_share(self, id: str) -> None:
        """As `ChatStore.delete_share`."""
        await self._permitted(lambda changes: changes.delete_share(id))

    # --- attachments ---

    async def put_attachment(self, attachment: Attachment, content: bytes, *, unsent_before: int) -> None:
        """As `ChatStore.put_attachment`. Space for other entries is left free on the disk."""
        check_chat(attachment.chat)
        self._check_space(len(content))
        await self._permitted(
            lambda changes: changes.put_attachment(attachment, content, unsent_before), shown=attachment.chat
        )

    async def list_attachments(self, chat: str) -> list[Attachment]:
        """As `ChatStore.list_attachments`."""
        check_chat(chat)
        found: list[Attachment] = await self._read_permitted(tables.list_attachments, chat)
        return found

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        """As `ChatStore.read_attachment`."""
        check_chat(chat)
        found: bytes | None = await self._read_permitted(tables.read_attachment, chat, id)
        return found

    async def note_attachments(self, chat: str, ids: Sequence[str], turn: int) -> None:
        """As `ChatStore.note_attachments`."""
        check_chat(chat)
        check_number("turn", turn)
        named = [*ids]
        await self._change(lambda changes: changes.note_attachments(chat, named, turn))

    async def delete_attachment(self, chat: str, id: str) -> None:
        """As `ChatStore.delete_attachment`."""
        check_chat(chat)
        await self._permitted(lambda changes: changes.delete_attachment(chat, id), shown=chat)

    async def attached_bytes(self, person: str) -> int:
        """As `ChatStore.attached_bytes`."""
        found: int = await self._read(tables.attached_bytes, person)
        return found

    # --- inside ---

    def _check_space(self, size: int) -> None:
        """Check that files of this size leave space for entries."""
        free = free_bytes(self.path.parent) if size else None
        if free is not None and free < size + SPARE_BYTES:
            raise StoreFailed("there is no space for a file of this size on the disk", help="free some space on it")

    async def _permitted(self, make: Callable[[Statements], Any], *, shown: str | None = None) -> Any:
        """Make a change if the permit of the request allows it then. `shown`: chat that its person has to see."""
        permit = permits.current()
        if permit is None:
            return await self._change(make)

        def checked(changes: Statements) -> Any:
            changes.check(permit, shown)
            return make(changes)

        return await self._change(checked)

    async def _change(self, make: Callable[[Statements], Any], *, appends_to: str | None = None) -> Any:
        self._require_open()
        result: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append(StoreWrite(make, result))
        if appends_to is not None:
            self._pending_chats.add(appends_to)
        is_complete = appends_to is None or self._flushed_chats <= self._pending_chats
        if is_complete or self._loop.time() >= self._flushed_at + GROUP_SECONDS:
            self._flush()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_at(self._flushed_at + GROUP_SECONDS, self._flush)
        return await result  # if it is cancelled here before the writer begins with it, it is not made

    def _flush(self) -> None:
        """Pass the changes that wait to the writer, in their order."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._flushed_at = self._loop.time()
        for change in self._pending:
            self._writer.put(change)
        self._pending.clear()
        self._flushed_chats, self._pending_chats = self._pending_chats, set()

    def _delivered(self, outcomes: Outcomes) -> None:
        """Pass results from the writer's thread to the loop, all of one transaction at once."""
        try:
            self._loop.call_soon_threadsafe(self._deliver, outcomes)
        except RuntimeError:
            pass  # the loop is closed, so there are no callers

    def _deliver(self, outcomes: Outcomes) -> None:
        for future, result in outcomes.results:
            if future.done():
                continue
            if isinstance(result, BaseException):
                if isinstance(result, StoreFailed):
                    self._state.failed(result)
                future.set_exception(result)
            else:
                future.set_result(result)
        if outcomes.appended or outcomes.changed:
            # After the callers, which wake up first: they have their own results before they are notified.
            self._loop.call_soon(self._notify, News(outcomes.appended, changed=frozenset(outcomes.changed)))

    def _notify(self, news: News) -> None:
        for subscription in self._subscriptions:
            subscription.add(news)

    async def _read_permitted(self, read: Callable[..., Any], chat: str, *arguments: Any) -> Any:
        """Read what a chat holds if the person of the request, if there is one, sees the chat then."""
        permit = permits.current()
        if permit is None:
            return await self._read(read, chat, *arguments)
        return await self._read(tables.read_shown, permit, read, chat, *arguments)

    async def _read(self, read: Callable[..., Any], *arguments: Any) -> Any:
        self._require_open()
        return await self._loop.run_in_executor(self._pool, partial(self._readers.call, read, *arguments))

    def _require_open(self) -> None:
        if self._closing is not None:
            raise StoreClosed

    def _close(self) -> None:
        self._pool.shutdown(wait=True)
        self._readers.close()
        self._writer.close()
