"""Columns of both databases: those of the structs, also in tables that exist; and values of each kind in SQLite."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import astuple

import penstock.chat
from penstock.chat.store.columns import (
    POSTGRES,
    SQLITE,
    additions,
    columns,
    definitions,
    from_postgres,
    from_sqlite,
    sqlite_values,
    values_by_name,
)
from penstock.chat.store.conformance import promises
from penstock.chat.store.logins import Browser
from penstock.chat.store.rows import (
    Attachment,
    ChatChanges,
    ChatFields,
    ChatRow,
    ChatSettings,
    ChatTree,
    Directory,
    Heartbeat,
    Share,
    TurnRow,
)

FIRST: dict[type[msgspec.Struct], str] = {
    ChatRow: "id str; agent str; cwd str; created_at int; model str?; title str?; allow str 'default';"
    " heartbeat object?; home str?; session_id str?; heartbeat_since int 0; person str 'owner'",
    TurnRow: "turn int; first int; last int; at int; view bytes",
    Directory: "path str; trusted_at int; person str 'owner'",
    Browser: "id str; secret str; name str; secure bool; created_at int; used_at int; person str 'owner'",
    Attachment: "id str; chat str; name str; media_type str; size int; created_at int; person str 'owner'; turn int 0",
    Share: "id str; chat str; secret str; created_at int; expires_at int; until int?; details bool False;"
    " person str 'owner'",
}
"""Columns that databases have had from the first form on; a question mark: NULL, else the default if there is one."""


@pytest.mark.parametrize("row", FIRST)
def test_columns_that_exist_stay(row: type[msgspec.Struct]) -> None:
    """A field that is removed, or gets another type, needs a new form of the file and a migration: it is named."""
    now = {column.name: column for column in columns(row)}
    for text in FIRST[row].split("; "):
        name, kind, *default = text.split(" ")
        assert name in now, f"{row.__name__}.{name} was removed: {ADVICE}"
        found = (now[name].kind.__name__, now[name].is_nullable)
        assert found == (kind.rstrip("?"), kind.endswith("?")), f"{row.__name__}.{name} has another type: {ADVICE}"
        assert [repr(now[name].default)] == default or not default, f"{row.__name__}.{name}: another default: {ADVICE}"


ADVICE = "a new FORM in store/schema.py, and a migration in store/postgres/migrations"


@pytest.mark.parametrize("row", FIRST)
def test_new_columns_can_be_added(row: type[msgspec.Struct]) -> None:
    """A field that is new has a default, which rows that exist get; one that has none is named."""
    first = {text.split()[0] for text in FIRST[row].split("; ")}
    added = [column for column in columns(row) if column.name not in first]
    assert [column.name for column in added if not column.can_be_added] == [], f"fields of {row.__name__}, no default"


def test_definitions() -> None:
    """Each type has its column in both databases, with the default of the field."""
    assert definitions(Sample, SQLITE).split(", ") == [
        *(
            "text TEXT NOT NULL",
            "number INTEGER",
            "amount REAL NOT NULL",
            "flag INTEGER NOT NULL",
            "flag_or_none INTEGER",
            "words TEXT NOT NULL",
        ),
        *("pair TEXT", "inner TEXT"),
    ]
    assert additions(Later, POSTGRES, ["words"]) == [
        *("mine boolean NOT NULL DEFAULT true", "tags jsonb NOT NULL DEFAULT '[]'", "size bigint NOT NULL DEFAULT -1"),
        """note text COLLATE "C" NOT NULL DEFAULT 'it''s'""",
    ]
    assert additions(Later, SQLITE, ["tags", "size", "note", "words"]) == ["mine INTEGER NOT NULL DEFAULT 1"]
    with pytest.raises(TypeError, match=r"Odd.when: there is no column"):
        columns(msgspec.defstruct("Odd", [("when", set[str])]))
    with pytest.raises(TypeError, match=r"Odd.both: there is no column"):
        columns(msgspec.defstruct("Odd", [("both", str | int)]))


class Later(msgspec.Struct):
    """A row with defaults."""

    words: list[str]
    mine: bool = True
    tags: list[str] = []
    size: int = -1
    note: str = "it's"


def test_new_columns_of_a_file(tmp_path: Path) -> None:
    """Columns that rows in a file get have the defaults, whatever their type."""
    with closing(sqlite3.connect(tmp_path / "file")) as connection:
        connection.execute("CREATE TABLE later (words TEXT NOT NULL) STRICT")
        connection.execute("""INSERT INTO later VALUES ('["a"]')""")
        for added in additions(Later, SQLITE, ["words"]):
            connection.execute(f"ALTER TABLE later ADD COLUMN {added}")
        (row,) = connection.execute(f"SELECT {', '.join(Later.__struct_fields__)} FROM later")
    assert from_sqlite(row, Later) == Later(["a"])


def test_postgres_keeps_each_field_of_a_turn() -> None:
    """The call that appends writes the fields of a turn by their names: one that it lacks is named."""
    text = _migrations()
    (inserted,) = re.findall(r"INSERT INTO turns AS t \((.*?)\)", text)
    assert {*TurnRow.__struct_fields__} - {*inserted.split(", ")} == set(), "append in store/postgres/migrations"


def test_changes_are_of_fields() -> None:
    """Each field of `ChatChanges` is one of `ChatRow`."""
    missing = {*ChatChanges.__struct_fields__} - {*ChatRow.__struct_fields__}
    assert missing == set(), "fields of ChatSettings or ChatChanges that ChatFields and ChatRow lack: store/rows.py"


CONSTANT = {"id", "agent", "cwd", "created_at", "home", "person", "foreign_id", "depth", "origin", "continues", "tree"}
"""Fields of a chat that stay as they are created."""


OWN_CALLS = {"reads"}
"""Fields of a chat that a call of their own changes."""


def test_fields_that_change() -> None:
    """A field of a chat that nothing can change is named, unless it is constant."""
    missing = {*ChatRow.__struct_fields__} - CONSTANT - OWN_CALLS - {*ChatChanges.__struct_fields__}
    assert missing == set(), "fields missing in ChatSettings (clients change them) or ChatChanges: store/rows.py"


INTERNAL = {"session_id", "heartbeat_since", "foreign_id", "depth", "reads", "commands_at"}
"""Fields of a chat that clients neither see nor set as they are."""


def test_clients_see_each_field() -> None:
    """A field of a chat that clients can change and not see is named, and so is one that is neither."""
    missing = {*ChatSettings.__struct_fields__} - {*ChatFields.__struct_fields__}
    assert missing == set(), "fields of ChatSettings missing in ChatFields: store/rows.py"
    assert {*ChatRow.__struct_fields__} - {*ChatFields.__struct_fields__} == INTERNAL, "fields missing in ChatFields"


CHAT = r"\b(?:\w*[cC]hat|it)"
"""Pattern of the variables that are chats in the page: others may have fields of the same names."""


def test_the_page_uses_each_field() -> None:
    """A field of a chat that clients see and the page does not use is named."""
    folder = Path(penstock.chat.__file__).parent / "page"
    text = "\n".join(file.read_text("utf-8") for file in folder.rglob("*.js") if "vendor" not in file.parts)
    unused = [name for name in ChatFields.__struct_fields__ if not re.search(rf"{CHAT}\??\.{name}\b", text)]
    assert unused == ["created_at"], "fields of ChatFields that no module of the page uses"


def test_the_document_has_each_field() -> None:
    """A field of a chat that clients see, or can change, and that docs/gateway-api.md does not have is named."""
    text = (Path(__file__).parents[3] / "docs" / "gateway-api.md").read_text("utf-8")
    (chat,) = re.findall(r"^CHAT:\n\n```json\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert [name for name in ChatFields.__struct_fields__ if f'"{name}":' not in chat] == []
    (changes,) = re.findall(r"^\| `PATCH /api/chats/ID` \| any of (.*?) →", text, re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", changes)} == {*ChatSettings.__struct_fields__}


def _migrations() -> str:
    folder = resources.files("penstock.chat.store.postgres") / "migrations"
    return "\n".join(file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql"))


def test_no_migration_replaces_a_function() -> None:
    """A call that changes gets a new number: nodes of the version before use the old one meanwhile."""
    text = _migrations()
    assert re.findall(r"CREATE\s+OR\s+REPLACE\s+FUNCTION\s+(\w+)", text, re.IGNORECASE) == []
    names = re.findall(r"CREATE\s+FUNCTION\s+(\w+)", text, re.IGNORECASE)
    assert [name for name in names if not re.search(r"_v\d+$", name)] == [], "functions without a number"
    assert len(names) == len({*names})


def test_values_of_sqlite() -> None:
    """Structs and lists are JSON, booleans are numbers, the rest is kept as it is."""
    sample = Sample("t", 9, 0.5, True, False, ["a", "ü"], None, Heartbeat(5, "p"))
    values = sqlite_values(sample)
    assert values == ["t", 9, 0.5, 1, 0, '["a","ü"]', None, '{"minutes":5,"prompt":"p","quiet":null,"on":true}']
    assert type(values[3]) is int


class Sample(msgspec.Struct):
    """A row with a field of each kind."""

    text: str
    number: int | None
    amount: float
    flag: bool
    flag_or_none: bool | None
    words: list[str]
    pair: tuple[int, ...] | None
    inner: Heartbeat | None


@pytest.mark.parametrize(
    "sample",
    [
        Sample("ü", 9, 0.1, True, False, ["a", "b; --"], (1, 2), Heartbeat(5, "p")),
        Sample("", None, 3.0, False, None, [], None, None),
    ],
)
def test_sqlite_gives_values_of_each_kind_back(sample: Sample) -> None:
    """A field of any of these types is what it was, after a real table."""
    names = ", ".join(Sample.__struct_fields__)
    values = sqlite_values(sample)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE samples ({definitions(Sample, SQLITE)}) STRICT")
        connection.execute(f"INSERT INTO samples VALUES ({', '.join('?' * len(values))})", values)
        (found,) = connection.execute(f"SELECT {names} FROM samples")
    assert from_sqlite(found, Sample) == sample


@pytest.mark.parametrize(
    "kind", [bool, bool | None, list[str], tuple[str, ...], int, float, str | None, Heartbeat | None, dict[str, int]]
)
@pytest.mark.parametrize("default", [None, True, False])
def test_the_suite_has_another_value_than_the_default(kind: type, default: object) -> None:
    """For each kind of field that a row may have; for others it names the place to add one."""
    value = promises.value_of(kind, default)
    assert msgspec.convert(value, kind) == value
    assert value is not default
    with pytest.raises(AssertionError, match="the suite has no value of the type"):
        promises.value_of(complex | None, default)


def test_a_row_of_postgresql_is_read_by_its_columns() -> None:
    """Names of parameters stand for the values, and what the driver returns becomes the struct again."""
    row = Directory("/x", 7)
    assert values_by_name(Directory) == "%(path)s, %(trusted_at)s, %(person)s"
    assert from_postgres(astuple(row), Directory) == row


def test_the_source_of_a_chat_in_a_tree() -> None:
    """Root and trust of the directory from which the tree was made count, and not those of the tree."""
    chat = ChatRow("a", "claude", "/src/shop", 1)
    assert chat.source == "/src/shop"
    tree = ChatTree(name="chat-a", branch="penstock/chat-a", directory="/src/shop", onto="main")
    assert msgspec.structs.replace(chat, cwd="/src/shop.chat-a", tree=tree).source == "/src/shop"
