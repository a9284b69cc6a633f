"""The store in a SQLite file: crashes, locks, forms, and what a failing disk does."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.chat.store import database, schema, tables
from penstock.chat.store import sqlite as sqlite_store
from penstock.chat.store.columns import additions
from penstock.chat.store.database import StoreHeld, caution, failure
from penstock.chat.store.protocol import Ahead, Conflict, StoreClosed, StoreFailed, Trimmed, clock
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, Directory, Share, TurnRow
from penstock.chat.store.schema import OtherForm
from penstock.chat.store.sqlite import LARGEST_ENTRY, SqliteStore
from penstock.chat.store.writer import Readers, StoreWrite
from penstock.errors import UsageError

KILLS = at_most(6, 20)

# --- against a model ---

_NUMBERS = st.integers(0, 12)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("ab"), _NUMBERS, st.lists(st.binary(max_size=20), max_size=4)),
        st.tuples(st.just("go on"), st.sampled_from("ab"), st.just(0), st.lists(st.binary(max_size=20), max_size=4)),
        st.tuples(st.just("read"), st.sampled_from("ab"), _NUMBERS, st.integers(1, 5)),
        st.tuples(st.just("trim"), st.sampled_from("ab"), _NUMBERS, st.none()),
        st.tuples(st.just("reopen"), st.just("a"), st.just(0), st.none()),
    ),
    max_size=25,
)


async def _outcome(call: Any) -> Any:
    try:
        return await call
    except (Conflict, Ahead) as refused:
        return type(refused), refused.last
    except Trimmed as trimmed:
        return Trimmed, trimmed.first


async def _follow(path: Path, steps: list[Any]) -> None:
    model: dict[str, list[bytes]] = {"a": [], "b": []}
    first = {"a": 1, "b": 1}
    store = await SqliteStore.open(path)
    for chat in model:
        await store.create_chat(ChatRow(chat, "claude", "/", 1))
    for what, chat, number, value in steps:
        data = model[chat]
        if what in ("append", "go on"):
            after = len(data) if what == "go on" else number
            expected: Any = (Conflict, len(data)) if after != len(data) else len(data) + len(value)
            assert await _outcome(store.append(chat, value, after=after, at=1)) == expected
            if after == len(data):
                data += value
        elif what == "read":
            expected = list(enumerate(data, 1))[number : number + value]
            if number > len(data):
                expected = (Ahead, len(data))
            elif number + 1 < first[chat]:
                expected = (Trimmed, first[chat])
            found = await _outcome(store.read(chat, after=number, limit=value))
            assert found == expected if isinstance(expected, tuple) else _plain(found.entries) == expected
        elif what == "trim":
            assert await _outcome(store.trim(chat, number)) == (None if number <= len(data) else (Ahead, len(data)))
            if number <= len(data):
                first[chat] = max(first[chat], number + 1)
        else:
            await store.close()
            store = await SqliteStore.open(path)
        assert (await store.summary(chat, limit=1)).last == len(model[chat])
    await store.close()


def _plain(entries: Any) -> list[tuple[int, bytes]]:
    return [(entry.number, entry.data) for entry in entries]


@settings(max_examples=at_most(15, 40))
@given(_STEPS)
def test_it_does_as_a_list_would(steps: list[Any]) -> None:
    """Whatever is appended, read and trimmed in whatever order, the store answers as a plain list does."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_follow(Path(folder) / "chats.db", steps))


# --- what a crash leaves ---

