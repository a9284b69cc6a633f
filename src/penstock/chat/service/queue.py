"""The messages of a chat that wait for their turns: changed, put into another order, sent now, steered, released."""

from __future__ import annotations

from penstock.chat.history.entries import OWNER
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.service.validation import text_of


class Queue:
    """Messages that wait in the chats of one service."""

    def __init__(self, shared: Shared, chats: Chats) -> None:
        self._shared = shared
        self._chats = chats

    async def edit(self, id: str, turn: int, text: str, *, edits: int, person: str = OWNER) -> None:
        """Change the text of a turn that waits. `edits`: number of changes that the person has seen.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            Invalid, ContentTooLarge: the text is not valid, or too large.
            NotAllowed: the message is another person's.
            Conflicting: it no longer waits, or was changed meanwhile.
            StoreFailed: the change cannot be kept.
        """
        await (await self._chat(id)).edit(
            turn, text_of(text, self._shared.limits.max_prompt_bytes), edits, person=person
        )

    async def move(self, id: str, seen: list[int], turns: list[int], *, person: str = OWNER) -> None:
        """Put the turns that wait, as they were `seen`, into another order.

        Raises:
            NoSuchChat: there is none of this id.
            Invalid: `turns` are not those that were seen.
            Conflicting: others wait by now, or in another order.
            StoreFailed: the change cannot be kept.
        """
        await (await self._chat(id)).move(seen, turns, person=person)

    async def send_now(self, id: str, turn: int, *, stops: int | None = None, person: str = OWNER) -> None:
        """Let a turn that waits begin before the others; `stops` is the running one, which it stops.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            Conflicting: it no longer waits, or another turn runs than `stops`.
            StoreFailed: the request cannot be kept.
        """
        await (await self._chat(id)).send_now(turn, stops, person=person)

    async def steer(self, id: str, turn: int, into: int, *, person: str = OWNER) -> None:
        """Give a turn that waits to the agent of the running turn `into`, as a message within that turn.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            Conflicting: it no longer waits or has files, or the turn that was seen takes no messages or is over.
            StoreFailed: the request cannot be kept.
        """
        await (await self._chat(id)).steer(turn, into, person=person)

    async def release(self, id: str, *, person: str = OWNER) -> list[int]:
        """Release the turns that a stop holds back, and return them.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the request cannot be kept.
        """
        self._shared.require_open()
        return await self._chats.require(id).release(person=person)

    async def _chat(self, id: str) -> Chat:
        """Return a chat whose home knows these requests."""
        self._shared.require_open()
        chat = self._chats.require(id)
        await self._shared.this_node.require_known("queue", chat.row)
        return chat
