"""Result of the check of a store, and the words for what both stores can lack."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from penstock.chat.history.entries import AttachedFile

MAX_PROBLEMS = 20
"""Problems of one kind that are listed."""

TURN_TOO_LONG = "the turn {1} of the chat {0!r} ends behind its last entry"
KEY_WITHOUT_ENTRY = "the key {1!r} of the chat {0!r} has no entry"
ROWS_WITHOUT_CHAT = "{1} rows of {0} belong to no chat"
WRONG_SIZE = "the file {1!r} of the chat {0!r} has {2} bytes, and should have {3}"
FILE_MISSING = "the file {2!r} of turn {1} of the chat {0!r} is missing"


class StoreReport(NamedTuple):
    """Result of a check."""

    chats: int
    entries: int
    turns: int
    bytes: int
    place: str
    """Where the store is, in words."""
    problems: list[str]
    cautions: list[str]
    """Reasons why what is acknowledged can be lost or damaged, although nothing is yet."""


class _SentFiles(msgspec.Struct):
    """Files in the view of a turn."""

    attachments: list[AttachedFile] | None = None


def missing_files(turns: Iterable[tuple[str, int, bytes]], kept: Collection[tuple[str, str]]) -> list[str]:
    """Return the problems of files that messages name and the store does not have.

    `turns` are the chats, numbers and views of turns; `kept`: the chats and ids of the files that are there.
    """
    problems: list[str] = []
    for chat, turn, view in turns:
        try:
            files = msgspec.json.decode(view, type=_SentFiles).attachments or []
        except (msgspec.DecodeError, UnicodeError):
            continue  # a view that cannot be read is made anew from the entries
        problems += [FILE_MISSING.format(chat, turn, file.name) for file in files if (chat, file.id) not in kept]
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems[:MAX_PROBLEMS]
