"""Commands that agents offer, by the newest lists that chats keep."""

from __future__ import annotations

from penstock.chat.service.chats.chats import Chats
from penstock.events import AgentCommand


class KeptCommands:
    """Commands of the agents of one service."""

    def __init__(self, chats: Chats) -> None:
        self._chats = chats

    async def of_chat(self, id: str, person: str) -> list[AgentCommand]:
        """Return the commands of a chat; before its agent has listed any, those of `of_agent`.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the store cannot be read.
        """
        log = await self._chats.fresh_log(id)
        if log.row.commands_at:
            return await log.commands()
        return await self.of_agent(log.row.agent, log.row.source, person)

    async def of_agent(self, agent: str, directory: str, person: str) -> list[AgentCommand]:
        """Return the commands of an agent in a directory, by the newest chat of this person that has a list.

        Raises:
            StoreFailed: the store cannot be read.
        """
        rows = [chat.row for chat in self._chats if chat.row.commands_at]
        alike = [it for it in rows if (it.agent, it.source, it.person) == (agent, directory, person)]
        newest = max(alike, key=lambda row: row.created_at, default=None)
        chat = self._chats.get(newest.id) if newest is not None else None
        return await chat.log.commands() if chat is not None else []
