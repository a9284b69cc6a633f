"""The conformance suite: right stores pass it, and each wrong one is rejected for what is wrong with it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import astuple, replace

from penstock.chat.store import permits
from penstock.chat.store.arguments import check_chat, check_entries, check_number, check_turns
from penstock.chat.store.conformance import CHECKS, Open, check_store, promises
from penstock.chat.store.conformance.entries import stale_writers_conflict
from penstock.chat.store.costs import MAX_COST_USD, MAX_TOKENS, CostGroup, CostSum, check_group
from penstock.chat.store.protocol import (
    Ahead,
    ChatStore,
    Claimed,
    Conflict,
    EntryTooLarge,
    Fenced,
    FirstEntry,
    LeaseLost,
    News,
    Page,
    RowChanged,
    StoreClosed,
    StoredEntry,
    Submitted,
    Summary,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import (
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
    TITLE,
    Reader,
    SearchTexts,
    StoredHit,
    StoredHits,
    Unindexed,
    key_of,
)
from penstock.chat.store.state import StoreState
from penstock.chat.store.words import Term, find
from penstock.errors import UsageError


class MemoryChat:
    """One chat of a store in memory."""

    def __init__(self, row: ChatRow) -> None:
        self.row = row
        self.entries: list[StoredEntry] = []
        self.trimmed = 0
        self.epoch = 0
        self.summarized = 0
        self.keys: dict[str, int] = {}
        self.turns: dict[int, TurnRow] = {}

    @property
    def last(self) -> int:
        return len(self.entries)


class MemorySubscription:
    """News of a store in memory, one append at a time."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[News | None] = asyncio.Queue()

    async def next(self) -> News:
        news = await self.queue.get()
        if news is None:
            raise StoreClosed
        return news

    def close(self) -> None:
        self.queue.put_nowait(None)


TOKENS = ("input_tokens", "output_tokens")


