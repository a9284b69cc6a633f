"""The store in PostgreSQL beside the one in a SQLite file: the same calls have the same results."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from effort import at_most

from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import Ahead, ChatStore, Conflict, Fenced, Trimmed, UnknownChat
from penstock.chat.store.rows import ChatChanges, ChatRow, Directory, TurnRow
from penstock.chat.store.sqlite import SqliteStore
from penstock.errors import UsageError

pytestmark = pytest.mark.slow

SEEDS = at_most(4, 60)
STEPS = 150
CHATS = "abc"


def _call(chance: random.Random, at: int) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """One call with arguments that often fit, and sometimes do not."""
    chat, number = chance.choice(CHATS), chance.randint(0, 14)
    turn = TurnRow(chance.randint(1, 6), chance.randint(1, 6), chance.choice([0, 3, 5, 8]), at, b"%d" % at)
    row = ChatRow(chat, "claude", "/", 1, title=f"title {at}", home=chance.choice([None, "node-1"]))
    fields: list[dict[str, Any]] = [{}, {"title": f"new {at}"}, {"session_id": "s", "allow": "all"}, {"model": None}]
    changes = ChatChanges(**chance.choice(fields))
    entries = [b"%d" % at * size for size in range(chance.randint(0, 3))]
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "append": ((chat, entries), {"after": number, "at": at, "turns": chance.choice([[], [turn], [turn, turn]])}),
        "append with a row": (
            (chat, entries),
            {"after": number, "at": at, "changes": changes, "epoch": chance.randint(1, 3)},
        ),
        "submit": ((chat, b"%d" % at), {"at": at, "key": chance.choice([None, "k", "l"])}),
        "submit behind": ((chat, b"%d" % at), {"at": at, "after": number}),
        "claim": ((chat, "node-1"), {}),
        "release": ((chat, chance.randint(1, 3)), {}),
        "read": ((chat,), {"after": number, "limit": chance.randint(1, 5)}),
        "trim": ((chat, number), {}),
        "create_chat": ((row,), {}),
        "update_chat": ((chat, changes), {}),
        "get_chat": ((chat,), {}),
        "list_chats": ((), {"after": chance.choice(["", "a"]), "limit": chance.randint(1, 3)}),
        "summary": ((chat,), {"limit": chance.randint(1, 3)}),
        "list_turns": ((chat,), {"before": chance.choice([None, 3]), "limit": chance.randint(1, 3)}),
        "list_expired": ((), {"before": chance.choice([None, at - 20]), "max_bytes": chance.choice([None, 0, 20])}),
        "put_directory": ((Directory(chance.choice(["/a", "/b ü"]), at),), {}),
        "delete_directory": ((chance.choice(["/a", "/b ü"]),), {}),
        "list_directories": ((), {}),
        "delete_chat": ((chat,), {}),
    }
    weights = [8 if name in ("append", "submit", "read") else 1 if name == "delete_chat" else 3 for name in calls]
    name = chance.choices([*calls], weights)[0]
    return name, *calls[name]


async def _outcome(store: ChatStore, name: str, words: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if name.startswith("append") and options["after"] < 10:  # most appends are at the end of their chat
        try:
            options = {**options, "after": (await store.summary(words[0], limit=1)).last}
        except UnknownChat:
            pass
    try:
        return await getattr(store, name.split()[0])(*words, **options)
    except (Conflict, Ahead) as error:
        return type(error), error.last
    except Fenced as error:
        return Fenced, error.epoch
    except Trimmed as error:
        return Trimmed, error.first
    except UsageError as error:
        return type(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_calls_have_the_same_results(database: str, tmp_path: Path, seed: int) -> None:
    """A random sequence of calls has the same results in both stores, and leaves the same chats in them."""

    async def check() -> None:
        chance = random.Random(seed)
        async with (
            await SqliteStore.open(tmp_path / "chats.db") as file,
            await PostgresStore.open(database) as server,
        ):
            for step in range(STEPS):
                name, words, options = _call(chance, step + 1)
                expected = await _outcome(file, name, words, options)
                found = await _outcome(server, name, words, options)
                assert found == expected, (step, name, words, options)

    asyncio.run(check())
