"""The changes of turns, taken back and made again in the directories of chats."""

from __future__ import annotations

import asyncio

import msgspec

from penstock.chat.errors import Conflicting, NoSuchTurn
from penstock.chat.history.changes import ChangesFold, take_turn
from penstock.chat.history.entries import OWNER, Undone
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.store import permits
from penstock.repo.file_undo import FileUndo


class TurnFiles(msgspec.Struct, omit_defaults=True):
    """Files of a turn, and what is, or was, done to each to take its changes back or to make them again."""

    turn: int
    files: list[FileUndo]
    redo: bool = False
    """True if the changes are made again."""
    commands: int = 0
    """Number of commands that the agent called in the turn. What they changed is not among the files."""
    repeated: bool = False
    """True if an earlier request with the same key has done it."""


class TurnUndos:
    """Taker-back of the changes of turns, in the chats of one service."""

    def __init__(self, shared: Shared, chats: Chats, hidden: tuple[str, ...]) -> None:
        """`hidden`: files and directories that nothing is written to."""
        self._shared = shared
        self._chats = chats
        self._hidden = hidden
        self._tasks: set[asyncio.Task[TurnFiles]] = set()

    async def plan(self, id: str, turn: int, *, redo: bool = False) -> TurnFiles:
        """Return what would be done now to take the changes of a turn back, or to make them again.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
            Conflicting: the turn has not ended, or its files are on another machine.
            UsageError: the directory of the chat is not there.
            StoreFailed: the store cannot be read.
        """
        chat = self._chat(id)
        self._check(await chat.log.catch_up(), turn)
        return await self._files(chat, turn, redo, does=False)

    async def make(
        self, id: str, turn: int, *, redo: bool = False, key: str | None = None, person: str = OWNER
    ) -> TurnFiles:
        """Take the changes of a turn back in the name of a person, or make them again; return what was done.

        Only files that are as the turn left them, or found them, are changed. A request that is repeated with the
        same `key` does nothing more.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
            Conflicting: a turn of the chat runs, its files are on another machine, or the key was used for another
                request.
            UsageError: the directory of the chat is not there.
            StoreFailed: it could not be kept that it was done.
        """
        self._shared.require_open()
        # A client that leaves meanwhile, or a server that ends, stops nothing halfway.
        task = asyncio.create_task(self._make(self._chat(id), turn, redo, key, person))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _make(self, chat: Chat, turn: int, redo: bool, key: str | None, person: str) -> TurnFiles:
        async with chat.without_turn() as timeline:
            self._check(timeline, turn)
            view = timeline.turns[turn]
            earlier = (view.undos or {}).get(key) if key is not None else None
            if earlier is not None:
                return await self._repeated(chat, turn, redo, earlier)
            permits.check()  # the files are not in the store
            done = await self._files(chat, turn, redo, does=True)
            # If an earlier request could not be kept, its files are as wanted already.
            is_kept = redo == (view.undone is None)
            if any(it.does != "stay" and not (is_kept and it.does == "nothing") for it in done.files):
                number = await chat.note_undone(Undone(turn, done.files, redo, key, person))
                if number is not None:
                    return await self._repeated(chat, turn, redo, number)
            return done

    async def _repeated(self, chat: Chat, turn: int, redo: bool, number: int) -> TurnFiles:
        """Return what an earlier request has done."""
        entries = await chat.log.entries(number - 1, number)
        what = entries[0].what if entries else None
        if not isinstance(what, Undone) or (what.turn, what.redo) != (turn, redo):
            raise Conflicting("this key was used for another request", help="send the request with another key")
        return TurnFiles(turn, what.files, redo, repeated=True)

    async def _files(self, chat: Chat, turn: int, redo: bool, *, does: bool) -> TurnFiles:
        directory = chat.row.cwd
        _, rows = await chat.log.turn(turn)

        def work() -> TurnFiles:
            from penstock.agents import registry  # few servers are asked for it
            from penstock.repo.undo import TurnUndo

            fold = ChangesFold(directory, diffs=True)
            take_turn(fold, rows)
            undo = TurnUndo(
                directory,
                fold.joined(),
                fold.left,
                redo=redo,
                patterns=registry.project_files().starts,
                closed=self._hidden,
            )
            return TurnFiles(turn, undo.apply() if does else undo.plan(), redo, fold.commands)

        return await asyncio.to_thread(work)

    def _chat(self, id: str) -> Chat:
        chat = self._chats.require(id)
        if not chat.is_home:
            raise Conflicting(f"the files of this chat are on the machine {chat.row.home}", help="undo the turn there")
        return chat

    @staticmethod
    def _check(timeline: Timeline, turn: int) -> None:
        """Check that the changes of a turn can be taken back.

        Raises:
            NoSuchTurn: there is none, or it is too old.
            Conflicting: it has not ended.
        """
        view = timeline.turns.get(turn)
        if view is None:
            raise NoSuchTurn(f"turn {turn} is not among the newest turns of the chat")
        if not view.finalized:
            raise Conflicting(f"turn {turn} has not ended", help="wait until it has ended, or stop it")
