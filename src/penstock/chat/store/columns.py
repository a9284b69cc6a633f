"""Columns of a chat in both stores, made from the fields of `ChatRow`, and its values in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import msgspec

from penstock.chat.store.rows import ChatRow

Row = TypeVar("Row", bound=msgspec.Struct)

NAMES = ChatRow.__struct_fields__
"""Names of the columns, in the order of the fields."""

COLUMNS = ", ".join(NAMES)
"""Columns as a statement names them."""

MARKS = ", ".join("?" * len(NAMES))
"""Marks of the values in an insert of SQLite."""


def sqlite_value(value: object) -> object:
    """Return a value as SQLite keeps it: structs and lists are JSON, booleans are 0 and 1."""
    if isinstance(value, msgspec.Struct | list | tuple | dict):
        return msgspec.json.encode(value).decode()
    return int(value) if isinstance(value, bool) else value


def from_sqlite(values: Sequence[object], kind: type[Row] = ChatRow) -> Row:  # type: ignore[assignment] # python/mypy#3737
    """Return a row from its columns in SQLite, in the order of the fields of its struct."""
    found = dict(zip(kind.__struct_fields__, values, strict=True))
    for name, is_json in _encoded(kind):
        value = found[name]
        if value is not None:
            found[name] = msgspec.json.decode(str(value)) if is_json else bool(value)
    return msgspec.convert(found, kind)


@cache
def _encoded(kind: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    """Return the fields that SQLite keeps in another form, each with whether that is JSON; the others are booleans."""
    found = []
    for field in msgspec.structs.fields(kind):
        info = msgspec.inspect.type_info(field.type)
        options = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
        if any(isinstance(option, _JSON) for option in options):
            found.append((field.name, True))
        elif any(isinstance(option, msgspec.inspect.BoolType) for option in options):
            found.append((field.name, False))
    return found


_JSON = (msgspec.inspect.StructType, msgspec.inspect.ListType, msgspec.inspect.VarTupleType, msgspec.inspect.DictType)
"""Types whose values are JSON in SQLite."""
