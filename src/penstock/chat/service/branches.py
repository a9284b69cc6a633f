"""Branches: new chats that begin before a message of another chat, with the conversation up to there.

The agent of the new chat gets the messages before as a text with its first prompt: an agent can fork its own
conversation only at the end, and no other agent can continue it. The messages are kept with the new chat, which needs
nothing of the old one any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Sequence
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from penstock.adapter import Allow
from penstock.chat.errors import Conflicting, NoSuchAttachment, NoSuchTurn
from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.transcript import MAX_CHARS, conversation
from penstock.chat.service.attachments import Attachments
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chat_view import ChatView, view_of
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.media import TEXT
from penstock.chat.service.places import Places
from penstock.chat.service.shared import Shared
from penstock.chat.service.trees import ChatTrees
from penstock.chat.service.validation import check_max_chats
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import SENDING, ChatRow, Origin
from penstock.errors import UsageError

PAGE_TURNS = 100
"""Turns that are read at once."""

CONVERSATION_NAME = "conversation.jsonl"
"""Name of the attachment with the messages before."""


class Branch(msgspec.Struct, frozen=True):
    """New chat that begins before a message of another one."""

    chat: ChatView
    prompt: str
    """Text of the message before which it begins."""
    attachments: list[AttachedFile]
    """Files of the message, as the new chat has them."""
    turn: int | None = None
    """Turn that was asked for, if the message was sent to the new chat."""
    repeated: bool = False
    """True if an earlier request with the same key has made the chat."""


class Branches:
    """Maker of the branches of all chats."""

    def __init__(
        self,
        shared: Shared,
        chats: Chats,
        attachments: Attachments,
        places: Places,
        agents: Agents,
        trees: ChatTrees,
    ) -> None:
        self._shared = shared
        self._chats = chats
        self._attachments = attachments
        self._places = places
        self._agents = agents
        self._trees = trees
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def make(
        self,
        id: str,
        turn: int,
        *,
        person: str,
        agent: str | None = None,
        key: str | None = None,
        depth: int = 0,
        tree: bool = False,
    ) -> Branch:
        """Make a new chat of a person that begins before a turn of a chat; the old one stays as it is.

        It has the same directory and permission. `agent` is another agent for it. If one was made before with this
        `key`, that one is the result. `depth`: number of agents above the one that asks for it. `tree`: its agent works
        in a tree of its own, which begins with the last commit of the directory.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
            NoSuchAgent, Invalid, OutsideRoots, UntrustedDirectory, TooMany: the chat cannot be created.
            Conflicting: the agent cannot keep the permission, the key was used for another branch, a file of the
                message is no longer kept, or the home of the chat does not know branches.
            StoreFailed: it cannot be read or kept.
        """
        made = _id_of(person, id, turn, key) if key is not None else uuid.uuid4().hex
        async with self._locks.setdefault(made, asyncio.Lock()):
            return await self._make(made, self._chats.require(id).row, turn, person, agent, depth, tree)

    async def _make(
        self, id: str, old: ChatRow, turn: int, person: str, agent: str | None, depth: int, tree: bool
    ) -> Branch:
        view, earlier, is_whole = await self._turns(old.id, turn)
        before = await self._before(old)
        said = conversation(earlier, before or "", is_whole=is_whole and before is not None).encode()
        kept = AttachedFile(_id_of(id, "conversation"), CONVERSATION_NAME, TEXT, len(said))
        row = ChatRow(
            id=id,
            agent=agent or old.agent,
            cwd=old.cwd,
            created_at=self._shared.now(),
            model=old.model,
            allow=old.allow,
            home=old.home,
            person=person,
            depth=max(old.depth, depth),
            budget=old.budget,
            effort=old.effort,
            origin=Origin(old.id, turn, kept.id if said else None),
        )
        found = await self._chats.taken_up(id)
        if found is None:
            files = await self._files(old.id, view)
            await self._attachments.check_space(person, len(said) + sum(len(content) for _, content in files))
            chat = await self._create(await self._placed(row, old, tree), tree)
        else:
            chat = _same(found, row)
            files = await self._files(old.id, view)
        if said and chat.row.origin is not None and chat.row.origin.conversation is not None:
            await self._attachments.put(id, kept, said, person=person, turn=SENDING)
        copies = [(replace(file, id=_id_of(id, file.id)), content) for file, content in files]
        for copy, content in copies:
            await self._attachments.put(id, copy, content, person=person)
        shown = view_of(chat, self._shared.this_node)
        return Branch(shown, view.prompt, [copy for copy, _ in copies], repeated=found is not None)

    async def _placed(self, row: ChatRow, old: ChatRow, tree: bool) -> ChatRow:
        """Return the row of a new chat whose agent may work in its directory, with the permission of the old chat."""
        await self._shared.this_node.require_known("branches", old)
        check_max_chats(len(self._chats), self._shared.limits.max_chats)
        is_same = row.agent == old.agent
        allow: Allow = old.allow if is_same else self._agents.same_level(old.agent, old.allow, row.agent)
        place = await self._places.choose(row.home, row.agent, old.source, row.model if is_same else None)
        stays = old.tree is not None and not tree  # two chats work in one tree, as they do in one directory
        return replace(
            row,
            agent=place.agent,
            cwd=old.cwd if stays else place.cwd,
            tree=old.tree if stays else None,
            home=place.home,
            model=place.model,
            allow=allow,
            effort=row.effort if is_same else None,
        )

    async def _create(self, row: ChatRow, tree: bool) -> Chat:
        self._shared.require_open()
        try:
            return await (self._trees if tree else self._chats).create(row)
        except StoreFailed:
            raise
        except UsageError:  # another node has made it meanwhile
            found = await self._chats.taken_up(row.id)
            if found is None:
                raise
            return _same(found, row)

    async def _turns(self, chat: str, turn: int) -> tuple[TurnView, list[TurnView], bool]:
        """Return a turn, the turns that began before it, and whether these are all that there were.

        The turn after the last one is that of a message which is yet to be written.
        """
        log = await self._chats.fresh_log(chat)
        newest, _ = await log.turns(turn + 1, 1)
        if not newest or newest[0].turn not in (turn, turn - 1):
            raise NoSuchTurn(f"the chat has no turn {turn}")
        view = newest[0] if newest[0].turn == turn else TurnView(turn, "")
        earlier: list[TurnView] = []
        parts: dict[int, list[TurnView]] = defaultdict(list)
        start = turn + self._shared.limits.max_queue + 1  # one that was asked for later may have begun before
        more = True
        while more and sum(len(it.prompt) + len(it.message) for it in earlier) < MAX_CHARS:
            page, more = await log.turns(start, PAGE_TURNS)
            start = min((it.turn for it in page), default=1)
            earlier += [it for it in page if _is_before(it, view)]
            for it in page:
                if it.whole is not None:
                    parts[it.whole].append(it)
        is_whole = not more and start == 1
        found = [it for whole in sorted(earlier, key=_order) for it in (*parts.get(whole.turn, ()), whole)]
        return view, found, is_whole

    async def _before(self, row: ChatRow) -> str | None:
        """Return the messages with which a chat itself begins; None if they are not kept."""
        if row.origin is None or row.origin.conversation is None:
            return ""
        content = await self._shared.store.read_attachment(row.id, row.origin.conversation)
        return None if content is None else content.decode()

    async def _files(self, chat: str, view: TurnView) -> Sequence[tuple[AttachedFile, bytes]]:
        files = []
        for file in view.attachments or ():
            try:
                _, content = await self._attachments.find(chat, file.id)
            except NoSuchAttachment as error:
                raise Conflicting(f"the file {file.name!r} of the message is no longer kept") from error
            files.append((file, content))
        return files


def _is_before(view: TurnView, other: TurnView) -> bool:
    """Return whether a turn belongs to the conversation before another one."""
    if view.began_at is None or view.turn == other.turn:
        return False
    if other.began_at is not None:
        return _order(view) < _order(other)
    return other.state == "queued" or view.turn < other.turn  # else it was taken back


def _order(view: TurnView) -> tuple[int, int]:
    return view.began_at or 0, view.turn


def _same(found: Chat, row: ChatRow) -> Chat:
    """Return a chat that an earlier request has made. Raises: Conflicting: it was another request."""
    origin, wanted = found.row.origin, row.origin
    assert wanted is not None
    is_same = origin is not None and (origin.chat, origin.turn) == (wanted.chat, wanted.turn)
    if not is_same or (found.row.person, found.row.agent) != (row.person, row.agent):
        raise Conflicting("this key was used for another new chat", help="send the request with another key")
    return found


def _id_of(*parts: object) -> str:
    """Return the id that belongs to these parts: the same whenever it is asked for."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
