"""Search for chats by words of their prompts: newest first, within bounds of turns and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.chat.errors import Invalid
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.log.chat_log import STORE_ERRORS

MAX_WORDS_CHARS = 200
"""Maximum characters of a search; longer input is a text, not a search."""

MAX_TURNS = 200
"""Number of the newest turns of a chat whose prompts are searched: those that a person may remember."""

MAX_FOUND = 100
"""Maximum number of chats in the result: a longer list is not read."""

SECONDS = 2.0
"""Seconds for one search, after which it returns what it has: a page waits for it while the user types."""


class Search:
    """Searches of one service, one at a time: each reads many turns, and a newer search replaces an older one."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def find(self, chats: Sequence[Chat], words: str) -> tuple[list[str], bool]:
        """Return the ids of the chats with a prompt that has these words, and whether all were looked at.

        Case and line breaks make no difference.

        Raises:
            Invalid: there are no words, or too many.
        """
        wanted = _folded(words)
        if not wanted or len(words) > MAX_WORDS_CHARS:
            raise Invalid("this cannot be searched for", expected=f"1 to {MAX_WORDS_CHARS} characters")
        found: list[str] = []
        async with self._lock:
            try:
                async with asyncio.timeout(SECONDS):
                    for chat in chats:
                        if await _has(chat, wanted):
                            found.append(chat.row.id)
                        if len(found) == MAX_FOUND:
                            return found, False
            except TimeoutError:
                return found, False
        return found, True


async def _has(chat: Chat, wanted: str) -> bool:
    try:
        turns, _ = await chat.log.turns(None, MAX_TURNS)
    except STORE_ERRORS:
        return False  # a chat that cannot be read is found by its title only
    return any(wanted in _folded(turn.prompt) for turn in turns)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
