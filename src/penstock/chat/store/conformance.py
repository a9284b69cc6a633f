"""Check a store against everything that `ChatStore` promises, in one line of a test.

async def test_my_store() -> None:
    await check_store(lambda: MyStore.open("somewhere"))
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from penstock.chat.store.costs import MAX_DAYS, MAX_GROUPS, CostGroup, CostSum
from penstock.chat.store.protocol import (
    Ahead,
    ChatStore,
    Conflict,
    EntryTooLarge,
    Fenced,
    RowChanged,
    StoreClosed,
    StoreFailed,
    Submitted,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import (
    SENDING,
    Attachment,
    ChatChanges,
    ChatRow,
    ChatRule,
    Directory,
    Heartbeat,
    Share,
    TurnRow,
)
from penstock.chat.store.search import TITLE, Reader, SearchTexts, Unindexed
from penstock.chat.store.words import parse
from penstock.errors import UsageError

Open = Callable[[], AbstractAsyncContextManager[ChatStore]]
"""Function that opens the store, each time the same one."""

Check = Callable[[Open, str], Coroutine[Any, Any, None]]

PATIENCE = 30
"""Timeout in seconds for everything that should arrive."""

HOSTILE = (b"", b"\n", b"\0", b"\xff\xfe", b"'; --", b'{"type":"replied"}', b"x" * 100_000)
SYNTAX = "\"'*:^&|!<>()-+{}%_\\/.,;\n "
HOSTILE_QUERIES = ("'; DROP TABLE chats; --", "a AND", "NEAR(a b)", "title:x", "a:*b", "x" * 5000, "a " * 100, '"' * 9)
WRITERS, EACH = 4, 15


async def check_store(make: Open, checks: Sequence[Check] | None = None) -> None:
    """Check all promises, or some of `CHECKS`.

    `make` opens the same store at each call; the checks use chats of random ids.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    for check in CHECKS if checks is None else checks:
        try:
            async with asyncio.timeout(PATIENCE * 2):
                await check(make, f"check-{os.urandom(6).hex()}")
        except TimeoutError:
            raise AssertionError(f"{check.__name__}: it never came to an end") from None
        except AssertionError as broken:
            raise AssertionError(f"{check.__name__}: {broken}") from broken
        except Exception as error:
            raise AssertionError(f"{check.__name__}: the store raised {error!r}") from error


# --- entries ---


async def entries_are_kept(make: Open, chat: str) -> None:
    """Check that numbers begin at 1 without a gap, with the given bytes and times."""
    async with make() as store:
        await store.create_chat(_row(chat))
        _same("a read of a new chat", await store.read(chat), ([], 0))
        given = list(HOSTILE)
        _same("append of several", await store.append(chat, given, after=0, at=7), len(HOSTILE))
        given[0] = b"changed by the caller afterwards"
        _same("append of one", await store.append(chat, [b"more"], after=len(HOSTILE), at=5), len(HOSTILE) + 1)
        await _holds(store, chat, [*HOSTILE, b"more"])
        page = await store.read(chat)
        _same("the times", [entry.at for entry in page.entries], [7] * len(HOSTILE) + [5])
        _same("the last number of a page", (await store.read(chat, limit=1)).last, len(HOSTILE) + 1)


async def stale_writers_conflict(make: Open, chat: str) -> None:
    """Check that an append after a wrong number changes nothing, and gets the real one."""
    async with make() as store:
        await store.create_chat(_row(chat))
        for number in range(3):
            await store.append(chat, [b"%d" % number], after=number, at=1)
        for after, entries in itertools.product((0, 2, 4, 1000), ([b"stale"], [])):
            write = store.append(chat, entries, after=after, at=1, turns=[_turn(1)], changes=ChatChanges(title="stale"))
            _same("the last number of a Conflict", (await _raises(Conflict, write)).last, 3)
        submit = store.submit(chat, b"stale", after=2, at=1, key="k")
        _same("the last number of a Conflict", (await _raises(Conflict, submit)).last, 3)
        _same("an append of nothing", await store.append(chat, [], after=3, at=1), 3)
        await _holds(store, chat, [b"0", b"1", b"2"])
        _same("the turns after conflicts", await store.list_turns(chat, limit=9), [])
        _same("the row after conflicts", await store.get_chat(chat), _row(chat))
        _same("a key after a conflict", await store.submit(chat, b"3", at=1, key="k"), Submitted(4, True))


async def older_epochs_are_fenced(make: Open, chat: str) -> None:
    """Check that each claim is newer than the one before, and that an earlier claimant can no longer append."""
    async with make() as store:
        await store.create_chat(_row(chat))
        first = await store.claim(chat, "one")
        last = await store.append(chat, [b"1"], after=0, at=1, epoch=first)
        second = await store.claim(chat, "two")
        _require(second > first, f"the epoch {second} is not newer than {first}")
        fenced = await _raises(Fenced, store.append(chat, [b"stale"], after=last, at=1, epoch=first))
        _same("the epoch of a Fenced", fenced.epoch, second)
        await store.append(chat, [b"2"], after=last, at=1, epoch=second)
        await store.append(chat, [b"3"], after=last + 1, at=1)
    async with make() as store:
        await _raises(Fenced, store.append(chat, [b"stale"], after=3, at=1, epoch=first))
        _require(await store.claim(chat, "one") > second, "an epoch came again after the store was opened anew")
        await _holds(store, chat, [b"1", b"2", b"3"])


async def claims_are_released(make: Open, chat: str) -> None:
    """Check that a claim can be released, that appends continue after it, and that an older epoch releases nothing."""
    async with make() as store:
        await store.create_chat(_row(chat))
        first = await store.claim(chat, "one")
        await store.release(chat, first)
        await store.append(chat, [b"1"], after=0, at=1, epoch=first)
        second = await store.claim(chat, "two")
        await store.release(chat, first)
        await store.append(chat, [b"2"], after=1, at=1, epoch=second)
        await store.release(chat, second)
        await store.release(chat, second)
        await _raises(Fenced, store.append(chat, [b"stale"], after=2, at=1, epoch=first))
        await _holds(store, chat, [b"1", b"2"])


