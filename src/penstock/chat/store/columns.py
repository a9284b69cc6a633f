"""Columns of a chat in both stores, made from the fields of `ChatRow`, and its values in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.chat.store.rows import ChatRow

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


def from_sqlite(values: Sequence[object]) -> ChatRow:
    """Return the row of a chat from the columns `COLUMNS` of SQLite."""
    found = dict(zip(NAMES, values, strict=True))
    for name in _JSON:
        text = found[name]
        if isinstance(text, str):
            found[name] = msgspec.json.decode(text)
    for name in _BOOLEANS:
        if isinstance(found[name], int):
            found[name] = bool(found[name])
    return msgspec.convert(found, ChatRow)


def _fields_of(*kinds: type[msgspec.inspect.Type]) -> tuple[str, ...]:
    """Return the fields that have one of these types, or that or None."""
    found = []
    for field in msgspec.structs.fields(ChatRow):
        kind = msgspec.inspect.type_info(field.type)
        options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
        if any(isinstance(option, kinds) for option in options):
            found.append(field.name)
    return tuple(found)


_BOOLEANS = _fields_of(msgspec.inspect.BoolType)
_JSON = _fields_of(
    msgspec.inspect.StructType, msgspec.inspect.ListType, msgspec.inspect.VarTupleType, msgspec.inspect.DictType
)
