"""Checks of the arguments of a store's calls: the same for every store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.chat.store.protocol import EntryTooLarge
from penstock.errors import UsageError

CHAT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""Pattern of the ids of chats: any store can use them as a key."""


def check_chat(chat: str) -> None:
    """Check that the id of a chat is valid.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(chat, str) or not CHAT_ID.fullmatch(chat):
        shown = repr(chat)
        raise UsageError(
            f"{shown if len(shown) <= 60 else shown[:60] + '…'} is not the id of a chat",
            expected="1 to 200 of the characters A-Z a-z 0-9 . _ -, a letter or digit first",
        )


def check_number(name: str, number: int, least: int = 0) -> None:
    """Check that a number can be the number of an entry.

    Raises:
        UsageError: it cannot.
    """
    if type(number) is not int or not least <= number < 2**63:
        raise UsageError(f"{name} cannot be {number!r}", expected=f"a whole number from {least} on")


def check_turns(turns: Mapping[str, int]) -> None:
    """Check the ids of chats, and the numbers of turns up to which they are marked.

    Raises:
        UsageError: an id or a number is not valid.
    """
    for chat, turn in turns.items():
        check_chat(chat)
        check_number("turn", turn)


def check_entries(entries: Sequence[bytes], max_entry_bytes: int) -> list[bytes]:
    """Return a copy of the entries of an append, which the caller can no longer change.

    Raises:
        EntryTooLarge: one of them is too large.
        UsageError: they are not bytes.
    """
    if isinstance(entries, bytes | bytearray | memoryview | str):
        raise UsageError("entries cannot be a single value", expected="a list of bytes")
    copied = list(entries)
    for entry in copied:
        if not isinstance(entry, bytes):
            raise UsageError(f"an entry cannot be of the type {type(entry).__name__}", expected="bytes")
        if len(entry) > max_entry_bytes:
            raise EntryTooLarge(len(entry), max_entry_bytes)
    return copied