async def appends_are_whole(make: Open, chat: str) -> None:
    """Check that the largest entry is accepted, but not a larger one, nor anything that came with it."""
    async with make() as store:
        await store.create_chat(_row(chat))
        largest = b"x" * store.max_entry_bytes
        await store.append(chat, [largest, b"small"], after=0, at=1)
        larger = [b"before", largest + b"x", b"behind"]
        await _raises(EntryTooLarge, store.append(chat, larger, after=2, at=1, turns=[_turn(1)]))
        await _raises(EntryTooLarge, store.submit(chat, largest + b"x", at=1))
        await _holds(store, chat, [largest, b"small"])
        _same("the turns of an append that failed", await store.list_turns(chat, limit=9), [])


async def summaries_go_with_their_entries(make: Open, chat: str) -> None:
    """Check that turns and the chat's row are written with the entries of their append, and replaced by later ones."""
    async with make() as store:
        await store.create_chat(_row(chat))
        _same("the summary of a new chat", await store.summary(chat, limit=9), (0, 0, []))
        first = [_turn(1, first=1), _turn(2, first=2)]
        await store.append(chat, [b"1", b"2"], after=0, at=1, turns=first, changes=ChatChanges(session_id="s"))
        _same("turns", await store.list_turns(chat, limit=9), first)
        _same("the summary", await store.summary(chat, limit=9), (2, 2, first))
        _same("the row", await store.get_chat(chat), _row(chat, session_id="s"))
        over = _turn(1, first=1, last=3, view=b"over")
        await store.append(chat, [b"3"], after=2, at=9, turns=[over])
        await store.append(chat, [], after=3, at=9, turns=[_turn(3, first=3)])
    async with make() as store:
        _same("turns", await store.list_turns(chat, limit=9), [over, first[1], _turn(3, first=3)])
        _same("the newest turn", await store.list_turns(chat, limit=1), [_turn(3, first=3)])
        _same("turns before one", await store.list_turns(chat, before=3, limit=1), [first[1]])
        _same("turns before the first", await store.list_turns(chat, before=1, limit=9), [])
        _same("the summary", await store.summary(chat, limit=1), (3, 3, [first[1], _turn(3, first=3)]))
        await store.append(chat, [b"4"], after=3, at=1)
        _same("a summary that is behind", (await store.summary(chat, limit=9))[:2], (3, 4))
        full = TurnRow(**{**_values_of(TurnRow), "turn": 4, "first": 4, "last": 4})
        await store.append(chat, [], after=4, at=9, turns=[full])
        for name, value in asdict((await store.list_turns(chat, limit=1))[0]).items():
            _same(f"the field {name!r} of a turn", value, getattr(full, name))


async def a_key_is_one_entry(make: Open, chat: str) -> None:
    """Check that a submit with a known key returns its entry, with any number of submits at once."""
    async with make() as store:
        for name in (chat, f"{chat}-other"):
            await store.create_chat(_row(name))
        found = await asyncio.gather(*(store.submit(chat, b"%d" % it, at=1, key="k") for it in range(6)))
        _same("the numbers of one key", {it.number for it in found}, {1})
        _same("how many appended it", sum(it.is_new for it in found), 1)
        _same("another key", await store.submit(chat, b"x", at=1, after=1, key="K"), Submitted(2, True))
        _same("no key", await store.submit(chat, b"y", at=1), Submitted(3, True))
        _same("no key again", await store.submit(chat, b"y", at=1), Submitted(4, True))
        _same("a key after a stale number", await store.submit(chat, b"z", at=1, after=0, key="K"), Submitted(2, False))
        _same("a turn", await store.submit(chat, b"t", at=1, key="t", turn=1), Submitted(5, True))
        _same("the turn again", await store.submit(chat, b"t", at=2, key="t", turn=1), Submitted(5, False))
        _same("the key in another chat", await store.submit(f"{chat}-other", b"x", at=1, key="k"), Submitted(1, True))
    async with make() as store:
        _same("the key after opening again", await store.submit(chat, b"x", at=1, key="k"), Submitted(1, False))
        _same("the last number", (await store.read(chat)).last, 5)


async def pages_follow(make: Open, chat: str) -> None:
    """Check that a read begins after the given number, and ends at its limit."""
    async with make() as store:
        await store.create_chat(_row(chat))
        data = [b"%d" % number for number in range(1, 31)]
        await store.append(chat, data, after=0, at=1)
        for after, limit in itertools.product((0, 1, 7, 29, 30), (1, 2, 10, 500)):
            entries = (await store.read(chat, after=after, limit=limit)).entries
            _require(len(entries) <= limit, f"a read of at most {limit} gave {len(entries)}")
            _require(bool(entries) == (after < 30), f"a read after {after} of 30 gave {len(entries)} entries")
            expected = [(number, b"%d" % number) for number in range(after + 1, after + 1 + len(entries))]
            _same(f"read after {after}", [(entry.number, entry.data) for entry in entries], expected)


async def chats_are_apart(make: Open, chat: str) -> None:
    """Check that changes of one chat are not visible in another, however similar their ids are."""
    async with make() as store:
        names = [chat, f"{chat}.in", f"{chat}_", chat.upper(), f"{chat}1"]
        for name in names:
            await store.create_chat(_row(name))
        for number, name in itertools.product(range(3), names):
            turn = _turn(number + 1, first=number + 1, last=number + 1)
            await store.append(name, [f"{name} {number}".encode()], after=number, at=1, turns=[turn])
        await store.trim(chat, 3)
        await store.claim(chat, "n")
        for name in names[1:]:
            await _holds(store, name, [f"{name} {number}".encode() for number in range(3)])
            _same("the turns of another chat", len(await store.list_turns(name, limit=9)), 3)
        await store.delete_chat(chat)
        for name in names[1:]:
            await _holds(store, name, [f"{name} {number}".encode() for number in range(3)])


