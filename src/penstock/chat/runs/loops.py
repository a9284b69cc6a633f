"""One loop for clients: its steps from the journal, and its agents' runs as turns, from their recordings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.errors import NoSuchRun, NoSuchTurn
from penstock.chat.history.entries import Entry, Prompted, TurnBegan, TurnEnded
from penstock.chat.runs.loop_steps import began_view, ended_view
from penstock.chat.runs.recordings import RecordingReader, is_inside, recordings_in
from penstock.chat.runs.views import (
    LoopCandidateView,
    LoopMessageView,
    LoopRoundView,
    LoopStepView,
    LoopView,
    RoundChanges,
    RunDetails,
    RunState,
    RunView,
    StepOutput,
)
from penstock.config.ownership import Ownership, ownership_in
from penstock.config.regular_files import open_regular
from penstock.core.diffs import shorten
from penstock.errors import PenstockError
from penstock.loop.fold import apply, begin
from penstock.loop.inbox import Letter, LoopInbox
from penstock.loop.journal import FILE_NAME, process_of, read_rows
from penstock.loop.loops import check_log, recording_folder, setup_log
from penstock.loop.results import candidate_ref, candidate_result_of, is_over, result_of, size_text
from penstock.loop.rows import AnyRow, LoopBegan, StepBegan, StepEnded, TreeGone
from penstock.loop.state import LoopState, Round
from penstock.loop.steps import AgentEnded, RunAgent, RunCheck, RunSetup, Step
from penstock.repo.diffs import changes_between
from penstock.repo.repository import Repository
from penstock.run.recording import Meta

MAX_TURNS = 50
"""Number of the newest agents' runs that are folded: as many as the snapshot of a chat has."""

MAX_OUTPUT_CHARS = 256 * 1024
"""Characters at the end of a command's output that are sent: more than a person reads, and quick to show."""

MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_FILES = 512 * 1024, 10_000, 300
"""Characters and lines of the diffs of a round, and number of its files, that are sent."""

NEEDS_PERSON = 4
"""Exit status of a loop that waits for a person."""


@dataclass
class _OpenTurn:
    """Unfinished turn of an agent."""

    began: StepBegan
    step: RunAgent
    number: int
    ended: StepEnded | None = None
    reader: RecordingReader | None = None
    is_shown: bool = False
    is_over: bool = False