class MemoryStore:
    """The least store that keeps the promises."""

    max_entry_bytes = 200_000

    def __init__(self) -> None:
        self.chats: dict[str, MemoryChat] = {}
        self.directories: dict[str, Directory] = {}
        self.shares: dict[str, Share] = {}
        self.attachments: dict[tuple[str, str], tuple[Attachment, bytes]] = {}
        self.unindexed: dict[tuple[str, int], int] = {}
        self.texts: dict[tuple[str, int], tuple[int, SearchTexts]] = {}
        self.marks = 0
        self.subscriptions: list[MemorySubscription] = []
        self.closed = False
        self.state = StoreState()

    async def check(self) -> None:
        self.state.works()

    def has_space(self) -> bool:
        return True

    def of(self, chat: str) -> MemoryChat:
        if self.closed:
            raise StoreClosed
        check_chat(chat)
        if chat not in self.chats:
            raise UnknownChat(chat)
        return self.chats[chat]

    def permit(self, shown: str | None = None) -> None:
        """Check the permit of a read or a change; `shown` is a chat that its person has to see."""
        permit = permits.current()
        reader = None if permit is None else permit()
        if reader is not None and shown is not None:
            row = self.of(shown).row
            share = self.shares.get(reader.share or "")
            if not self.may_see(reader, row) or (reader.share and (share is None or share.chat != shown)):
                raise UnknownChat(shown)

    def notify(self, chat: str, last: int) -> None:
        for subscription in self.subscriptions:
            subscription.queue.put_nowait(News({chat: last}))

    def notify_of_row(self, chat: str) -> None:
        for subscription in self.subscriptions:
            subscription.queue.put_nowait(News({}, changed=frozenset([chat])))

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
        check_number("after", after)
        check_number("at", at)
        copied = check_entries(entries, self.max_entry_bytes)
        await asyncio.sleep(0)
        found = self.of(chat)
        if epoch is not None and epoch != found.epoch:
            raise Fenced(chat, found.epoch)
        if after != found.last:
            raise Conflict(chat, after, found.last)
        self.put(found, copied, at)
        if turns:
            found.turns |= {turn.turn: turn for turn in turns}
            found.summarized = found.last
            for turn in turns:
                if turn.last:
                    self.note_unindexed(chat, turn.turn)
        if changes is not None:
            found.row = changes.applied(found.row)
            self.notify_of_row(chat)
        return found.last

    def note_unindexed(self, chat: str, turn: int) -> None:
        self.marks += 1
        self.unindexed[chat, turn] = self.marks

    def put(self, found: MemoryChat, entries: Sequence[bytes], at: int) -> None:
        found.entries += [StoredEntry(number, at, data) for number, data in enumerate(entries, found.last + 1)]
        if entries:
            self.notify(found.row.id, found.last)

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
        check_entries([entry], self.max_entry_bytes)
        await asyncio.sleep(0)
        self.permit(chat)
        found = self.of(chat)
        if key is not None and key in found.keys:
            return Submitted(found.keys[key], False)
        if after not in (None, found.last):
            raise Conflict(chat, after or 0, found.last)
        self.put(found, [entry], at)
        if key is not None:
            found.keys[key] = found.last
        return Submitted(found.last, True)

    async def claim(self, chat: str, node: str, *, incarnation: uuid.UUID | None = None) -> int:
        found = self.of(chat)
        found.epoch += 1
        return found.epoch

    async def release(self, chat: str, epoch: int) -> None:
        self.of(chat)

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> Page:
        check_number("after", after)
        check_number("limit", limit, 1)
        await asyncio.sleep(0)
        self.permit(chat)
        found = self.of(chat)
        if after > found.last:
            raise Ahead(chat, after, found.last)
        if after < found.trimmed:
            raise Trimmed(chat, after, found.trimmed + 1)
        return Page(found.entries[after : after + limit], found.last)

    async def trim(self, chat: str, upto: int) -> None:
        check_number("upto", upto)
        found = self.of(chat)
        if upto > found.last:
            raise Ahead(chat, upto, found.last)
        found.trimmed = max(found.trimmed, upto)
        found.keys = {key: number for key, number in found.keys.items() if number > upto}
        found.turns = {turn: row for turn, row in found.turns.items() if not 0 < row.last <= upto}
        first = min(found.turns, default=0)
        gone = [key for key, (it, _) in self.attachments.items() if key[0] == chat and 0 < it.turn < first]
        for key in gone:
            del self.attachments[key]
        self.forget(chat, lambda turn: turn > TITLE and turn not in found.turns)

    def forget(self, chat: str, is_gone: Callable[[int], bool]) -> None:
        rows: tuple[dict[tuple[str, int], Any], ...] = (self.unindexed, self.texts)
        for found in rows:
            for place in [it for it in found if it[0] == chat and is_gone(it[1])]:
                del found[place]

    def subscribe(self) -> MemorySubscription:
        self.subscriptions.append(MemorySubscription())
        return self.subscriptions[-1]

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        self.permit()
        check_chat(row.id)
        if row.id in self.chats:
            raise UsageError("there is one")
        if first is not None:
            check_entries([first.data], self.max_entry_bytes)
        self.chats[row.id] = MemoryChat(row)
        self.note_unindexed(row.id, TITLE)
        if first is not None:
            with permits.acting(None):
                await self.submit(row.id, first.data, at=first.at, key=first.key)
            for attachment, content in first.files:
                self.attachments[(row.id, attachment.id)] = (attachment, content)
        self.notify_of_row(row.id)

    async def get_chat(self, chat: str) -> ChatRow:
        return self.of(chat).row

    async def list_chats(self, *, after: str = "", limit: int = 500) -> list[ChatRow]:
        return [self.chats[id].row for id in sorted(self.chats) if id > after][:limit]

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        self.permit(chat)
        found = self.of(chat)
        if rules is not None and found.row.rules != rules:
            raise RowChanged(chat)
        if changes.title not in (UNSET, found.row.title):
            self.note_unindexed(chat, TITLE)
        found.row = changes.applied(found.row)
        self.notify_of_row(chat)
        return found.row

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        check_turns(turns)
        permit, marked = permits.current(), []
        for chat, turn in turns.items():
            found = self.chats.get(chat)
            if found is None or not self.may_mark(None if permit is None else permit(), found.row):
                continue
            reads = found.row.reads
            if turn > reads.get(person, -1) and (person in reads or len(reads) < MAX_READS):
                found.row = replace(found.row, reads={**reads, person: turn})
            if found.row.reads.get(person) == turn:
                marked.append(chat)
        return marked

    def may_mark(self, reader: Reader | None, row: ChatRow) -> bool:
        return reader is None or self.may_see(reader, row)

    async def forget_reader(self, person: str) -> None:
        for found in self.chats.values():
            found.row = replace(found.row, reads={name: it for name, it in found.row.reads.items() if name != person})

    async def delete_chat(self, chat: str) -> None:
        self.permit()
        self.of(chat)
        del self.chats[chat]
        self.forget(chat, lambda turn: True)
        self.shares = {id: it for id, it in self.shares.items() if it.chat != chat}
        self.attachments = {key: it for key, it in self.attachments.items() if key[0] != chat}
        self.notify_of_row(chat)

    async def summary(self, chat: str, *, limit: int) -> Summary:
        found = self.of(chat)
        newest = sorted(found.turns)[-limit:]
        rows = [row for turn, row in sorted(found.turns.items()) if turn in newest or not row.last]
        return Summary(max(found.summarized, found.trimmed), found.last, rows)

    async def list_turns(self, chat: str, *, before: int | None = None, limit: int) -> list[TurnRow]:
        self.permit(chat)
        rows = [row for turn, row in sorted(self.of(chat).turns.items()) if before is None or turn < before]
        return rows[-limit:]

    async def list_expired(self, *, before: int | None, max_bytes: int | None) -> dict[str, int]:
        upto: dict[str, int] = {}
        for id, chat in self.chats.items():
            for _, row in sorted(chat.turns.items()):
                if not row.last or (before is not None and row.at >= before):
                    break
                upto[id] = max(row.last, upto.get(id, 0))
        return upto

    async def list_unindexed(self, *, limit: int, home: str | None = None) -> list[Unindexed]:
        rows = sorted((mark, chat, turn) for (chat, turn), mark in self.unindexed.items())
        return [Unindexed(chat, turn, mark) for mark, chat, turn in reversed(rows)][:limit]

    async def index(self, item: Unindexed, texts: SearchTexts | None, *, at: int = 0) -> None:
        place = (item.chat, item.turn)
        if self.unindexed.get(place) == item.mark:
            del self.unindexed[place]
        self.texts.pop(place, None)
        chat = self.chats.get(item.chat)
        if texts is not None and chat is not None and (item.turn == TITLE or item.turn in chat.turns):
            self.texts[place] = (at, texts.bounded())

    async def search(self, terms: Sequence[Term], reader: Reader, *, before: int = MAX_KEY, limit: int) -> StoredHits:
        hits = []
        for (chat, turn), (at, texts) in self.texts.items():
            row = self.chats[chat].row
            key = key_of(chat, turn, at)
            has = [any(it.term == term for text in astuple(texts) for it in find(text, [term])) for term in terms]
            if key < before and has and all(has) and self.may_see(reader, row):
                hits.append(
                    StoredHit(key, chat, turn, at, row.title, row.agent, row.cwd, row.archived, row.person, texts)
                )
        return StoredHits(sorted(hits, reverse=True)[:limit], True)

    async def costs(self, by: CostGroup, days: Sequence[int], reader: Reader, *, limit: int) -> list[CostSum]:
        check_group(by, days, limit)
        found: dict[str, list[dict[str, Any]]] = {}
        for id, chat in self.chats.items():
            for row in chat.turns.values():
                try:
                    view = msgspec.json.decode(row.view)
                except (msgspec.DecodeError, UnicodeError):
                    continue
                person = view.get("person", "owner")
                if row.last and row.at >= days[0] and view.get("began_at") and self.may_count(reader, person):
                    day = str(max(it for it in days if it <= row.at))
                    name = {"day": day, "agent": view.get("agent", ""), "chat": id, "person": person}[by]
                    found.setdefault(name, []).append(view)
        sums = [self.cost_sum(name, views) for name, views in found.items()]
        if by == "day":
            return sorted(sums, key=lambda it: -int(it.name))[:limit]
        return sorted(sums, key=lambda it: (-it.cost_usd, -it.turns, it.name))[:limit]

    def may_count(self, reader: Reader, person: str) -> bool:
        return reader.is_owner or person == reader.person

    def cost_sum(self, name: str, views: list[dict[str, Any]]) -> CostSum:
        used = [view.get("usage") or {} for view in views]
        pairs = zip(views, used, strict=True)
        known = [(self.counted(it.get("cost_usd"), MAX_COST_USD) for it in pair) for pair in pairs]
        found = [next((it for it in pair if it is not None), None) for pair in known]
        costs = [it for it in found if it is not None]
        tokens = [sum(self.counted(it.get(key), MAX_TOKENS) or 0 for it in used) for key in TOKENS]
        return CostSum(name, len(views), round(sum(costs), 6), len(views) - len(costs), *tokens)

    def counted(self, value: object, largest: int) -> Any:
        return value if isinstance(value, int | float) and 0 <= value <= largest else None

    def may_see(self, reader: Reader, row: ChatRow) -> bool:
        return reader.is_owner or row.person == reader.person or row.visibility == "team"

    async def list_directories(self) -> list[Directory]:
        return [directory for _, directory in sorted(self.directories.items())]

    async def put_directory(self, directory: Directory) -> None:
        self.permit()
        self.directories[directory.path] = directory

    async def delete_directory(self, path: str) -> None:
        self.directories.pop(path, None)

    async def list_shares(self) -> list[Share]:
        return sorted(self.shares.values(), key=lambda share: (share.created_at, share.id))

    async def find_share(self, secret: str) -> Share | None:
        return next((share for share in self.shares.values() if share.secret == secret), None)

    async def put_share(self, share: Share) -> None:
        self.permit()
        self.of(share.chat)
        kept = {id: it for id, it in self.shares.items() if it.expires_at > share.created_at}
        self.shares = {**kept, share.id: share}

    async def delete_share(self, id: str) -> None:
        self.permit()
        self.shares.pop(id, None)

    async def put_attachment(self, attachment: Attachment, content: bytes, *, unsent_before: int) -> None:
        self.permit(attachment.chat)
        self.of(attachment.chat)
        found = self.attachments.items()
        self.attachments = {key: it for key, it in found if it[0].turn or it[0].created_at >= unsent_before}
        self.attachments[attachment.chat, attachment.id] = attachment, content

    async def list_attachments(self, chat: str) -> list[Attachment]:
        self.permit(chat)
        found = [it for it, _ in self.attachments.values() if it.chat == chat]
        return sorted(found, key=lambda it: (it.created_at, it.id))

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        self.permit(chat)
        return self.attachments.get((chat, id), (None, None))[1]

    async def note_attachments(self, chat: str, ids: Sequence[str], turn: int) -> None:
        for key, (attachment, content) in self.attachments.items():
            if key[0] == chat and key[1] in ids:
                self.attachments[key] = replace(attachment, turn=turn), content

    async def delete_attachment(self, chat: str, id: str) -> None:
        self.permit(chat)
        found = self.attachments.get((chat, id))
        if found is not None and not found[0].turn:
            del self.attachments[chat, id]

    async def attached_bytes(self, person: str) -> int:
        return sum(it.size for it, _ in self.attachments.values() if it.person == person)