async def trimmed_entries_are_gone(make: Open, chat: str) -> None:
    """Check that trimmed entries are gone, with their turns and keys; other numbers stay, and none is given twice."""
    async with make() as store:
        await store.create_chat(_row(chat))
        await store.submit(chat, b"1", at=1, key="k")
        data = [b"%d" % number for number in range(2, 11)]
        turns = [
            _turn(1, first=1, last=4),
            _turn(2, first=5, last=9),
            _turn(3, first=10),
        ]
        await store.append(chat, data, after=1, at=1, turns=turns)
        for upto, first in ((0, 1), (4, 5), (2, 5), (4, 5), (5, 6)):
            await store.trim(chat, upto)
            for after in range(first - 1):
                trimmed = await _raises(Trimmed, store.read(chat, after=after))
                _same("the first number of a Trimmed", trimmed.first, first)
            await _holds(store, chat, [b"%d" % number for number in range(first, 11)], after=first - 1)
            _same("turns", await store.list_turns(chat, limit=9), turns[1 if first > 1 else 0 :])
        _same("a key that was trimmed", await store.submit(chat, b"11", at=1, key="k"), Submitted(11, True))
        await store.trim(chat, 11)
        _same("the first number where all is trimmed", (await _raises(Trimmed, store.read(chat))).first, 12)
        _same("read at the end where all is trimmed", await store.read(chat, after=11), ([], 11))
        _same("turns that are not over", await store.list_turns(chat, limit=9), [turns[2]])
    async with make() as store:
        await _raises(Conflict, store.append(chat, [b"anew"], after=0, at=1))
        _same("append where all was trimmed", await store.append(chat, [b"12"], after=11, at=1), 12)
        await _holds(store, chat, [b"12"], after=11)


async def numbers_ahead_are_errors(make: Open, chat: str) -> None:
    """Check that an unassigned number is an error, with the last assigned one."""
    async with make() as store:
        await store.create_chat(_row(chat))
        await store.append(chat, [b"1", b"2"], after=0, at=1)
        for number in (3, 1000):
            _same("the last number of an Ahead", (await _raises(Ahead, store.read(chat, after=number))).last, 2)
            _same("the last number of an Ahead", (await _raises(Ahead, store.trim(chat, number))).last, 2)
        await _holds(store, chat, [b"1", b"2"])


async def nonsense_is_an_error(make: Open, chat: str) -> None:
    """Check that invalid ids and numbers are the caller's error."""
    async with make() as store:
        await store.create_chat(_row(chat))
        for name in ("", "/a", "../a", "a/b", "a b", "a\n", "ü", "a" * 201, "a\0"):
            await _raises(UsageError, store.append(name, [b"x"], after=0, at=1))
            await _raises(UsageError, store.submit(name, b"x", at=1))
            await _raises(UsageError, store.read(name))
            await _raises(UsageError, store.trim(name, 0))
            await _raises(UsageError, store.create_chat(_row(name)))
        nonsense: Any = [True, "1", None, 1.0, -1, 2**63]
        for number in nonsense:
            await _raises(UsageError, store.append(chat, [b"x"], after=number, at=1))
            await _raises(UsageError, store.append(chat, [b"x"], after=0, at=number))
            await _raises(UsageError, store.read(chat, after=number))
            await _raises(UsageError, store.read(chat, limit=0 if number is True else number))
            await _raises(UsageError, store.trim(chat, number))
        entries: Any
        for entries in (b"ab", "ab", ["ab"], [b"a", None], [bytearray(b"a")]):
            await _raises(UsageError, store.append(chat, entries, after=0, at=1))
        _same("read after nothing but nonsense", await store.read(chat), ([], 0))


# --- tables ---


async def chats_are_rows(make: Open, chat: str) -> None:
    """Check that chats are created, read, listed by pages, replaced and deleted, with all that belongs to them."""
    full = ChatRow(**{**_values_of(ChatRow), "id": f"{chat}-b"})
    async with make() as store:
        for row in (_row(chat), full, _row(f"{chat}-c")):
            await store.create_chat(row)
        await _raises(UsageError, store.create_chat(_row(chat)))
        await store.append(chat, [b"1"], after=0, at=1, turns=[_turn(1)])
        await store.update_chat(chat, ChatChanges(title="new"))
    async with make() as store:
        found_row = await store.get_chat(full.id)
        for name in ChatRow.__struct_fields__:
            _same(f"the field {name!r} of a chat", getattr(found_row, name), getattr(full, name))
        expected = [_row(chat, title="new"), full, _row(f"{chat}-c")]
        found: list[ChatRow] = []
        while page := await store.list_chats(after=found[-1].id if found else "", limit=2):
            _require(len(page) <= 2, "a page has more chats than its limit")
            found += page
        _same("all chats", [row for row in found if row.id.startswith(chat)], expected)
        await store.delete_chat(chat)
        for call in (
            *(store.get_chat(chat), store.delete_chat(chat), store.claim(chat, "n")),
            store.update_chat(chat, ChatChanges(title="t")),
            *(store.read(chat), store.trim(chat, 0), store.append(chat, [b"2"], after=1, at=1)),
            *(store.submit(chat, b"2", at=1), store.list_turns(chat, limit=1), store.release(chat, 1)),
        ):
            await _raises(UnknownChat, call)
        await store.create_chat(_row(chat))
        _same("a chat that was created again", await store.read(chat), ([], 0))
        _same("its turns", await store.list_turns(chat, limit=9), [])


