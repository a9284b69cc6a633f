"""The log in a SQLite file: crashes, locks, forms, retention, and what a failing disk does."""

from __future__ import annotations

import asyncio
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.chat.store import file, store
from penstock.chat.store.file import LogHeld, LogTooNew, caution, failure
from penstock.chat.store.protocol import Ahead, Conflict, LogClosed, LogFailed, Trimmed, tail
from penstock.chat.store.sqlite import SqliteLog
from penstock.errors import UsageError

KILLS = 20

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
    log = await SqliteLog.open(path)
    for what, chat, number, value in steps:
        data = model[chat]
        if what in ("append", "go on"):
            after = len(data) if what == "go on" else number
            expected: Any = (Conflict, len(data)) if after != len(data) else len(data) + len(value)
            assert await _outcome(log.append(chat, value, after=after)) == expected
            if after == len(data):
                data += value
        elif what == "read":
            expected = list(enumerate(data, 1))[number : number + value]
            if number > len(data):
                expected = (Ahead, len(data))
            elif number + 1 < first[chat]:
                expected = (Trimmed, first[chat])
            found = await _outcome(log.read(chat, after=number, limit=value))
            assert (found if isinstance(found, tuple) else [(row.number, row.data) for row in found]) == expected
        elif what == "trim":
            assert await _outcome(log.trim(chat, number)) == (None if number <= len(data) else (Ahead, len(data)))
            if number <= len(data):
                first[chat] = max(first[chat], number + 1)
        else:
            await log.close()
            log = await SqliteLog.open(path)
        assert await log.last(chat) == len(model[chat])
    kept = sum(len(row) for chat in "ab" for row in model[chat][first[chat] - 1 :])
    await log.close()
    look = sqlite3.connect(path)
    [total] = look.execute("SELECT total(bytes) FROM chats").fetchone()
    look.close()
    assert total == kept


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_STEPS)
def test_it_does_as_a_list_would(steps: list[Any]) -> None:
    """Whatever is appended, read and trimmed in whatever order, the log answers as a plain list does."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_follow(Path(folder) / "log.db", steps))


# --- what a crash leaves ---

_WRITER = """
import asyncio, sys
from penstock.chat.store.sqlite import SqliteLog

async def main():
    log = await SqliteLog.open(sys.argv[1])
    async def write(chat):
        last = await log.last(chat)
        print(chat, last, flush=True)
        while True:
            rows = [b"%d" % number * 50 for number in range(last + 1, last + 2 + last % 3)]
            last = await log.append(chat, rows, after=last)
            print(chat, last, flush=True)
            if last % 50 < 3:
                await log.trim(chat, max(0, last - 200))
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


def test_a_kill_takes_nothing_that_was_acknowledged(place: Any) -> None:
    """A process that is killed at random moments leaves all that it was told is there, whole and without a gap."""

    async def check(told: dict[str, int]) -> None:
        async with await place.open() as log:
            for chat, acknowledged in told.items():
                last = await log.last(chat)
                assert last >= acknowledged
                after = max(0, last - 50)
                rows = await log.read(chat, after=after)
                assert [(row.number, row.data) for row in rows] == [
                    (number, b"%d" % number * 50) for number in range(after + 1, last + 1)
                ]

    chance = random.Random(7)
    for _ in range(KILLS):
        asyncio.run(check(_write_until_killed(place.path, chance.randrange(2, 120))))


# --- one process ---