_WRITER = """
import asyncio, sys
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, TurnRow
from penstock.chat.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    known = {row.id for row in await store.list_chats()}
    async def write(chat):
        if chat not in known:
            await store.create_chat(ChatRow(chat, "claude", "/", 1))
        last = (await store.summary(chat, limit=1)).last
        print(chat, last, flush=True)
        while True:
            rows = [b"%d" % number * 50 for number in range(last + 1, last + 2 + last % 3)]
            end = last + len(rows)
            turn = TurnRow(end, last + 1, end, 1, b"view %d" % end)
            changes = ChatChanges(title=str(end))
            last = await store.append(chat, rows, after=last, at=1, turns=[turn], changes=changes)
            print(chat, last, flush=True)
            if last % 50 < 3:
                await store.trim(chat, max(0, last - 200))
    await asyncio.gather(write("a"), write("b"))

asyncio.run(main())
"""


def _write_until_killed(path: Path, lines: int) -> dict[str, int]:
    """The last numbers that a writer told, which was killed after some lines."""
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout
    told = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    told += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return {line.split()[0].decode(): int(line.split()[1]) for line in told if line.endswith(b"\n")}


@pytest.mark.slow
def test_a_kill_takes_nothing_that_was_acknowledged(place: Any) -> None:
    """A process that is killed at random moments leaves all that it was told is there, whole and without a gap."""

    async def check(told: dict[str, int]) -> None:
        async with await place.open() as store:
            for chat, acknowledged in told.items():
                summary = await store.summary(chat, limit=1)
                last = summary.last
                assert last >= acknowledged
                # The summary and the row went with their entries: neither is behind, nor ahead.
                assert summary.number == last
                assert [(row.turn, row.last, row.view) for row in summary.turns] == [(last, last, b"view %d" % last)]
                assert (await store.get_chat(chat)).title == str(last)
                after = max(0, last - 50)
                rows = (await store.read(chat, after=after)).entries
                assert _plain(rows) == [(number, b"%d" % number * 50) for number in range(after + 1, last + 1)]

    chance = random.Random(7)
    for _ in range(KILLS):
        asyncio.run(check(_write_until_killed(place.path, chance.randrange(4, 120))))


# --- one process ---


