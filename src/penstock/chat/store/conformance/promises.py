"""What the checks share: rows with values, and what is compared with a promise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatRow, TurnRow

Open = Callable[[], AbstractAsyncContextManager[ChatStore]]
"""Function that opens the store, each time the same one."""

Check = Callable[[Open, str], Coroutine[Any, Any, None]]
"""Check of one promise: it gets the function that opens the store, and the id of a chat that does not exist yet."""

PATIENCE = 30
"""Timeout in seconds for everything that should arrive."""

HOSTILE = (b"", b"\n", b"\0", b"\xff\xfe", b"'; --", b'{"type":"replied"}', b"x" * 100_000)
"""Entries that a store could take for something else."""


def chat_row(chat: str, **more: Any) -> ChatRow:
    """Return a new chat as a row, with other values in `more`."""
    return ChatRow(chat, "agent", "/src", 5, **more)


def turn_row(turn: int, *, first: int = 1, last: int = 0, at: int = 1, view: bytes = b"view") -> TurnRow:
    """Return a turn as a row; one that has not ended unless `last` is given."""
    return TurnRow(turn, first, last, at, view)


def values_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a value for each field of a struct, other than its default, so that no field can be forgotten."""
    return {field.name: value_of(field.type, field.default) for field in msgspec.structs.fields(kind)}


def value_of(kind: Any, default: object) -> Any:
    """Return a value of a type, other than the default."""
    found = msgspec.inspect.type_info(kind)
    for option in found.types if isinstance(found, msgspec.inspect.UnionType) else (found,):
        match option:
            case msgspec.inspect.BoolType():
                return default is not True
            case msgspec.inspect.IntType():
                return 9
            case msgspec.inspect.FloatType():
                return 0.1
            case msgspec.inspect.StrType():
                return "t ü"
            case msgspec.inspect.BytesType():
                return b"\0 \xff"
            case msgspec.inspect.LiteralType(values=values):
                return next(value for value in reversed(values) if value != default)
            case msgspec.inspect.ListType(item_type=msgspec.inspect.StructType(cls=struct)):
                return [struct(**values_of(struct))]
            case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
                return msgspec.convert([value_of(str, None), "'; --"], kind)
            case msgspec.inspect.DictType(key_type=msgspec.inspect.StrType(), value_type=msgspec.inspect.IntType()):
                return {"t ü": 9, "": 0}
            case msgspec.inspect.StructType(cls=struct):
                return struct(**values_of(struct))
    raise AssertionError(f"the suite has no value of the type {kind}: add one in {__name__}")


async def holds(store: ChatStore, chat: str, data: list[bytes], after: int = 0) -> None:
    """Check that the chat has exactly these entries after a number."""
    found: list[tuple[int, bytes]] = []
    while len(found) <= len(data) and (page := (await store.read(chat, after=after + len(found))).entries):
        found += [(entry.number, entry.data) for entry in page]
    same("numbers", [number for number, _ in found], list(range(after + 1, after + 1 + len(data))))
    require([it for _, it in found] == data, "the bytes read are not those appended")


async def raises(kind: type[Any], call: Awaitable[Any]) -> Any:
    """Check that a call raises an error of this kind, and return the error."""
    try:
        given = await call
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"expected {kind.__name__}, but it raised {error!r}") from error
    raise AssertionError(f"expected {kind.__name__}, but it gave {given!r:.80}")


async def soon(call: Awaitable[Any], what: str) -> None:
    """Check that a call ends before the timeout."""
    try:
        async with asyncio.timeout(PATIENCE):
            await call
    except TimeoutError:
        raise AssertionError(f"{what} never came") from None


def same(what: str, found: object, expected: object) -> None:
    """Check that a value is the expected one."""
    require(found == expected, f"{what}: {found!r:.200}, and should be {expected!r:.200}")


def require(holds: bool, otherwise: str) -> None:
    """Check a condition; the message says what is the case otherwise."""
    if not holds:
        raise AssertionError(otherwise)
