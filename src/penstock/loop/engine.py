"""Engine of a loop: carries out the effects that the rules choose, and writes a row before and after each.

It decides nothing. After a crash it is begun again over the same journal.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.errors import AgentNotFound, PenstockError, UsageError
from penstock.events import Event
from penstock.loop import effects
from penstock.loop.abandoned import AbandonedTrees, unusable
from penstock.loop.agent_run import follow, read_again
from penstock.loop.checks import DEFAULT_SECONDS, CommandRun
from penstock.loop.fold import apply, fold
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import Journal
from penstock.loop.loops import check_log, held_folder, read_prompt, recording_folder, setup_log
from penstock.loop.next import next_effect, touched_end
from penstock.loop.reach import check_sandbox, confinement_of, environment_of, surroundings_of
from penstock.loop.rows import (
    AnyRow,
    LoopEnded,
    LoopStopRequested,
    RoleAgents,
    StepBegan,
    StepEnded,
    Waiting,
)
from penstock.loop.state import LoopState, round_of
from penstock.loop.steering import STOPPED, row_of_letter, row_of_prompt
from penstock.loop.step_prompts import prompt_of
from penstock.loop.steps import (
    AgentEnded,
    CandidateChosen,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    MakeCommit,
    MakeTree,
    MergeBranch,
    Publish,
    ResetTree,
    Result,
    RunAgent,
    RunCheck,
    RunSetup,
    Step,
    TreeReset,
)
from penstock.loop.workspace import CannotStore, LoopWorkspace
from penstock.repo.git import GitError
from penstock.repo.place import LEFT_RUNNING, TreeAbandoned
from penstock.run.agent import Agent
from penstock.run.history import now_ms
from penstock.run.inside import FOLDER_MARK
from penstock.run.launch import features_of
from penstock.run.marked import end_marked
from penstock.run.network import Network
from penstock.run.programs import stopped_by
from penstock.run.resuming import can_resume
from penstock.run.sandbox import Surroundings

if TYPE_CHECKING:
    from penstock.config.settings import Config
    from penstock.run.run import Run

POLL_SECONDS = 0.25
"""Seconds between two reads of the inbox while the loop waits."""


class Listener(Protocol):
    """Receiver of the rows and events of a loop, in the thread of the engine."""

    def row(self, row: AnyRow, state: LoopState) -> None:
        """Receive a row that is on disk, and the state after it."""
        ...

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        """Receive events of an agent."""
        ...


class Engine:
    """Engine of one loop, over its journal. Use `run`. `stop` may be called from any thread or signal handler.

    Args:
        journal: the journal, with its first row.
        config: configuration of the agents.
        trust: whether the project's own configuration may start programs.
        listener: receiver of rows and events.
    """

    def __init__(self, journal: Journal, config: Config, listener: Listener, *, trust: bool = False) -> None:
        self.journal = journal
        self.state: LoopState = fold(journal.rows)
        self._config = config
        self._trust = trust
        self._listener = listener
        self._inbox = LoopInbox(journal.folder)
        began, data = self.state.began, journal.folder.parent.parent
        self._data = data
        count = 1 + len(began.settings.candidates)
        self._workspaces = [LoopWorkspace(data, journal.folder, began, number) for number in range(count)]
        """Tree of the loop, and those of the candidates by their numbers."""
        self._workspace = self._workspaces[0]
        self._abandoned = AbandonedTrees(self._workspaces)
        self._stop_status: int | None = None
        self._woken = threading.Event()
        self._is_stopped_now = False

    def stop(self, status: int = STOPPED) -> None:
        """End the step that runs, and the loop with this exit status."""
        self._stop_status = status
        self._is_stopped_now = True
        self._woken.set()

    def run(self) -> int:
        """Run the loop to its end and return its exit status.

        Raises:
            PenstockError: it cannot continue; its journal is whole, and it can be resumed.
        """
        check_sandbox(self.state.settings)
        try:
            with stopped_by(self._is_stopped):
                self._note_gone_trees()
                return self._run()
        except (OSError, GitError) as error:
            loop = self.state.began.loop
            what = f"the loop {loop} cannot read or write its files: {_reason(error)}"
            if isinstance(error, GitError):
                what = f"the loop {loop} cannot go on: {error.what}"
            raise UsageError(what, help=f"fix that, then run: penstock loop resume {loop}") from error
        finally:
            for workspace in self._workspaces:
                workspace.close()

    def _run(self) -> int:
        has_worked = bool(self.state.open)  # killed meanwhile: what came since may be of an agent
        while True:
            for make in self._abandoned.rows():
                self._append(make)
            self._read_inbox(is_held=has_worked)
            self._read_prompt(is_held=has_worked)
            effect = next_effect(self.state, now_ms())
            has_worked = _works(effect)
            try:
                if isinstance(effect, effects.LoopOver):
                    return effect.status
                self._apply(effect)
            except GitError as error:
                if not error.is_stopped:  # else the step stays open, and the loop ends
                    self._end_touched(error)
            except TreeAbandoned as error:  # while nobody works in it; the step begins again in a new one
                self._abandoned.add(error)

    def _apply(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Begin(step):
                self._do(self._begin_step(step), step)
            case effects.BeginTogether(steps):
                self._do_together({self._begin_step(step): step for step in steps})
            case effects.Repeat(number, step):
                self._do(number, step)
            case effects.EndLost(number, step):
                self._end_step(number, self._lost(number, step))
            case effects.Wait(until, reason):
                self._wait(until, reason)
            case effects.EndLoop():
                self._end(effect)

    def _do(self, number: int, step: Step) -> None:
        """Carry out a step. A command that is stopped stays open, and is run again when the loop is resumed."""
        if isinstance(step, RunAgent):
            self._do_together({number: step})
            return
        try:
            result = self._carry_out(step)
        except TreeAbandoned as error:
            if not isinstance(step, MakeCommit):
                raise
            self._abandoned.add(error)
            result = CommitRejected(hook="a hook", output=f"the tree {error.why} while the hooks of the commit ran")
        if isinstance(result, CommandEnded) and self._is_stopped():
            return
        self._end_step(number, result)

    def _do_together(self, steps: Mapping[int, RunAgent]) -> None:
        """Run agents side by side, each step by its number, and end each step when its agent has ended."""
        for number, result in self._agents_ended(steps):
            self._end_step(number, result)

    def _begin_step(self, step: Step) -> int:
        """Write the row of a step that begins, and return the number of the step."""
        self._append(lambda n, at: StepBegan(n, at, self.state.steps + 1, step))
        return self.state.steps

    def _end(self, end: effects.EndLoop) -> None:
        self._append(lambda n, at: LoopEnded(n, at, end.status, end.reason, end.resets_at))

    def _end_touched(self, error: GitError) -> None:
        """End the loop if git has failed because the user's repository was harmed; the step stays open.

        Raises:
            GitError: it was not.
        """
        touched = self._workspace.compared().touched
        if not touched:
            raise error
        self._end(touched_end(touched))

    def _append(self, make: Callable[[int, int], AnyRow]) -> None:
        self._append_row(make(self.state.rows + 1, now_ms()))

    def _append_row(self, row: AnyRow) -> None:
        self.journal.append(row)
        row = self.journal.rows[-1]
        self.state = apply(self.state, row)
        self._listener.row(row, self.state)

    def _end_step(self, number: int, result: Result) -> None:
        self._append(lambda n, at: StepEnded(n, at, number, result))

    def _note_gone_trees(self) -> None:
        """Note the trees that cannot be used since the loop last ran, so that they are made again from their refs.

        They were removed, or a process that a killed loop has left running in them cannot be ended.
        """
        if self.state.ended is not None:
            return
        left = "" if end_marked(FOLDER_MARK, os.path.realpath(self.journal.folder)) else LEFT_RUNNING
        paths = [self.state.path, *(one.path for one in self.state.candidate_trees)]
        gone = {n: problem for n, path in enumerate(paths) if path and (problem := left or self._workspaces[n].problem)}
        if not gone:
            return
        for number, step in self.state.open.items():
            if isinstance(step, RunAgent):
                self._end_step(number, self._lost(number, step, is_gone=step.candidate in gone))
        for candidate, problem in gone.items():
            self._abandoned.add(TreeAbandoned(paths[candidate], problem), candidate)

    # --- the user ------------------------------------------------------------------------------------

    def _read_inbox(self, *, is_held: bool) -> None:
        """Write what the inbox has into the journal, then remove it from there.

        With `is_held`, messages came while an agent or a check worked.
        """
        for letter in self._inbox.letters():
            row = row_of_letter(letter, self.state, self._prompt_now(), now_ms(), is_held=is_held)
            if row is not None:
                self._append_row(row)
            self._inbox.remove(letter)
        if self._stop_status is not None:
            status, self._stop_status = self._stop_status, None
            self._append(lambda n, at: LoopStopRequested(n, at, status))

    def _read_prompt(self, *, is_held: bool) -> None:
        """Note an edit of the prompt, which counts from the next round on, or when it is confirmed."""
        row = row_of_prompt(self.state, self._prompt_now(), now_ms(), is_held=is_held)
        if row is not None:
            self._append_row(row)

    def _prompt_now(self) -> str:
        """Return the text of the prompt; if it was removed, or cannot be a prompt, the one that counts."""
        try:
            return read_prompt(Path(self.state.began.prompt_path))
        except UsageError:
            return self.state.prompt

    def _is_stopped(self) -> bool:
        return self._is_stopped_now or any(letter.kind == "stop_now" for letter in self._inbox.letters())

    def _wait(self, until: int, reason: str) -> None:
        self._append(lambda n, at: Waiting(n, at, until, reason))
        while (left := until - now_ms()) > 0 and not self._inbox.letters() and not self._is_stopped_now:
            self._woken.wait(min(left / 1000, POLL_SECONDS))

    # --- steps ---------------------------------------------------------------------------------------

    def _carry_out(self, step: CommandStep) -> Result:
        match step:
            case MakeTree():
                return self._workspaces[step.candidate].make(self.state.protects, step.tree)
            case RunSetup():
                workspace = self._workspaces[step.candidate]
                return self._command(workspace, step.command, setup_log(self.journal.folder, step.candidate), "all")
            case ResetTree():
                workspace = self._workspaces[step.candidate]
                workspace.put_held_aside(held_folder(self.journal.folder, self.state, step.candidate))
                workspace.restore(step.tree)
                return TreeReset()
            case RunCheck():
                return self._check(step)
            case ChooseCandidate():
                self._workspace.choose(step, self._workspaces[step.candidate])
                return CandidateChosen()
            case MergeBranch():
                return self._workspace.merge(step)
            case MakeCommit():
                work = self.state.rounds[step.round - 1].work
                reply = "" if work is None else f"{work.summary}\n{work.reply}"
                return self._workspace.commit(step, reply, self.state)
            case Publish():
                ours = [it.commit.commit for it in self.state.rounds if it.commit is not None]
                return self._workspace.publish(step, ours)

    def _environment(self, agent: str | None = None) -> Mapping[str, str]:
        return environment_of(self.state.began.loop, self.journal.folder, self._config, agent)

    def _surroundings(self, workspace: LoopWorkspace) -> Surroundings:
        return surroundings_of(self._data, workspace.repository, workspace.path)

    def _command(
        self, workspace: LoopWorkspace, command: str, log: Path, network: Network | None = None
    ) -> CommandEnded:
        seconds = self.state.settings.check_seconds or DEFAULT_SECONDS
        left = self.state.unfinished_budget().ms
        if left is not None:
            seconds = min(seconds, max(left / 1000, 0.001))
        workspace.renew(self.state.head)
        before = workspace.project.put_back(self.state.accepts)
        directory = workspace.directory()
        if directory is None:
            reason = f"{self.state.began.directory} is no longer a directory of the tree"
            return CommandEnded(reason=reason, aside=workspace.taken_aside(), put_back_settings=before)
        env, around, settings = self._environment(), self._surroundings(workspace), self.state.settings
        confinement = confinement_of(settings, around, directory, env, network or settings.check_network)
        run = CommandRun(command, directory, env, seconds, self._is_stopped, confinement.words)
        ended = run.to_end(log)
        ended = self._workspace.compared().added_to(ended)
        put_back = before
        try:
            if run.has_left:
                raise TreeAbandoned(workspace.path, LEFT_RUNNING)
            if self.state.has_worked:
                put_back = (*before, *workspace.project.put_back(self.state.accepts))
            else:  # it ran the base's own code: what it made is the user's
                workspace.project.keep("untracked")
        except TreeAbandoned as error:
            self._abandoned.add(error)
            ended = msgspec.structs.replace(ended, status=None, reason=f"the tree {error.why} while it ran")
        return msgspec.structs.replace(
            ended, aside=workspace.taken_aside(), put_back_settings=tuple(dict.fromkeys(put_back))
        )

    def _check(self, step: RunCheck) -> CommandEnded:
        """Run a check, then put back what it has changed: a commit has the files that the agent left."""
        if step.with_base:
            return self._check_with_base(step)
        workspace = self._workspaces[step.candidate]
        workspace.put_back(self.state.protects)  # git may have written them since, by attributes of the agent's
        ended = self._command(workspace, step.command, check_log(self.journal.folder, step))
        work = round_of(self.state, step).work if step.round else None
        if step.candidate in self._abandoned:
            return ended
        try:
            if work is None:
                workspace.restore(self.state.head_tree)
            elif not work.held:  # a file that is held back is nowhere else, so nothing is put back
                workspace.restore(work.tree)
        except TreeAbandoned as error:
            self._abandoned.add(error)
        return ended

    def _check_with_base(self, step: RunCheck) -> CommandEnded:
        """Run a check of the last green commit with the tests and build files of the base."""
        workspace, tree = self._workspace, self.state.head_tree
        paths = workspace.put_base_tests(self.state.protects, tree)
        ended = self._command(workspace, step.command, check_log(self.journal.folder, step))
        if step.candidate not in self._abandoned:
            workspace.remove_base_tests(paths, tree)
        return ended

    # --- agents --------------------------------------------------------------------------------------

    def _agents(self, step: RunAgent) -> RoleAgents:
        settings = self.state.settings
        if step.role == "review":
            return settings.reviews[step.number]
        if step.role == "plan":
            assert settings.plan is not None
            return settings.plan
        if step.role == "judge":
            assert settings.judge is not None
            return settings.judge
        return settings.work

    def _agents_ended(self, steps: Mapping[int, RunAgent]) -> Iterator[tuple[int, AgentEnded]]:
        """Run agents side by side, each step by its number, and yield the result of each when it has ended."""
        self._workspace.keep_state(now_ms())
        for step in steps.values():
            self._make_ready(step)
        began: dict[int, float] = {}
        runs: dict[int, Run] = {}
        with ExitStack() as started:
            for number, step in steps.items():
                try:
                    prompt = prompt_of(step, self.state, self._workspace)
                    began[number] = time.monotonic()
                    runs[number] = started.enter_context(self._make_run(number, step, prompt))
                except AgentNotFound as error:
                    yield number, AgentEnded(outcome="error", cause="missing", reason=str(error), tree=self.state.files)
                except GitError:
                    raise
                except PenstockError as error:  # it is charged as a round, so that it cannot go on for ever
                    failed = AgentEnded(outcome="error", cause="agent", reason=str(error))
                    yield number, self._with_tree(step, failed)
            following = follow(runs, show=lambda number, run, batch: self._listener.events(steps[number], run, batch),
                is_stopped=self._is_stopped)  # fmt: skip
            for number, summary in following:
                runs[number].close()  # before its tree is read, so that none of its processes is left
                ended = summary.result(steps[number], int((time.monotonic() - began[number]) * 1000))
                yield number, self._with_tree(steps[number], ended, is_left=runs[number].has_left)

    def _make_ready(self, step: RunAgent) -> None:
        """Prepare the tree of a step for its agent, without settings that another agent has planted."""
        workspace = self._workspaces[step.candidate]
        workspace.renew(self.state.head)
        workspace.project.put_back(self.state.accepts)
        if step.role != "work":
            workspace.project.show_base(self.state.accepts)

    def _make_run(self, number: int, step: RunAgent, prompt: str) -> Run:
        role, settings = self._agents(step), self.state.settings
        supported = features_of(step.agent, role.route, self._config)
        seconds = [it for it in (settings.step_seconds, step.ms_left / 1000 if step.ms_left else None) if it]
        return Agent(step.agent, {}, self._config).run(
            prompt,
            session_id=step.session_id if can_resume(step.agent, role.route, self._config) else None,
            model=role.model,
            cwd=self._workspaces[step.candidate].directory() or self._workspaces[step.candidate].tree.hand_over(),
            allow=role.allow,
            route=role.route,
            timeout=min(seconds, default=None),
            # A limit that the agent does not support is looked at after the step.
            max_cost=step.cost_left if "max_cost" in supported else None,
            max_tokens=step.tokens_left if "max_tokens" in supported else None,
            record=recording_folder(self.journal.folder, step, number),
            environ=self._environment(step.agent),
            sandbox=settings.sandbox,
            network=settings.network,
            surroundings=self._surroundings(self._workspaces[step.candidate]),
            label=f"{step.role}/{self._label(step)}",
            number=number,
            trust=self._trust,
            ignore_project=step.role != "work" or not self._trust,
        )

    def _label(self, step: RunAgent) -> str:
        labels = self.state.settings.candidate_labels
        return labels[step.candidate - 1] if step.role == "work" and step.candidate else step.agent

    def _with_tree(self, step: RunAgent, ended: AgentEnded, *, is_left: bool = False) -> AgentEnded:
        """Add what the agent left in the tree and did to the user's repository; only a worker's changes are kept.

        With `is_left`, a process of the agent could not be ended.
        """
        workspace = self._workspaces[step.candidate]
        ended = self._workspace.compared().added_to(ended)
        try:
            if is_left:
                raise TreeAbandoned(workspace.path, LEFT_RUNNING)
            ended = msgspec.structs.replace(ended, put_back_settings=workspace.project.put_back(self.state.accepts))
            ended = self._with_files(step, ended, workspace)
        except TreeAbandoned as error:
            self._abandoned.add(error)
            why = f"the tree {error.why} while the agent worked"
            ended = unusable(step, ended, why, self._tree_before(step))
        except CannotStore as error:
            ended = unusable(step, ended, error.what, self._tree_before(step))
        return msgspec.structs.replace(ended, aside=workspace.taken_aside())

    def _with_files(self, step: RunAgent, ended: AgentEnded, workspace: LoopWorkspace) -> AgentEnded:
        if step.role != "work":
            workspace.restore(self._tree_before(step))
            return ended
        ref = f"{step.round}-lost" if ended.outcome == "lost" else str(step.round)
        try:
            taken = workspace.take(self.state, ref, now_ms())
        except (CannotStore, TreeAbandoned):
            raise
        except PenstockError:
            if not ended.touched:
                raise
            # Nothing can be kept until the user has restored the repository.
            return unusable(step, ended, "git could not read your repository", self._tree_before(step))
        tree = taken.tree
        merge = self.state.merge
        conflicts = workspace.marked(tree, merge.conflicts) if merge is not None else ()
        size = workspace.size(self.state.head_tree, tree) if step.candidate and not ended.touched else ended.size
        ended = msgspec.structs.replace(ended, tree=tree, held=taken.held, put_back=taken.put_back)
        return msgspec.structs.replace(ended, conflicts=conflicts, size=size)

    def _tree_before(self, step: RunAgent) -> str:
        work = round_of(self.state, step).work if step.round and step.role != "judge" else None
        return work.tree if work is not None else self.state.files

    def _lost(self, number: int, step: RunAgent, *, is_gone: bool = False) -> AgentEnded:
        """Return the result of a step in which Penstock was killed; the guard has killed the agent."""
        ended = read_again(step, recording_folder(self.journal.folder, step, number))
        if not is_gone:
            return self._with_tree(step, ended)
        if step.role != "work":
            return ended
        return msgspec.structs.replace(ended, outcome="lost", tree=self._tree_before(step))  # its files are gone


WORKING = RunAgent, RunCheck, RunSetup, MakeCommit
"""Steps in which agents work, or code that they wrote is run: by a check, or a hook."""

CommandStep = MakeTree | RunSetup | ResetTree | RunCheck | ChooseCandidate | MergeBranch | MakeCommit | Publish
"""Steps that run no agent."""


def _reason(error: Exception) -> str:
    if isinstance(error, shutil.Error):  # of several files
        return str(error.args[0][0][2])
    return str(error)


def _works(effect: effects.Effect) -> bool:
    """Return whether agents work, or their code runs."""
    is_step = isinstance(effect, effects.Begin | effects.Repeat) and isinstance(effect.step, WORKING)
    return is_step or isinstance(effect, effects.BeginTogether)
