"""The index of the search: what both databases get of texts and terms, what is shown of a text, a lost index."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.chat.store import search_tables
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.search import (
    CONTEXT_CHARS,
    MAX_MARKS,
    TITLE,
    Reader,
    SearchTexts,
    context_of,
    key_of,
    tsquery,
    tsvector,
)
from penstock.chat.store.sqlite import SqliteStore
from penstock.chat.store.words import MAX_WORDS, parse, words_of
from penstock.errors import UsageError

OWNER = Reader("owner", is_owner=True)


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("needle", "('needle':*)"),
        ("Straße ne", "('strasse') & ('ne':*)"),
        ('"git push" n', "('git' <-> 'push') & ('n')"),
        ("src/app.ts", "('src' <-> 'app' <-> 'ts':*)"),
        ("' & | ! <-> :*", ""),
    ],
)
def test_a_search_as_postgresql_reads_it(query: str, written: str) -> None:
    """Terms are joined by `&`, the words of a term follow each other, and nothing that was typed is syntax."""
    assert tsquery(parse(query)) == written


def test_texts_as_postgresql_reads_them() -> None:
    """Each word has all of its places, and two texts are so far apart that no term reaches over both."""
    texts = SearchTexts(title="a b", prompt="b a b", paths="c")
    assert tsvector(texts) == "'a':1,6 'b':2,5,7 'c':14"


@given(st.text(max_size=40))
def test_no_text_is_syntax_of_postgresql(text: str) -> None:
    """Between the quotes are letters and digits only, whatever the text is."""
    for written in (tsquery(parse(text)), tsvector(SearchTexts(prompt=text))):
        assert all(word.isalnum() for word in re.findall("'(.*?)'", written, re.DOTALL))


def test_marks_alone_are_no_word() -> None:
    """A character that has no letter in it when its marks are taken away separates words."""
    assert [word.text for word in words_of("é ⁿ x̂")] == ["e", "n", "x"]
    assert [word.text for word in words_of("ー a")] == ["ー", "a"]
    assert [word.text for word in words_of("ʰ ⑴ ½")] == ["h", "1", "12"]


def test_the_part_with_most_of_the_terms_is_shown() -> None:
    """Of several texts the one that has most terms; the words with a little before them."""
    before = "word " * 30
    texts = SearchTexts(title="needle", prompt=f"{before}the needle in the hay{' more' * 80}", commands="hay")
    context = context_of(texts, parse("needle hay"))
    assert context.kind == "prompt"
    assert context.text.startswith("word ")
    assert len(context.text) == CONTEXT_CHARS
    assert [context.text[start:end] for start, end in context.marks] == ["needle", "hay"]


def test_a_command_is_shown_from_its_line_on() -> None:
    """The lines before it say nothing about it."""
    texts = SearchTexts(commands=f"{'x' * 90}\nmake needle\nmake other")
    assert context_of(texts, parse("needle")).text == "make needle\nmake other"
    assert context_of(texts, parse("absent")) == ("title", "", [])


def test_a_long_word_is_shown_from_its_middle_on() -> None:
    """A word before the one that was found has no white space at which the context could begin."""
    texts = SearchTexts(prompt=f"{'-' * 100}needle")
    context = context_of(texts, parse("needle"))
    assert context.text == f"{'-' * 60}needle"
    assert context.marks == [(60, 66)]


def test_marks_are_bounded_and_apart() -> None:
    """A word that is repeated is marked a bounded number of times; places that overlap are one."""
    assert len(context_of(SearchTexts(prompt="a " * 90), parse('"a"')).marks) == MAX_MARKS
    context = context_of(SearchTexts(prompt="b c b c"), parse('"b c" "c b"'))
    assert context.marks == [(0, 3), (4, 7)]


def test_texts_are_bounded() -> None:
    """A text of many words keeps its first ones, without characters that no database keeps."""
    texts = SearchTexts(title="w\0 " * (MAX_WORDS["title"] + 5), prompt="\ud800 x").bounded()
    assert len([*words_of(texts.title)]) == MAX_WORDS["title"]
    assert texts.prompt == "? x"


def test_an_index_that_is_lost_or_of_another_version_is_made_again(tmp_path: Path) -> None:
    """Everything is put into the queue, and one of another version is removed."""
    path = tmp_path / "chats.db"

    async def use() -> None:
        async with await SqliteStore.open(path) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1, title="a needle"))
            await _index(store)
            assert await _found(store) == ["a"]
        for name in ("", "words_0"):
            with closing(sqlite3.connect(path)) as file:
                lost = f"ALTER TABLE {search_tables.INDEX} RENAME TO {name}" if name else "DROP TABLE words_1"
                file.execute(lost)
                file.commit()
            async with await SqliteStore.open(path) as store:
                assert await _found(store) == []
                await _index(store)
                assert await _found(store) == ["a"]
                assert (await store.search([], OWNER, limit=1)).hits == []
        with closing(sqlite3.connect(path)) as file:
            assert not file.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'words_0%'").fetchall()

    asyncio.run(use())


def test_a_search_that_has_no_more_time_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns what it has; an error of the database is none of its time."""

    async def use() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db") as store:
            for nth in range(9):
                await store.create_chat(ChatRow(f"c{nth}", "claude", "/", 1, title="a needle"))
            await _index(store)
            monkeypatch.setattr(search_tables, "PROGRESS_STEPS", 1)
            monkeypatch.setattr(search_tables, "SEARCH_SECONDS", -1.0)
            assert not (await store.search(parse("needle"), OWNER, limit=20)).is_complete
            monkeypatch.undo()
            found = await store.search(parse("needle"), OWNER, limit=20)
            assert (len(found.hits), found.is_complete) == (9, True)

    asyncio.run(use())