def opener(store: Any) -> Open:
    """Opens one and the same store."""

    @asynccontextmanager
    async def make() -> AsyncIterator[ChatStore]:
        store.closed = False
        yield store
        store.closed = True
        for subscription in store.subscriptions:
            subscription.close()

    return make


def test_the_file_passes(place: Any) -> None:
    """The store in a SQLite file keeps all promises."""

    @asynccontextmanager
    async def make() -> AsyncIterator[ChatStore]:
        async with await place.open() as store:
            yield store

    asyncio.run(check_store(make))


def test_a_store_in_memory_passes() -> None:
    """Nothing is asked that only a file can do."""
    asyncio.run(check_store(opener(MemoryStore())))


def test_errors_of_claims_name_the_node() -> None:
    """A claim that another node has, and a lease that is over, are errors that name the node."""
    claimed, lost = Claimed("monday", "node-1"), LeaseLost("node-2")
    assert (claimed.chat, claimed.owner, lost.node) == ("monday", "node-1", "node-2")
    assert "'node-1' works on it" in str(claimed)
    assert "'node-2' is over" in str(lost)


# --- stores that are wrong ---


class FromZero(MemoryStore):
    """Begins at 0."""

    async def read(self, chat: str, **where: Any) -> Page:
        page = await super().read(chat, **where)
        return page._replace(entries=[entry._replace(number=entry.number - 1) for entry in page.entries])