async def changes_leave_other_fields(make: Open, chat: str) -> None:
    """Check that a change of some fields of a chat leaves the others as another writer has changed them."""
    heartbeat = Heartbeat(5, "News?")
    async with make() as store:
        await store.create_chat(_row(chat, model="m", home="node-1"))
        await store.append(chat, [b"1"], after=0, at=1, changes=ChatChanges(session_id="s"))
        expected = _row(chat, model="m", home="node-1", session_id="s", title="t")
        _same("a changed row", await store.update_chat(chat, ChatChanges(title="t")), expected)
        many = ChatChanges(model=None, allow="all", heartbeat=heartbeat, heartbeat_since=9)
        _same("a row with more changes", await store.update_chat(chat, many), many.applied(expected))
        await store.append(chat, [b"2"], after=1, at=1, changes=ChatChanges(heartbeat=None))
        expected = ChatChanges(heartbeat=None).applied(many.applied(expected))
        _same("a row without changes", await store.update_chat(chat, ChatChanges()), expected)
        for name, value in _values_of(ChatChanges).items():
            change = ChatChanges(**{name: value})
            _same(f"the changed field {name!r}", await store.update_chat(chat, change), change.applied(expected))
            expected = change.applied(expected)
        _same("the row", await store.get_chat(chat), expected)


async def rules_are_compared_and_set(make: Open, chat: str) -> None:
    """Check that of two writers who change the same rules of a chat one counts, and the other is rejected."""
    one, two, three = (ChatRule(name, f"make {name}", "ana ü") for name in ("a", "b", "c"))
    async with make() as store:
        await store.create_chat(_row(chat))
        changes = [ChatChanges(rules=[rule]) for rule in (one, two)]
        done = await asyncio.gather(
            store.update_chat(chat, changes[0], rules=[]),
            store.update_chat(chat, changes[1], rules=[]),
            return_exceptions=True,
        )
        _same("how many were rejected", sum(isinstance(it, RowChanged) for it in done), 1)
        kept = (await store.get_chat(chat)).rules
        _require(kept in ([one], [two]), "the rules are those of neither writer")
        row = await store.update_chat(chat, ChatChanges(rules=[*kept, three]), rules=kept)
        _same("the rules of the second change", row.rules, [*kept, three])
        await _raises(RowChanged, store.update_chat(chat, ChatChanges(rules=[], title="t"), rules=kept))
        _same("the row after a rejected change", await store.get_chat(chat), row)
        row = await store.update_chat(chat, ChatChanges(rules=[]), rules=[*kept, three])
        _same("no rules", row.rules, [])
        await _raises(UnknownChat, store.update_chat(f"{chat}-none", ChatChanges(rules=[]), rules=[]))


async def directories_are_rows(make: Open, chat: str) -> None:
    """Check that directories are added, replaced, listed and removed."""
    one, two = Directory(f"/{chat}/a", 1), Directory(**{**_values_of(Directory), "path": f"/{chat}/b ü"})
    async with make() as store:
        for directory in (replace(two, trusted_at=1, person="before"), two, one, Directory(one.path, 5)):
            await store.put_directory(directory)
    async with make() as store:
        listed = [it for it in await store.list_directories() if it.path.startswith(f"/{chat}/")]
        _same("directories", listed, [Directory(one.path, 5), two])
        await store.delete_directory(one.path)
        await store.delete_directory(f"/{chat}/none")
        _same("directories", [it for it in await store.list_directories() if it.path.startswith(f"/{chat}/")], [two])


async def shares_are_rows(make: Open, chat: str) -> None:
    """Check that shares are added, found, listed and removed, and deleted with their chat or once they have expired."""
    async with make() as store:
        one = Share(f"{chat}-1", chat, f"{chat}-secret-1", 100, 200, until=3, details=True, person="ana")
        await _raises(UnknownChat, store.put_share(one))
        await store.create_chat(_row(chat))
        two = Share(f"{chat}-2", chat, f"{chat}-secret-2", 150, 2**50)
        for share in (one, two):
            await store.put_share(share)

        async def listed() -> list[Share]:
            return [it for it in await store.list_shares() if it.chat == chat]

        _same("shares", await listed(), [one, two])
        _same("a share by its secret", await store.find_share(one.secret), one)
        _same("no share", await store.find_share(one.id), None)
        three = replace(two, id=f"{chat}-3", secret=f"{chat}-secret-3", created_at=200)
        await store.put_share(three)
        _same("shares once one has expired", await listed(), [two, three])
        await store.delete_share(two.id)
        await store.delete_share(two.id)
        _same("shares without one", await listed(), [three])
    async with make() as store:
        _same("a share after opening the store again", await store.find_share(three.secret), three)
        await store.delete_chat(chat)
        _same("a share of a deleted chat", await store.find_share(three.secret), None)


async def attachments_are_kept(make: Open, chat: str) -> None:
    """Check that attachments are kept byte for byte, found in their own chat alone, and deleted with it."""
    async with make() as store:
        one = Attachment(f"{chat}-1", chat, "a b.png", "image/png", 7, 100, f"{chat}-ana")
        await _raises(UnknownChat, store.put_attachment(one, b"\0\xff1", unsent_before=0))
        await store.create_chat(_row(chat))
        two = Attachment(f"{chat}-2", chat, "ü.txt", "text/plain", 5, 200, f"{chat}-ana")
        await store.put_attachment(one, b"\0\xff1", unsent_before=0)
        await store.put_attachment(two, HOSTILE[4], unsent_before=0)
        _same("attachments", await store.list_attachments(chat), [one, two])
        _same("a content", await store.read_attachment(chat, one.id), b"\0\xff1")
        _same("the bytes of a person", await store.attached_bytes(f"{chat}-ana"), 12)
        other = f"{chat}-other"
        await store.create_chat(_row(other))
        _same("an attachment of another chat", await store.read_attachment(other, one.id), None)
        await store.note_attachments(other, [one.id], 1)
        await store.delete_attachment(other, one.id)
        _same("attachments", await store.list_attachments(chat), [one, two])
        await store.note_attachments(chat, [one.id], SENDING)
        await store.delete_attachment(chat, one.id)
        await store.delete_attachment(chat, f"{chat}-none")
        sending = replace(one, turn=SENDING)
        _same("attachments while one is sent", await store.list_attachments(chat), [sending, two])
        three = replace(two, id=f"{chat}-3", created_at=300)
        await store.put_attachment(three, b"3", unsent_before=201)
        _same("attachments after those never sent", await store.list_attachments(chat), [sending, three])
        await store.delete_attachment(chat, three.id)
        _same("attachments without one", await store.list_attachments(chat), [sending])
    async with make() as store:
        _same("a content after opening the store again", await store.read_attachment(chat, one.id), b"\0\xff1")
        await store.delete_chat(chat)
        _same("attachments of a deleted chat", await store.list_attachments(chat), [])
        _same("the bytes of a person", await store.attached_bytes(f"{chat}-ana"), 0)
        await store.delete_chat(other)


