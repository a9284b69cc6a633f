"""The chats of one Penstock: what they are, who works for them, and what can be asked of them.

Everything belongs to one event loop. What is shown of a chat is in its log, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.adapter import Allow
from penstock.chat.errors import Ending, NoSuchChat, TooMany, Wrong
from penstock.chat.history.entries import Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Thread
from penstock.chat.service import heartbeat
from penstock.chat.service.concurrency import Slots
from penstock.chat.service.heartbeat import Heartbeat
from penstock.chat.service.index import Card, Chat, Index
from penstock.chat.service.launch import Starter
from penstock.chat.service.limits import Limits
from penstock.chat.service.retention import Retention
from penstock.chat.service.scheduler import Beats
from penstock.chat.service.validation import allow_of, key_of, made_title, model_of, text_of, title_of
from penstock.chat.service.worker import Shared, State, Worker
from penstock.chat.service.workspaces import Workspace, Workspaces
from penstock.chat.store.protocol import EventLog, LogFailed
from penstock.chat.store.sqlite import clock
from penstock.config.settings import Config
from penstock.run import lifecycle


class ChatView(msgspec.Struct, frozen=True):
    """A chat as it stands in a list. Times are milliseconds since 1970."""

    id: str
    title: str | None
    agent: str
    model: str | None
    cwd: str
    allow: Allow
    created_at: int
    used_at: int
    state: State
    asks: bool
    """A question waits for a person."""
    turns: int
    heartbeat: Heartbeat | None


class Runtime:
    """The chats. Make it with `Runtime.open`; it does not own the log that it is given."""

    def __init__(
        self,
        log: EventLog,
        index: Index,
        workspaces: Workspaces,
        *,
        starter: Starter,
        limits: Limits,
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.agents = starter.agents
        self.limits = limits
        self._log = log
        self._index = index
        self._workspaces = workspaces
        self._now = now
        self._workers: dict[str, Worker] = {}
        self._beats = Beats(lambda: self._workers.values(), now, sleep)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False
        self._shared = Shared(log, limits, Slots(limits.max_runs), starter.run, self._beats.changed.set)

    @classmethod
    async def open(
        cls,
        log: EventLog,
        *,
        roots: Sequence[Path],
        config: Config,
        limits: Limits | None = None,
        default_agent: str | None = None,
        now: Callable[[], int] = clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        environ: Mapping[str, str] | None = None,
        extra_env: Iterable[str] = (),
        run_limits: lifecycle.Limits | None = None,
        retention: Retention | None = None,
    ) -> Runtime:
        """Take up the chats of the log: turns that a crash cut off are ended and marked, those that wait go on.

        Agents get of `environ` (None: this process's environment) what `environment` lets through, and the names
        `extra_env`. `run_limits` are the graces and limits of each run. `now` and `sleep` are those of the heartbeats
        and of the retention: milliseconds since 1970, seconds.

        Raises:
            LogFailed: the log cannot be read.
            UsageError: the roots or the default agent cannot be used.
        """
        index = await Index.open(log)
        workspaces = Workspaces(roots, index, now)
        given = dict(os.environ if environ is None else environ)
        runtime = cls(
            log,
            index,
            workspaces,
            starter=Starter(config, workspaces, given, extra_env, run_limits or lifecycle.Limits(), default_agent),
            limits=limits or Limits(),
            now=now,
            sleep=sleep,
        )
        await runtime._recover()
        runtime._start(runtime._beats.run())
        if retention is not None:
            runtime._start(retention.again(runtime.retain, sleep))
        return runtime

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _recover(self) -> None:
        at_once = asyncio.Semaphore(self.limits.recovering)

        async def recover(chat: Chat) -> None:
            async with at_once:
                worker = Worker(Card(chat, self._index), self._shared)
                if chat.deleted:
                    await self._forget(worker)
                else:
                    self._workers[chat.id] = worker
                    await worker.recover()

        work = [recover(chat) for chat in self._index.chats.values()]
        failures = [error for error in await asyncio.gather(*work, return_exceptions=True) if error is not None]
        for error in failures:
            # A chat that cannot be read says so to who uses it; it keeps nobody from the others.
            if not isinstance(error, LogFailed) or len(failures) == len(work):
                raise error

    async def close(self) -> None:
        """Kill what runs, and mark it as cut off, within half a second. Nothing begins any more."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))

    # --- what is there ---

    def chats(self) -> list[ChatView]:
        """All chats, the one used last first."""
        return sorted(map(_view, self._workers.values()), key=lambda view: (view.used_at, view.id), reverse=True)

    @property
    def waiting(self) -> int:
        """The turns that wait, of all chats."""
        return sum(worker.waiting for worker in self._workers.values())

    def chat(self, id: str) -> ChatView:
        """One chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return _view(self._worker(id))

    def workspaces(self) -> tuple[list[Workspace], list[Workspace]]:
        """The roots, and other directories that were used or trusted of late."""
        return self._workspaces.listed([view.cwd for view in self.chats()])

    async def trust(self, path: str | os.PathLike[str]) -> Workspace:
        """Trust a directory: what lies in it may tell agents what to run.

        Raises:
            Wrong, OutsideRoots: it is no directory below a root.
            LogFailed: it cannot be kept.
        """
        self._begin()
        return await self._workspaces.trust(path)

    async def turns(self, id: str, *, before: int | None = None, limit: int = 50) -> tuple[list[TurnView], bool]:
        """The newest turns of a chat before turn `before`, oldest first, and whether there are earlier ones.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return await self._worker(id).ledger.turns(before, limit)

    async def thread(self, id: str) -> Thread:
        """A fresh thread of this chat; its `number` says from where the log is to be read.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return await self._worker(id).ledger.fresh()

    async def turn(self, id: str, turn: int) -> tuple[TurnView, list[Numbered]]:
        """One turn, and its rows, as far as it is by now.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
        """
        return await self._worker(id).ledger.turn(turn)

    # --- chats come, change and go ---

    async def create(
        self,
        *,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        title: str | None = None,
        allow: Allow = "default",
    ) -> ChatView:
        """A new chat. Without a directory it works in the first root, without an agent with the default one.

        Raises:
            NoSuchAgent, Wrong, OutsideRoots, Untrusted, TooMany: it cannot be.
            LogFailed: it cannot be kept.
        """
        self._begin()
        name, chosen = await asyncio.to_thread(self.agents.choose, agent, model_of(model))
        self._begin()
        real = self._workspaces.require(cwd)
        if len(self._workers) >= self.limits.max_chats:
            raise TooMany(f"there are {self.limits.max_chats:,} chats already", way_out="delete some")
        chat = Chat(
            id=uuid.uuid4().hex,
            agent=name,
            cwd=str(real),
            created_at=self._now(),
            model=chosen,
            title=title_of(title),
            allow=allow_of(allow),
        )
        worker = self._workers[chat.id] = Worker(Card(chat, self._index), self._shared)
        try:
            await self._index.put(chat)
        except BaseException:
            del self._workers[chat.id]
            raise
        return _view(worker)

    async def change(self, id: str, **changes: Any) -> ChatView:
        """Change `title`, `model`, `allow` or `heartbeat` (its fields, or None) of a chat, from the next turn on.

        Raises:
            NoSuchChat: there is none of this id.
            Wrong, TooLarge: a value cannot be.
            LogFailed: it cannot be kept.
        """
        self._begin()
        worker = self._worker(id)
        checks: dict[str, Callable[[Any], Any]] = {
            "title": title_of,
            "model": model_of,
            "allow": allow_of,
            "heartbeat": self._heartbeat,
        }
        for name in changes:
            if name not in checks:
                raise Wrong(f"{name[:40]!r} of a chat cannot be changed", expected=", ".join(checks))
        values = {name: checks[name](value) for name, value in changes.items()}
        if "heartbeat" in values and values["heartbeat"] != worker.chat.heartbeat:
            values["heartbeat_since"] = self._now()
        await worker.card.change(lambda chat: replace(chat, **values))
        self._beats.changed.set()
        return _view(worker)

    async def delete(self, id: str) -> None:
        """Stop what runs in a chat, and forget it.

        Raises:
            NoSuchChat: there is none of this id.
            LogFailed: it cannot be kept; what could not be trimmed is at the next start.
        """
        self._begin()
        worker = self._worker(id)
        await worker.card.change(lambda chat: replace(chat, deleted=True))
        del self._workers[id]
        await self._forget(worker)

    @staticmethod
    async def _forget(worker: Worker) -> None:
        await worker.delete()
        await worker.card.forget()

    # --- turns ---

    async def prompt(self, id: str, text: str, *, key: str | None = None) -> tuple[int, bool]:
        """Ask for a turn: its number, and whether it is new. A `key` that was there in the newest turns is that turn.

        When it returns, the turn is in the log and will be begun, once, whatever happens.

        Raises:
            NoSuchChat: there is none of this id.
            Wrong, TooLarge, TooMany: it cannot be.
            LogFailed: it cannot be kept.
        """
        self._begin()
        worker = self._worker(id)
        turn, new = await worker.ask(self._text(text), key=key_of(key))
        if worker.chat.title is None:
            try:
                await worker.card.change(lambda chat: replace(chat, title=chat.title or made_title(text)))
            except (LogFailed, NoSuchChat):
                pass  # the next prompt gives it one
        return turn, new

    async def answer(self, id: str, hint_id: str, text: str) -> int:
        """Answer a question of the agent: the turn that goes on with it, or the new one.

        Raises:
            NoSuchChat: there is none of this id.
            Conflicting: nobody asks this, or no more.
            Wrong, TooLarge, TooMany: the answer cannot be.
            LogFailed: it cannot be kept.
        """
        self._begin()
        worker = self._worker(id)
        return await worker.answer(hint_id, self._text(text))

    async def stop(self, id: str, turn: int | None = None) -> list[int]:
        """Stop a turn or take it back from the queue; without one, all of them. Gives those that were.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            LogFailed: it cannot be kept.
        """
        self._begin()
        return await self._worker(id).stop(turn)

    async def retain(self, retention: Retention) -> dict[str, int]:
        """Drop the oldest turns of all chats, as far as is asked; gives the row up to which, for each chat.

        Turns go whole, and each chat keeps its newest.

        Raises:
            LogFailed: the log cannot be read or trimmed.
        """
        return await retention.retain({id: worker.ledger for id, worker in self._workers.items()})

    # --- checks ---

    def _begin(self) -> None:
        if self._ending:
            raise Ending

    def _worker(self, id: str) -> Worker:
        worker = self._workers.get(id)
        if worker is None:
            raise NoSuchChat(id)
        return worker

    def _text(self, text: str) -> str:
        return text_of(text, self.limits.max_prompt_bytes)

    def _heartbeat(self, given: Any) -> Heartbeat | None:
        beat = heartbeat.checked(given)
        if beat is not None:
            self._text(beat.prompt)
        return beat


def _view(worker: Worker) -> ChatView:
    chat, newest = worker.chat, worker.ledger.newest
    return ChatView(
        id=chat.id,
        title=chat.title,
        agent=chat.agent,
        model=chat.model,
        cwd=chat.cwd,
        allow=chat.allow,
        created_at=chat.created_at,
        used_at=worker.used_at,
        state=worker.state,
        asks=worker.asks,
        turns=newest.turn if newest is not None else 0,
        heartbeat=chat.heartbeat,
    )