class LoopReader:
    """Reader of one loop; another process may be running it.

    Args:
        id: id for clients.
        folder: folder of the loop.
    """

    def __init__(self, id: str, folder: Path) -> None:
        self.folder = folder
        self._id = id
        self._size = -1
        self._state: LoopState | None = None
        self._steps: list[LoopStepView] = []
        self._does: list[StepBegan] = []
        self._turns = self._skipped = 0
        self._open: list[_OpenTurn] = []
        """Turns that are not over, in their order: several if agents work side by side."""
        self.is_live: bool = False
        """True if a process runs it."""
        self._shown: tuple[object, RunDetails] | None = None

    @property
    def state(self) -> LoopState:
        """State after the rows that were read.

        Raises:
            NoSuchRun: it has no row yet.
        """
        if self._state is None:
            raise NoSuchRun
        return self._state

    def read(self) -> Iterator[tuple[int, Entry | ev.Event]]:
        """Yield the entries that are new, each with its time."""
        is_live = process_of(self.folder) is not None  # before the rows: with its end, all rows are there
        rows = self._new_rows()
        if self._state is None:
            agents = [row for row in rows if isinstance(row, StepBegan) and isinstance(row.does, RunAgent)]
            self._skipped = len(agents) - MAX_TURNS
        for row in rows:
            self._state = apply(self._state, row) if self._state is not None else _first(row)
            if isinstance(row, StepBegan):
                yield from self._begin(row)
            elif isinstance(row, StepEnded):
                yield from self._end(row)
            elif isinstance(row, TreeGone):
                self._drop_steps()
        self.is_live = is_live and self.state.ended is None
        yield from self._read_on(is_live=self.is_live)

    def details(self) -> RunDetails:
        """Return the state after the rows read so far, with the messages of the inbox."""
        state, letters = self.state, LoopInbox(self.folder).letters()
        ownership = ownership_in(self.folder)
        key = (state.rows, self.is_live, ownership, [letter.id for letter in letters])
        if self._shown is None or self._shown[0] != key:
            run = view_of(self._id, state, ownership, is_live=self.is_live)
            self._shown = key, RunDetails(run, _loop_view(state, self._steps, letters, is_live=self.is_live))
        return self._shown[1]

    def recording(self, turn: int) -> tuple[Path, Meta, bool]:
        """Return the recording of a turn, and whether its run may continue. `read` comes first.

        Raises:
            NoSuchTurn: there is none.
        """
        began = next((it for it, view in zip(self._does, self._steps, strict=True) if view.turn == turn), None)
        found = self._recordings(began) if began is not None else []
        if not found:
            raise NoSuchTurn("the loop has no recording of this turn")
        path, meta, _ = found[-1]
        return path, meta, self.is_live and began is not None and began.step in self.state.open

    def output(self, step: int) -> StepOutput:
        """Return the output of a command: from the file with the complete output, else the part in the journal.

        Raises:
            NoSuchRun: the loop has no such step, or it has no output.
        """
        if not 1 <= step <= len(self._steps) or not self._steps[step - 1].has_output:
            raise NoSuchRun("this step has no output")
        does = self._does[step - 1].does
        log = (
            check_log(self.folder, does) if isinstance(does, RunCheck) else setup_log(self.folder, _candidate_of(does))
        )
        is_command = isinstance(does, RunCheck | RunSetup) and is_inside(log.parent, self.folder)
        text = _read_text(log) if is_command else ""
        text = text or _outputs(read_rows(self.folder)).get(step, "")
        return StepOutput(text[-MAX_OUTPUT_CHARS:], max(0, len(text) - MAX_OUTPUT_CHARS))

    def changes(self, number: int, candidate: int = 0) -> RoundChanges:
        """Return the changes of a round, or of a candidate in it.

        Raises:
            NoSuchRun: there is no such round or candidate, or its repository is gone.
        """
        rounds = self.state.rounds
        it = rounds[number - 1] if 1 <= number <= len(rounds) else None
        if it is not None and candidate:
            it = it.candidates[candidate - 1] if 1 <= candidate <= len(it.candidates) else None
        if it is None or it.work is None or not it.work.tree:
            raise NoSuchRun("this round has no changes")
        try:
            git = Repository.at(Path(self.state.began.repository)).git
            found = changes_between(git, it.head_tree, it.work.tree)
        except PenstockError as error:
            raise NoSuchRun(f"the changes cannot be read: {error}") from error
        return RoundChanges(*shorten(found, MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_FILES))

    # --- rows ---

    def _new_rows(self) -> list[AnyRow]:
        size = (self.folder / FILE_NAME).stat().st_size
        if size == self._size:
            return []
        self._size = size
        return read_rows(self.folder)[self._state.rows if self._state is not None else 0 :]

    def _begin(self, row: StepBegan) -> Iterator[tuple[int, Entry | ev.Event]]:
        view = began_view(row, self.state.settings.candidate_labels)
        if isinstance(row.does, RunAgent):
            self._turns += 1
            view = replace(view, turn=self._turns)
            if self._turns > self._skipped:
                self._open.append(_OpenTurn(row, row.does, self._turns))
        self._steps.append(view)
        self._does.append(row)
        yield from self._show_first()

    def _end(self, row: StepEnded) -> Iterator[tuple[int, Entry | ev.Event]]:
        for turn in self._open:
            if turn.began.step == row.step:
                turn.ended = row
        yield from self._read_on(is_live=True)
        self._steps[row.step - 1] = ended_view(self._steps[row.step - 1], row)

    def _drop_steps(self) -> None:
        """Note that running steps begin again because their tree is gone."""
        for number, view in enumerate(self._steps):
            if view.state == "running":
                self._steps[number] = replace(view, state="failed", note="the tree is gone")

    # --- the agents that work ---

    def _show_first(self) -> Iterator[tuple[int, Entry]]:
        """Begin the first open turn for clients.

        They see one turn after the other, even if agents work side by side.
        """
        if self._open and not self._open[0].is_shown:
            turn = self._open[0]
            turn.is_shown = True
            yield turn.began.at, Prompted(turn.number, "")
            yield turn.began.at, TurnBegan(turn.number, turn.step.agent, self.state.path)

    def _read_on(self, *, is_live: bool) -> Iterator[tuple[int, Entry | ev.Event]]:
        while self._open:
            yield from self._show_first()
            turn = self._open[0]
            yield from self._read_turn(turn, is_live=is_live and turn.ended is None)
            if not turn.is_over:
                return
            del self._open[0]

    def _read_turn(self, turn: _OpenTurn, *, is_live: bool) -> Iterator[tuple[int, Entry | ev.Event]]:
        if turn.reader is None:
            found = self._recordings(turn.began)
            turn.reader = RecordingReader(found[-1][0]) if found else None
        reader, has_ended = turn.reader, False
        for event in reader.read(is_live=is_live) if reader is not None else ():
            has_ended = isinstance(event, ev.RunEnded)
            yield turn.began.at + (event.at or 0), event
        turn.is_over = reader.over if reader is not None else not is_live
        if turn.is_over and not has_ended:
            yield self._without_recording(turn)

    def _without_recording(self, turn: _OpenTurn) -> tuple[int, TurnEnded]:
        """Return the end of a turn whose recording lacks it, as when the agent is not installed."""
        result = turn.ended.result if turn.ended is not None else None
        if not isinstance(result, AgentEnded):
            return turn.began.at, TurnEnded(turn.number, "cut_off", "Penstock was ended while the agent worked")
        outcome: ev.Outcome = "cut_off" if result.outcome == "lost" else result.outcome
        return turn.began.at + result.ms, TurnEnded(turn.number, outcome, result.reason or None)

    def _recordings(self, began: StepBegan) -> list[tuple[Path, Meta, int]]:
        assert isinstance(began.does, RunAgent)
        return recordings_in(recording_folder(self.folder, began.does, began.step), self.folder)