async def attachments_go_with_their_turns(make: Open, chat: str) -> None:
    """Check that attachments are dropped with their turn, and that their bytes count."""
    async with make() as store:
        await store.create_chat(_row(chat))
        last = 0
        for turn in (1, 2):
            attachment = Attachment(f"{chat}-{turn}", chat, "a", "text/plain", 1000, turn)
            await store.put_attachment(attachment, b"x" * 1000, unsent_before=0)
            await store.note_attachments(chat, [attachment.id], turn)
            row = TurnRow(turn, last + 1, last + 1, turn, b"")
            last = await store.append(chat, [b"%d" % turn], after=last, at=turn, turns=[row])
        every = await store.list_expired(before=None, max_bytes=0)
        _require(every.get(chat) == 2, "all turns are more than no bytes")
        await store.trim(chat, 1)
        _same("attachments after a trim", [it.turn for it in await store.list_attachments(chat)], [2])
        await store.delete_chat(chat)


async def words_are_found(make: Open, chat: str) -> None:
    """Check that turns and titles wait to be indexed, and that their words are found then, newest first."""
    word, other = chat.replace("check-", "w"), f"{chat}-other"
    async with make() as store:
        await store.create_chat(_row(chat, title=f"A {word}"))
        await store.create_chat(_row(other))
        turns = [_turn(1, first=1, last=1), _turn(2, first=2, last=2), _turn(3, first=3)]
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1, turns=turns)
        _same("what waits", await _waiting(store, chat), [0, 1, 2])
        await _index(store, chat, 0, SearchTexts(title=f"A {word}"), at=10)
        await _index(store, chat, 1, SearchTexts(prompt=f"Zwei Straßen, {word}", reply="été 東京 x"), at=20)
        await _index(store, chat, 2, SearchTexts(commands=f"cat a_b/{word}.py\n\0\ud800", paths="c"), at=30)
        _same("what waits once all is indexed", await _waiting(store, chat), [])

        async def found(query: str, **more: Any) -> list[int]:
            hits = await store.search(parse(query), Reader("owner", is_owner=True), limit=9, **more)
            _require(hits.is_complete, f"the search for {query!r} was not completed")
            return [hit.turn for hit in hits.hits if hit.chat == chat]

        _same("all rows with a word", await found(word), [2, 1, 0])
        _same("a word in capitals", await found(f'"{word.upper()}"'), [2, 1, 0])
        _same("the beginning of a word", await found(word[:-2]), [2, 1, 0])
        _same("the beginning of a word in quotes", await found(f'"{word[:-2]}"'), [])
        _same("words of two texts", await found(f"{word} strassen ETE"), [1])
        _same("a character", await found(f"{word} 京"), [1])
        _same("a part of a path", await found(f"b/{word}.py"), [2])
        _same("words that do not follow each other", await found(f"zwei-{word}"), [])
        _same("a phrase over two texts", await found(f'"{word} ete"'), [])
        _same("a phrase over two texts that follow each other", await found('"py c"'), [])
        _same("a word that is missing", await found(f"{word} missing"), [])
        _same("no words", await found("*:'\"&|!-_"), [])
        (hit,) = (await store.search(parse(f"straßen {word}"), Reader("owner", is_owner=True), limit=1)).hits
        row = (hit.chat, hit.at, hit.chat_title, hit.agent, hit.cwd, hit.archived, hit.person, hit.texts.reply)
        _same("a hit", row, (chat, 20, f"A {word}", "agent", "/src", False, "owner", "été 東京 x"))
        _same("the page after a hit", await found(word, before=hit.key), [0])


async def the_index_follows_changes(make: Open, chat: str) -> None:
    """Check that what changes waits to be indexed again, and that what is trimmed or deleted is found no more."""
    word = chat.replace("check-", "w")
    async with make() as store:

        async def found() -> list[int]:
            return [it.turn for it in (await store.search(parse(word), Reader("owner", is_owner=True), limit=9)).hits]

        await store.create_chat(_row(chat, title=word))
        turns = [_turn(1, first=1, last=1), _turn(2, first=2, last=2), _turn(3, first=3)]
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1, turns=turns)
        for turn in (0, 1, 2):
            await _index(store, chat, turn, SearchTexts(prompt=word), at=turn)
        await store.append(chat, [], after=3, at=1, turns=[_turn(2, first=2, last=2, view=b"later")])
        await store.update_chat(chat, ChatChanges(title="B", archived=True))
        _same("what waits after changes", await _waiting(store, chat), [0, 2])
        item = next(it for it in await store.list_unindexed(limit=1000) if (it.chat, it.turn) == (chat, TITLE))
        await store.update_chat(chat, ChatChanges(title="C"))
        await store.index(item, SearchTexts(title="B"), at=10)
        _same("what waits after a change while it was indexed", await _waiting(store, chat), [0, 2])
        await _index(store, chat, 2, None)
        _same("a turn without texts", await found(), [1])
        await store.trim(chat, 1)
        _same("a turn that was trimmed", await found(), [])
        await store.index(Unindexed(chat, 1, 0), SearchTexts(prompt=word), at=1)
        _same("a trimmed turn that is indexed late", await found(), [])
    async with make() as store:
        _same("what waits in the next store", await _waiting(store, chat), [0])
        await _index(store, chat, 0, SearchTexts(title=word), at=10)
        _same("a title in the next store", await found(), [0])
        await store.delete_chat(chat)
        _same("a deleted chat", await found(), [])
        _same("what waits of a deleted chat", await _waiting(store, chat), [])
        await store.create_chat(_row(chat))
        _same("a new chat of its id", await found(), [])
        await store.index(Unindexed(f"{chat}-none", 1, 0), SearchTexts(prompt=word), at=1)


