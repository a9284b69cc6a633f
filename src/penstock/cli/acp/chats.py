"""Chats of the server, as the sessions of the client use them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.web.schemas import About, TurnNumber
from penstock.cli.acp.content import GivenPrompt
from penstock.cli.acp.session import Session
from penstock.cli.chats import ID, ChatList, SomeTurns
from penstock.cli.serve.client import Rejected
from penstock.cli.stdio.agents import AgentList, careful_level
from penstock.cli.stdio.link import ServerLink, TurnStep
from penstock.cli.stdio.peer import INTERNAL_ERROR, NOT_FOUND, RpcError
from penstock.errors import PenstockError
from penstock.events import AgentCommand
from penstock.run import inside

PAGE_TURNS = 200
"""Number of turns in one request to the server."""


class ServerChats:
    """Chats of the server. All methods raise what `ServerLink.ask` raises, besides their own errors."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._depth = inside.own_depth()

    def agents(self) -> list[AgentView]:
        """Return the agents that the server offers."""
        return self._link.ask("GET", "/api/agents", AgentList).agents

    def default_agent(self) -> str:
        """Return the name of the agent of new chats."""
        return self._link.ask("GET", "/api/about", About).default_agent

    def all(self) -> list[ChatView]:
        """Return all chats."""
        return self._link.ask("GET", "/api/chats", ChatList).chats

    def find(self, id: str) -> ChatView:
        """Return a chat.

        Raises:
            RpcError: there is none.
        """
        if ID.fullmatch(id) is not None:
            try:
                return self._link.ask("GET", f"/api/chats/{id}", ChatView)
            except Rejected as error:
                if error.code != "not_found":
                    raise
        raise RpcError(NOT_FOUND, "there is no such session", {"sessionId": id[:100]})

    def commands(self, session: Session) -> list[AgentCommand]:
        """Return the commands that the agent of a session is known to offer."""
        path = f"/api/chats/{session.id}/commands"
        if session.is_new:
            directory = quote(os.path.realpath(session.cwd), safe="")
            path = f"/api/agents/{quote(session.agent, safe='')}/commands?cwd={directory}"
        return self._link.ask("GET", path, dict[str, list[AgentCommand]])["commands"]

    def create(self, session: Session, prompt: GivenPrompt) -> ChatView:
        """Create the chat of a session, or return the one that an attempt has made whose answer was lost.

        Its first turn, with this prompt, begins together with the chat.

        Raises:
            Rejected: it cannot be created; with the code `untrusted_directory` if nobody has trusted its directory.
        """
        body: dict[str, Any] = {"id": session.id, "agent": session.agent, "cwd": session.cwd}
        body |= {"model": session.model, "allow": session.allow, "depth": self._depth}
        if session.effort is not None:
            body["effort"] = session.effort
        body["text"] = prompt.text
        if prompt.files:
            body["files"] = [{"name": file.name, "content": file.content} for file in prompt.files]
        try:
            return self._link.ask("POST", "/api/chats", ChatView, body, key=uuid.uuid4().hex)
        except Rejected as error:
            if error.code != "conflict":
                raise
            return self.find(session.id)

    def trust(self, directory: str) -> None:
        """Let agents work in a directory, because a person trusts it."""
        self._link.ask("POST", "/api/workspaces", dict[str, Any], {"path": directory})

    def change(self, id: str, name: str, value: str | None) -> None:
        """Change a setting of a chat."""
        self._link.ask("PATCH", f"/api/chats/{id}", ChatView, {name: value})

    def delete(self, id: str) -> None:
        """Delete a chat.

        Raises:
            RpcError: there is none.
        """
        self.find(id)
        self._link.ask("DELETE", f"/api/chats/{id}", type(None))

    def check_depth(self, session: Session) -> None:
        """Check, if the client belongs to an agent, that no person has changed the level of the chat.

        Raises:
            RpcError: it does.
        """
        if self._depth and self.find(session.id).allow != careful_level(session.agent):
            raise RpcError(INTERNAL_ERROR, "a person has changed the permission of this chat; begin another one")

    def submit(self, id: str, prompt: GivenPrompt) -> int:
        """Begin a turn of a chat, and return its number. If it cannot begin, the server keeps none of its files."""
        key, path = uuid.uuid4().hex, f"/api/chats/{id}/attachments"
        files: list[str] = []
        try:
            for file in prompt.files:
                named = f"{path}?name={quote(file.name, safe='')}"
                files.append(self._link.upload(named, file.content, AttachedFile).id)
            body = {"text": prompt.text, "attachments": files}
            return self._link.ask("POST", f"/api/chats/{id}/turns", TurnNumber, body, key=key).turn
        except PenstockError:
            for file_id in files:
                with suppress(PenstockError):  # those that are left are dropped after a day
                    self._link.client().ask("DELETE", f"{path}/{file_id}", type(None))
            raise

    def file(self, id: str, file: AttachedFile) -> bytes:
        """Return the bytes of a file of a message."""
        return self._link.download(f"/api/chats/{id}/attachments/{file.id}")

    def stop(self, id: str, turn: int) -> None:
        """Stop a turn of a chat."""
        self._link.ask("POST", f"/api/chats/{id}/stop", dict[str, list[int]], {"turn": turn})

    def answer(self, id: str, question: str, answer: str) -> bool:
        """Answer a question of the agent; return False if it is no longer open.

        Raises:
            Rejected: this is not an answer to it.
        """
        try:
            self._link.answer(id, question, answer)
        except Rejected as error:
            if error.code != "conflict":
                raise
            return False
        return True

    def turns(self, id: str) -> list[TurnView]:
        """Return all turns of a chat, the oldest first."""
        path = f"/api/chats/{id}/turns?limit={PAGE_TURNS}"
        page = self._link.ask("GET", path, SomeTurns)
        found = page.turns
        while page.earlier and page.turns:
            page = self._link.ask("GET", f"{path}&before={page.turns[0].turn}", SomeTurns)
            found = [*page.turns, *found]
        return found

    def follow(self, id: str, turn: int, after: int) -> Iterator[TurnStep]:
        """Yield the entries of a turn after a number, as `ServerLink.follow`."""
        return self._link.follow(id, turn, after)
