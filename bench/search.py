"""Measure the search of a store with many turns: SQLite in a file, or a PostgreSQL database.

    python bench/search.py                                   # a new file with 100,000 turns
    python bench/search.py --store postgresql://…/empty      # a new database

The texts are of a vocabulary whose words are as frequent as those of a language (Zipf), with paths and commands.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path

from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatRow, TurnRow
from penstock.chat.store.search import Reader, SearchTexts
from penstock.chat.store.sqlite import SqliteStore
from penstock.chat.store.words import parse

TURNS_EACH = 10
"""Turns of one chat."""

WORDS, PROMPT, REPLY = 50_000, 40, 180
"""Words of the vocabulary, of a prompt and of a reply."""

PEOPLE = 20

AT_ONCE = 1_000
"""Turns that are added together."""


def make_vocabulary() -> list[str]:
    """Return different words of 2 to 12 letters, the most frequent first; they are no shorter for that."""
    source = random.Random(2)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [1 / (nth + 3) for nth in range(len(letters))]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(source.choices(letters, weights, k=source.randrange(2, 13)))] = None
    return [*words]


VOCABULARY = make_vocabulary()

QUERIES = {
    "a word of one turn": "needle77",
    "a word of half of the turns": f'"{VOCABULARY[25]}"',
    "a word of nearly all turns": f'"{VOCABULARY[0]}"',
    "two letters with which words begin": "et",
    "three letters with which words begin": "eta",
    "two words of many turns": f"{VOCABULARY[3]} {VOCABULARY[50]}",
    "a phrase of frequent words": f'"{VOCABULARY[1]} {VOCABULARY[0]}"',
    "a path": "src/module7/file3.py",
    "no turn": "nothing of it 77",
    "a hundred words": "t " * 99 + "t",
}
"""What is searched for, by what it is an example of."""


async def fill(store: ChatStore, turns: int) -> float:
    """Add chats with turns and index them; return the seconds of the indexing."""
    source = random.Random(1)
    weights = [*itertools.accumulate(1 / (nth + 1) for nth in range(WORDS))]
    seconds = 0.0

    def text(words: int) -> str:
        return " ".join(source.choices(VOCABULARY, cum_weights=weights, k=words))

    for first in range(0, turns // TURNS_EACH, AT_ONCE // TURNS_EACH):
        chats = range(first, min(first + AT_ONCE // TURNS_EACH, turns // TURNS_EACH))
        made = [
            ChatRow(f"c{nth}", "claude", "/src", nth, title=text(6), person=f"person{nth % PEOPLE}") for nth in chats
        ]
        await asyncio.gather(*map(store.create_chat, made))
        appends = []
        for nth in chats:
            rows = [TurnRow(turn, turn, turn, nth * 100 + turn, b"{}") for turn in range(1, TURNS_EACH + 1)]
            appends.append(store.append(f"c{nth}", [b"{}"] * TURNS_EACH, after=0, at=nth, turns=rows))
        await asyncio.gather(*appends)
        while items := await store.list_unindexed(limit=AT_ONCE):
            works = []
            for item in items:
                nth = int(item.chat[1:])
                texts = SearchTexts(
                    prompt=text(PROMPT) + (" needle77" if nth == 77 and item.turn == 5 else ""),
                    reply=text(REPLY),
                    commands=f"make test{source.randrange(500)}",
                    paths=f"src/module{source.randrange(500)}/file{source.randrange(20)}.py",
                )
                works.append(store.index(item, texts, at=nth * 100 + item.turn))
            began = time.monotonic()
            await asyncio.gather(*works)
            seconds += time.monotonic() - began
    return seconds


async def measure(store: ChatStore, turns: int) -> None:
    """Fill a store, and print the milliseconds of each kind of search."""
    seconds = await fill(store, turns)
    print(f"{turns:,} turns indexed at {turns / seconds:,.0f} a second")
    print("| search | owner | one of 20 people |\n|---|---|---|")
    for name, query in QUERIES.items():
        cells = []
        for reader in (Reader("owner", is_owner=True), Reader("person1")):
            times, found = [], None
            for _ in range(7):
                began = time.monotonic()
                found = await store.search(parse(query), reader, limit=21)
                times.append(time.monotonic() - began)
            assert found is not None
            note = "" if found.is_complete else ", cut off"
            cells.append(f"{statistics.median(times) * 1000:.1f} ms ({len(found.hits)}{note})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


async def main() -> None:
    """Measure the store that the command names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--store", help="URL of an empty database, instead of a file")
    options = parser.parse_args()
    if options.store is not None:
        from penstock.chat.store.postgres.migrate import migrate
        from penstock.chat.store.postgres.store import PostgresStore

        await migrate(options.store)
        async with await PostgresStore.open(options.store) as database:
            await measure(database, options.turns)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        async with await SqliteStore.open(path) as file:
            await measure(file, options.turns)
        print(f"{path.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    asyncio.run(main())
