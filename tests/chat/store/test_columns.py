"""Columns of a chat: both databases have those of the struct, and SQLite keeps values of each kind."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources

from penstock.chat.store import schema
from penstock.chat.store.columns import NAMES, sqlite_value
from penstock.chat.store.rows import ChatChanges, Heartbeat


def test_sqlite_has_a_column_for_each_field() -> None:
    """A field of `ChatRow` without a column in the SQLite file is named."""
    connection = sqlite3.connect(":memory:")
    for statement in schema.TABLES:
        connection.execute(statement)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(chats)")}
    assert set(NAMES) - columns == set(), "columns missing in store/schema.py"


def test_postgres_has_a_column_for_each_field() -> None:
    """A field of `ChatRow` without a column in a migration is named, and so is a column without a field."""
    folder = resources.files("penstock.chat.store.postgres") / "migrations"
    text = "\n".join(file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql"))
    (table,) = re.findall(r"CREATE TABLE chats \((.*?)\n\);", text, re.DOTALL)
    columns = {
        *re.findall(r"^    (\w+) ", table, re.MULTILINE),
        *re.findall(r"ALTER TABLE chats ADD COLUMN (\w+)", text),
    }
    assert columns - {"key"} == {*NAMES} - {"id"}, "columns missing in, or too many for, store/postgres/migrations"


def test_changes_are_of_fields() -> None:
    """Each field of `ChatChanges` is one of `ChatRow`."""
    assert set(ChatChanges.__struct_fields__) <= set(NAMES)


def test_values_of_sqlite() -> None:
    """Structs and lists are JSON, booleans are numbers, the rest is kept as it is."""
    assert sqlite_value(Heartbeat(5, "p")) == '{"minutes":5,"prompt":"p","quiet":null,"on":true}'
    assert sqlite_value(["a", "ü"]) == '["a","ü"]'
    assert [sqlite_value(value) for value in (True, False, None, 9, "t")] == [1, 0, None, 9, "t"]
    assert type(sqlite_value(True)) is int