async def searches_keep_to_rights(make: Open, chat: str) -> None:
    """Check that a search finds nothing in the private chats of other persons."""
    word = chat.replace("check-", "w")
    async with make() as store:
        for person, visibility in (("ana", "private"), ("ben", "private"), ("ben", "team")):
            id = f"{chat}-{person}-{visibility}"
            await store.create_chat(_row(id, person=person, visibility=visibility))
            await _index(store, id, 0, SearchTexts(title=word), at=1)
        for reader, sees in (
            (Reader("owner", is_owner=True), ["ana-private", "ben-private", "ben-team"]),
            (Reader("ana"), ["ana-private", "ben-team"]),
            (Reader("ben"), ["ben-private", "ben-team"]),
            (Reader("cat"), ["ben-team"]),
        ):
            hits = (await store.search(parse(word), reader, limit=9)).hits
            _same(f"what {reader.person} finds", sorted(hit.chat for hit in hits), [f"{chat}-{it}" for it in sees])
        await store.update_chat(f"{chat}-ben-team", ChatChanges(visibility="private"))
        _same("what is found once it is private", (await store.search(parse(word), Reader("cat"), limit=9)).hits, [])


async def costs_are_added_up(make: Open, chat: str) -> None:
    """Check that the costs of ended turns are added up by day, agent, chat and person, as the reader may see them."""
    start, day = 2**40, 86_400_000
    ana, ben = Reader(f"{chat}-ana"), Reader(f"{chat}-ben")

    def ended(turn: int, at: int, **view: Any) -> TurnRow:
        shown = msgspec.json.encode({"turn": turn, "began_at": 5, "agent": "a", "person": ana.person, **view})
        return _turn(turn, last=1, at=start + at, view=shown)

    used = {"input_tokens": 10, "output_tokens": 3}
    turns = [
        ended(1, 0, cost_usd=0.1, usage=used),
        ended(2, 5, usage={**used, "cost_usd": 0.2}, message="NUL \0 and \\u0000"),
        ended(3, day, agent="b", usage=used),
        ended(4, day, cost_usd=0.3, person=ben.person),
        ended(5, -1, cost_usd=9.0),
        ended(6, day, cost_usd=9.0, began_at=None),
        replace(ended(7, day, cost_usd=9.0), last=0),
        _turn(8, last=1, at=start, view=b"\0 no \xff summary"),
        replace(ended(9, day), view=b'{"began_at": 5, "cost_usd": {}, "person": "x"'),
    ]
    async with make() as store:
        await store.create_chat(_row(chat))
        await store.append(chat, [b"1"], after=0, at=1, turns=turns)

        async def sums(by: CostGroup, reader: Reader = ana, limit: int = 9) -> list[CostSum]:
            return await store.costs(by, [start, start + day, start + 2 * day], reader, limit=limit)

        first = CostSum(str(start), 2, 0.3, 0, 20, 6)
        _same("by day", await sums("day"), [CostSum(str(start + day), 1, 0.0, 1, 10, 3), first])
        _same("the newest day", await sums("day", limit=1), [CostSum(str(start + day), 1, 0.0, 1, 10, 3)])
        _same("by agent", await sums("agent"), [first._replace(name="a"), CostSum("b", 1, 0.0, 1, 10, 3)])
        _same("by chat", await sums("chat"), [CostSum(chat, 3, 0.3, 1, 30, 9)])
        _same("by person", await sums("person", ben), [CostSum(ben.person, 1, 0.3, 0, 0, 0)])
        everybody = await sums("chat", Reader("owner", is_owner=True), limit=1000)
        _require(CostSum(chat, 4, 0.6, 1, 30, 9) in everybody, f"of everybody: {everybody!r:.200}")
        await store.append(chat, [b"2"], after=1, at=1, turns=[ended(3, day, cost_usd=0.5)])
        _same("a summary that is replaced", await sums("agent"), [CostSum("a", 3, 0.8, 0, 20, 6)])
        for wrong in ([], [2, 1], [1, 1], list(range(MAX_DAYS + 1))):
            await _raises(UsageError, store.costs("day", wrong, ana, limit=1))
        for limit in (0, MAX_GROUPS + 1):
            await _raises(UsageError, sums("day", limit=limit))
        await _raises(UsageError, store.costs("'; --", [1], ana, limit=1))  # type: ignore[arg-type]
        await store.trim(chat, 1)
        _same("turns that were dropped", await sums("chat"), [])
        await store.append(chat, [b"3"], after=2, at=1, turns=[replace(ended(9, 0, cost_usd=1.0), last=3)])
        _same("a turn after them", await sums("person"), [CostSum(ana.person, 1, 1.0, 0, 0, 0)])
        odd: list[Any] = [2**70, 2**63, 10**13, -1, "7", [], {}, None]
        last = 3
        for turn, value in enumerate(odd, 10):
            view = {"began_at": 5, "agent": "a", "person": ana.person, "cost_usd": value}
            row = _turn(turn, last=last + 1, at=start, view=b"")
            shown = json.dumps({**view, "usage": {"input_tokens": value, "output_tokens": 1, "cost_usd": value}})
            last = await store.append(chat, [b"4"], after=last, at=1, turns=[replace(row, view=shown.encode())])
        expected = CostSum(ana.person, 1 + len(odd), 1.0, len(odd), 0, len(odd))
        _same("numbers that cannot be counted", await sums("person"), [expected])
        await store.delete_chat(chat)
        _same("a chat that was deleted", await sums("person"), [])


