"""Result of the check of a store, and the words for what both stores can lack."""

from __future__ import annotations

from typing import NamedTuple

MAX_PROBLEMS = 20
"""Problems of one kind that are listed."""

TURN_TOO_LONG = "the turn {1} of the chat {0!r} ends behind its last entry"
KEY_WITHOUT_ENTRY = "the key {1!r} of the chat {0!r} has no entry"
ROWS_WITHOUT_CHAT = "{1} rows of {0} belong to no chat"


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
