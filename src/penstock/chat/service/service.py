"""Service of the chats of one Penstock: the chats, their workers, and the requests that they accept.

Everything belongs to one event loop. Everything that is shown of a chat is in the store, and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.adapter import Allow
from penstock.chat.errors import Invalid, NoSuchChat, ShuttingDown
from penstock.chat.history.entries import Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.launch import Starter
from penstock.chat.service.agents.offered import Agents, AgentView, of_other_nodes
from penstock.chat.service.agents.workspaces import Workspace, Workspaces
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chat_view import ChatView, view_of
from penstock.chat.service.chats.heartbeats import Scheduler, checked
from penstock.chat.service.chats.search import Search
from penstock.chat.service.counters import Counters
from penstock.chat.service.limits import RETAIN_SECONDS, Retention, ServiceLimits
from penstock.chat.service.log.chat_log import STORE_ERRORS, ChatLog
from penstock.chat.service.node_work import NodeWork
from penstock.chat.service.nodes import ChatPlace, ThisNode
from penstock.chat.service.shared import Shared
from penstock.chat.service.slots import Slots
from penstock.chat.service.store_checks import check_again
from penstock.chat.service.validation import allow_of, check_max_chats, key_of, made_title, model_of, text_of, title_of
from penstock.chat.store.protocol import ChatStore, StoreClosed, StoreFailed, Subscription, clock
from penstock.chat.store.rows import ChatChanges, ChatRow, Heartbeat
from penstock.chat.store.state import StoreState
from penstock.config.settings import Config
from penstock.errors import UsageError
from penstock.run import lifecycle
from penstock.run.history import History

MAX_NUMBER = 2**63 - 1
"""Number larger than that of any entry: a worker that follows up to it reads to the end."""


class Service:
    """Service of the chats. Create it with `Service.open`; it does not own the store that it gets.

    It is longer than 400 lines because each request to a chat is one method here, with its errors.
    """

    def __init__(
        self,
        store: ChatStore,
        workspaces: Workspaces,
        *,
        starter: Starter,
        limits: ServiceLimits,
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
        history: History | None,
        this_node: ThisNode,
    ) -> None:
        self.agents: Agents = starter.agents
        self.limits = limits
        self.counters: Counters = Counters()
        self.store_state: StoreState = store.state
        self._store = store
        self._workspaces = workspaces
        self._now = now
        self._sleep = sleep
        self._workers: dict[str, Chat] = {}
        self._search = Search()
        self._scheduler = Scheduler(lambda: self._workers.values(), now, sleep)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False
        slots, changed = Slots(limits.max_runs), self._scheduler.changed.set
        self._shared = Shared(store, limits, slots, self.counters, starter.run, changed, now, history, this_node)
        self.node: NodeWork = NodeWork(self._workers, self._shared, workspaces)

    @classmethod
    async def open(
        cls,
        store: ChatStore,
        *,
        roots: Sequence[Path],
        config: Config,
        limits: ServiceLimits | None = None,
        default_agent: str | None = None,
        now: Callable[[], int] = clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        environ: Mapping[str, str] | None = None,
        extra_env: Iterable[str] = (),
        run_limits: lifecycle.Limits | None = None,
        retention: Retention | None = None,
        history: History | None = None,
        this_node: ThisNode | None = None,
    ) -> Service:
        """Recover the chats of the store: end and mark turns that a crash cut off, and continue with those that wait.

        Agents get the variables of `environ` (None: this process's environment) that `environment` passes on, and the
        names `extra_env`. `run_limits` are the grace periods and limits of each run. `now` (milliseconds since 1970)
        and `sleep` (seconds) are the clock of entries, heartbeats and retention. `history` lists the runs; None: not.
        `this_node`: the turns that this process works on; None: all.

        Raises:
            StoreFailed: the store cannot be read.
            UsageError: the roots or the default agent cannot be used.
        """
        this_node = this_node or ThisNode()
        workspaces = Workspaces(roots, store, await store.list_directories(), now)
        if not workspaces.roots and not this_node.by_jobs:
            raise UsageError("there is no root", expected="a directory below which agents may work")
        given = dict(os.environ if environ is None else environ)
        service = cls(
            store,
            workspaces,
            starter=Starter(config, workspaces, given, extra_env, run_limits or lifecycle.Limits(), default_agent),
            limits=limits or ServiceLimits(),
            now=now,
            sleep=sleep,
            history=history,
            this_node=this_node,
        )
        subscription = store.subscribe()
        await service._recover()
        for work in (service._follow(subscription), service._scheduler.run(), check_again(store)):
            service._start(work)
        if retention is not None:
            service._start(service._retain_again(retention))
        return service

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recover(self) -> None:
        at_once = asyncio.Semaphore(self.limits.recovering)

        async def recover(row: ChatRow) -> None:
            async with at_once:
                worker = self._workers[row.id] = Chat(row, self._shared)
                await worker.recover()

        rows: list[ChatRow] = []
        while page := await self._store.list_chats(after=rows[-1].id if rows else ""):
            rows += page
        work = [recover(row) for row in rows]
        failures = [error for error in await asyncio.gather(*work, return_exceptions=True) if error is not None]
        for error in failures:
            # A chat that cannot be read raises an error when it is used; the others can be used.
            if not isinstance(error, StoreFailed) or len(failures) == len(work):
                raise error

    async def _follow(self, subscription: Subscription) -> None:
        """Make workers apply entries that they did not append."""
        try:
            while True:
                news = await subscription.next()
                chats = dict.fromkeys(self._workers, MAX_NUMBER) if news.all else news.chats
                for chat, last in chats.items():
                    worker = self._workers.get(chat)
                    if worker is not None and worker.log.live.is_behind(last) and not self.node.skips(worker):
                        self._start(worker.follow(last))
                if self._shared.this_node.by_jobs:
                    for chat in await self.node.changed(news):
                        self._start(self.node.read_row(chat))
        except StoreClosed:
            pass
        finally:
            subscription.close()

    async def close(self) -> None:
        """Kill the runs, and mark their turns as cut off, within half a second. No turn begins after that."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))

    # --- what is there ---

    def chats(self) -> list[ChatView]:
        """Return all chats, the one used last first."""
        views = [view_of(worker, self._shared.this_node) for worker in self._workers.values()]
        return sorted(views, key=lambda view: (view.used_at, view.id), reverse=True)

    async def find(self, words: str) -> tuple[list[str], bool]:
        """Return the ids of chats with a prompt that has these words, and whether all were looked at, as `Search.find`.

        Raises:
            Invalid: this cannot be searched for.
        """
        self._require_open()
        newest = sorted(self._workers.values(), key=lambda worker: worker.used_at, reverse=True)
        return await self._search.find(newest, words)

    @property
    def waiting(self) -> int:
        """Number of turns that wait, in all chats."""
        return sum(worker.waiting for worker in self._workers.values())

    def chat(self, id: str) -> ChatView:
        """Return one chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return view_of(self._worker(id), self._shared.this_node)

    async def offered_agents(self) -> list[AgentView]:
        """Return all agents; at a node without agents, those of others are available. It may take half a second.

        Raises:
            StoreFailed: the store cannot be read.
        """
        agents = await asyncio.to_thread(self.agents.listed)
        offered = await self.node.offered()
        if offered is None:
            return agents
        return of_other_nodes(agents, offered.agents)

    async def workspaces(self) -> tuple[list[Workspace], list[Workspace]]:
        """Return the roots, and other directories that were used or trusted recently.

        Raises:
            StoreFailed: the store cannot be read.
        """
        offered = await self.node.offered()
        if offered is not None:
            return offered.roots, offered.recent
        return self._workspaces.listed([view.cwd for view in self.chats() if view.home == self.node.name])

    async def trust(self, path: str | os.PathLike[str], home: str | None = None) -> Workspace:
        """Trust a directory: from then on its files may define what agents run.

        Raises:
            Invalid, OutsideRoots: it is not a directory below a root.
            StoreFailed: the decision cannot be kept.
        """
        self._require_open()
        return await self.node.trust(home, os.fspath(path)) or await self._workspaces.trust(path)

    def check_trusted(self, path: str) -> None:
        """Check that a directory is below a root, and that a user trusts it.

        Raises:
            Invalid, OutsideRoots: it is not a directory below a root.
            UntrustedDirectory: it is not trusted yet.
        """
        self._require_open()
        self._workspaces.require(path)

    async def turns(self, id: str, *, before: int | None = None, limit: int = 50) -> tuple[list[TurnView], bool]:
        """Return the newest turns of a chat before turn `before`, oldest first, and whether there are earlier ones.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return await (await self.node.fresh_log(self._worker(id))).turns(before, limit)

    def log(self, id: str) -> ChatLog:
        """Return the entries and the timeline of a chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return self._worker(id).log

    async def turn(self, id: str, turn: int) -> tuple[TurnView, list[Numbered]]:
        """Return one turn and its entries so far.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
        """
        return await (await self.node.fresh_log(self._worker(id))).turn(turn)

    # --- create, change and delete chats ---

    async def create(
        self,
        *,
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        title: str | None = None,
        allow: Allow = "default",
        home: str | None = None,
    ) -> ChatView:
        """Create a chat. Its default directory is the first root; its default agent is that of the service.

        `home` is the node where the agent works: by default this one, or the one with the most free slots.

        Raises:
            NoSuchAgent, Invalid, OutsideRoots, UntrustedDirectory, TooMany: the chat cannot be created.
            StoreFailed: the chat cannot be kept.
        """
        self._require_open()
        place, chosen = await self.node.place(home, agent, cwd), model_of(model)
        if place is None:
            name, chosen = await asyncio.to_thread(self.agents.choose, agent, chosen)
            place = ChatPlace(self.node.name, name, str(self._workspaces.require(cwd)))
        self._require_open()
        check_max_chats(len(self._workers), self.limits.max_chats)
        row = ChatRow(
            id=uuid.uuid4().hex,
            agent=place.agent,
            cwd=place.cwd,
            created_at=self._now(),
            model=chosen or place.model,
            title=title_of(title),
            allow=allow_of(allow),
            home=place.home,
        )
        worker = self._workers[row.id] = Chat(row, self._shared)
        try:
            await self._store.create_chat(row)
        except BaseException:
            del self._workers[row.id]
            raise
        return view_of(worker, self._shared.this_node)

    async def change(self, id: str, **changes: Any) -> ChatView:
        """Change `title`, `model`, `allow` or `heartbeat` (its fields, or None) of a chat, from the next turn on.

        Raises:
            NoSuchChat: there is none of this id.
            Invalid, ContentTooLarge: a value is not valid, or too large.
            StoreFailed: the change cannot be kept.
        """
        self._require_open()
        worker = self._worker(id)
        checks: dict[str, Callable[[Any], Any]] = {
            "title": title_of,
            "model": model_of,
            "allow": allow_of,
            "heartbeat": self._heartbeat,
        }
        for name in changes:
            if name not in checks:
                raise Invalid(f"{name[:40]!r} of a chat cannot be changed", expected=", ".join(checks))
        values = {name: checks[name](value) for name, value in changes.items()}
        if "model" in values and values["model"] is None and self.agents.needs_model(worker.chat.agent):
            raise Invalid(f"{worker.chat.agent} needs the name of a model", expected='"model"')
        if "heartbeat" in values and values["heartbeat"] != worker.chat.heartbeat:
            values["heartbeat_since"] = self._now()
        await worker.log.change(lambda chat: ChatChanges(**values))
        self._scheduler.changed.set()
        return view_of(worker, self._shared.this_node)

    async def delete(self, id: str) -> None:
        """Stop the run of a chat, and delete the chat.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: it cannot be deleted. The run is stopped nevertheless.
        """
        self._require_open()
        worker = self._worker(id)
        del self._workers[id]
        try:
            await worker.delete()
        except STORE_ERRORS:
            again = self._workers[id] = Chat(worker.chat, self._shared)
            with contextlib.suppress(*STORE_ERRORS):
                await again.recover()
            raise

    # --- turns ---

    async def prompt(self, id: str, text: str, *, key: str | None = None) -> tuple[int, bool]:
        """Ask for a turn; return its number, and whether it is new.

        If one of the newest turns has this `key`, that turn is the result. When the call returns, the prompt is in the
        store and will be begun, once, whatever happens.

        Raises:
            NoSuchChat: there is none of this id.
            Invalid, ContentTooLarge, TooMany: the prompt is not valid, too large, or the queue is full.
            StoreFailed: the prompt cannot be kept.
        """
        self._require_open()
        worker = self._worker(id)
        turn, new = await worker.ask(self._text(text), key=key_of(key))
        if worker.chat.title is None:
            try:
                made = ChatChanges(title=made_title(text))
                await worker.log.change(lambda chat: made if chat.title is None else ChatChanges())
            except (StoreFailed, NoSuchChat):
                pass  # the next prompt gives the chat a title
        return turn, new

    async def answer(self, id: str, question: str, text: str) -> int:
        """Answer a question of the agent; return the turn that continues with the answer, or the new turn.

        Raises:
            NoSuchChat: there is none of this id.
            Conflicting: there is no such question, or it is no longer open.
            Invalid, ContentTooLarge, TooMany: the answer cannot be accepted.
            StoreFailed: the answer cannot be kept.
        """
        self._require_open()
        worker = self._worker(id)
        return await worker.answer(question, self._text(text))

    async def stop(self, id: str, turn: int | None = None, *, queued: bool = False) -> list[int]:
        """Stop a turn or take it back from the queue; without `turn`, all of them. Return those that were stopped.

        With `queued`, turns are only taken back: one that runs goes on, and is not returned.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            StoreFailed: the request cannot be kept.
        """
        self._require_open()
        return await self._worker(id).stop(turn, queued=queued)

    async def release(self, id: str) -> list[int]:
        """Let the turns begin that a stop holds back; return them.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the request cannot be kept.
        """
        self._require_open()
        return await self._worker(id).release()

    async def retain(self, retention: Retention) -> dict[str, int]:
        """Drop the oldest turns of all chats that exceed the limits; return the last dropped entry of each chat.

        Of several nodes, each drops those of the chats whose home it is.

        Turns are dropped as a whole, and each chat keeps its newest.

        Raises:
            StoreFailed: the store cannot be read or trimmed.
        """
        before = None if retention.max_age_ms is None else max(0, self._now() - retention.max_age_ms)
        trimmed = {}
        for id, upto in (await self._store.list_expired(before=before, max_bytes=retention.max_bytes)).items():
            worker = self._workers.get(id)
            if worker is not None and worker.is_home and (reached := await worker.log.trim(upto)):
                trimmed[id] = reached
        return trimmed

    async def _retain_again(self, retention: Retention) -> None:
        while True:
            with contextlib.suppress(StoreFailed):  # the next call tries again
                await self.retain(retention)
            await self._sleep(RETAIN_SECONDS)

    # --- checks ---

    def _require_open(self) -> None:
        if self._ending:
            raise ShuttingDown

    def _worker(self, id: str) -> Chat:
        worker = self._workers.get(id)
        if worker is None:
            raise NoSuchChat(id)
        return worker

    def _text(self, text: str) -> str:
        return text_of(text, self.limits.max_prompt_bytes)

    def _heartbeat(self, given: Any) -> Heartbeat | None:
        heartbeat = checked(given)
        if heartbeat is not None:
            self._text(heartbeat.prompt)
        return heartbeat