class Strips(MemoryStore):
    """Gives other bytes than it was given."""

    async def read(self, chat: str, **where: Any) -> Page:
        page = await super().read(chat, **where)
        return page._replace(entries=[entry._replace(data=entry.data.strip()) for entry in page.entries])


class OwnClock(MemoryStore):
    """Stamps entries by its own clock."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        return await super().append(chat, entries, **{**options, "at": options["at"] and 1})


class NoCompare(MemoryStore):
    """Lets everyone append."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        check_number("after", options["after"])
        return await super().append(chat, entries, **{**options, "after": self.of(chat).last})


class LaxCompare(MemoryStore):
    """Rejects only what is behind."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        check_number("after", options["after"])
        return await super().append(chat, entries, **{**options, "after": min(options["after"], self.of(chat).last)})


class WrongLast(MemoryStore):
    """Rejects with another number than the last."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        try:
            return await super().append(chat, entries, **options)
        except Conflict as stale:
            raise Conflict(chat, stale.after, stale.last + 1) from stale


class SummaryAnyway(MemoryStore):
    """Writes the summary of an append that conflicts."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        self.of(chat).turns |= {turn.turn: turn for turn in options.get("turns", ())}
        return await super().append(chat, entries, **options)


class BlindSubmit(MemoryStore):
    """Submits behind whatever there is."""

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        return await super().submit(chat, entry, **{**options, "after": None})


class NoEpoch(MemoryStore):
    """Lets every worker append."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        return await super().append(chat, entries, **{**options, "epoch": None})


