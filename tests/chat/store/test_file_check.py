"""The check of a file: a sound one has no problem, and each kind of damage is named."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.frames import TurnView
from penstock.chat.store.file_check import check_file
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import Attachment, ChatRow, TurnRow
from penstock.chat.store.schema import OtherForm
from penstock.chat.store.sqlite import SqliteStore
from penstock.chat.store.store_report import MAX_PROBLEMS, StoreReport, missing_files
from penstock.errors import UsageError


def turn(number: int, first: int, last: int, *, has_file: bool = False) -> TurnRow:
    """The row of a turn with these entries, whose message may have a file."""
    files = [AttachedFile("f", "plan.pdf", "application/pdf", 1)] if has_file else None
    return TurnRow(number, first, last, 1, msgspec.json.encode(TurnView(number, "?", attachments=files)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with two chats; the first entries of one are trimmed."""
    path = tmp_path / "chats.db"

    async def fill() -> None:
        async with await SqliteStore.open(path) as store:
            for chat in ("a", "b"):
                await store.create_chat(ChatRow(chat, "claude", "/", 1))
                await store.submit(chat, b"0", at=1, key="k")
                turns = [turn(1, 1, 2), turn(2, 3, 4, has_file=chat == "a")]
                await store.append(chat, [b"1", b"2", b"3"], after=1, at=1, turns=turns)
            await store.trim("b", 2)
            await store.put_attachment(Attachment("f", "a", "plan.pdf", "application/pdf", 1, 1), b"x", unsent_before=0)
            await store.note_attachments("a", ["f"], 2)
            assert check_file(path).problems == [], "also while a server has it"

    asyncio.run(fill())
    return path


def changed(file: Path, statement: str) -> StoreReport:
    """The report after a statement that no server would run."""
    connection = sqlite3.connect(file)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return check_file(file)


def test_a_sound_file(file: Path) -> None:
    """It is counted, and left as it is."""
    before = file.read_bytes()
    found = check_file(file)
    assert (found.chats, found.entries, found.turns, found.problems) == (2, 6, 3, [])
    assert found.bytes >= len(before)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM entries WHERE chat = 1 AND number = 2", "the chat 'a' has 3 entries, from 1 to 4"),
        ("DELETE FROM entries WHERE chat = 1 AND number = 1", "the chat 'a' has 3 entries, from 2 to 4"),
        ("DELETE FROM entries WHERE chat = 2 AND number = 3", "the chat 'b' has 1 entries, from 4 to 4"),
        ("DELETE FROM entries WHERE chat = 1 AND number = 4", "the turn 2 of the chat 'a' ends behind its last entry"),
        ("UPDATE turns SET last = 0, first = 9 WHERE chat = 1 AND turn = 2", "the turn 2 of the chat 'a' ends behind"),
        ("UPDATE keys SET number = 9 WHERE chat = 1", "the key 'k' of the chat 'a' has no entry"),
        ("DELETE FROM chats WHERE key = 1", "4 rows of entries belong to no chat"),
        ("DELETE FROM chats WHERE key = 1", "1 rows of attachments belong to no chat"),
        ("DELETE FROM attachments", "the file 'plan.pdf' of turn 2 of the chat 'a' is missing"),
        ("UPDATE attachments SET chat = 'b'", "the file 'plan.pdf' of turn 2 of the chat 'a' is missing"),
        ("UPDATE attachments SET size = 2", "the file 'plan.pdf' of the chat 'a' has 1 bytes, and should have 2"),
    ],
)
def test_what_is_missing_is_named(file: Path, statement: str, problem: str) -> None:
    """Entries, turns, keys and chats that were removed or changed by another hand."""
    assert any(text.startswith(problem) for text in changed(file, statement).problems)


def test_a_file_before_attachments(file: Path) -> None:
    """One that no server of this version has used yet has no table of them, and no problem."""
    assert changed(file, "DROP TABLE attachments").problems == []


def test_many_files_are_missing() -> None:
    """Some of them are named; a view that cannot be read names none."""
    files = [AttachedFile(f"f{number}", "a", "text/plain", 1) for number in range(3)]
    view = msgspec.json.encode(TurnView(1, "?", attachments=files))
    turns = [("a", 1, b"no view"), ("a", 2, b"{}"), *(("a", number, view) for number in range(3, 30))]
    found = missing_files(turns, {("a", "f0"), ("b", "f1")})
    assert found[0] == "the file 'a' of turn 3 of the chat 'a' is missing"
    assert len(found) == MAX_PROBLEMS


def test_a_damaged_file(file: Path) -> None:
    """Pages that were overwritten are a problem, or an error that says so."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = b"x" * (len(data) - len(data) // 2)
    file.write_bytes(data)
    try:
        problems = check_file(file).problems
    except StoreFailed as error:
        problems = [str(error)]
    assert "damaged" in problems[0]


def test_what_is_no_store(file: Path, tmp_path: Path) -> None:
    """Another form, another database and another kind of file are errors of their own."""
    with pytest.raises(OtherForm):
        changed(file, "PRAGMA user_version = 99")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(UsageError, match="not a store of chats"):
        check_file(tmp_path / "other.db")
    (tmp_path / "text").write_text("text " * 1000)
    with pytest.raises(StoreFailed, match="not an SQLite database"):
        check_file(tmp_path / "text")