async def any_search_is_answered(make: Open, chat: str) -> None:
    """Check that no text is syntax of the database: each is answered."""
    random = Random(7)
    async with make() as store:
        for nth in range(200):
            size = random.randrange(1, 200)
            letters = random.choice((SYNTAX, [*SYNTAX, *"abc ", " NOT ", " NEAR(", "\ud800", "é", "𝔘", "東", "ﷺ", "٣"]))
            query = HOSTILE_QUERIES[nth] if nth < len(HOSTILE_QUERIES) else "".join(random.choices(letters, k=size))
            await store.search(parse(query), Reader(query[:9].encode("ascii", "ignore").decode()), limit=2)


async def _waiting(store: ChatStore, chat: str) -> list[int]:
    """Return the turns of a chat that wait to be indexed."""
    return sorted(it.turn for it in await store.list_unindexed(limit=1000) if it.chat == chat)


async def _index(store: ChatStore, chat: str, turn: int, texts: SearchTexts | None, at: int = 0) -> None:
    [item] = [it for it in await store.list_unindexed(limit=1000) if (it.chat, it.turn) == (chat, turn)]
    await store.index(item, texts, at=at)


async def old_turns_expire(make: Open, chat: str) -> None:
    """Check which turns expire: those that ended before a time, and the oldest if entries are too many.

    A turn that has not ended does not expire.
    """
    async with make() as store:
        await store.create_chat(_row(chat))
        for number in range(1, 6):
            turn = _turn(number, first=number, last=number if number < 5 else 0, at=number * 10)
            await store.append(chat, [b"x" * 100], after=number - 1, at=number * 10, turns=[turn])
        found = [(await store.list_expired(before=at, max_bytes=None)).get(chat) for at in (10, 11, 30, 1000)]
        _same("turns before a time", found, [None, 1, 2, 4])
        all_bytes = await store.list_expired(before=None, max_bytes=0)
        _same("all turns that are over", all_bytes.get(chat), 4)
        _same("nothing was dropped", len((await store.read(chat)).entries), 5)
        ended = _turn(6, first=6, last=6, at=60)  # taken back while turn 5 runs
        await store.append(chat, [b"x"], after=5, at=60, turns=[ended])
        found = [(await store.list_expired(before=1000, max_bytes=None)).get(chat)]
        _same("turns before one that has not ended", found, [4])


# --- many at once ---


async def writers_race(make: Open, chat: str) -> None:
    """Check that one of several writers at one number wins, and each acknowledged entry has its place, once."""
    async with make() as store:
        await store.create_chat(_row(chat))
        kept: dict[int, bytes] = {}

        async def write(who: int) -> None:
            for turn in range(EACH):
                data, after = b"%d %d" % (who, turn), 0
                while True:
                    try:
                        if who % 2:
                            number = await store.append(chat, [data], after=after, at=1)
                        else:
                            number = (await store.submit(chat, data, after=after, at=1)).number
                    except Conflict as stale:
                        after = stale.last
                        continue
                    _require(number == after + 1 and number not in kept, f"number {number} was given twice")
                    kept[number] = data
                    break

        await asyncio.gather(*map(write, range(WRITERS)))
        await _holds(store, chat, [kept[number] for number in sorted(kept)])
        _same("the entries that were acknowledged", len(kept), WRITERS * EACH)


async def subscribers_miss_nothing(make: Open, chat: str) -> None:
    """Check that reading to the end at each notification gives all entries in order, once."""
    async with make() as store:
        total = 5 * EACH
        await store.create_chat(_row(chat))
        await store.append(chat, [b"1"], after=0, at=1)

        async def follow(after: int) -> None:
            subscription = store.subscribe()
            try:
                while True:
                    while page := (await store.read(chat, after=after, limit=1 + after % 5)).entries:
                        for entry in page:
                            after += 1
                            _same("the next entry", (entry.number, entry.data), (after, b"%d" % after))
                    if after == total:
                        return
                    while True:
                        news = await subscription.next()
                        if news.all or news.chats.get(chat, 0) > after:
                            break
            finally:
                subscription.close()

        async def write() -> None:
            last = 1
            while last < total - 1:
                await asyncio.sleep(0)
                count = min(1 + last % 3, total - 1 - last)
                entries = [b"%d" % number for number in range(last + 1, last + count + 1)]
                last = await store.append(chat, entries, after=last, at=1)
            await asyncio.sleep(0.1)  # so that all have read the rest, and wait for a notification
            await store.submit(chat, b"%d" % total, at=1)

        await _soon(asyncio.gather(write(), follow(0), follow(0), follow(1)), "the news of the last entry")


async def subscribers_are_notified_of_rows(make: Open, chat: str) -> None:
    """Check that a subscriber is notified of each chat whose row is created, replaced or deleted, and of no other."""
    async with make() as store:
        await store.create_chat(_row(f"{chat}-other"))
        subscription = store.subscribe()

        async def notified(id: str) -> None:
            while True:
                news = await subscription.next()
                _require(id == chat or chat not in news.changed, "a chat changed without a request")
                if id in news.changed:
                    return

        await store.append(chat + "-other", [b"1"], after=0, at=1, changes=ChatChanges(title="new"))
        await _soon(notified(f"{chat}-other"), "the news of a row that was replaced with an append")
        await store.create_chat(_row(chat))
        await _soon(notified(chat), "the news of a new chat")
        await store.update_chat(chat, ChatChanges(title="new"))
        await _soon(notified(chat), "the news of a replaced row")
        await store.delete_chat(chat)
        await _soon(notified(chat), "the news of a deleted chat")
        subscription.close()