class OneEpoch(MemoryStore):
    """Gives the same epoch again."""

    async def claim(self, chat: str, node: str, **options: Any) -> int:
        self.of(chat).epoch = 1
        return 1


class ReleasesAll(MemoryStore):
    """Takes the epoch away with the claim."""

    async def release(self, chat: str, epoch: int) -> None:
        self.of(chat).epoch += 1


class Halves(MemoryStore):
    """Writes what fits of an append that is too large."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        try:
            return await super().append(chat, entries, **options)
        except EntryTooLarge:
            fits = [entry for entry in entries if len(entry) <= self.max_entry_bytes]
            await super().append(chat, fits, **options)
            raise


class Cuts(MemoryStore):
    """Cuts a long entry."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        if isinstance(entries, list) and all(isinstance(entry, bytes) for entry in entries):
            entries = [entry[: self.max_entry_bytes] for entry in entries]
        return await super().append(chat, entries, **options)


class NoSummaries(MemoryStore):
    """Forgets the summaries."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        return await super().append(chat, entries, **{**options, "turns": ()})


class NoRows(MemoryStore):
    """Forgets the changes of the row that come with entries."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        return await super().append(chat, entries, **{**options, "changes": None})


class FreshSummary(MemoryStore):
    """Says that the summary has all entries."""

    async def summary(self, chat: str, *, limit: int) -> Summary:
        found = await super().summary(chat, limit=limit)
        return found._replace(number=found.last)


class Keyless(MemoryStore):
    """Knows no keys."""

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        return await super().submit(chat, entry, **{**options, "key": None})


class NewKeys(MemoryStore):
    """Says of each entry that it is new."""

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        return (await super().submit(chat, entry, **options))._replace(is_new=True)


class NoLimit(MemoryStore):
    """Gives more than was asked for."""

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> Page:
        check_number("limit", limit, 1)
        return await super().read(chat, after=after)


class Swaps(MemoryStore):
    """Gives entries in another order."""

    async def read(self, chat: str, **where: Any) -> Page:
        page = await super().read(chat, **where)
        return page._replace(entries=page.entries[::-1])


class Folds(MemoryStore):
    """Takes upper and lower case for the same chat."""

    def of(self, chat: str) -> MemoryChat:
        return super().of(chat.lower())

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        if row.id == row.id.lower():
            await super().create_chat(row, first)


class SilentTrim(MemoryStore):
    """Goes on at the first entry that is left."""

    async def read(self, chat: str, **where: Any) -> Page:
        try:
            return await super().read(chat, **where)
        except Trimmed as trimmed:
            return await super().read(chat, **{**where, "after": trimmed.first - 1})


class KeepsTurns(MemoryStore):
    """Keeps the turns of entries that were trimmed."""

    async def trim(self, chat: str, upto: int) -> None:
        turns = dict(self.of(chat).turns)
        await super().trim(chat, upto)
        self.of(chat).turns = turns


class KeepsKeys(MemoryStore):
    """Keeps the keys of entries that were trimmed."""

    async def trim(self, chat: str, upto: int) -> None:
        keys = dict(self.of(chat).keys)
        await super().trim(chat, upto)
        self.of(chat).keys = keys


