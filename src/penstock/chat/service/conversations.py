"""Conversations that began in a terminal of this machine, and that a chat can continue.

They are those of the history of runs, as `penstock sessions` lists them. What was said there is with the agent: the
chat has the id of the conversation, and its first turn resumes it.
"""

from __future__ import annotations

import asyncio
from typing import get_args

import msgspec
from msgspec.structs import replace

from penstock.adapter import Allow, Level, Request, checked
from penstock.chat.errors import Conflicting, Invalid
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.service.validation import made_title
from penstock.chat.store.protocol import FirstEntry
from penstock.chat.store.rows import ChatRow, ContinuedConversation
from penstock.errors import UsageError
from penstock.run.history import RunRecord, conversations

MAX_SHOWN = 50
"""Conversations that are listed: more than a person reads; words find the others."""

MAX_WORDS_CHARS = 200
"""Characters of the words that are looked for: the history has as many of each prompt."""


class ConversationView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Conversation that a chat can continue, or one that a chat has."""

    agent: str
    session_id: str
    cwd: str
    title: str
    """Beginning of its newest prompt."""
    at: int
    """Time of its newest run, in milliseconds since 1970."""
    allows: list[Allow]
    """Levels of permission at which a chat continues it. At others the agent would not know it."""
    outcome: str | None = None
    """How its newest run ended; None if it still runs, or was killed together with Penstock."""
    chat: str | None = None
    """Chat that has the conversation; None if there is none."""


class TerminalConversations:
    """Conversations of this node. Only owners of the server may see them: they are those of its user."""

    def __init__(self, shared: Shared, chats: Chats, agents: Agents, workspaces: Workspaces) -> None:
        self._shared = shared
        self._chats = chats
        self._agents = agents
        self._workspaces = workspaces
        self._reading = asyncio.Lock()  # the history can be large: it is read for one request at a time
        self._beginning = asyncio.Lock()  # held until the chat is kept, so that a conversation has one chat

    async def find(self, words: str = "") -> list[ConversationView]:
        """Return the conversations at or below the roots whose prompts have all of these words, the newest first.

        Raises:
            Invalid: these are too many words.
        """
        if len(words) > MAX_WORDS_CHARS:
            raise Invalid("these words are too long", expected=f"at most {MAX_WORDS_CHARS} characters")
        found: list[ConversationView] = []
        for run in reversed(await self._read(words)):
            if len(found) == MAX_SHOWN:
                break
            view = self._view(run)
            if view is not None:
                found.append(view)
        return found

    async def go_on(self, row: ChatRow, session_id: str, first: FirstEntry | None) -> Chat:
        """Create a chat that continues the conversation with this id; without a title, it has that of the conversation.

        Raises:
            Invalid: there is no such conversation of its agent in its directory.
            Conflicting: a chat has it, or it cannot be continued at the level of the chat.
            As `Chats.create`.
        """
        if row.home != self._shared.this_node.home:
            raise Invalid(f"{row.home} has no conversations of this machine", expected="a chat on this machine")
        async with self._beginning:
            found = await self._require(row, session_id)
            self._shared.require_open()
            title = row.title or (made_title(found.title) if found.title.strip() else None)
            continues = ContinuedConversation(found.title, found.at)
            return await self._chats.create(
                replace(row, title=title, session_id=session_id, continues=continues), first
            )

    async def _require(self, row: ChatRow, session_id: str) -> ConversationView:
        """Return the conversation with this id, for a new chat.

        Raises:
            Invalid: there is none.
            Conflicting: a chat has it, or it cannot be continued at this level.
        """
        for run in await self._read():
            if (run.agent, run.session_id) == (row.agent, session_id):
                view = self._view(run)
                if view is None or view.cwd != row.cwd:
                    break
                if view.chat is not None:
                    raise Conflicting("another chat has this conversation", help=f"go on in the chat {view.chat}")
                if not self._agents.continues(row.agent, row.allow, run.route):
                    raise Conflicting(
                        f"{row.agent} does not continue this conversation at the level {row.allow!r}",
                        expected="one of " + ", ".join(view.allows),
                    )
                return view
        raise Invalid("there is no such conversation of this agent in the directory", expected="one of /api/sessions")

    async def _read(self, words: str = "") -> list[RunRecord]:
        """Return the newest run of each conversation that had one in a terminal, oldest first."""
        history = self._shared.history
        if history is None:
            return []
        async with self._reading:
            try:
                runs = await asyncio.to_thread(history.runs)
            except OSError:
                return []
            began = {(run.agent, run.session_id) for run in runs if run.kind == "run"}
            found = await asyncio.to_thread(conversations, runs, None, words.split())
        return [run for run in found if (run.agent, run.session_id) in began]

    def _view(self, run: RunRecord) -> ConversationView | None:
        """Return a conversation as a client sees it; None if no chat can continue it here."""
        assert run.session_id is not None
        try:
            self._agents.require(run.agent)
            cwd = str(self._workspaces.find(run.cwd))
            checked(Request(prompt="…", session_id=run.session_id))
        except UsageError:
            return None
        levels = [it for it in get_args(Level) if self._agents.continues(run.agent, it, run.route)]
        if cwd != run.cwd or not levels or self._agents.blocked(run.agent) is not None:
            return None
        chat = self._chat_of(run)
        return ConversationView(
            run.agent, run.session_id, cwd, run.title, run.at, levels, run.outcome, None if chat is None else chat.id
        )

    def _chat_of(self, run: RunRecord) -> ChatRow | None:
        home, wanted = self._shared.this_node.home, (run.agent, run.session_id)
        rows = (chat.row for chat in self._chats)
        return next((row for row in rows if (row.agent, row.session_id) == wanted and row.home == home), None)