async def cancelled_appends_are_whole(make: Open, chat: str) -> None:
    """Check that a cancelled append is made as a whole or not at all; the next continues at the chat's end."""
    async with make() as store:
        await store.create_chat(_row(chat))
        kept: list[bytes] = []
        for turn in range(EACH):
            entries = [b"%d %d" % (turn, number) for number in range(3)]
            task = asyncio.ensure_future(store.append(chat, entries, after=len(kept), at=1))
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                await store.append(chat, entries, after=len(kept), at=1)
            except Conflict as made:
                _same("the last number after a cancelled append", made.last, len(kept) + len(entries))
            kept += entries
        await _holds(store, chat, kept)


async def a_check_changes_nothing(make: Open, chat: str) -> None:
    """Check that a working store passes its check, which ends a noted failure and leaves no trace."""
    async with make() as store:
        await store.create_chat(_row(chat))
        await store.append(chat, [b"1"], after=0, at=1)
        _require(store.has_space(), "a store that works has space")
        _same("the failure of a store that works", store.state.failure, None)
        store.state.failed(StoreFailed("a failure"))
        await store.check()
        _same("the failure of a store that was checked", store.state.failure, None)
        await _holds(store, chat, [b"1"])


async def a_new_store_has_all(make: Open, chat: str) -> None:
    """Check that the next store has everything acknowledged by a closed one, and a closed one cannot be used."""
    async with make() as store:
        await store.create_chat(_row(chat))
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1)
        await store.trim(chat, 1)
        subscription = store.subscribe()
    await _raises(StoreClosed, store.read(chat))
    await _raises(StoreClosed, store.append(chat, [b"x"], after=3, at=1))
    await _raises(StoreClosed, subscription.next())
    async with make() as store:
        _same("Trimmed after opening again", (await _raises(Trimmed, store.read(chat))).first, 2)
        await _raises(Conflict, store.append(chat, [b"stale"], after=0, at=1))
        await store.append(chat, [b"4"], after=3, at=1)
        await _holds(store, chat, [b"2", b"3", b"4"], after=1)


CHECKS: tuple[Check, ...] = (
    entries_are_kept,
    stale_writers_conflict,
    older_epochs_are_fenced,
    claims_are_released,
    appends_are_whole,
    summaries_go_with_their_entries,
    a_key_is_one_entry,
    pages_follow,
    chats_are_apart,
    trimmed_entries_are_gone,
    numbers_ahead_are_errors,
    nonsense_is_an_error,
    chats_are_rows,
    changes_leave_other_fields,
    rules_are_compared_and_set,
    directories_are_rows,
    shares_are_rows,
    attachments_are_kept,
    attachments_go_with_their_turns,
    words_are_found,
    the_index_follows_changes,
    searches_keep_to_rights,
    costs_are_added_up,
    any_search_is_answered,
    old_turns_expire,
    writers_race,
    subscribers_miss_nothing,
    subscribers_are_notified_of_rows,
    cancelled_appends_are_whole,
    a_check_changes_nothing,
    a_new_store_has_all,
)
"""Checks, one for each promise. Each gets a store and the id of a chat that does not exist yet."""


def _row(chat: str, **more: Any) -> ChatRow:
    return ChatRow(chat, "agent", "/src", 5, **more)


def _values_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a value for each field of a struct, other than its default, so that no field can be forgotten."""
    return {field.name: _value_of(field.type, field.default) for field in msgspec.structs.fields(kind)}


def _value_of(kind: Any, default: object) -> Any:
    """Return a value of a type, other than the default."""
    found = msgspec.inspect.type_info(kind)
    for option in found.types if isinstance(found, msgspec.inspect.UnionType) else (found,):
        match option:
            case msgspec.inspect.BoolType():
                return default is not True
            case msgspec.inspect.IntType():
                return 9
            case msgspec.inspect.FloatType():
                return 0.1
            case msgspec.inspect.StrType():
                return "t ü"
            case msgspec.inspect.BytesType():
                return b"\0 \xff"
            case msgspec.inspect.LiteralType(values=values):
                return next(value for value in reversed(values) if value != default)
            case msgspec.inspect.ListType(item_type=msgspec.inspect.StructType(cls=struct)):
                return [struct(**_values_of(struct))]
            case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
                return msgspec.convert([_value_of(str, None), "'; --"], kind)
            case msgspec.inspect.StructType(cls=struct):
                return struct(**_values_of(struct))
    raise AssertionError(f"the suite has no value of the type {kind}: add one in conformance.py")


def _turn(turn: int, *, first: int = 1, last: int = 0, at: int = 1, view: bytes = b"view") -> TurnRow:
    return TurnRow(turn, first, last, at, view)


async def _holds(store: ChatStore, chat: str, data: list[bytes], after: int = 0) -> None:
    """Check that the chat has exactly these entries after a number."""
    found: list[tuple[int, bytes]] = []
    while len(found) <= len(data) and (page := (await store.read(chat, after=after + len(found))).entries):
        found += [(entry.number, entry.data) for entry in page]
    _same("numbers", [number for number, _ in found], list(range(after + 1, after + 1 + len(data))))
    _require([it for _, it in found] == data, "the bytes read are not those appended")


async def _raises(kind: type[Any], call: Awaitable[Any]) -> Any:
    try:
        given = await call
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"expected {kind.__name__}, but it raised {error!r}") from error
    raise AssertionError(f"expected {kind.__name__}, but it gave {given!r:.80}")


async def _soon(call: Awaitable[Any], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await call
    except TimeoutError:
        raise AssertionError(f"{what} never came") from None


def _same(what: str, found: object, expected: object) -> None:
    _require(found == expected, f"{what}: {found!r:.200}, and should be {expected!r:.200}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
