"""`penstock store`: tables, a check of what is there, and a copy of the chats of one machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from postgres import Server

from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.frames import TurnView
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import Submitted, Trimmed
from penstock.chat.store.rows import Attachment, ChatRow, Directory, Heartbeat, Share, TurnRow
from penstock.chat.store.sqlite import SqliteStore

pytestmark = pytest.mark.slow


def penstock(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ}, check=False)


def test_tables_are_made_by_the_command(server: Server) -> None:
    """`migrate` makes the tables, then finds them; before it, `check` says what is missing."""
    url = server.empty()
    before = penstock("store", "check", "--store", url)
    assert before.returncode == 2
    assert "penstock store migrate" in before.stderr
    made = penstock("store", "migrate", "--store", url)
    assert made.returncode == 0
    assert made.stdout.startswith("made 0001 procrastinate\nmade 0002 store\n")
    assert penstock("store", "migrate", PENSTOCK_STORE=url).stdout == "The database has all tables.\n"
    assert penstock("store", "check", "--store", url).stdout.startswith("0 chats, 0 turns, 0 entries; ")


def test_a_password_is_not_an_argument(server: Server, tmp_path: Path) -> None:
    """A password in `--store`, which everybody can see, is rejected and not repeated; in a file it is used."""
    url = server.empty().replace("@", ":secret-word@")
    given = penstock("store", "migrate", "--store", url)
    assert given.returncode == 2
    assert "--store-file" in given.stderr
    assert "secret-word" not in given.stdout + given.stderr
    file = tmp_path / "store"
    file.write_text(url + "\n")
    assert penstock("store", "migrate", "--store-file", str(file)).returncode == 0


def test_a_server_that_is_away_is_one_line(tmp_path: Path) -> None:
    """A server that is not there, and a URL of something else, are errors of one line without a traceback."""
    away = penstock("store", "migrate", "--store", f"postgresql://nobody@/none?host={tmp_path}")
    assert away.returncode == 2
    assert len(away.stderr.splitlines()) == 1
    other = penstock("store", "check", "--store", "https://example.org/")
    assert "postgresql://USER@HOST/NAME" in other.stderr
    none = penstock("store", "migrate")
    assert "no store is named" in none.stderr


DAMAGE = {
    "DELETE FROM entries WHERE number = 2": "has 2 entries, from 1 to 3, and should have those from 1 to 3",
    "DELETE FROM entries WHERE number = 3": "should have those from 1 to 3",
    "UPDATE heads SET last = 9": "should have those from 1 to 9",
    "DELETE FROM chats": "the chat 'a' has no row",
    "UPDATE turns SET last = 7": "the turn 1 of the chat 'a' ends behind its last entry",
    "UPDATE keys SET number = 7": "the key 'k' of the chat 'a' has no entry",
    "DELETE FROM chats; DELETE FROM heads": "3 rows of entries belong to no chat",
    "DELETE FROM attachments": "the file 'plan.pdf' of turn 1 of the chat 'a' is missing",
    "UPDATE attachments SET size = 2": "the file 'plan.pdf' of the chat 'a' has 1 bytes, and should have 2",
    "ALTER TABLE attachments DROP CONSTRAINT attachments_chat_fkey; UPDATE attachments SET chat = 'gone'": (
        "1 rows of attachments belong to no chat"
    ),
}


def test_a_check_finds_each_damage(server: Server) -> None:
    """Each kind of damage is named by the check, which then exits with 1; without it the check exits with 0."""

    async def fill(url: str, damage: str) -> None:
        async with await PostgresStore.open(url) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.submit("a", b"1", at=1, key="k")
            files = [AttachedFile("f", "plan.pdf", "application/pdf", 1)]
            view = msgspec.json.encode(TurnView(1, "?", attachments=files))
            await store.append("a", [b"2", b"3"], after=1, at=1, turns=[TurnRow(1, 1, 3, 1, view)])
            await store.put_attachment(Attachment("f", "a", "plan.pdf", "application/pdf", 1, 1), b"x", unsent_before=0)
            for statement in filter(None, damage.split("; ")):
                await store.database.fetch(statement)

    for damage, words in {"": "", **DAMAGE}.items():
        url = server.database()
        asyncio.run(fill(url, damage))
        found = penstock("store", "check", "--store", url)
        assert (found.returncode, words in found.stderr) == (1 if damage else 0, True), (damage, found)


ROW = ChatRow(
    "full",
    *("claude", "/src", 5),
    model="m",
    title="t ü",
    allow="all",
    session_id="s",
    heartbeat=Heartbeat(5, "News?"),
    heartbeat_since=9,
)


SHARES = [
    Share("1", "full", "one", 5, 2**50, until=2, person="ana"),
    Share("2", "empty", "two", 6, 2**50, details=True),
]


PICTURE = Attachment("p1", "full", "a.png", "image/png", 9, 5, "ana", turn=3)


def test_the_chats_of_a_machine_are_copied(database: str, tmp_path: Path) -> None:
    """All chats are copied with all that belongs to them, and the directories; a second copy changes nothing."""
    turns = [TurnRow(2, 4, 6, 7, b"two"), TurnRow(3, 7, 0, 8, b"three")]

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db") as store:
            await store.create_chat(ROW)
            await store.create_chat(ChatRow("empty", "codex", "/", 1))
            await store.append(
                "full", [b"%d" % n for n in range(1, 7)], after=0, at=6, turns=[TurnRow(1, 1, 3, 6, b"one"), turns[0]]
            )
            await store.submit("full", b"\0\xff", at=7, key="k")
            await store.append("full", [b"8"], after=7, at=8, turns=[turns[1]])
            await store.trim("full", 3)
            await store.put_directory(Directory("/src", 3))
            for share in SHARES:
                await store.put_share(share)
            await store.put_attachment(PICTURE, b"\0\xffpicture", unsent_before=0)

    async def check() -> None:
        async with await PostgresStore.open(database, node="node-1") as store:
            assert [(row.id, row.home) for row in await store.list_chats()] == [("empty", "node-1"), ("full", "node-1")]
            row = await store.get_chat("full")
            assert (row.title, row.heartbeat, row.session_id) == (ROW.title, ROW.heartbeat, ROW.session_id)
            entries = (await store.read("full", after=3)).entries
            assert [tuple(entry) for entry in entries] == [
                *((4, 6, b"4"), (5, 6, b"5"), (6, 6, b"6"), (7, 7, b"\0\xff"), (8, 8, b"8")),
            ]
            with pytest.raises(Trimmed):
                await store.read("full")
            assert await store.summary("full", limit=9) == (8, 8, turns)
            assert await store.submit("full", b"x", at=1, key="k") == Submitted(7, False)
            assert await store.list_directories() == [Directory("/src", 3)]
            assert await store.list_shares() == SHARES
            assert await store.list_attachments("full") == [PICTURE]
            assert await store.read_attachment("full", PICTURE.id) == b"\0\xffpicture"
            assert await store.list_expired(before=8, max_bytes=None) == {"full": 6}

    asyncio.run(fill())
    command = ("store", "copy", "--store", database, "--data", str(tmp_path), "--node", "node-1")
    assert penstock(*command).stdout == "copied 2 chats with 5 entries, whose agents run on node-1\n"
    asyncio.run(check())
    assert penstock("store", "check", "--store", database).returncode == 0
    again = penstock(*command)
    assert again.stdout.endswith("left 2 chats as they are, which the database has already\n")
    asyncio.run(check())


def test_chats_in_use_are_not_copied(database: str, tmp_path: Path) -> None:
    """Chats that a running Penstock has are not copied, and the error names its process."""

    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db"):
            done = await asyncio.to_thread(penstock, "store", "copy", "--store", database, "--data", str(tmp_path))
        assert done.returncode == 2
        assert f"process {os.getpid()}" in done.stderr

    asyncio.run(check())