def _candidate_of(step: Step) -> int:
    return step.candidate if isinstance(step, RunSetup) else 0


def _first(row: AnyRow) -> LoopState:
    if not isinstance(row, LoopBegan):
        raise NoSuchRun("the journal does not begin as that of a loop")
    return begin(row)


def _outputs(rows: list[AnyRow]) -> dict[int, str]:
    ends = (row for row in rows if isinstance(row, StepEnded))
    return {row.step: getattr(row.result, "output", "") for row in ends}


def _read_text(path: Path) -> str:
    """Return a file as text, "" if it cannot be read. Links are not followed."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


# --- views -------------------------------------------------------------------------------------------


def view_of(id: str, state: LoopState, ownership: Ownership, *, is_live: bool) -> RunView:
    """Return the view of a loop."""
    began = state.began
    agent = next((it.agent for it in reversed(state.rounds)), began.settings.work.agents[0])
    status = state.ended.status if state.ended is not None else None
    asks = not is_live and status == NEEDS_PERSON
    kind: RunState = "running" if is_live else "asks" if asks else "idle"
    return RunView(
        id=id,
        kind="loop",
        title=began.loop,
        path=began.repository,
        state=kind,
        note=_note(state, is_live=is_live),
        used_at=state.at,
        agent=agent,
        person=ownership.person,
        visibility=ownership.visibility,
    )


def _note(state: LoopState, *, is_live: bool) -> str:
    if is_live:
        if state.waiting is not None:
            return "waits"
        return f"round {len(state.rounds)}" if state.rounds else "begins"
    if state.landed is not None:
        return f"landed in {state.landed.into}"
    if state.ended is None:
        return "interrupted"
    if state.ended.status == NEEDS_PERSON:
        return "asks you" if state.question else "needs you"
    return state.ended.reason


def _loop_view(state: LoopState, steps: list[LoopStepView], letters: list[Letter], *, is_live: bool) -> LoopView:
    new = [letter for letter in letters if letter.id not in state.letters]
    waits = state.settings.plan_is_asked and not state.plan_is_approved
    is_stopping = state.stop is not None or any(letter.kind != "message" for letter in new)
    messages = [LoopMessageView(text=it.text, round=it.round, is_read=True) for it in state.messages]
    messages += [LoopMessageView(text=it.text, round=len(state.rounds)) for it in new if it.kind == "message"]
    ended, used, budget = state.ended, state.used, state.budget
    return LoopView(
        prompt=state.prompt,
        branch=state.began.branch,
        begun_at=state.began.at,
        rounds=[_round_view(state, number) for number in range(len(state.rounds))],
        steps=[*steps],
        messages=messages,
        ms=used.ms,
        cost_usd=used.cost_usd,
        is_cost_known=not used.without_cost,
        max_rounds=budget.rounds,
        charged_rounds=used.rounds,
        max_cost_usd=budget.cost_usd,
        max_ms=budget.ms,
        tasks=[*state.tasks],
        finished_tasks=[task for task in state.tasks if task in state.finished_tasks],
        question=state.question or None,
        plan=[*state.plan] if waits and state.plan is not None else None,
        waits_until=state.waiting.until if state.waiting is not None and is_live else None,
        is_stopping=is_live and is_stopping,
        status=ended.status if ended is not None else None,
        reason=ended.reason if ended is not None else None,
        can_land=not is_live and state.landed is None and state.head != state.began.base,
        landed=state.landed.into if state.landed is not None else None,
    )


def _round_view(state: LoopState, index: int) -> LoopRoundView:
    it = state.rounds[index]
    return LoopRoundView(
        round=it.number,
        result=result_of(state, it),
        is_over=is_over(state, it),
        task=it.task,
        ms=it.ms,
        cost_usd=it.cost_usd,
        commit=it.commit.commit if it.commit is not None else None,
        has_changes=it.has_changed and bool(it.work and it.work.tree),
        candidates=[_candidate_view(state, it, number) for number in range(1, len(it.candidates) + 1)],
    )


def _candidate_view(state: LoopState, it: Round, number: int) -> LoopCandidateView:
    one = it.candidates[number - 1]
    return LoopCandidateView(
        name=state.settings.candidate_labels[number - 1],
        result=candidate_result_of(state, one),
        changes=size_text(one),
        ms=one.ms,
        cost_usd=one.cost_usd,
        ref=candidate_ref(state, it, number) if one.work is not None else "",
        chosen=it.chosen_reason if number == it.chosen else None,
    )