def test_a_second_process_is_told_who_has_it(place: Any) -> None:
    """Who opens a store that is in use is told by which process; its end frees it."""
    holder = subprocess.Popen([sys.executable, "-c", _WRITER, str(place.path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(StoreHeld, match=f"in use by the process {holder.pid} on ") as held:
            asyncio.run(place.open())
        assert held.value.holder == holder.pid
    finally:
        holder.kill()
        holder.communicate()
    asyncio.run(_open_and_close(place))


async def _open_and_close(place: Any, *chats: str) -> None:
    await (await place.open(*chats)).close()


def test_two_names_are_one_store(place: Any) -> None:
    """In one process too, and by a link, a store is opened once."""

    async def twice() -> None:
        link = place.path.with_name("link.db")
        link.symlink_to(place.path)
        async with await place.open():
            with pytest.raises(StoreHeld, match="this one"):
                await SqliteStore.open(link)
        await _open_and_close(place)

    asyncio.run(twice())


@pytest.mark.parametrize("note", ["", "nonsense", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_holder_that_is_not_known(place: Any, note: str) -> None:
    """A lock whose note cannot be read is somebody's all the same."""
    with open(f"{place.path}.lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(note)
        other.flush()
        with pytest.raises(StoreHeld, match="in use by another process") as held:
            asyncio.run(place.open())
    assert held.value.holder is None
    asyncio.run(_open_and_close(place))


def test_a_disk_without_room_for_the_lock(place: Any) -> None:
    """A store whose lock cannot be written is a clear error, and stays nobody's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StoreFailed, match="cannot be used"):
            asyncio.run(place.open())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    asyncio.run(_open_and_close(place))


def test_no_one_else_reads_it(place: Any) -> None:
    """The file, and what lies beside it, is for its owner alone."""

    async def look() -> None:
        async with await place.open("a", "b", "c") as store:
            await store.append("a", [b"x"], after=0, at=1)
            assert {path.stat().st_mode & 0o777 for path in place.path.parent.iterdir()} == {0o600}

    asyncio.run(look())


def test_closing(place: Any) -> None:
    """What was asked for before the end is done; afterwards there is a clear error, and closing again is nothing."""

    async def run() -> None:
        store = await place.open("a")
        calls = [asyncio.ensure_future(store.append("a", [b"x"], after=number, at=1)) for number in range(50)]
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        assert await asyncio.gather(*calls) == list(range(1, 51))
        for call in (store.append("a", [b"x"], after=50, at=1), store.read("a"), store.trim("a", 1)):
            with pytest.raises(StoreClosed):
                await call

    asyncio.run(run())


def test_what_ends_after_its_event_loop(place: Any) -> None:
    """A change whose event loop is closed by the time it is made is made, and its result is nobody's."""
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(place.open("a"))
    result = loop.create_future()
    loop.close()
    store._writer.put(StoreWrite(lambda changes: changes.put_directory(Directory("/shop", 1)), result))
    store._close()

    async def look() -> None:
        async with await place.open() as again:
            assert [directory.path for directory in await again.list_directories()] == ["/shop"]

    asyncio.run(look())


def test_a_caller_that_is_cancelled(place: Any) -> None:
    """A change that the writer has begun is made, although its caller is cancelled meanwhile."""
    begun, cancelled = threading.Event(), threading.Event()

    def make(changes: Any) -> None:
        begun.set()
        cancelled.wait()
        changes.put_directory(Directory("/shop", 1))

    async def check() -> None:
        async with await place.open("a") as store:
            call = asyncio.ensure_future(store._change(make))
            await asyncio.to_thread(begun.wait)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            cancelled.set()
            assert await store.append("a", [b"x"], after=0, at=1) == 1
            assert [directory.path for directory in await store.list_directories()] == ["/shop"]

    asyncio.run(check())


def test_a_change_that_raises(place: Any) -> None:
    """A bug in a change is raised where it was asked for, and the changes after it are made."""

    async def check() -> None:
        async with await place.open("a") as store:
            with pytest.raises(ZeroDivisionError):
                await store._change(lambda changes: 1 // 0)
            assert await store.append("a", [b"x"], after=0, at=1) == 1

    asyncio.run(check())


def test_reads_that_come_too_late(place: Any) -> None:
    """A read that begins after the connections were closed opens no new one."""
    asyncio.run(_open_and_close(place))
    readers = Readers(place.path)
    readers.close()
    with pytest.raises(StoreClosed):
        readers.call(lambda connection: connection)


# --- forms ---


@pytest.mark.parametrize(
    ("statements", "error", "words"),
    [
        (f"PRAGMA application_id={schema.APPLICATION}; PRAGMA user_version=99; CREATE TABLE x (y)", OtherForm, "99"),
        (f"PRAGMA application_id={schema.APPLICATION}; PRAGMA user_version=2; CREATE TABLE x (y)", OtherForm, "--data"),
        ("CREATE TABLE events (other)", UsageError, "not a store"),
        ("PRAGMA user_version=1; CREATE TABLE chats (x)", UsageError, "not a store"),
    ],
)
def test_other_files_are_left_alone(place: Any, statements: str, error: type[Exception], words: str) -> None:
    """A file of another form, or of another program, is refused and not changed by a byte."""
    other = sqlite3.connect(place.path)
    other.executescript(statements)
    other.close()
    before = place.path.read_bytes()
    with pytest.raises(error, match=words):
        asyncio.run(place.open())
    assert place.path.read_bytes() == before


def _lose(place: Any, *columns: str) -> None:
    """Make the file of a version before these columns of chats."""
    for column in columns:
        place.execute(f"ALTER TABLE chats DROP COLUMN {column}")


def _columns(place: Any) -> set[str]:
    with contextlib.closing(sqlite3.connect(place.path)) as file:
        return {row[1] for row in file.execute("PRAGMA table_info(chats)")}


def test_a_file_gets_the_columns_that_it_lacks(place: Any) -> None:
    """A file from before some fields has all of its chats, with the defaults, and keeps the fields from then on."""
    asyncio.run(_open_and_close(place, "a"))
    _lose(place, "home", "allow", "person")
    place.execute("ALTER TABLE directories DROP COLUMN person")

    async def check() -> None:
        async with await place.open() as store:
            assert await store.get_chat("a") == ChatRow("a", "claude", "/", 1)
            await store.create_chat(ChatRow("b", "claude", "/", 1, home="node-1", person="ana"))
            await store.put_directory(Directory("/src", 1, "ana"))
        async with await place.open() as store:
            assert await store.get_chat("b") == ChatRow("b", "claude", "/", 1, home="node-1", person="ana")
            assert await store.list_directories() == [Directory("/src", 1, "ana")]

    asyncio.run(check())


def test_chats_from_before_read_marks_count_as_read(place: Any) -> None:
    """In a file that gets the marks, all have read the turns that there are; a new chat begins without any."""

    async def make() -> None:
        async with await place.open() as store:
            for id in ("a", "b"):
                await store.create_chat(ChatRow(id, "claude", "/", 1))
            turns = [TurnRow(turn, 1, 1, 1, b"{}") for turn in (1, 2)]
            await store.append("a", [b"1"], after=0, at=1, turns=turns)

    async def check() -> None:
        async with await place.open() as store:
            await store.create_chat(ChatRow("c", "claude", "/", 1))
            assert [(await store.get_chat(id)).reads for id in ("a", "b", "c")] == [{"": 2}, {"": 0}, {}]
            await store.mark_read("ana", {"a": 1})
        async with await place.open() as store:
            assert (await store.get_chat("a")).reads == {"": 2, "ana": 1}

    asyncio.run(make())
    _lose(place, "reads")
    asyncio.run(check())


def test_a_file_gets_the_table_that_it_lacks(place: Any) -> None:
    """A file from before shares has all of its chats, and keeps shares from then on."""
    asyncio.run(_open_and_close(place, "a"))
    place.execute("DROP TABLE shares")
    share = Share("1", "a", "secret", 1, 2)

    async def check() -> None:
        async with await place.open() as store:
            assert await store.get_chat("a") == ChatRow("a", "claude", "/", 1)
            assert await store.list_shares() == []
            await store.put_share(share)
        async with await place.open() as store:
            assert await store.find_share("secret") == share

    asyncio.run(check())


def test_a_newer_column_stays(place: Any) -> None:
    """A file with a column of a newer version can be used: its chats keep the value, and new ones get the default."""
    asyncio.run(_open_and_close(place, "a"))
    place.execute("ALTER TABLE chats ADD COLUMN later TEXT NOT NULL DEFAULT 'none'")
    place.execute("UPDATE chats SET later = 'kept'")

    async def check() -> None:
        async with await place.open() as store:
            await store.update_chat("a", ChatChanges(title="new"))
            await store.create_chat(ChatRow("b", "claude", "/", 1))

    asyncio.run(check())
    with contextlib.closing(sqlite3.connect(place.path)) as file:
        assert file.execute("SELECT id, later FROM chats ORDER BY id").fetchall() == [("a", "kept"), ("b", "none")]


def test_columns_that_cannot_be_added_leave_the_file_as_before(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of the columns cannot be added, none is, and the next start adds all."""
    asyncio.run(_open_and_close(place, "a"))
    _lose(place, "home", "person")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "additions", lambda *given: [*additions(*given), "no column NOT NULL"])
        with pytest.raises(StoreFailed):
            asyncio.run(place.open())
    assert not {"home", "person"} & _columns(place)
    asyncio.run(_open_and_close(place, "a"))
    assert {"home", "person"} <= _columns(place)


def test_tables_that_cannot_be_made_leave_an_empty_file(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that fails while the tables are made leaves none of them, and the next start makes all."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "TABLES", (*schema.TABLES, "no statement"))
        with pytest.raises(StoreFailed):
            asyncio.run(place.open())
    asyncio.run(_open_and_close(place))


def test_a_file_system_without_shared_memory(place: Any) -> None:
    """Where SQLite cannot keep a -wal file, the store is refused with what to do."""
    uri = f"{place.path.as_uri()}?vfs=unix-dotfile"  # it has no shared memory, as network drives
    with (
        contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection,
        pytest.raises(StoreFailed, match="no shared memory"),
    ):
        schema.prepare(connection, place.path)


@pytest.mark.parametrize(("path", "limit"), [("chats.db", LARGEST_ENTRY + 1), ("a\0b", 1), ("chats.db", 0)])
def test_nonsense_is_refused(tmp_path: Path, path: str, limit: int) -> None:
    """A limit that SQLite cannot keep, and a path that cannot be, are errors of use."""
    with pytest.raises(UsageError):
        asyncio.run(SqliteStore.open(tmp_path / path, max_entry_bytes=limit))
    assert list(tmp_path.iterdir()) == []


# --- retention ---


def test_the_oldest_turns_of_all_chats_are_too_many(place: Any) -> None:
    """By size, the oldest turns go first, whichever chat they are of, until the rest is no larger."""

    async def check() -> None:
        async with await place.open("a", "b") as store:
            for number in range(1, 6):
                for chat, at in (("a", 2 * number), ("b", 2 * number + 1)):
                    turn = TurnRow(number, number, number, at, b"v")
                    await store.append(chat, [b"x" * 100], after=number - 1, at=at, turns=[turn])
            found = [await store.list_expired(before=None, max_bytes=size) for size in (1000, 999, 700, 100, 0)]
            assert found == [{}, {"a": 1}, {"a": 2, "b": 1}, {"a": 5, "b": 4}, {"a": 5, "b": 5}]
            # A clock that stepped back makes no hole: turn 6 is older than turn 5, and stays.
            await store.append("a", [b"z"], after=5, at=1, turns=[TurnRow(6, 6, 6, 1, b"v")])
            assert await store.list_expired(before=8, max_bytes=None) == {"a": 3, "b": 3}

    asyncio.run(check())


def test_a_long_trim_goes_by_steps(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trim of more entries than one step takes drops them all, and the disk gets the space back."""
    monkeypatch.setattr(tables, "TRIM_ENTRIES", 7)

    async def check() -> None:
        async with await place.open("a") as store:
            await store.append("a", [b"x" * 10_000] * 100, after=0, at=1)
            await store.trim("a", 95)
            assert len((await store.read("a", after=95)).entries) == 5
            with pytest.raises(Trimmed):
                await store.read("a", after=94)

    asyncio.run(check())
    assert place.path.stat().st_size < 200_000


# --- many at once ---


def test_many_chats_at_once(place: Any) -> None:
    """Twenty chats that are written at once, with stale writers: all entries, in order, once."""

    async def write(store: SqliteStore, chat: str) -> None:
        for after in range(0, 60, 3):
            data = [b"%d" % (after + number) for number in (1, 2, 3)]
            assert await store.append(chat, data, after=after, at=1) == after + 3
            with pytest.raises(Conflict) as stale:
                await store.append(chat, [b"stale"], after=after, at=1)
            assert stale.value.last == after + 3

    async def check() -> None:
        chats = [f"chat-{number}" for number in range(20)]
        async with await place.open(*chats) as store:
            await asyncio.gather(*(write(store, chat) for chat in chats))
            for chat in chats:
                entries = (await store.read(chat)).entries
                assert _plain(entries) == [(number, b"%d" % number) for number in range(1, 61)]

    asyncio.run(check())


def test_appends_of_several_chats_wait_for_one_transaction(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat that appends alone does not wait.

    Of several, one waits for a time, for those of the last transaction, for another change, or for the close.
    """
    monkeypatch.setattr(sqlite_store, "GROUP_SECONDS", 3600.0)

    async def use() -> None:
        async with await place.open("a", "b") as store:

            async def waiting(chat: str, after: int) -> asyncio.Future[int]:
                call: asyncio.Future[int] = asyncio.ensure_future(store.append(chat, [b"x"], after=after, at=1))
                await asyncio.sleep(0)
                assert (await store.read(chat)).last == after
                assert not call.done()
                return call

            for number in range(3):
                await store.append("a", [b"x"], after=number, at=1)
            first = await waiting("b", 0)
            await store.append("a", [b"x"], after=3, at=1)
            assert first.result() == 1
            second = await waiting("b", 1)
            await store.claim("a", "here")
            assert second.result() == 2
            last = await waiting("a", 4)
        assert await last == 5

    asyncio.run(use())


def test_appends_of_several_chats_wait_a_short_time(place: Any) -> None:
    """One is made after that time, whatever the others do."""

    async def use() -> None:
        async with await place.open("a", "b") as store:
            await store.append("a", [b"x"], after=0, at=1)
            assert await store.append("b", [b"x"], after=0, at=1) == 1

    asyncio.run(use())


@pytest.mark.parametrize("in_a_task", [False, True])
def test_news_come_behind_the_append(place: Any, in_a_task: bool) -> None:
    """Who appends knows of its entries before subscribers hear of them: it need not read them back."""

    async def check() -> None:
        order: list[str] = []

        async def listen(subscription: Any) -> None:
            while (await subscription.next()).chats != {"a": 1}:
                pass  # the news of the chat's row
            order.append("news")

        async with await place.open("a") as store:
            listening = asyncio.create_task(listen(store.subscribe()))
            await asyncio.sleep(0)
            appending = store.append("a", [b"1"], after=0, at=1)
            await (asyncio.create_task(appending) if in_a_task else appending)
            order.append("append")
            await listening
        assert order == ["append", "news"]

    asyncio.run(check())


# --- a disk that fails ---


def test_a_full_disk(place: Any) -> None:
    """What does not fit is refused with a clear error; what was acknowledged stays, and with room it goes on."""

    async def check() -> None:
        async with await place.open("a", "b", "c") as store:
            last = await store.append("a", [b"kept"] * 10, after=0, at=1)
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            full = Path(f"{place.path}-wal").stat().st_size + 100_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
            try:
                large = (store.append(chat, [b"x" * 190_000], after=last, at=1) for chat in "aa")
                small = (store.append(chat, [b"small"], after=0, at=1) for chat in "bc")
                first, second, *others = await asyncio.gather(*large, *small, return_exceptions=True)
                for failed in (first, second):
                    assert isinstance(failed, StoreFailed)
                    assert "disk" in str(failed)
                    assert not failed.lasting
                assert others == [1, 1]  # what fits is taken, whatever it stood beside
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert (await store.read("a")).last == last
            assert await store.append("a", [b"on"], after=last, at=1) == last + 1
        async with await place.open("a", "b", "c") as store:
            assert [row.data for row in (await store.read("a")).entries] == [b"kept"] * 10 + [b"on"]

    asyncio.run(check())


def test_a_program_that_locks_the_file(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program has the file locked, appends end with a clear error; afterwards they go on."""
    monkeypatch.setattr(database, "BUSY_MS", 20)

    async def check() -> None:
        async with await place.open("a", "b", "c") as store:
            await store.append("a", [b"1"], after=0, at=1)
            other = sqlite3.connect(place.path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            calls = [store.append(chat, [b"x"], after=1 if chat == "a" else 0, at=1) for chat in "abc"]
            for failed in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(failed, StoreFailed)
                assert "another program" in str(failed)
            assert len((await store.read("a")).entries) == 1
            other.execute("ROLLBACK")
            other.close()
            assert await store.append("a", [b"2"], after=1, at=1) == 2

    asyncio.run(check())


def test_what_is_written_goes_to_the_disk(place: Any) -> None:
    """The connection that writes waits for the disk at each commit: what no test can show without a power cut."""

    async def check() -> None:
        async with await place.open("a", "b", "c") as store:
            [synchronous] = store._writer._connection.execute("PRAGMA synchronous").fetchone()
            [mode] = store._writer._connection.execute("PRAGMA journal_mode").fetchone()
            assert (synchronous, mode) == (2, "wal")

    asyncio.run(check())


def test_a_lasting_failure_is_final(place: Any) -> None:
    """A file that was moved and moved back is not written again: what happened to it meanwhile is not known."""

    async def check() -> None:
        async with await place.open("a") as store:
            elsewhere = place.path.with_name("elsewhere.db")
            place.path.rename(elsewhere)
            with pytest.raises(StoreFailed) as failed:
                await store.append("a", [b"1"], after=0, at=1)
            assert failed.value.lasting
            elsewhere.rename(place.path)
            with pytest.raises(StoreFailed) as again:
                await store.append("a", [b"1"], after=0, at=1)
            assert again.value.lasting

    asyncio.run(check())


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_is_taken_away(place: Any, suffix: str) -> None:
    """No append is acknowledged that goes to a file which is no longer there."""

    async def check() -> None:
        async with await place.open("a", "b", "c") as store:
            await store.append("a", [b"1"], after=0, at=1)
            Path(f"{place.path}{suffix}").unlink()
            with pytest.raises(StoreFailed, match="moved, replaced or deleted") as failed:
                await store.append("a", [b"2"], after=1, at=1)
            assert failed.value.lasting

    asyncio.run(check())


def test_a_file_that_is_replaced(place: Any) -> None:
    """No append is acknowledged that goes to another file than the one that was opened."""

    async def check() -> None:
        async with await place.open("a") as store:
            copy = place.path.with_name("copy.db")
            copy.write_bytes(place.path.read_bytes())
            copy.replace(place.path)
            with pytest.raises(StoreFailed, match="moved, replaced or deleted"):
                await store.append("a", [b"1"], after=0, at=1)

    asyncio.run(check())


def test_a_page_is_bounded(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of large entries ends early, and the next one goes on behind it."""
    monkeypatch.setattr(tables, "MAX_PAGE_BYTES", 25)

    async def check() -> None:
        async with await place.open("a") as store:
            await store.append("a", [b"x" * 10] * 5, after=0, at=1)
            assert [entry.number for entry in (await store.read("a")).entries] == [1, 2, 3]
            assert [entry.number for entry in (await store.read("a", after=3)).entries] == [4, 5]

    asyncio.run(check())


def test_the_clock_counts_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of entries is in whole milliseconds."""
    monkeypatch.setattr("time.time_ns", lambda: 1_234_999_999)
    assert clock() == 1234


def test_a_damaged_file(place: Any) -> None:
    """A file with pages of nonsense gives a clear error, for good: a damaged file is not written on."""

    async def fill() -> None:
        async with await place.open("a", "b", "c") as store:
            await store.append("a", [b"x" * 3000] * 50, after=0, at=1)

    async def use() -> None:
        async with await place.open() as store:
            for _ in range(2):
                with pytest.raises(StoreFailed, match="is damaged") as failed:
                    await store.append("a", [b"y"], after=50, at=1)
                assert failed.value.lasting
            with pytest.raises(StoreFailed, match="is damaged"):
                await store.read("a")

    asyncio.run(fill())
    data = bytearray(place.path.read_bytes())
    start = data.index(b"x" * 500) // 4096 * 4096
    data[start:] = b"\xee" * (len(data) - start)
    place.path.write_bytes(data)
    asyncio.run(use())


def test_a_missing_row_is_told(place: Any) -> None:
    """A row that is gone without being trimmed is an error, never a gap."""

    async def check() -> None:
        async with await place.open("a", "b", "c") as store:
            await store.append("a", [b"1", b"2", b"3"], after=0, at=1)
        with sqlite3.connect(place.path) as hand:
            hand.execute("DELETE FROM entries WHERE number = 2")
        hand.close()
        async with await place.open("a", "b", "c") as store:
            assert [row.number for row in (await store.read("a")).entries] == [1]
            with pytest.raises(StoreFailed, match="no entry 2"):
                await store.read("a", after=1)

    asyncio.run(check())


@pytest.mark.parametrize("what", ["text", "folder", "nowhere"])
def test_what_cannot_be_opened(place: Any, what: str) -> None:
    """A path that leads to no log is a clear error, and no lock stays."""
    if what == "text":
        place.path.write_text("not a database at all, but long enough to be taken for one " * 20)
    elif what == "folder":
        place.path.mkdir()
    else:
        place.path = place.path.parent / "missing" / "store.db"
    for _ in range(2):
        with pytest.raises(StoreFailed, match="the store"):
            asyncio.run(place.open())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("FULL", "full"),
        ("READONLY_DBMOVED", "may not be written"),
        ("CORRUPT_VTAB", "damaged"),
        ("BUSY", "another program"),
    ],
)
def test_errors_are_told_in_words(name: str, said: str) -> None:
    """Each kind of error of SQLite has its words, also in its narrower forms."""
    error = sqlite3.OperationalError("said by SQLite")
    error.sqlite_errorname = f"SQLITE_{name}"
    assert said in str(failure(error, Path("chats.db")))
    assert "said by SQLite" in str(failure(error, Path("chats.db")))


@pytest.mark.parametrize(
    ("version", "safe"), [((3, 40, 1), False), ((3, 51, 2), False), ((3, 51, 3), True), ((3, 53, 0), True)]
)
def test_caution(version: tuple[int, int, int], safe: bool) -> None:
    """Versions of SQLite with the bug are told, others not."""
    assert (caution(version) is None) == safe


# --- whether it works ---


def test_what_a_store_cannot_keep_is_noted_until_a_check_succeeds(tmp_path: Path) -> None:
    """A check that fails notes the failure and tells its watchers; one that succeeds ends it."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    folder.mkdir()
    seen: list[bool] = []

    async def use() -> None:
        store = await SqliteStore.open(folder / "chats.db")
        store.state.watch(lambda: seen.append(store.state.failure is None))
        await store.check()
        folder.rename(elsewhere)
        for _ in range(2):
            with pytest.raises(StoreFailed):
                await store.check()
        assert store.state.seconds < 60
        elsewhere.rename(folder)
        await store.check()
        await store.close()

    asyncio.run(use())
    assert seen == [False, True]


def test_an_attachment_leaves_space_for_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that would fill the disk is rejected, and nothing of it is kept; one that fits is taken."""
    content = b"x" * 100

    async def use() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db") as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            one = Attachment("one", "a", "a.txt", "text/plain", len(content), 1)
            monkeypatch.setattr(sqlite_store, "free_bytes", lambda folder: sqlite_store.SPARE_BYTES + 99)
            with pytest.raises(StoreFailed, match="no space"):
                await store.put_attachment(one, content, unsent_before=0)
            assert await store.list_attachments("a") == []
            monkeypatch.setattr(sqlite_store, "free_bytes", lambda folder: sqlite_store.SPARE_BYTES + 100)
            await store.put_attachment(one, content, unsent_before=0)
            assert await store.read_attachment("a", "one") == content

    asyncio.run(use())


def test_the_space_of_a_folder_that_is_gone_is_not_known(tmp_path: Path) -> None:
    """It is a figure for people, and no reason to fail."""
    assert (database.free_bytes(tmp_path) or 0) > 0
    assert database.free_bytes(tmp_path / "absent") is None