class StartsAnew(MemoryStore):
    """Gives numbers again once all entries are gone."""

    async def trim(self, chat: str, upto: int) -> None:
        await super().trim(chat, upto)
        if upto and upto == self.of(chat).last:
            self.of(chat).entries, self.of(chat).trimmed = [], 0


class SilentAhead(MemoryStore):
    """Does not mind a number that was never given."""

    async def read(self, chat: str, **where: Any) -> Page:
        try:
            return await super().read(chat, **where)
        except Ahead as ahead:
            return Page([], ahead.last)


class Lenient(MemoryStore):
    """Reads a chat of any name."""

    async def read(self, chat: str, **where: Any) -> Page:
        return await super().read(chat, **where) if chat in self.chats else Page([], 0)


class ReplacesRows(MemoryStore):
    """Sets the fields that are not changed to their defaults."""

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        row = self.of(chat).row
        self.of(chat).row = ChatRow(row.id, row.agent, row.cwd, row.created_at)
        return await super().update_chat(chat, changes)


class LosesRules(MemoryStore):
    """Does not compare the rules that a writer has read."""

    async def update_chat(self, chat: str, changes: ChatChanges, *, rules: list[ChatRule] | None = None) -> ChatRow:
        return await super().update_chat(chat, changes)


class KeepsDeleted(MemoryStore):
    """Keeps the turns of a chat that was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, dict[int, TurnRow]] = {}

    async def delete_chat(self, chat: str) -> None:
        self.kept[chat] = self.of(chat).turns
        await super().delete_chat(chat)

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        await super().create_chat(row, first)
        self.chats[row.id].turns = self.kept.get(row.id, {})


class DropsHeartbeats(MemoryStore):
    """Forgets a field of a chat."""

    async def get_chat(self, chat: str) -> ChatRow:
        return replace(await super().get_chat(chat), heartbeat=None)


class KeepsShares(MemoryStore):
    """Leaves the shares of a chat that is deleted."""

    async def delete_chat(self, chat: str) -> None:
        kept = self.shares
        await super().delete_chat(chat)
        self.shares = kept


class KeepsAttachments(MemoryStore):
    """Leaves the attachments of a turn that is trimmed."""

    async def trim(self, chat: str, upto: int) -> None:
        kept = dict(self.attachments)
        await super().trim(chat, upto)
        self.attachments = kept


class MixesAttachments(MemoryStore):
    """Gives the attachment of another chat."""

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        return next((content for key, (_, content) in self.attachments.items() if key[1] == id), None)


class DropsSending(MemoryStore):
    """Drops an attachment while it is being sent."""

    async def delete_attachment(self, chat: str, id: str) -> None:
        self.attachments.pop((chat, id), None)


class ForgetsPermits(MemoryStore):
    """Makes changes to which the right has ended."""

    def permit(self, shown: str | None = None) -> None:
        pass


class OldRights(MemoryStore):
    """Asks whether the person may still change something, and not whether they see the chat by now."""

    def permit(self, shown: str | None = None) -> None:
        super().permit()


class ShowsEntries(MemoryStore):
    """Reads entries for whoever asks."""

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> Page:
        with permits.acting(None):
            return await super().read(chat, after=after, limit=limit)


class ShowsTurns(MemoryStore):
    """Lists turns for whoever asks."""

    async def list_turns(self, chat: str, *, before: int | None = None, limit: int) -> list[TurnRow]:
        with permits.acting(None):
            return await super().list_turns(chat, before=before, limit=limit)


class ShowsAttachments(MemoryStore):
    """Lists attachments for whoever asks."""

    async def list_attachments(self, chat: str) -> list[Attachment]:
        with permits.acting(None):
            return await super().list_attachments(chat)


class ReadsAttachments(MemoryStore):
    """Reads attachments for whoever asks."""

    async def read_attachment(self, chat: str, id: str) -> bytes | None:
        with permits.acting(None):
            return await super().read_attachment(chat, id)


class BeginsEmpty(MemoryStore):
    """Keeps a chat whose first entry is rejected."""

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        await super().create_chat(row)
        if first is not None:
            await self.submit(row.id, first.data, at=first.at, key=first.key)


class MarksBack(MemoryStore):
    """Moves read marks back."""

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        for chat in turns.keys() & self.chats.keys():
            self.chats[chat].row.reads.pop(person, None)
        return await super().mark_read(person, turns)


class MarksOnce(MemoryStore):
    """Does not return chats whose mark was there before, so that a second attempt notifies nobody."""

    async def mark_read(self, person: str, turns: Mapping[str, int]) -> list[str]:
        before = {id: self.chats[id].row.reads.get(person) for id in turns.keys() & self.chats.keys()}
        return [id for id in await super().mark_read(person, turns) if before[id] != turns[id]]


class MarksUnseen(MemoryStore):
    """Marks chats that the person does not see."""

    def may_mark(self, reader: Reader | None, row: ChatRow) -> bool:
        return True


class LoosePhrases(MemoryStore):
    """Finds words that do not follow each other."""

    async def search(self, terms: Sequence[Term], reader: Reader, **options: Any) -> StoredHits:
        loose = [Term((word,), term.is_prefix) for term in terms for word in term.words]
        return await super().search(loose, reader, **options)


class ShowsAll(MemoryStore):
    """Finds in all chats, whoever asks."""

    def may_see(self, reader: Reader, row: ChatRow) -> bool:
        return True


class CountsAll(MemoryStore):
    """Adds up what everybody has asked for, whoever asks."""

    def may_count(self, reader: Reader, person: str) -> bool:
        return True


class KeepsWords(MemoryStore):
    """Finds what was deleted."""

    def forget(self, chat: str, is_gone: Callable[[int], bool]) -> None:
        pass


class ForgetsMarks(MemoryStore):
    """Takes for indexed what has changed meanwhile."""

    async def index(self, item: Unindexed, texts: SearchTexts | None, *, at: int = 0) -> None:
        mark = self.unindexed.get((item.chat, item.turn), item.mark)
        await super().index(item._replace(mark=mark), texts, at=at)


class ReadsSyntax(MemoryStore):
    """Does not find all that may be asked for."""

    async def search(self, terms: Sequence[Term], reader: Reader, **options: Any) -> StoredHits:
        if len(terms) > 50:
            raise ValueError("too deep")
        return await super().search(terms, reader, **options)


class KeepsDirectories(MemoryStore):
    """Removes nothing."""

    async def delete_directory(self, path: str) -> None:
        pass


class ExpiresOpen(MemoryStore):
    """Lets a turn expire that goes on."""

    async def list_expired(self, *, before: int | None, max_bytes: int | None) -> dict[str, int]:
        found = await super().list_expired(before=before, max_bytes=max_bytes)
        return {chat: self.chats[chat].last for chat in found}


class Racing(MemoryStore):
    """Looks first and writes later."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        found = self.of(chat)
        if options["after"] != found.last:
            raise Conflict(chat, options["after"], found.last)
        await asyncio.sleep(0)
        self.put(found, entries, options["at"])
        return found.last


