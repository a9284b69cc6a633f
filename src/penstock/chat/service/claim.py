"""Fencing token of one chat: the store accepts appends of its newest holder only."""

from __future__ import annotations

from penstock.chat.service.nodes import Dispatch
from penstock.chat.store.protocol import ChatStore
from penstock.errors import UsageError


class Unclaimed(UsageError):
    """The store has lost entries, and the claim with them: it was restored from a backup."""

    def __init__(self, chat: str) -> None:
        self.chat = chat
        super().__init__(f"nothing was appended to the chat {chat!r}: the store has lost entries since it was claimed")


class Claim:
    """Claim of a chat by this process."""

    def __init__(self, store: ChatStore, chat: str) -> None:
        self.epoch: int | None = None
        """Epoch of the appends of a run; None if the chat is not claimed."""
        self.rows_lost = False
        """True from when the store was found without entries that it had, until a turn was ended for it, or begins."""
        self._store = store
        self._chat = chat

    async def take(self, dispatch: Dispatch) -> None:
        """Claim the chat, if it is not claimed yet. Call it before a run.

        Raises:
            Claimed: another node has claimed it, and is alive.
            LeaseLost: the lease of this node is over.
            StoreFailed: the claim could not be kept.
        """
        if self.epoch is None:
            self.epoch = await self._store.claim(self._chat, dispatch.node, incarnation=dispatch.incarnation)

    async def release(self) -> None:
        """End the claim, so that any node can claim the chat.

        Raises:
            StoreFailed: the claim is kept until the lease of this node is over.
        """
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            await self._store.release(self._chat, epoch)

    def forget(self) -> None:
        """Append nothing more under the claim: the lease of this node is over."""
        self.epoch = None

    def void(self) -> None:
        """Append nothing more under the claim: it was made in a store that has lost entries since."""
        self.epoch, self.rows_lost = None, True
