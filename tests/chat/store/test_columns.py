"""Columns of a chat: both databases have those of the struct, and SQLite keeps values of each kind."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources

import msgspec
import pytest

from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.store import conformance, schema
from penstock.chat.store.columns import NAMES, from_sqlite, sqlite_value
from penstock.chat.store.rows import ChatChanges, Heartbeat
from penstock.chat.web.schemas import Changes


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


INTERNAL = {"session_id", "heartbeat_since"}
"""Fields of a chat that clients neither see nor set."""


def test_clients_see_each_field() -> None:
    """A field of `ChatRow` that the view of a chat lacks is named."""
    missing = {*NAMES} - INTERNAL - {*ChatView.__struct_fields__}
    assert missing == set(), "fields missing in ChatView (chat/service/chats/chat_view.py)"


def test_clients_can_set_what_changes() -> None:
    """A field of `ChatChanges` that requests cannot set is named, and so is one of requests that the store lacks."""
    assert {*ChatChanges.__struct_fields__} - INTERNAL == {*Changes.__struct_fields__}, "chat/web/schemas.py: Changes"


def test_no_migration_replaces_a_function() -> None:
    """A call that changes gets a new number: nodes of the version before use the old one meanwhile."""
    folder = resources.files("penstock.chat.store.postgres") / "migrations"
    text = "\n".join(file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql"))
    assert re.findall(r"CREATE\s+OR\s+REPLACE\s+FUNCTION\s+(\w+)", text, re.IGNORECASE) == [
        "notify_v1"
    ]  # before any release
    names = re.findall(r"CREATE\s+FUNCTION\s+(\w+)", text, re.IGNORECASE)
    assert [name for name in names if not re.search(r"_v\d+$", name)] == [], "functions without a number"


def test_values_of_sqlite() -> None:
    """Structs and lists are JSON, booleans are numbers, the rest is kept as it is."""
    assert sqlite_value(Heartbeat(5, "p")) == '{"minutes":5,"prompt":"p","quiet":null,"on":true}'
    assert sqlite_value(["a", "ü"]) == '["a","ü"]'
    assert [sqlite_value(value) for value in (True, False, None, 9, "t")] == [1, 0, None, 9, "t"]
    assert type(sqlite_value(True)) is int


class Sample(msgspec.Struct):
    """A row with a field of each kind."""

    text: str
    number: int | None
    flag: bool
    flag_or_none: bool | None
    words: list[str]
    pair: tuple[int, ...] | None
    inner: Heartbeat | None


@pytest.mark.parametrize(
    "sample",
    [
        Sample("ü", 9, True, False, ["a", "b; --"], (1, 2), Heartbeat(5, "p")),
        Sample("", None, False, None, [], None, None),
    ],
)
def test_sqlite_gives_values_of_each_kind_back(sample: Sample) -> None:
    """A field of any of these types is what it was, after a real table."""
    connection = sqlite3.connect(":memory:")
    names = ", ".join(Sample.__struct_fields__)
    connection.execute(f"CREATE TABLE samples ({names})")
    values = [sqlite_value(getattr(sample, name)) for name in Sample.__struct_fields__]
    connection.execute(f"INSERT INTO samples VALUES ({', '.join('?' * len(values))})", values)
    (found,) = connection.execute(f"SELECT {names} FROM samples")
    assert from_sqlite(found, Sample) == sample


@pytest.mark.parametrize("kind", [bool, bool | None, list[str], tuple[str, ...], int, str | None, Heartbeat | None])
@pytest.mark.parametrize("default", [None, True, False])
def test_the_suite_has_another_value_than_the_default(kind: type, default: object) -> None:
    """For each kind of field that a row may have; for others it names the place to add one."""
    value = conformance._value_of(kind, default)
    assert msgspec.convert(value, kind) == value
    assert value is not default
    with pytest.raises(AssertionError, match="the suite has no value of the type"):
        conformance._value_of(bytes | None, default)
