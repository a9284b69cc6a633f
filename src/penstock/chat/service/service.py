"""Service of the chats of one Penstock: the requests that they accept, each with its errors.

It runs in one event loop. Clients see only data that is in the store.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from penstock.adapter import Allow
from penstock.chat.errors import ChatError, Conflicting, Invalid
from penstock.chat.history.activity import AgentActivity
from penstock.chat.history.entries import OWNER, Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.people.persons import OWNING, People, Person
from penstock.chat.people.spending import DailySpending
from penstock.chat.service.agents.attached import FOLDER, AttachmentFolders
from penstock.chat.service.agents.launch import Starter
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.terminal import TerminalLines, terminal_lines
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.service.attachments import Attachments
from penstock.chat.service.branches import Branch, Branches
from penstock.chat.service.chat_files import ChatFiles
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chat_list import ListedChats, Sees, everything
from penstock.chat.service.chats.chat_view import ChatView, view_of
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.chats.costs import Costs, costs_of
from penstock.chat.service.chats.heartbeats import Scheduler
from penstock.chat.service.chats.indexing import Indexer
from penstock.chat.service.chats.search import PAGE_HITS, Search, SearchResult
from penstock.chat.service.commands import KeptCommands
from penstock.chat.service.conversations import TerminalConversations
from penstock.chat.service.counters import Counters
from penstock.chat.service.exports import Exports
from penstock.chat.service.file_changes import TurnChanges
from penstock.chat.service.first_turn import FirstMessage, FirstTurns
from penstock.chat.service.limits import Retention, ServiceLimits
from penstock.chat.service.log.chat_log import STORE_ERRORS, ChatLog
from penstock.chat.service.node_work import NodeWork
from penstock.chat.service.nodes import ThisNode
from penstock.chat.service.places import Places
from penstock.chat.service.push import Push
from penstock.chat.service.queue import Queue
from penstock.chat.service.read_marks import ReadMarks
from penstock.chat.service.retention import OldTurns
from penstock.chat.service.settings import SettingChecks
from penstock.chat.service.shared import Shared
from penstock.chat.service.shares import Shares
from penstock.chat.service.slots import Slots
from penstock.chat.service.store_checks import check_again
from penstock.chat.service.trees import ChatTrees
from penstock.chat.service.undo import TurnUndos
from penstock.chat.service.validation import (
    allow_of,
    chat_id_of,
    check_max_chats,
    check_max_turns,
    depth_of,
    effort_of,
    key_of,
    made_title,
    model_of,
    text_of,
    title_of,
    visibility_of,
)
from penstock.chat.service.webhooks import Webhooks
from penstock.chat.store import permits
from penstock.chat.store.costs import CostGroup
from penstock.chat.store.protocol import ChatStore, StoreFailed, clock
from penstock.chat.store.rows import ChatChanges, ChatRow, Visibility
from penstock.chat.store.search import MAX_KEY, Reader
from penstock.chat.store.state import StoreState
from penstock.config.data import data_path
from penstock.config.settings import Config
from penstock.errors import UsageError
from penstock.repo.found_changes import FOLDER as COMPARISONS
from penstock.repo.found_changes import FoundChanges
from penstock.run import lifecycle
from penstock.run.history import History

Sleep = Callable[[float], Awaitable[None]]
"""Function that waits for a number of seconds."""


class Service:
    """Service of the chats. Create it with `Service.open`; it does not own the store that it gets."""

    def __init__(
        self,
        shared: Shared,
        starter: Starter,
        workspaces: Workspaces,
        sleep: Sleep,
        hidden: tuple[str, ...],
        data: Path,
    ) -> None:
        self.agents: Agents = starter.agents
        self._models = starter.models
        self.limits: ServiceLimits = shared.limits
        self.counters: Counters = shared.counters
        self.store_state: StoreState = shared.store.state
        self.this_node: ThisNode = shared.this_node
        self._shared = shared
        self._store = shared.store
        self._sleep = sleep
        self._chats = Chats(shared, self._start)
        self.chat_list: ListedChats = ListedChats(self._chats, shared)
        self.attachments: Attachments = Attachments(shared.store, self._chats, shared.limits, shared.now)
        self._search = Search(shared.store)
        self.shares: Shares = Shares(shared.store, self._chats, shared.now)
        self._scheduler = Scheduler(self._chats, shared.changed, shared.now, sleep, shared.may_begin)
        self._tasks: set[asyncio.Task[None]] = set()
        self.node: NodeWork = NodeWork(self._chats, shared, workspaces)
        self.trees: ChatTrees = ChatTrees(shared, self._chats, workspaces, data)
        shared.leave_tree = self.trees.leave
        self.places: Places = Places(
            shared, self.agents, starter.models, workspaces, self._used, hidden, self.trees.is_possible, starter.config
        )
        self._branches = Branches(shared, self._chats, self.attachments, self.places, self.agents, self.trees)
        self.conversations: TerminalConversations = TerminalConversations(shared, self._chats, self.agents, workspaces)
        self.queue: Queue = Queue(shared, self._chats)
        self._settings = SettingChecks(self.agents, shared.limits.max_prompt_bytes, shared.now)
        self._first_turns = FirstTurns(shared, self._chats, self.attachments)
        self.read_marks: ReadMarks = ReadMarks(shared, self._chats)
        self.files: ChatFiles = ChatFiles(self._chats, self.this_node, hidden)
        self.exports: Exports = Exports(self._chats)
        self.changes: TurnChanges = TurnChanges(self._chats)
        self.commands: KeptCommands = KeptCommands(self._chats)
        self.undos: TurnUndos = TurnUndos(shared, self._chats, hidden)
        self.old_turns: OldTurns = OldTurns(shared.store, self._chats, shared.now, sleep)

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
        sleep: Sleep = asyncio.sleep,
        environ: Mapping[str, str] | None = None,
        extra_env: Iterable[str] = (),
        run_limits: lifecycle.Limits | None = None,
        retention: Retention | None = None,
        history: History | None = None,
        this_node: ThisNode | None = None,
        hidden: Iterable[str] = (),
        url: str = "",
        people: People | None = None,
        spending: DailySpending | None = None,
        data: Path | None = None,
        push: Push | None = None,
    ) -> Service:
        """Recover the chats of the store: end and mark turns that a crash cut off, and continue with those that wait.

        Agents get the variables of `environ` (None: this process's environment) that `environment` passes on, and the
        names `extra_env`. `run_limits` are the grace periods and limits of each run. `now` (milliseconds since 1970)
        and `sleep` (seconds) are the clock of entries, heartbeats and retention. `history` lists the runs; None: not.
        `this_node`: the turns that this process works on; None: all. `hidden`: files and directories that confined
        agents do not see. `url`: address of the server, for the links of webhooks; "" for none.
        `people`: who may begin turns; None: everybody. `spending`: what they have spent today; None: no limits.
        `data`: the data directory, in which agents read attachments; None: the default one. `push`: calls to browsers.

        Raises:
            StoreFailed: the store cannot be read.
            UsageError: the roots or the default agent cannot be used.
        """
        this_node, hidden = this_node or ThisNode(), tuple(hidden)
        workspaces = Workspaces(roots, store, await store.list_directories(), now)
        if not workspaces.roots and not this_node.by_jobs:
            raise UsageError("there is no root", expected="a directory below which agents may work")
        given = dict(os.environ if environ is None else environ)
        limits = limits or ServiceLimits()
        own = data or data_path()
        folders = AttachmentFolders(own / FOLDER)
        starter = Starter(
            config,
            workspaces,
            given,
            extra_env,
            run_limits or lifecycle.Limits(),
            default_agent,
            hidden,
            limits.max_turn_seconds,
            folders=folders,
            data=data,
        )
        webhooks = Webhooks(config.webhooks, url=url, now=now)
        shared = Shared(store, limits, starter.run, now, history, this_node, Slots(limits.max_runs), webhooks, folders)
        shared.people, shared.spending, shared.push = people, spending or DailySpending(), push
        shared.compare = partial(FoundChanges, folder=own / COMPARISONS, closed=(*hidden, str(own)))
        service = cls(shared, starter, workspaces, sleep, hidden, own)
        subscription = store.subscribe()
        await service._chats.recover()
        await asyncio.to_thread(folders.keep, {chat.row.id for chat in service._chats})
        indexer = Indexer(store, this_node.home)
        for work in (service._chats.follow(subscription), service._scheduler.run(), check_again(store), indexer.run()):
            service._start(work)
        if retention is not None:
            service._start(service.old_turns.drop_again(retention))
        return service

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Kill the runs, and mark their turns as cut off, within half a second. No turn begins after that."""
        self._shared.is_ending = True
        for task in self._tasks:
            task.cancel()
        await self._chats.close()
        self._models.close()
        await self._shared.webhooks.close()
        if self._shared.push is not None:
            await self._shared.push.close()

    @property
    def push(self) -> Push | None:
        """Calls to browsers; None if there are none."""
        return self._shared.push

    # --- reading ---

    def now(self) -> int:
        """Return the time by the clock of entries, in milliseconds since 1970."""
        return self._shared.now()

    async def find(self, query: str, reader: Reader, *, before: int = MAX_KEY, limit: int = PAGE_HITS) -> SearchResult:
        """Return what has all words of a query, as `Search.find`.

        Raises:
            Invalid: this cannot be searched for.
            TooMany: the person has too many searches at once.
        """
        self._require_open()
        return await self._search.find(query, reader, before=before, limit=limit)

    async def costs(self, by: CostGroup, days: int, reader: Reader, sees: Sees = everything) -> Costs:
        """Return what turns have cost in the last days, as `costs_of`; titles are of the chats that one `sees`.

        Raises:
            StoreFailed: the store cannot be read.
        """
        self._require_open()

        def title_of(id: str) -> str | None:
            chat = self._chats.get(id)
            return chat.row.title if chat is not None and sees(chat.row) else None

        return await costs_of(self._store, by, days, reader, self._shared.now(), title_of)

    def row(self, id: str) -> ChatRow:
        """Return the row of a chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return self._chats.require(id).row

    @property
    def waiting(self) -> int:
        """Number of turns that wait, in all chats."""
        return sum(chat.waiting for chat in self._chats)

    def chat(self, id: str, person: Person = OWNING) -> ChatView:
        """Return one chat, for a person who sees it.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return view_of(self._chats.require(id), self._shared.this_node, person)

    async def turns(self, id: str, *, before: int | None = None, limit: int = 50) -> tuple[list[TurnView], bool]:
        """Return the newest turns of a chat before turn `before`, in their order, and whether there are earlier ones.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return await (await self._chats.fresh_log(id)).turns(before, limit)

    def terminal(self, id: str) -> TerminalLines:
        """Return how the conversation of a chat goes on in a terminal.

        Raises:
            NoSuchChat: there is none of this id.
        """
        chat = self._chats.require(id)
        if not chat.is_home:
            return TerminalLines(note=f"This conversation is on the machine {chat.row.home}.")
        lines = terminal_lines(chat.row, self.agents)
        if lines.penstock is not None and chat.state == "running":
            return replace(lines, note="The agent works in this chat: wait until the turn has ended.")
        return lines

    def log(self, id: str) -> ChatLog:
        """Return the entries and the timeline of a chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        return self._chats.require(id).log

    async def turn(self, id: str, turn: int) -> tuple[TurnView, list[Numbered]]:
        """Return one turn and its entries so far.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
        """
        return await (await self._chats.fresh_log(id)).turn(turn)

    async def activity(self, id: str, turn: int) -> AgentActivity:
        """Return what the agent of a turn does now: its open calls with the output so far, and its plan.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
        """
        return await (await self._chats.fresh_log(id)).activity(turn)

    def _used(self) -> list[str]:
        home = self._shared.this_node.home
        return [chat.row.source for chat in self._chats.newest_first() if chat.row.home == home]

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
        foreign_id: str | None = None,
        depth: int = 0,
        id: str | None = None,
        person: str = OWNER,
        visibility: Visibility = "private",
        effort: str | None = None,
        session: str | None = None,
        tree: bool = False,
        first: FirstMessage | None = None,
    ) -> ChatView:
        """Create a chat. Its default directory is the first root; its default agent is that of the service.

        `home` is the node where the agent works: by default this one, or the one with the most free slots.
        `foreign_id` is the id by which `ListedChats.foreign` finds it; `depth`: number of agents above the chat's.
        `id`: id that the caller has chosen, 32 hexadecimal digits. The chat belongs to `person`. `session`: id of a
        conversation of a terminal that it continues, as `conversations.find` returns it. `tree`: its agent works in a
        tree of its own, which is made from the directory. `first`: message with which it begins; the chat and its first
        turn are kept in one step, or neither.

        Raises:
            NoSuchAgent, Invalid, OutsideRoots, UntrustedDirectory, TooMany: the chat cannot be created.
            ContentTooLarge: its first message is too large.
            Conflicting: there is a chat with this id, or one that has the conversation, or it cannot be continued, or
                the tree would be on another machine.
            StoreFailed: the chat cannot be kept.
        """
        self._require_open()
        effort = effort_of(effort)
        place = await self.places.choose(home, agent, cwd, model_of(model))
        self.agents.check_effort(place.agent, effort)
        self._require_open()
        check_max_chats(len(self._chats), self.limits.max_chats)
        if id is not None and self._chats.is_taken(chat_id_of(id)):
            raise Conflicting("there is a chat with this id")
        row = ChatRow(
            id=uuid.uuid4().hex if id is None else id,
            agent=place.agent,
            cwd=place.cwd,
            created_at=self._shared.now(),
            model=place.model,
            title=title_of(title),
            allow=allow_of(allow),
            home=place.home,
            foreign_id=foreign_id,
            depth=depth_of(depth),
            person=person,
            visibility=visibility_of(visibility),
            effort=effort,
        )
        entry = None
        if first is not None:
            row, entry = await self._first_turns.prepared(row, first)
        if session is not None:
            if tree:
                raise Invalid("a conversation of a terminal goes on in its directory", expected="no tree")
            made = await self.conversations.go_on(row, session, entry)
        else:
            made = await (self.trees if tree else self._chats).create(row, entry)
        return view_of(made, self._shared.this_node)

    async def branch(
        self,
        id: str,
        turn: int,
        *,
        agent: str | None = None,
        sends: bool = False,
        key: str | None = None,
        depth: int = 0,
        person: str = OWNER,
        most: int | None = None,
        tree: bool = False,
    ) -> Branch:
        """Make a new chat that begins before a turn of a chat, as `Branches.make`. The old one stays as it is.

        `sends`: its message is sent to the new chat, of which `most` holds as for `prompt`. A request that is repeated
        with the same `key` does what is left to do.

        Raises:
            As `Branches.make` and `prompt`.
        """
        self._require_open()
        made = await self._branches.make(
            id, turn, person=person, agent=agent, key=key_of(key), depth=depth_of(depth), tree=tree
        )
        if not sends or not (made.prompt or made.attachments):
            return made
        files = [it.id for it in made.attachments]
        begun, _ = await self.prompt(
            made.chat.id, made.prompt, key="branch", person=person, most=most, attachments=files
        )
        return replace(made, chat=self.chat(made.chat.id), turn=begun)

    async def change(self, id: str, person: Person = OWNING, /, **changes: Any) -> ChatView:
        """Change fields of a chat that `ChatSettings` names, from the next turn on. A heartbeat is its fields, or None.

        Return the chat for the person who asks.

        Raises:
            NoSuchChat: there is none of this id.
            Invalid, ContentTooLarge: a value is not valid, or too large.
            StoreFailed: the change cannot be kept.
        """
        self._require_open()
        chat = self._chats.require(id)
        checked = self._settings.checked(chat.row, changes)
        await chat.log.change(lambda row: checked)
        self._shared.row_changed(id)
        return view_of(chat, self._shared.this_node, person)

    async def remove_rule(self, id: str, rule: str, person: Person = OWNING) -> ChatView:
        """Remove a rule of a chat: from the next question on, its command is asked for again.

        Return the chat for the person who asks.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the change cannot be kept.
        """
        self._require_open()
        chat = self._chats.require(id)
        await chat.log.change_rules(lambda rules: [it for it in rules if it.id != rule])
        self._shared.row_changed(id)
        return view_of(chat, self._shared.this_node, person)

    async def delete(self, id: str) -> None:
        """Stop the run of a chat, and delete the chat.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: it cannot be deleted. The run is stopped nevertheless.
        """
        self._require_open()
        permits.check()  # before its run is stopped
        await self._chats.delete(id)

    # --- turns ---

    async def prompt(
        self,
        id: str,
        text: str,
        *,
        key: str | None = None,
        person: str = OWNER,
        most: int | None = None,
        attachments: Sequence[str] = (),
        now: bool = False,
        stops: int | None = None,
        model: str | None = None,
        steers: int | None = None,
    ) -> tuple[int, bool]:
        """Ask for a turn in the name of a person; return its number, and whether it is new.

        `most`: maximum number of turns of this person that run or wait at once, in all chats. `attachments`: ids of
        those that go with the text, which may then be empty. `now`: it begins before the turns that wait, and stops
        the running one, whose number is `stops`. `model`: the chat's from then on, unless the prompt is rejected.
        `steers`: running turn whose agent gets the message while it works; if
        the agent cannot take it any more, the message waits as without `steers`.

        If one of the newest turns has this `key`, that turn is the result. When the call returns, the prompt is in the
        store, and its turn will begin exactly once, even after a crash.

        Raises:
            NoSuchChat: there is none of this id.
            Invalid, ContentTooLarge, TooMany: the prompt is not valid, too large, or the queue or `most` is full; or it
                has files, or is `now` and `steers` at once.
            Conflicting: another turn runs than `stops`, or the home of the chat does not know `now`.
            StoreFailed: the prompt cannot be kept.
        """
        self._require_open()
        chat = self._chats.require(id)
        if steers is not None and (now or attachments):
            raise Invalid(
                "a message for the running turn has files, or is to stop it", expected="a text, or no `steers`"
            )
        if now:
            await self.this_node.require_known("queue", chat.row)

        def check() -> None:
            if most is not None:
                check_max_turns(person, sum(it.count_open(person) for it in self._chats), most)

        files = await self.attachments.chosen(id, attachments)
        asked = text_of(text, self.limits.max_prompt_bytes, may_be_empty=bool(files))
        async with self.attachments.sending(id, files) as note, self._using(chat, model_of(model)):
            turn, new = await chat.ask(
                asked,
                key=key_of(key),
                person=person,
                check=check,
                attachments=files,
                now=now,
                stops=stops,
                steers=steers,
            )
            note(turn)
        await self._was_written_to(chat, text if text.strip() else files[0].name)
        return turn, new

    @asynccontextmanager
    async def _using(self, chat: Chat, model: str | None) -> AsyncIterator[None]:
        """Change the model of a chat, unless it is None, before a prompt; change it back if the prompt is rejected.

        The change comes first: the turn may begin as soon as the prompt is kept.
        """
        before = chat.row.model
        if model is None or model == before:
            yield
            return
        await chat.log.change(lambda row: ChatChanges(model=model))
        try:
            yield
        except ChatError:
            back = ChatChanges(model=before)
            with suppress(ChatError, *STORE_ERRORS):
                await chat.log.change(lambda row: back if row.model == model else ChatChanges())
            raise
        finally:
            self._shared.row_changed(chat.row.id)

    async def answer(self, id: str, question: str, text: str, *, person: str = OWNER, always: bool = False) -> int:
        """Answer a question of the agent; return the turn that continues with the answer, or the new turn.

        `always`: the command that it is about is allowed in the whole chat.

        Raises:
            NoSuchChat: there is none of this id.
            Conflicting: there is no such question, or it is no longer open.
            Invalid, ContentTooLarge, TooMany: the answer cannot be accepted.
            StoreFailed: the answer cannot be kept.
        """
        self._require_open()
        chat = self._chats.require(id)
        if always:
            await self.this_node.require_known("rules", chat.row)
        turn = await chat.answer(question, self._text(text), person=person, always=always)
        await self._was_written_to(chat, None)
        return turn

    async def _was_written_to(self, chat: Chat, prompt: str | None) -> None:
        """Return a chat to the lists, and give one without a title the first sentence of its prompt."""

        def changes(row: ChatRow) -> ChatChanges:
            title = made_title(prompt) if row.title is None and prompt is not None else UNSET
            return ChatChanges(title=title, archived=False if row.archived else UNSET)

        if changes(chat.row).fields():
            try:
                await chat.log.change(changes)
                self._shared.note(chat.row.id)
            except (StoreFailed, ChatError):
                pass  # the next message does it

    async def stop(self, id: str, turn: int | None = None, *, queued: bool = False, person: str = OWNER) -> list[int]:
        """Stop a turn or take it back from the queue; without `turn`, all of them. Return those that were stopped.

        With `queued`, turns are only taken back: the running turn continues, and is not returned.

        Raises:
            NoSuchChat, NoSuchTurn: there is none.
            Conflicting: with `queued`, it was given to the agent of the running turn.
            StoreFailed: the request cannot be kept.
        """
        self._require_open()
        return await self._chats.require(id).stop(turn, queued=queued, person=person)

    # --- checks ---

    def _require_open(self) -> None:
        self._shared.require_open()

    def _text(self, text: str) -> str:
        return text_of(text, self.limits.max_prompt_bytes)
