"""Columns of both databases, made from the fields of the structs in `rows.py`; and their values in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

Row = TypeVar("Row", bound=msgspec.Struct)

SQLITE: dict[type, str] = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL", bytes: "BLOB", object: "TEXT"}
"""Types of columns in SQLite; `object` is what is kept as JSON."""

POSTGRES: dict[type, str] = {
    str: 'text COLLATE "C"',
    int: "bigint",
    bool: "boolean",
    float: "double precision",
    bytes: "bytea",
    object: "jsonb",
}
"""Types of columns in PostgreSQL. Texts have one order on all servers."""

_KINDS: tuple[tuple[type | tuple[type, ...], type], ...] = (
    (inspect.BoolType, bool),
    (inspect.IntType, int),
    (inspect.FloatType, float),
    ((inspect.StrType, inspect.LiteralType), str),
    (inspect.BytesType, bytes),
    ((inspect.StructType, inspect.ListType, inspect.VarTupleType, inspect.DictType), object),
)
"""Types of fields, each with the kind of its column."""


class Column(NamedTuple):
    """Column that keeps one field."""

    name: str
    kind: type
    """`str`, `int`, `bool`, `float`, `bytes`, or `object` for what is JSON in SQLite."""
    is_nullable: bool
    default: Any
    """Default of the field; `NODEFAULT` if a row always names it."""

    @property
    def can_be_added(self) -> bool:
        """Return whether rows that exist can get the column: it has a default."""
        return self.default is not msgspec.NODEFAULT

    def definition(self, types: dict[type, str]) -> str:
        """Return the definition of the column in a database with these types of columns."""
        words = [self.name, types[self.kind], *([] if self.is_nullable else ["NOT NULL"])]
        if self.can_be_added and self.default is not None:
            words += ["DEFAULT", _literal(self.default, is_number=types[bool] == "INTEGER")]
        return " ".join(words)


@cache
def columns(row: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Return the columns of a struct, in the order of its fields.

    Raises:
        TypeError: a field has a type of which there is no column; the message names it.
    """
    found = []
    for field in msgspec.structs.fields(row):
        info = inspect.type_info(field.type)
        options = info.types if isinstance(info, inspect.UnionType) else (info,)
        kinds = {kind for option in options for types, kind in _KINDS if isinstance(option, types)}
        if len(kinds) != 1:
            raise TypeError(f"{row.__name__}.{field.name}: there is no column for the type {field.type}")
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        is_nullable = any(isinstance(option, inspect.NoneType) for option in options)
        found.append(Column(field.name, kinds.pop(), is_nullable, default))
    return tuple(found)


def definitions(row: type[msgspec.Struct], types: dict[type, str]) -> str:
    """Return the columns of a struct as a statement that creates a table names them."""
    return ", ".join(column.definition(types) for column in columns(row))


def additions(row: type[msgspec.Struct], types: dict[type, str], present: Collection[str]) -> list[str]:
    """Return the definitions of the columns that a table without them gets, if it has the columns `present`."""
    return [column.definition(types) for column in columns(row) if column.name not in present]


def names(row: type[msgspec.Struct], table: str = "") -> str:
    """Return the names of the columns of a struct as a statement lists them, each with that of its table, if given."""
    return ", ".join(f"{table}.{name}" if table else name for name in row.__struct_fields__)


def values_by_name(row: type[msgspec.Struct]) -> str:
    """Return the values of a row as a statement of PostgreSQL lists them: the names of its parameters."""
    return ", ".join(f"%({name})s" for name in row.__struct_fields__)


def insert(table: str, row: type[msgspec.Struct], *more: str, replaces: bool = False) -> str:
    """Return the statement of SQLite that inserts a row: the values of its fields, then those of the columns `more`."""
    marks = ", ".join("?" * (len(row.__struct_fields__) + len(more)))
    verb = "INSERT OR REPLACE" if replaces else "INSERT"
    return f"{verb} INTO {table} ({', '.join((*row.__struct_fields__, *more))}) VALUES ({marks})"


def sqlite_values(row: msgspec.Struct) -> list[object]:
    """Return the values of a row as SQLite keeps them, in the order of its fields."""
    return [sqlite_value(getattr(row, name)) for name in row.__struct_fields__]


def sqlite_value(value: object) -> object:
    """Return a value as SQLite keeps it: structs and lists are JSON, booleans are 0 and 1."""
    if isinstance(value, msgspec.Struct | list | tuple | dict):
        return msgspec.json.encode(value).decode()
    return int(value) if isinstance(value, bool) else value


def from_sqlite(values: Sequence[object], kind: type[Row]) -> Row:
    """Return a row from its columns in SQLite, in the order of the fields of its struct."""
    found = dict(zip(kind.__struct_fields__, values, strict=True))
    for column in columns(kind):
        value = found[column.name]
        if value is not None and column.kind is object:
            found[column.name] = msgspec.json.decode(str(value))
        elif value is not None and column.kind is bool:
            found[column.name] = bool(value)
    return msgspec.convert(found, kind)


def from_postgres(values: Sequence[object], kind: type[Row]) -> Row:
    """Return a row from its columns in PostgreSQL, in the order of the fields of its struct."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, values, strict=True)), kind)


def _literal(value: object, *, is_number: bool) -> str:
    """Return a default as a statement writes it; `is_number`: booleans are 0 and 1."""
    kept = sqlite_value(value)
    if isinstance(value, bool):
        return str(kept) if is_number else str(value).lower()
    return str(kept) if isinstance(kept, int | float) else "'" + str(kept).replace("'", "''") + "'"
