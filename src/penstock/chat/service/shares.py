"""Shares: links that show one chat, whole or up to one turn, to whoever has them. They expire, and can be revoked.

The link has a random code; the store keeps only its SHA-256.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from penstock.chat.errors import Invalid, NoSuchChat, NoSuchShare, TooMany
from penstock.chat.people.persons import digest_of
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.share_view import DAYS, MAX_DAYS
from penstock.chat.store.protocol import ChatStore, UnknownChat
from penstock.chat.store.rows import Share

CODE_BYTES = 32
"""Bytes of the code of a link: impossible to guess, so its hash needs no salt."""

MAX_CODE_CHARS = 100
"""Characters of the longest code that is looked for, more than any has."""

DAY_MS = 24 * 60 * 60 * 1000

MAX_SHARES = 100
"""Maximum number of shares of one chat."""


class Shares:
    """Shares of the chats of one service."""

    def __init__(self, store: ChatStore, chats: Chats, now: Callable[[], int]) -> None:
        """`now` returns milliseconds since 1970."""
        self._store = store
        self._chats = chats
        self._now = now

    async def listed(self, chat: str | None = None) -> list[Share]:
        """Return the shares that have not expired, the oldest first; of one chat, or of all.

        Raises:
            StoreFailed: the store cannot be read.
        """
        now = self._now()
        return [it for it in await self._store.list_shares() if it.expires_at > now and chat in (None, it.chat)]

    async def make(
        self, chat: str, *, person: str, until: int | None = None, details: bool = False, days: int = DAYS
    ) -> tuple[Share, str]:
        """Share a chat for some days, in the name of a person; return the share and the code of its link.

        `until` is the last turn that is shown; `details`: also what the agent did is shown.

        Raises:
            NoSuchChat, NoSuchTurn: there is no such chat, or no such turn.
            Invalid, TooMany: the days are too few or too many, or there are `MAX_SHARES` of this chat.
            StoreFailed: it cannot be kept.
        """
        if not 1 <= days <= MAX_DAYS:
            raise Invalid(f"a chat cannot be shared for {days} days", expected=f"1 to {MAX_DAYS}")
        if until is not None:
            await (await self._chats.fresh_log(chat)).turn(until)
        if len(await self.listed(chat)) >= MAX_SHARES:
            raise TooMany(f"this chat has {MAX_SHARES} shares", help="revoke those that are no longer needed")
        code, now = secrets.token_urlsafe(CODE_BYTES), self._now()
        made = Share(secrets.token_hex(8), chat, digest_of(code), now, now + days * DAY_MS, until, details, person)
        try:
            await self._store.put_share(made)
        except UnknownChat as error:
            raise NoSuchChat(chat) from error
        return made, code

    async def find(self, code: str) -> Share:
        """Return the share whose link has this code.

        Raises:
            NoSuchShare: there is none, or it has expired.
            StoreFailed: the store cannot be read.
        """
        # By its hash: the duration of a look-up among hashes reveals nothing about a code.
        found = await self._store.find_share(digest_of(code)) if 0 < len(code) <= MAX_CODE_CHARS else None
        if found is None or found.expires_at <= self._now():
            raise NoSuchShare
        return found

    async def revoke(self, chat: str, id: str) -> None:
        """Remove a share of a chat: from now on, its link shows nothing.

        Raises:
            NoSuchShare: the chat has none of this id.
            StoreFailed: it cannot be removed.
        """
        if not any(it.id == id for it in await self.listed(chat)):
            raise NoSuchShare
        await self._store.delete_share(id)
