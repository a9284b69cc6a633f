"""Runner of one chat's turns: each is claimed, begun at most once, followed to its end, and never left running."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.errors import ChatError, NoSuchChat
from penstock.chat.history.changes import ChangesFold
from penstock.chat.history.entries import Answered, AttachedFile, ChangesFound, FilesLeft, TurnBegan, TurnEnded, encode
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.agents.attached import PlacedFile
from penstock.chat.service.log.chat_log import STORE_ERRORS, ChatLog, Write
from penstock.chat.service.shared import Shared
from penstock.chat.service.slots import Slot
from penstock.chat.service.turns import decisions
from penstock.chat.service.turns.lost_turns import ROWS_LOST, Begun, end_lost
from penstock.chat.service.turns.planned_run import PlannedRun
from penstock.chat.service.turns.turn_commands import TurnCommands
from penstock.chat.service.turns.turn_cost import TurnCost
from penstock.chat.service.turns.turn_run import TurnRun
from penstock.chat.store.rows import ChatChanges, ChatRule
from penstock.core.diffs import shorten
from penstock.errors import PenstockError, TransportError, UsageError
from penstock.repo.found_changes import FoundChanges
from penstock.repo.left_files import left_files
from penstock.repo.names_before import NamesBefore
from penstock.run.allowed import CommandRule

STOPPED = "Penstock was stopped while the agent worked"
UNWRITTEN = "the store failed while the agent worked"

MAX_RULES = 50
"""Number of rules of a chat; the oldest goes for one more. Each list of chats has them."""

MAX_COMMAND_CHARS = 200
"""Characters of the command of a rule, which a person reads; what is compared is all of it."""


MAX_FOUND_CHARS, MAX_FOUND_LINES, MAX_FOUND_FILES = 256 * 1024, 5_000, 1_000
"""Characters and lines of the changes that git finds in a turn, and number of their files: they are in one entry."""


class TurnLoop:
    """Runner of one chat's turns, one at a time. Stops, answers and questions in the chat's timeline reach its run."""

    def __init__(self, log: ChatLog, shared: Shared) -> None:
        self.is_ending: bool = False
        """True if no further turn may begin."""
        self.beginning: asyncio.Lock = asyncio.Lock()
        """Lock under which a turn begins. While somebody else holds it, none does."""
        self._log = log
        self._shared = shared
        self._run: TurnRun | None = None
        self._slot: Slot | None = None
        self._cost: TurnCost | None = None
        self._why = STOPPED  # the reason for a turn that is found running without a run
        self._early: asyncio.TimerHandle | None = None
        self._keeping: set[asyncio.Task[None]] = set()  # the loop of asyncio keeps no task itself
        self._begun = Begun(shared.limits.max_queue)

    @property
    def is_stopping(self) -> bool:
        """True if a run is being stopped."""
        return self._run is not None and self._run.stopping

    # --- the turns ---

    async def run_next(self, upto: int | None) -> bool:
        """Run the next turn; return False if there is none, or if all that wait are after turn `upto`."""
        timeline = await (self._log.open() if upto is None else self._log.catch_up())
        if timeline.running is not None:
            await self._log.claim.take(self._shared.this_node)
            await end_lost(self._log, timeline, self._why)
        await self.settle()
        ready = (await self._log.open()).ready
        if not ready or (upto is not None and all(view.turn > upto for view in ready)):
            await self._log.sum_up()
            return False
        async with self._shared.slots.take() as self._slot:
            try:
                await self._turn()
            finally:
                self._slot = None
        return True

    async def settle(self) -> None:
        """End the queued turns that were taken back, and the heartbeats that give way to a message."""
        if not self.is_ending:
            await self._log.write(decisions.taken_back)

    async def _turn(self) -> None:
        await self._log.claim.take(self._shared.this_node)
        async with self.beginning:
            run = await self._begin()
        if run is None:
            return
        try:
            await self._run_to_end(run)
        except STORE_ERRORS:
            self._why = UNWRITTEN
            raise
        finally:
            self._run = None
            if self._early is not None:
                self._early.cancel()
                self._early = None
            await run.let_go()

    async def _begin(self) -> TurnRun | None:
        """Append the begin of a turn, and return its run; None if there is none to begin.

        An appended turn is begun at most once. A turn that cannot be started is appended with its end.
        """
        made: TurnRun | None = None
        asked: TurnView | None = None
        placed: dict[str, PlacedFile | Exception] = {}
        lacking: list[AttachedFile] = []
        planned: PlannedRun | None = None
        needed: PlannedRun | None = None
        before = await self._before()

        def make(timeline: Timeline) -> Sequence[Write]:
            nonlocal made, asked, needed
            made = needed = None
            lacking.clear()
            taken_back = decisions.taken_back(timeline)
            if taken_back or not timeline.ready or self.is_ending:
                return taken_back  # taken back while it waited for a slot
            chat, view = self._log.row, timeline.ready[0]
            if view in self._begun:
                return [TurnEnded(view.turn, "cut_off", ROWS_LOST)]
            lacking.extend(it for it in view.attachments or () if it.id not in placed)
            if lacking:
                return []  # they are read first, without holding the timeline
            began, asked = TurnBegan(view.turn, chat.agent, chat.cwd, chat.model, chat.session_id), view
            cost = self._cost = TurnCost(view.person, self._shared.limits.max_turn_cost, self._shared.spending, chat)
            if cost.most == 0:  # it was queued before the limit was reached
                return [began, TurnEnded(view.turn, "cancelled", cost.reason)]
            if planned is None or not planned.fits(chat, view, cost.most):
                begun = [it for it in timeline.turns.values() if it.began_at is not None]
                earlier = sorted(begun, key=lambda it: (it.began_at, it.turn))
                needed = PlannedRun(chat, view, cost.most, earlier)
                return []  # it is made first, without holding the timeline
            run = planned.run
            if isinstance(run, Exception):
                return [began, TurnEnded(view.turn, "error", _reason(run))]
            run.trace = self._shared.traces.get((chat.id, view.turn))
            run.trace_facts = {"gen_ai.conversation.id": chat.id, "penstock.turn": view.turn}
            run.has_rule = lambda rule: any(it.id == rule for it in self._log.row.rules)
            made = TurnRun(run, view.turn)
            steerable = run.can_steer and view.by != "heartbeat"  # which gives way to a message
            return [replace(began, session_id=run.spec.session_id, mark=run.mark, steerable=steerable)]

        await self._log.write(make)
        while lacking or needed is not None:
            placed |= await self._placed(lacking)
            if needed is not None:
                planned = needed
                await planned.make(self._shared.run, placed, before)
            await self._log.write(make)
        self._run = made
        if made is not None and asked is not None:
            self._begun.add(asked)
            self._log.claim.rows_lost = False
        return made

    async def _before(self) -> str | None:
        """Return the messages of another chat with which this one begins; None if they are not kept.

        Raises:
            StoreFailed: the store cannot be read.
        """
        origin = self._log.row.origin
        if origin is None or origin.conversation is None:
            return ""
        content = await self._shared.store.read_attachment(self._log.id, origin.conversation)
        return None if content is None else content.decode()

    async def _placed(self, files: Sequence[AttachedFile]) -> dict[str, PlacedFile | Exception]:
        """Write attachments into the directory of the chat; return each, or why there is none, by its id.

        Raises:
            StoreFailed: the store cannot be read.
        """
        placed: dict[str, PlacedFile | Exception] = {}
        chat = self._log.id
        for file in files:
            content = await self._shared.store.read_attachment(chat, file.id)
            if content is None:
                placed[file.id] = UsageError(f"the file {file.name!r} is no longer kept")
                continue
            try:
                [placed[file.id]] = await asyncio.to_thread(self._shared.folders.place, chat, [(file, content)])
            except OSError as error:
                placed[file.id] = TransportError(f"the file {file.name!r} cannot be written: {error.strerror}")
        return placed

    async def _run_to_end(self, run: TurnRun) -> None:
        directory = self._log.row.cwd
        names, changed, offered = NamesBefore(directory), ChangesFold(directory), TurnCommands(self._log.commands)
        found = self._shared.compare(directory) if self._shared.compare and self._log.row.allow != "read" else None
        try:
            if found is not None:
                await asyncio.to_thread(found.begin)
            reading = asyncio.create_task(asyncio.to_thread(names.read))
            await run.start()
            if self._shared.history is not None:
                await run.remember(self._shared.history)
            async for batch in run.batches():
                events = batch if self._cost is None else self._cost.take(batch)
                if self._cost is not None and self._cost.is_over:
                    run.cancel(self._cost.reason)
                events = await offered.take(events)
                if not events:
                    continue
                run.note(events)
                for event in events:
                    changed.take(event)
                written: list[Write] = [*events]
                if isinstance(events[-1], ev.RunEnded):
                    left = await self._left(run.turn, names, reading, changed.paths())
                    others = await self._found(run.turn, found, changed)
                    written[-1:-1] = [it for it in (left, others) if it is not None]
                await self._log.add(written, session_id=run.session_id)
                await run.remember_batch(events)
        except STORE_ERRORS:
            raise
        except Exception as error:
            reason = _reason(error)
            await self._log.write(lambda timeline: decisions.ended(timeline, "error", reason))
        finally:
            if found is not None:
                await asyncio.to_thread(found.close)
        if self._cost is not None and (cost := self._cost.counted):
            with contextlib.suppress(NoSuchChat):
                await self._log.change(lambda row: ChatChanges(spent=round(row.spent + cost, 6)))

    async def _left(
        self, turn: int, names: NamesBefore, reading: asyncio.Task[None], paths: list[str]
    ) -> FilesLeft | None:
        """Return the entry with the state of the files that a run has changed; None if there is none.

        `names`: names of the files before it, once they are read.
        """
        if not paths or self._log.row.allow == "read":  # an agent that may only read has changed nothing
            return None
        await reading
        files = await asyncio.to_thread(left_files, self._log.row.cwd, paths, names.lacks)
        left = FilesLeft(turn, files)
        return left if files and len(encode([left])[0]) <= self._log.max_entry_bytes else None

    async def _found(self, turn: int, compared: FoundChanges | None, reported: ChangesFold) -> ChangesFound | None:
        """Return the entry with what git found besides the reported changes; None if that is nothing, or not needed."""
        if compared is None or not reported.is_partial or self.is_ending:
            return None
        found = await asyncio.to_thread(compared.end, reported.paths_with_lines())
        if found is None or not (found.changes or found.problem):
            return None
        names = set(reported.paths())
        others = sum(it.path not in names for it in found.changes)
        for chars in (MAX_FOUND_CHARS, 0):
            changes, more = shorten(found.changes, chars, MAX_FOUND_LINES, MAX_FOUND_FILES)
            entry = ChangesFound(turn, changes, more, others, found.problem)
            if len(encode([entry])[0]) <= self._log.max_entry_bytes:
                return entry
        return ChangesFound(turn, [], len(found.changes), others)

    # --- effects on the run ---

    def apply(self, timeline: Timeline) -> None:
        """Apply the timeline, after it accepted entries."""
        if self._run is not None and self._log.claim.rows_lost:
            self._run.kill(ROWS_LOST)
        elif self._run is not None and timeline.running is not None:
            self._direct(self._run, timeline, timeline.running)

    def _direct(self, run: TurnRun, timeline: Timeline, running: TurnView) -> None:
        """Follow the timeline: stop the run, or free its slot while it waits for a person."""
        if running.turn in timeline.stops:
            run.cancel()
        elif running.by == "heartbeat" and any(view.by != "heartbeat" for view in timeline.queued):
            run.cancel(decisions.GAVE_WAY)
        for view in timeline.given:
            if view.turn not in timeline.stops:
                run.steer(view.turn, view.prompt)
        if self._slot is not None:
            self._slot.work(not timeline.questions)
        if timeline.asking and self._early is None:
            grace = self._shared.limits.asking_grace
            self._early = asyncio.get_running_loop().call_later(grace, self._end_early, timeline)

    def _end_early(self, timeline: Timeline) -> None:
        self._early = None
        if timeline.asking and self._run is not None:
            self._run.cancel(outcome="ok")  # the reply is complete

    def deliver(self, answer: Answered) -> None:
        """Pass an answer to the run that waits for it, and keep its command as a rule if that is wanted."""
        if self._run is not None and self._run.turn == answer.turn:
            rule = self._run.rule_of(answer.id) if answer.always else None
            self._run.answer(answer.id, answer.answer)
            if rule is not None:
                task = asyncio.create_task(self._keep(rule, answer.person))
                self._keeping.add(task)
                task.add_done_callback(self._keeping.discard)

    async def _keep(self, rule: CommandRule, person: str) -> None:
        """Add a rule to the chat. If the store fails, the command is asked for again."""
        kept = ChatRule(rule.id, rule.command[:MAX_COMMAND_CHARS], person)

        def change(rules: list[ChatRule]) -> list[ChatRule]:
            if any(it.id == kept.id for it in rules):
                return rules
            return [*rules, kept][-MAX_RULES:]

        with contextlib.suppress(ChatError, *STORE_ERRORS):
            await self._log.change_rules(change)
            self._shared.row_changed(self._log.id)

    def kill(self, why: str, outcome: ev.Outcome = "cut_off") -> bool:
        """Kill the run; return False if there is none."""
        if self._run is not None:
            self._run.kill(why, outcome)
        return self._run is not None

    def end(self, why: str) -> None:
        """Begin no further turn. A turn that is found running ends for this reason."""
        self.is_ending, self._why = True, why


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, PenstockError) else f"a bug in Penstock ended the turn: {error!r}"
