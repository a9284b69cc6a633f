"""Store in PostgreSQL, which several machines share: everything that is acknowledged is committed on the server."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from penstock.chat.store import permits
from penstock.chat.store.arguments import check_chat, check_entries, check_number, check_turns
from penstock.chat.store.columns import from_postgres
from penstock.chat.store.costs import CostGroup, CostSum, check_group
from penstock.chat.store.postgres import statements
from penstock.chat.store.postgres.appends import Append, Appends, encoded
from penstock.chat.store.postgres.connections import PATIENCE, TAKEN, Away, Database, Patience, code_of
from penstock.chat.store.postgres.migrate import require_tables
from penstock.chat.store.postgres.recent import Recent
from penstock.chat.store.postgres.summaries import Summaries
from penstock.chat.store.postgres.tailer import Tailer
from penstock.chat.store.postgres.texts import check_fields, check_text
from penstock.chat.store.protocol import (
    MAX_ENTRY_BYTES,
    PAGE_CHATS,
    PAGE_ENTRIES,
    Ahead,
    Claimed,
    Conflict,
    FirstEntry,
    LeaseLost,
    News,
    Page,
    RowChanged,
    StoreClosed,
    StoredEntry,
    StoreFailed,
    Submitted,
    Summary,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import (
    LASTING_FIELDS,
    MAX_READS,
    Attachment,
    ChatChanges,
    ChatRow,
    ChatRule,
    Directory,
    Share,
    TurnRow,
)
from penstock.chat.store.search import (
    MAX_KEY,
    Reader,
    SearchTexts,
    StoredHit,
    StoredHits,
    Unindexed,
    key_of,
    tsquery,
    tsvector,
)
from penstock.chat.store.state import CHECK_BYTES, StoreState
from penstock.chat.store.subscriptions import StoreSubscription
from penstock.chat.store.words import Term
from penstock.errors import UsageError

LONG_SECONDS = 60.0
"""Seconds in which a statement that touches many rows is answered: a deletion, a search for old turns."""

HERE = "here"
"""Name of the node whose directories a store has that was opened for none."""

LARGEST_ENTRY = 256 * 1024 * 1024
"""Bytes of the largest entry: PostgreSQL has messages up to 1 GiB, and bytes take more than one each on their way."""


class PostgresStore:
    """`ChatStore` in a database. Create it with `PostgresStore.open`; one event loop uses it."""

    def __init__(self, database: Database, *, node: str, max_entry_bytes: int) -> None:
        self.database = database
        """Connections of the store, for other tables of the same database."""
        self._node = node
        self._max_entry_bytes = max_entry_bytes
        self._subscriptions: set[StoreSubscription] = set()
        self._recent = Recent()
        self._summaries = Summaries(database)
        self._tailer = Tailer(database, self._recent, self._notify)
        self._appends = Appends(database, self._recent, self._made)
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        node: str = HERE,
        max_entry_bytes: int = MAX_ENTRY_BYTES,
        patience: Patience = PATIENCE,
    ) -> PostgresStore:
        """Open the store in a database that has its tables. Trusted directories are those of `node`.

        Raises:
            SchemaTooOld: the tables are missing, or of an older version.
            UsageError: it is not the URL of a database.
            StoreFailed: it cannot be reached, or not be used.
        """
        check_number("max_entry_bytes", max_entry_bytes, 1)
        if max_entry_bytes > LARGEST_ENTRY:
            raise UsageError(f"max_entry_bytes cannot be {max_entry_bytes:,}", expected=f"at most {LARGEST_ENTRY:,}")
        database = Database(url, patience)
        await require_tables(url)
        store = cls(database, node=node, max_entry_bytes=max_entry_bytes)
        try:
            await store._tailer.start()
        except BaseException as error:
            await store.close()
            if isinstance(error, Away):
                raise StoreFailed(f"the database is away: {error}", help="look at the database server") from error
            raise
        return store

    async def close(self) -> None:
        """Finish the calls that wait if the server answers, and close the connections. A second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
            for subscription in [*self._subscriptions]:
                subscription.close()
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> PostgresStore:
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
        return self.database.state

    async def check(self) -> None:
        """As `ChatStore.check`."""
        await self.database.fetch(statements.CHECK, {"node": self._node, "data": os.urandom(CHECK_BYTES)})
        await self.database.fetch(statements.FORGET_CHECKS)
        self.state.works()

    def has_space(self) -> bool:
        """As `ChatStore.has_space`: the disk is the server's."""
        return True

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
        """As `ChatStore.append`. Appends to one chat are made in the order of the calls."""
        check_chat(chat)
        check_number("after", after)
        check_number("at", at)
        copied = check_entries(entries, self._max_entry_bytes)
        if changes is not None:
            check_fields(changes.fields())
        self._require_open()
        result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._appends.add(Append(chat, copied, after, at, epoch, [*turns], changes, result))
        return await result

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
        """As `ChatStore.submit`. The job of the turn is queued for the chat's home."""
        check_chat(chat)
        check_number("at", at)
        if after is not None:
            check_number("after", after)
        key = _checked_key(key)
        check_entries([entry], self._max_entry_bytes)
        permit = permits.current()
        rows = await self.database.fetch(
            statements.SUBMIT if permit is None else statements.SUBMIT_SHOWN,
            {"id": chat, "data": entry, "at": at, "after": after, "key": key, "turn": turn},
            permit=permit,
        )
        outcome, number = _known(chat, rows)[0]
        if outcome == "unknown":
            raise UnknownChat(chat)
        if outcome == "conflict":
            raise Conflict(chat, after or 0, number)
        if outcome == "made":
            self._recent.wrote(chat, number)
            asyncio.get_running_loop().call_soon(self._tailer.made, {chat: number}, ())
        return Submitted(number, outcome == "made")

    async def claim(self, chat: str, node: str, *, incarnation: uuid.UUID | None = None) -> int:
        """As `ChatStore.claim`."""
        check_chat(chat)
        ((outcome, epoch, owner),) = await self.database.fetch(
            "SELECT outcome, epoch_number, claimed_by FROM claim_v1(%(id)s, %(node)s, %(incarnation)s::uuid)",
            {"id": chat, "node": node, "incarnation": incarnation},
        )
        if outcome == "unknown":
            raise UnknownChat(chat)
        if outcome == "claimed":
            raise Claimed(chat, owner)
        if outcome == "lost":
            raise LeaseLost(node)
        return int(epoch)

    async def release(self, chat: str, epoch: int) -> None:
        """As `ChatStore.release`."""
        check_chat(chat)
        ((found,),) = await self.database.fetch(
            "SELECT release_v1(%(id)s, %(epoch)s::bigint)", {"id": chat, "epoch": epoch}
        )
        if not found:
            raise UnknownChat(chat)

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ENTRIES) -> Page:
        """As `ChatStore.read`."""
        check_chat(chat)
        check_number("after", after)
        check_number("limit", limit, 1)
        self._require_open()
        permit = permits.current()
        ahead = self._recent.page(chat, after, limit) if permit is None else None
        if ahead is not None:
            return ahead
        rows = _known(
            chat,
            await self.database.fetch(
                statements.READ,
                {"id": chat, "after": after, "limit": min(limit, 2**31), "bytes": statements.MAX_PAGE_BYTES},
                permit=permit,
            ),
        )
        last, trimmed, first, *_ = rows[0]
        if after > last:
            raise Ahead(chat, after, last)
        if after < trimmed:
            raise Trimmed(chat, after, trimmed + 1)
        found = [] if first is None else [StoredEntry(*row[2:]) for row in rows]
        numbers = [entry.number for entry in found]
        if (not found and after < last) or numbers != [*range(after + 1, after + 1 + len(found))]:
            raise StoreFailed(
                f"the store is damaged: the chat {chat!r} does not have all entries from {after + 1} on",
                help="restore it from a backup",
                lasting=True,
            )
        page = Page(found, last)
        if permit is None:
            self._recent.read(chat, page, after)
        return page

    async def trim(self, chat: str, upto: int) -> None:
        """As `ChatStore.trim`, in steps, between which others append. If it is cut off, the oldest are trimmed."""
        check_chat(chat)
        check_number("upto", upto)
        trimmed = -1
        self._recent.forget([chat])
        while trimmed < upto:
            ((last, trimmed),) = await self.database.fetch(
                "SELECT last_number, trimmed_number FROM trim_v1(%(id)s, %(upto)s::bigint, %(most)s::bigint)",
                {"id": chat, "upto": upto, "most": statements.TRIM_ENTRIES},
                seconds=LONG_SECONDS,
            )
            if last is None:
                raise UnknownChat(chat)
            if upto > last:
                raise Ahead(chat, upto, last)
        await self.database.fetch(statements.TRIM_ATTACHMENTS, {"id": chat}, seconds=LONG_SECONDS)

    def subscribe(self) -> StoreSubscription:
        """As `ChatStore.subscribe`."""
        self._require_open()
        made = StoreSubscription(self._subscriptions.discard)
        self._subscriptions.add(made)
        return made

    # --- chats, turns, directories ---

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        """As `ChatStore.create_chat`. The job of the first turn is queued for the chat's home."""
        check_chat(row.id)
        check_fields(asdict(row))
        lasting = {name: value for name, value in asdict(row).items() if name in LASTING_FIELDS}
        values: dict[str, Any] = {"id": row.id, "row": encoded(row), "lasting": msgspec.json.encode(lasting).decode()}
        statement, seconds = statements.CREATE_CHAT, None
        if first is not None:
            statement, seconds = statements.CREATE_CHAT_WITH_TURN, LONG_SECONDS if first.files else None
            values |= self._first_values(first)
        ((is_new,),) = await self.database.fetch(statement, values, seconds=seconds, permit=permits.current())
        if not is_new:
            raise UsageError(f"there is a chat {row.id!r} already")
        self._tailer.made({} if first is None else {row.id: 1}, [row.id])

    def _first_values(self, first: FirstEntry) -> dict[str, Any]:
        """Return the values of a statement for the first entry of a chat."""
        check_number("at", first.at)
        check_entries([first.data], self._max_entry_bytes)
        for attachment, _ in first.files:
            check_fields(asdict(attachment))
        return {
            "data": first.data,
            "at": first.at,
            "key": _checked_key(first.key),
            "turn": first.turn,
            "files": msgspec.json.encode([attachment for attachment, _ in first.files]).decode(),
            "contents": [content for _, content in first.files],
        }

    async def get_chat(self, chat: str) -> ChatRow:
        """As `ChatStore.get_chat`."""
        check_chat(chat)
        rows = await self.database.fetch(statements.GET_CHAT, {"id": chat})
        return from_postgres(_known(chat, rows)[0], ChatRow)

    async def list_chats(self, *, after: str = "", limit: int = PAGE_CHATS) -> list[ChatRow]:
        """As `ChatStore.list_chats`."""
        check_number("limit", limit, 1)
        rows = await self.database.fetch(statements.LIST_CHATS, {"after": after, "limit": min(limit, 2**31)})
        return [from_postgres(row, ChatRow) for row in rows]

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        """As `ChatStore.update_chat`."""
        check_chat(chat)
        check_fields(changes.fields())
        known = None if rules is None else msgspec.json.encode(rules).decode()
        values = {"id": chat, "changes": msgspec.json.encode(changes).decode(), "rules": known}
        rows = await self.database.fetch(statements.UPDATE_CHAT, values, permit=permits.current())
        if not _known(chat, rows)[0][0]:
            raise RowChanged(chat)
        self._tailer.made({}, [chat])
        return await self.get_chat(chat)

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        """As `ChatStore.mark_read`."""
        check_turns(turns)
        check_text("a name", person)
        values = {"ids": [*turns], "turns": [*turns.values()], "person": person, "most": MAX_READS}
        rows = await self.database.fetch(statements.MARK_READ, values, permit=permits.current())
        self._tailer.made({}, [chat for (chat,) in rows])
        return [chat for (chat,) in rows]

    async def forget_reader(self, person: str) -> None:
        """As `ChatStore.forget_reader`."""
        await self.database.fetch("SELECT forget_reader_v1(%(person)s)", {"person": person}, seconds=LONG_SECONDS)

    async def delete_chat(self, chat: str) -> None:
        """As `ChatStore.delete_chat`."""
        check_chat(chat)
        # Only if the chat is there now, one that a second attempt does not find was deleted by the first.
        _known(chat, await self.database.fetch("SELECT key FROM heads WHERE id = %(id)s", {"id": chat}))
        ((found,),) = await self.database.fetch(
            "SELECT coalesce(delete_chat_v1(%(id)s), %(again)s)",
            {"id": chat},
            seconds=LONG_SECONDS,
            permit=permits.current(),
        )
        if not found:
            raise UnknownChat(chat)
        self._recent.forget([chat])
        self._tailer.made({}, [chat])

    async def summary(self, chat: str, *, limit: int) -> Summary:
        """As `ChatStore.summary`."""
        check_chat(chat)
        check_number("limit", limit, 1)
        return await self._summaries.read(chat, min(limit, 2**31))

    async def list_turns(self, chat: str, *, before: int | None = None, limit: int) -> list[TurnRow]:
        """As `ChatStore.list_turns`."""
        check_chat(chat)
        check_number("limit", limit, 1)
        below = 2**62 if before is None else before
        values = {"id": chat, "before": below, "limit": min(limit, 2**31)}
        rows = _known(chat, await self.database.fetch(statements.LIST_TURNS, values, permit=permits.current()))
        return [from_postgres(row, TurnRow) for row in rows if row[0] is not None]

    async def list_expired(self, *, before: int | None, max_bytes: int | None) -> dict[str, int]:
        """As `ChatStore.list_expired`."""
        upto: dict[str, int] = {}
        rows: list[tuple[Any, ...]] = []
        if before is not None:
            check_number("before", before)
            rows += await self.database.fetch(statements.EXPIRED, {"before": before}, seconds=LONG_SECONDS)
        if max_bytes is not None:
            check_number("max_bytes", max_bytes)
            rows += await self.database.fetch(statements.EXCESS, {"max_bytes": max_bytes}, seconds=LONG_SECONDS)
        for id, last in rows:
            upto[id] = max(last, upto.get(id, 0))
        return upto

    # --- search ---

    async def list_unindexed(self, *, limit: int, home: str | None = None) -> list[Unindexed]:
        """As `ChatStore.list_unindexed`."""
        check_number("limit", limit, 1)
        rows = await self.database.fetch(statements.LIST_UNINDEXED, {"home": home, "limit": min(limit, 2**31)})
        return [Unindexed(*row) for row in rows]

    async def index(self, item: Unindexed, texts: SearchTexts | None, *, at: int = 0) -> None:
        """As `ChatStore.index`."""
        kept, vector = (SearchTexts(), None) if texts is None else await asyncio.to_thread(_indexed, texts)
        values = {"id": item.chat, "turn": item.turn, "mark": item.mark, "at": at, "words": vector}
        key = key_of(item.chat, item.turn, at)
        while True:
            try:
                await self.database.fetch(statements.INDEX, {**values, "key": key, **asdict(kept)})
                return
            except StoreFailed as failed:
                # Another node added a row of the same moment meanwhile; the next attempt sees it.
                if code_of(failed) != TAKEN:
                    raise

    async def search(self, terms: Sequence[Term], reader: Reader, *, before: int = MAX_KEY, limit: int) -> StoredHits:
        """As `ChatStore.search`. One search is made at a time, on a connection on which the server ends a long one."""
        check_number("limit", limit, 1)
        check_number("before", before)
        self._require_open()
        if not terms:
            return StoredHits([], True)
        values = {**reader._asdict(), "query": tsquery([*terms]), "before": before, "limit": min(limit, 2**31)}
        try:
            rows = await self.database.fetch_bounded(statements.SEARCH, values)
        except TimeoutError:
            return StoredHits([], False)
        return StoredHits([StoredHit._make((*row[:9], SearchTexts(*row[9:]))) for row in rows], True)

    # --- costs ---

    async def costs(self, by: CostGroup, days: Sequence[int], reader: Reader, *, limit: int) -> list[CostSum]:
        """As `ChatStore.costs`."""
        check_group(by, days, limit)
        values = {**reader._asdict(), "days": [*days], "limit": limit}
        rows = await self.database.fetch(statements.COSTS[by], values, seconds=LONG_SECONDS)
        return [CostSum(*row) for row in rows]

    # --- directories ---

    async def list_directories(self) -> list[Directory]:
        """As `ChatStore.list_directories`: those of this node."""
        rows = await self.database.fetch(statements.LIST_DIRECTORIES, {"node": self._node})
        return [from_postgres(row, Directory) for row in rows]

    async def put_directory(self, directory: Directory) -> None:
        """As `ChatStore.put_directory`."""
        check_text("a path", directory.path)
        values = {"node": self._node, **asdict(directory)}
        await self.database.fetch(statements.PUT_DIRECTORY, values, permit=permits.current())

    async def delete_directory(self, path: str) -> None:
        """As `ChatStore.delete_directory`."""
        await self.database.fetch(statements.DELETE_DIRECTORY, {"node": self._node, "path": path})

    # --- shares ---

    async def list_shares(self) -> list[Share]:
        """As `ChatStore.list_shares`."""
        return [from_postgres(row, Share) for row in await self.database.fetch(statements.LIST_SHARES)]

    async def find_share(self, secret: str) -> Share | None:
        """As `ChatStore.find_share`."""
        rows = await self.database.fetch(statements.FIND_SHARE, {"secret": secret})
        return from_postgres(rows[0], Share) if rows else None

    async def put_share(self, share: Share) -> None:
        """As `ChatStore.put_share`."""
        check_chat(share.chat)
        check_fields(asdict(share))
        if not await self.database.fetch(statements.PUT_SHARE, asdict(share), permit=permits.current()):
            raise UnknownChat(share.chat)

    async def delete_share(self, id: str) -> None:
        """As `ChatStore.delete_share`."""
        await self.database.fetch(statements.DELETE_SHARE, {"id": id}, permit=permits.current())

    # --- attachments ---

    async def put_attachment(self, attachment: Attachment, content: bytes, *, unsent_before: int) -> None:
        """As `ChatStore.put_attachment`."""
        check_chat(attachment.chat)
        check_fields(asdict(attachment))
        values = {**asdict(attachment), "content": content, "unsent_before": unsent_before}
        permit = permits.current()
        if not await self.database.fetch(statements.PUT_ATTACHMENT, values, seconds=LONG_SECONDS, permit=permit):
            raise UnknownChat(attachment.chat)

    async def list_attachments(self, chat: str) -> list[Attachment]:
        """As `ChatStore.list_attachments`."""
        check_chat(chat)
        permit = permits.current()
        rows = await self.database.fetch(statements.LIST_ATTACHMENTS, {"id": chat}, permit=permit)
        if permit is not None:
            _known(chat, rows)
        return [from_postgres(row, Attachment) for row in rows if row[0] is not None]

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        """As `ChatStore.read_attachment`."""
        check_chat(chat)
        permit, values = permits.current(), {"chat": chat, "id": id}
        rows = await self.database.fetch(statements.READ_ATTACHMENT, values, seconds=LONG_SECONDS, permit=permit)
        if permit is not None:
            _known(chat, rows)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    async def note_attachments(self, chat: str, ids: Sequence[str], turn: int) -> None:
        """As `ChatStore.note_attachments`."""
        check_chat(chat)
        check_number("turn", turn)
        await self.database.fetch(statements.NOTE_ATTACHMENTS, {"chat": chat, "ids": [*ids], "turn": turn})

    async def delete_attachment(self, chat: str, id: str) -> None:
        """As `ChatStore.delete_attachment`."""
        check_chat(chat)
        permit = permits.current()
        rows = await self.database.fetch(statements.DELETE_ATTACHMENT, {"chat": chat, "id": id}, permit=permit)
        if permit is not None:
            _known(chat, rows)

    async def attached_bytes(self, person: str) -> int:
        """As `ChatStore.attached_bytes`."""
        ((found,),) = await self.database.fetch(statements.ATTACHED_BYTES, {"person": person})
        return int(found)

    # --- inside ---

    def _made(self, chats: dict[str, int], changed: set[str]) -> None:
        self._appends.nodes = self._tailer.nodes
        self._tailer.made(chats, changed)

    def _notify(self, news: News) -> None:
        for subscription in self._subscriptions:
            subscription.add(news)

    def _require_open(self) -> None:
        if self._closing is not None:
            raise StoreClosed

    async def _close(self) -> None:
        self.database.begin_to_close()
        await self._appends.close()
        await self._tailer.close()
        await self.database.close()


def _indexed(texts: SearchTexts) -> tuple[SearchTexts, str]:
    """Return what is kept of texts, and its words as PostgreSQL reads them."""
    kept = texts.bounded()
    return kept, tsvector(kept)


def _known(chat: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of a chat, of which there is one at least.

    Raises:
        UnknownChat: there are none.
    """
    if not rows:
        raise UnknownChat(chat)
    return rows


def _checked_key(key: str | None) -> str:
    """Return the key of an entry: a new one if it has none, so that a second attempt finds the entry of the first.

    Raises:
        UsageError: it cannot be kept.
    """
    if key is None:
        return f"once:{uuid.uuid4().hex}"
    check_text("a key", key)
    return key