class Silent(MemoryStore):
    """Notifies nobody."""

    def notify(self, chat: str, last: int) -> None:
        pass


class SilentSubmit(MemoryStore):
    """Notifies nobody of what was submitted."""

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        subscriptions, self.subscriptions = self.subscriptions, []
        try:
            return await super().submit(chat, entry, **options)
        finally:
            self.subscriptions = subscriptions + self.subscriptions


class SilentDelete(MemoryStore):
    """Notifies nobody of a chat that was deleted."""

    async def delete_chat(self, chat: str) -> None:
        self.of(chat)
        del self.chats[chat]


class Torn(MemoryStore):
    """Can be cancelled between two entries."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        last = await super().append(chat, [], **options)
        for entry in entries:
            last = await super().append(chat, [entry], **{**options, "after": last})
        return last


class StaysFailed(MemoryStore):
    """Is checked, and counts as failed nevertheless."""

    async def check(self) -> None:
        pass


class Forgets(MemoryStore):
    """Loses the last entry when it is opened again."""

    async def trim(self, chat: str, upto: int) -> None:
        await super().trim(chat, upto)
        self.of(chat).entries.pop()


WRONG: list[tuple[type[MemoryStore], str]] = [
    (FromZero, "entries_are_kept"),
    (Strips, "entries_are_kept"),
    (OwnClock, "entries_are_kept"),
    (NoCompare, "stale_writers_conflict"),
    (LaxCompare, "stale_writers_conflict"),
    (WrongLast, "stale_writers_conflict"),
    (SummaryAnyway, "stale_writers_conflict"),
    (BlindSubmit, "stale_writers_conflict"),
    (NoEpoch, "older_epochs_are_fenced"),
    (OneEpoch, "older_epochs_are_fenced"),
    (ReleasesAll, "claims_are_released"),
    (Halves, "appends_are_whole"),
    (Cuts, "appends_are_whole"),
    (NoSummaries, "summaries_go_with_their_entries"),
    (NoRows, "summaries_go_with_their_entries"),
    (FreshSummary, "summaries_go_with_their_entries"),
    (Keyless, "a_key_is_one_entry"),
    (NewKeys, "a_key_is_one_entry"),
    (NoLimit, "pages_follow"),
    (Swaps, "pages_follow"),
    (Folds, "chats_are_apart"),
    (SilentTrim, "trimmed_entries_are_gone"),
    (KeepsTurns, "trimmed_entries_are_gone"),
    (KeepsKeys, "trimmed_entries_are_gone"),
    (StartsAnew, "trimmed_entries_are_gone"),
    (SilentAhead, "numbers_ahead_are_errors"),
    (Lenient, "nonsense_is_an_error"),
    (KeepsDeleted, "chats_are_rows"),
    (ReplacesRows, "changes_leave_other_fields"),
    (LosesRules, "rules_are_compared_and_set"),
    (DropsHeartbeats, "chats_are_rows"),
    (KeepsDirectories, "directories_are_rows"),
    (KeepsShares, "shares_are_rows"),
    (MixesAttachments, "attachments_are_kept"),
    (DropsSending, "attachments_are_kept"),
    (KeepsAttachments, "attachments_go_with_their_turns"),
    (ForgetsPermits, "changes_need_their_right"),
    (OldRights, "changes_need_their_right"),
    (ForgetsPermits, "reads_need_their_right"),
    (ShowsEntries, "reads_need_their_right"),
    (ShowsTurns, "reads_need_their_right"),
    (ShowsAttachments, "reads_need_their_right"),
    (ReadsAttachments, "reads_need_their_right"),
    (BeginsEmpty, "chats_begin_with_their_first_turn"),
    (MarksBack, "read_marks_move_forward"),
    (MarksOnce, "read_marks_move_forward"),
    (MarksUnseen, "read_marks_need_their_right"),
    (LoosePhrases, "words_are_found"),
    (ShowsAll, "searches_keep_to_rights"),
    (CountsAll, "costs_are_added_up"),
    (KeepsWords, "the_index_follows_changes"),
    (ForgetsMarks, "the_index_follows_changes"),
    (ReadsSyntax, "any_search_is_answered"),
    (ExpiresOpen, "old_turns_expire"),
    (Racing, "writers_race"),
    (Silent, "subscribers_miss_nothing"),
    (SilentSubmit, "subscribers_miss_nothing"),
    (SilentDelete, "subscribers_are_notified_of_rows"),
    (Torn, "cancelled_appends_are_whole"),
    (StaysFailed, "a_check_changes_nothing"),
    (Forgets, "a_new_store_has_all"),
]
"""Wrong stores, and the check that is there for what is wrong with each."""


@pytest.mark.parametrize(("wrong", "check"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_a_wrong_store_is_rejected(wrong: type[MemoryStore], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong store fails the check that is there for it, and so the suite."""
    monkeypatch.setattr(promises, "PATIENCE", 1)
    [found] = [known for known in CHECKS if known.__name__ == check]
    with pytest.raises(AssertionError, match=check):
        asyncio.run(check_store(opener(wrong()), [found]))


class Raises(MemoryStore):
    """Raises what no store may raise."""

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        raise KeyError(row.id)


class RaisesOther(MemoryStore):
    """Raises something else than is promised."""

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        try:
            return await super().append(chat, entries, **options)
        except Conflict as error:
            raise KeyError(chat) from error


class Hangs(MemoryStore):
    """Never ends."""

    async def create_chat(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Hangs, "it never came to an end"),
        (Raises, "the store raised KeyError"),
        (RaisesOther, "expected Conflict, but it raised KeyError"),
    ],
)
def test_a_store_that_hangs_or_raises_is_rejected(
    wrong: type[MemoryStore], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that never ends, and an exception that no store may raise, are named as what is wrong."""
    monkeypatch.setattr(promises, "PATIENCE", 0.5)
    with pytest.raises(AssertionError, match=words):
        asyncio.run(check_store(opener(wrong()), [stale_writers_conflict]))


def test_every_check_rejects_something() -> None:
    """No check is there that every store passes."""
    assert {check for _, check in WRONG} == {check.__name__ for check in CHECKS}