def test_an_error_of_the_database_is_no_search_without_time(tmp_path: Path) -> None:
    """Only an interruption ends a search early."""
    with (
        closing(sqlite3.connect(tmp_path / "empty.db")) as file,
        pytest.raises(sqlite3.OperationalError, match="table"),
    ):
        search_tables.search(file, parse("needle"), OWNER)


def test_a_sqlite_that_cannot_search_keeps_chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite is built without its full-text search, all else works, and a search says what is missing."""
    monkeypatch.setattr(search_tables, "has_search", lambda connection: False)

    async def use() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db") as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1, title="a needle"))
            assert await store.list_unindexed(limit=9) == []
            with pytest.raises(UsageError, match="cannot search"):
                await store.search(parse("needle"), OWNER, limit=1)
            await store.delete_chat("a")

    asyncio.run(use())


def test_two_rows_with_the_same_key_are_both_found(tmp_path: Path) -> None:
    """Chats that were made in the same millisecond may have the same key: the second gets the next one."""
    keys: dict[int, str] = {}
    names = (f"c{nth}" for nth in range(100_000))
    one, two = next((keys[key], it) for it in names if keys.setdefault(key := key_of(it, TITLE, 1), it) != it)

    async def use() -> None:
        async with await SqliteStore.open(tmp_path / "chats.db") as store:
            for chat in (one, two):
                await store.create_chat(ChatRow(chat, "claude", "/", 1, title="a needle"))
            await _index(store)
            assert sorted(await _found(store)) == sorted([one, two])

    asyncio.run(use())


async def _index(store: SqliteStore) -> None:
    """Index titles of chats until nothing waits."""
    while waiting := await store.list_unindexed(limit=20):
        for item in waiting:
            row = await store.get_chat(item.chat)
            await store.index(item, SearchTexts(title=row.title or ""), at=row.created_at)


async def _found(store: SqliteStore) -> list[str]:
    return [hit.chat for hit in (await store.search(parse("needle"), OWNER, limit=9)).hits]