def test_a_second_process_is_told_who_has_it(place: Any) -> None:
    """Who opens a log that is in use is told by which process; its end frees it."""
    holder = subprocess.Popen([sys.executable, "-c", _WRITER, str(place.path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(LogHeld, match=f"in use by the process {holder.pid} on ") as held:
            asyncio.run(place.open())
        assert held.value.holder == holder.pid
    finally:
        holder.kill()
        holder.communicate()
    asyncio.run(_open_and_close(place))


async def _open_and_close(place: Any) -> None:
    await (await place.open()).close()


def test_two_names_are_one_log(place: Any) -> None:
    """In one process too, and by a link, a log is opened once."""

    async def twice() -> None:
        link = place.path.with_name("link.db")
        link.symlink_to(place.path)
        async with await place.open():
            with pytest.raises(LogHeld, match="this one"):
                await SqliteLog.open(link)
        await _open_and_close(place)

    asyncio.run(twice())


def test_no_one_else_reads_it(place: Any) -> None:
    """The file, and what lies beside it, is for its owner alone."""

    async def look() -> None:
        async with await place.open() as log:
            await log.append("a", [b"x"], after=0)
            assert {path.stat().st_mode & 0o777 for path in place.path.parent.iterdir()} == {0o600}

    asyncio.run(look())


def test_closing(place: Any) -> None:
    """What was asked for before the end is done; afterwards there is a clear error, and closing again is nothing."""

    async def run() -> None:
        log = await place.open()
        calls = [asyncio.ensure_future(log.append("a", [b"x"], after=number)) for number in range(50)]
        await asyncio.sleep(0)
        await asyncio.gather(log.close(), log.close())
        assert await asyncio.gather(*calls) == list(range(1, 51))
        for call in (log.append("a", [b"x"], after=50), log.read("a"), log.last("a"), log.trim("a", 1)):
            with pytest.raises(LogClosed):
                await call

    asyncio.run(run())


# --- forms ---


def test_form_0_is_taken_over(place: Any) -> None:
    """A file of form 0 opens with all its rows, and is of today's form from then on."""
    with sqlite3.connect(place.path) as old:
        old.execute("CREATE TABLE events (sid TEXT, seq INTEGER, data BLOB, PRIMARY KEY (sid, seq))")
        rows = [(chat, number, f"{chat}{number}".encode()) for number in (1, 2, 3) for chat in "ab"]
        old.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
    old.close()

    async def check() -> None:
        for last in (3, 4):
            async with await place.open() as log:
                assert [row.data for row in await log.read("a")][:3] == [b"a1", b"a2", b"a3"]
                assert await log.last("b") == 3
                assert await log.append("a", [b"more"], after=last) == last + 1
                assert list(await log.expired(max_bytes=0)) == ["a", "b"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("statements", "error", "said"),
    [
        (
            f"PRAGMA application_id={file.APPLICATION}; PRAGMA user_version=99; CREATE TABLE x (y)",
            LogTooNew,
            "99",
        ),
        ("CREATE TABLE events (other)", UsageError, "no event log"),
        ("PRAGMA user_version=1; CREATE TABLE chats (x)", UsageError, "no event log"),
    ],
)
def test_other_files_are_left_alone(place: Any, statements: str, error: type[Exception], said: str) -> None:
    """A file of a newer form, or of another program, is refused and not changed by a byte."""
    other = sqlite3.connect(place.path)
    other.executescript(statements)
    other.close()
    before = place.path.read_bytes()
    with pytest.raises(error, match=said):
        asyncio.run(place.open())
    assert place.path.read_bytes() == before


# --- retention ---


def test_retention(place: Any) -> None:
    """Old rows go by age, then the oldest of all chats by size, and a reader is told where it can go on."""

    async def check() -> None:
        async with await place.open() as log:
            for number in range(10):
                place.time = 1_000_000 + number * 1000
                await log.append("a", [b"x" * 100], after=number)
                await log.append("b", [b"y" * 100], after=number)
            assert await log.retain(max_age_ms=60_000, max_bytes=2000) == {}
            assert await log.retain(max_age_ms=6000) == {"a": 3, "b": 3}
            assert await log.retain(max_bytes=1100) == {"a": 5, "b": 4}
            with pytest.raises(Trimmed) as trimmed:
                await log.read("a", after=4)
            assert trimmed.value.first == 6
            place.time = 0  # a clock that steps back makes no hole
            await log.append("a", [b"z"], after=10)
            place.time = 1_009_000
            assert await log.expired(max_age_ms=5000) == {}
            place.time += 10_000
            assert await log.retain(max_age_ms=1) == {"a": 11, "b": 10}
            assert await log.append("b", [b"on"], after=10) == 11

    asyncio.run(check())


def test_a_long_trim_goes_by_steps(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trim of more rows than one step takes drops them all, and the disk gets the room back."""
    monkeypatch.setattr(store, "TRIM_ROWS", 7)

    async def check() -> None:
        async with await place.open() as log:
            await log.append("a", [b"x" * 10_000] * 100, after=0)
            await log.retain(max_bytes=50_000)
            assert len(await log.read("a", after=95)) == 5
            with pytest.raises(Trimmed):
                await log.read("a", after=94)

    asyncio.run(check())
    assert place.path.stat().st_size < 200_000


def test_a_backup_is_a_log(place: Any) -> None:
    """A backup that is taken while others write opens as a log, with what was there; it takes no file's place."""

    async def check() -> None:
        target = place.path.with_name("backup.db")
        async with await place.open() as log:
            await log.append("a", [b"1", b"2"], after=0)
            await log.trim("a", 1)
            await log.backup(target)
            await log.append("a", [b"3"], after=2)
            with pytest.raises(UsageError, match="there already"):
                await log.backup(target)
        async with await SqliteLog.open(target) as log:
            assert [row.data for row in await log.read("a", after=1)] == [b"2"]
            with pytest.raises(Trimmed):
                await log.read("a")
            assert await log.append("a", [b"other"], after=2) == 3

    asyncio.run(check())


# --- many at once ---


def test_many_chats_and_many_tails(place: Any) -> None:
    """Twenty chats that are written at once, each with five tails and stale writers: all rows, in order, once."""

    async def write(log: SqliteLog, chat: str) -> None:
        for after in range(0, 60, 3):
            assert await log.append(chat, [b"%d" % (after + number) for number in (1, 2, 3)], after=after) == after + 3
            with pytest.raises(Conflict) as stale:
                await log.append(chat, [b"stale"], after=after)
            assert stale.value.last == after + 3

    async def follow(log: SqliteLog, chat: str, after: int) -> None:
        found: list[int] = []
        async for row in tail(log, chat, after=after, limit=4):
            assert row.data == b"%d" % row.number
            found.append(row.number)
            if row.number == 60:
                break
        assert found == list(range(after + 1, 61))

    async def check() -> None:
        async with await place.open() as log:
            chats = [f"chat-{number}" for number in range(20)]
            tails = [follow(log, chat, 0) for chat in chats for _ in range(5)]
            await asyncio.gather(*tails, *(write(log, chat) for chat in chats))
            await asyncio.gather(*(follow(log, chat, 30) for chat in chats))

    asyncio.run(check())


def test_a_tail_that_is_too_slow_is_told(place: Any) -> None:
    """A tail whose next rows were trimmed meanwhile is told, and goes on where it is told."""

    async def check() -> None:
        async with await place.open() as log:
            await log.append("a", [b"x"] * 10, after=0)
            rows = tail(log, "a", limit=2)
            assert [(await anext(rows)).number for _ in range(2)] == [1, 2]
            await log.trim("a", 5)
            with pytest.raises(Trimmed) as trimmed:
                await anext(rows)
            rows = tail(log, "a", after=trimmed.value.first - 1)
            assert (await anext(rows)).number == 6
            await rows.aclose()

    asyncio.run(check())


def test_a_tail_lives_without_bells(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bell that never rings delays a tail, and loses nothing."""
    monkeypatch.setattr(SqliteLog, "bell", lambda *_: asyncio.Event())

    async def check() -> None:
        async with await place.open() as log:
            rows = tail(log, "a", poll=0.01)
            waiting = asyncio.ensure_future(anext(rows))
            await asyncio.sleep(0.05)
            await log.append("a", [b"x"], after=0)
            assert (await waiting).number == 1
            await rows.aclose()

    asyncio.run(check())


# --- a disk that fails ---


def test_a_full_disk(place: Any) -> None:
    """What does not fit is refused with a clear error; what was acknowledged stays, and with room it goes on."""

    async def check() -> None:
        async with await place.open() as log:
            last = await log.append("a", [b"kept"] * 10, after=0)
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
            try:
                large = (log.append(chat, [b"x" * 190_000], after=last) for chat in "aa")
                small = (log.append(chat, [b"small"], after=0) for chat in "bc")
                first, second, *others = await asyncio.gather(*large, *small, return_exceptions=True)
                for failed in (first, second):
                    assert isinstance(failed, LogFailed)
                    assert "disk" in str(failed)
                    assert not failed.lasting
                assert others == [1, 1]  # what fits is taken, whatever it stood beside
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert await log.last("a") == last
            assert await log.append("a", [b"on"], after=last) == last + 1
        async with await place.open() as log:
            assert [row.data for row in await log.read("a")] == [b"kept"] * 10 + [b"on"]

    asyncio.run(check())


def test_a_program_that_locks_the_file(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program has the file locked, appends end with a clear error; afterwards they go on."""
    monkeypatch.setattr(file, "BUSY_MS", 20)

    async def check() -> None:
        async with await place.open() as log:
            await log.append("a", [b"1"], after=0)
            other = sqlite3.connect(place.path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            calls = [log.append(chat, [b"x"], after=1 if chat == "a" else 0) for chat in "abc"]
            for failed in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(failed, LogFailed)
                assert "another program" in str(failed)
            assert len(await log.read("a")) == 1
            other.execute("ROLLBACK")
            other.close()
            assert await log.append("a", [b"2"], after=1) == 2

    asyncio.run(check())


def test_what_is_written_goes_to_the_disk(place: Any) -> None:
    """The connection that writes waits for the disk at each commit: what no test can show without a power cut."""

    async def check() -> None:
        async with await place.open() as log:
            [synchronous] = log._writer._connection.execute("PRAGMA synchronous").fetchone()
            [mode] = log._writer._connection.execute("PRAGMA journal_mode").fetchone()
            assert (synchronous, mode) == (2, "wal")

    asyncio.run(check())


def test_a_migration_that_fails_changes_nothing(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails in the middle leaves the older form, which then is taken over as a whole."""
    asyncio.run(_open_and_close(place))
    steps = file.MIGRATIONS
    with monkeypatch.context() as patch:
        patch.setattr(file, "MIGRATIONS", (*steps, ("ALTER TABLE chats ADD COLUMN more TEXT", "no statement")))
        with pytest.raises(LogFailed):
            asyncio.run(place.open())
    asyncio.run(_open_and_close(place))
    with monkeypatch.context() as patch:
        patch.setattr(file, "MIGRATIONS", (*steps, ("ALTER TABLE chats ADD COLUMN more TEXT",)))
        asyncio.run(_open_and_close(place))
    with pytest.raises(LogTooNew):
        asyncio.run(place.open())


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_is_taken_away(place: Any, suffix: str) -> None:
    """No append is acknowledged that goes to a file which is no longer there."""

    async def check() -> None:
        async with await place.open() as log:
            await log.append("a", [b"1"], after=0)
            Path(f"{place.path}{suffix}").unlink()
            with pytest.raises(LogFailed, match="moved, replaced or deleted") as failed:
                await log.append("a", [b"2"], after=1)
            assert failed.value.lasting

    asyncio.run(check())


def test_a_damaged_file(place: Any) -> None:
    """A file with pages of nonsense gives a clear error, for good: a damaged file is not written on."""

    async def fill() -> None:
        async with await place.open() as log:
            await log.append("a", [b"x" * 3000] * 50, after=0)

    async def use() -> None:
        async with await place.open() as log:
            for _ in range(2):
                with pytest.raises(LogFailed, match="is damaged") as failed:
                    await log.append("a", [b"y"], after=50)
                assert failed.value.lasting
            with pytest.raises(LogFailed, match="is damaged"):
                await log.read("a")

    asyncio.run(fill())
    data = bytearray(place.path.read_bytes())
    data[8192:] = b"\xee" * (len(data) - 8192)
    place.path.write_bytes(data)
    asyncio.run(use())


def test_a_missing_row_is_told(place: Any) -> None:
    """A row that is gone without being trimmed is an error, never a gap."""

    async def check() -> None:
        async with await place.open() as log:
            await log.append("a", [b"1", b"2", b"3"], after=0)
        with sqlite3.connect(place.path) as hand:
            hand.execute("DELETE FROM entries WHERE number = 2")
        hand.close()
        async with await place.open() as log:
            assert [row.number for row in await log.read("a")] == [1]
            with pytest.raises(LogFailed, match="no event 2"):
                await log.read("a", after=1)

    asyncio.run(check())


@pytest.mark.parametrize("what", ["text", "folder", "nowhere"])
def test_what_cannot_be_opened(place: Any, what: str) -> None:
    """A path that leads to no log is a clear error, and no lock stays."""
    if what == "text":
        place.path.write_text("not a database at all, but long enough to be taken for one " * 20)
    elif what == "folder":
        place.path.mkdir()
    else:
        place.path = place.path.parent / "missing" / "log.db"
    for _ in range(2):
        with pytest.raises(LogFailed, match="event log"):
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
    assert said in str(failure(error, Path("log.db")))
    assert "said by SQLite" in str(failure(error, Path("log.db")))


@pytest.mark.parametrize(
    ("version", "safe"), [((3, 40, 1), False), ((3, 51, 2), False), ((3, 51, 3), True), ((3, 53, 0), True)]
)
def test_caution(version: tuple[int, int, int], safe: bool) -> None:
    """Versions of SQLite with the bug are told, others not."""
    assert (caution(version) is None) == safe
