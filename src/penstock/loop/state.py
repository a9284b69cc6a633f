"""State of a loop, and of its rounds: what the rules of `next` decide by. `fold` makes it from the rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from penstock.loop.rows import (
    LoopBegan,
    LoopBudget,
    LoopEnded,
    LoopLanded,
    LoopStopRequested,
    MessageAdded,
    Settings,
    Waiting,
)
from penstock.loop.steps import (
    AgentEnded,
    BranchPublished,
    CommandEnded,
    Committed,
    FileChange,
    RunAgent,
    RunCheck,
    Step,
)
from penstock.loop.tasks import open_tasks
from penstock.run.fallback import Chain

Stage = Literal[
    "work",  # the agent has not ended, or could not work at all
    "candidates",  # candidates work, or are compared
    "failed",  # the agent did not end well
    "check",  # checks are left
    "red",  # a check, or a hook of the commit, failed twice
    "conflict",  # files still have marks of a conflict
    "held",  # files are held back
    "review",  # reviewers are left
    "not_approved",  # a reviewer wants changes
    "commit",  # it is green
    "publish",  # the commit is not published yet
    "green",  # it is green and published
    "approved",  # nothing was changed, and all reviewers approve
    "unchanged",  # nothing was changed, and nobody reviews it
    "refused",  # nothing was changed, and edits were denied
]
"""Stage of a round."""

UNFINISHED_STAGES = ("work", "candidates", "check", "review", "commit", "publish")
"""Stages of a round that has not ended."""


class LoopState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a loop."""

    began: LoopBegan
    budget: LoopBudget
    """Limits, with what was added since."""
    prompt: str
    head: str
    """Last green commit; the base before the first one."""
    head_tree: str
    rows: int = 0
    """Number of the last row."""
    at: int = 0
    """Time of the last row."""
    steps: int = 0
    open: Mapping[int, Step] = {}
    """Steps that have begun and not ended, by their numbers: more than one only if candidates work side by side."""
    open_since: int = 0
    """Time at which the first of them began, in milliseconds since 1970."""
    open_ms: int = 0
    """Milliseconds that were counted of steps side by side; the time that they share counts once."""
    path: str = ""
    """Directory of the tree."""
    candidate_trees: tuple[CandidateTree, ...] = ()
    """Trees of the candidates, in their order."""
    is_set_up: bool = False
    setup_failed: CommandEnded | None = None
    base_checks: tuple[CommandEnded, ...] = ()
    """Results of the checks on the base."""
    plan: tuple[str, ...] | None = None
    """Tasks of the plan; None before there is one."""
    plans: int = 0
    """Attempts of the planner that were charged."""
    plan_is_approved: bool = False
    rounds: tuple[Round, ...] = ()
    since: int = 0
    """Number of rounds that had ended when the loop was last resumed. They do not end it again."""
    chains: Mapping[str, Chain] = {}
    retry_at: Mapping[str, int] = {}
    """Time of the next retry, of chains whose agent had a passing failure."""
    used: Used
    messages: tuple[UserMessage, ...] = ()
    letters: frozenset[str] = frozenset()
    """Ids of the letters that were read."""
    unread: int | None = None
    """Number of rounds when the user last wrote, or edited the prompt; None if the user did neither."""
    held_prompt: str = ""
    """Text of the prompt that waits to be confirmed; "" if there is none."""
    discarded_prompt: str = ""
    """Text of the prompt that the user did not confirm."""
    held_messages: tuple[MessageAdded, ...] = ()
    """Messages that wait to be confirmed."""
    is_end_held: bool = False
    """The loop has ended while something waited to be confirmed."""
    question: str = ""
    """Question that waits for an answer of the user."""
    merge: Merge | None = None
    """Merge of the user's branch that is under way."""
    protects: str = ""
    """Commit whose protected files are put back: the base, or the user's commit that was merged last."""
    accepts: tuple[str, ...] = ()
    """Paths that the user has accepted, so that they are not held back."""
    touched: tuple[str, ...] = ()
    """Harm to the user's repository during the last step."""
    repository_changes: tuple[str, ...] = ()
    """All changes of the user's repository that were seen after steps, harm or not, each with how to undo it."""
    look_at: tuple[FileChange, ...] = ()
    """Tests, and files that the checks read, that differ from the base in the last green commit."""
    base_tests: BaseTests | None = None
    abandoned: tuple[str, ...] = ()
    """Trees that were abandoned and are left as they are: each with the reason."""
    waiting: Waiting | None = None
    stop: LoopStopRequested | None = None
    ended: LoopEnded | None = None
    landed: LoopLanded | None = None

    @property
    def settings(self) -> Settings:
        """Settings of the loop."""
        return self.began.settings

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of the loop: those of the plan, else the open boxes of the prompt."""
        return self.plan if self.plan is not None else open_tasks(self.prompt)

    @property
    def files(self) -> str:
        """Tree of git with which the next round begins: what the last one left, green or not."""
        for it in reversed(self.rounds):
            if it.commit is not None:
                return it.commit.tree
            if it.work is not None:
                return it.work.tree
        return self.began.base_tree

    @property
    def finished_tasks(self) -> set[str]:
        """Tasks that a green round has done, or all reviewers found done."""
        return {it.task for it in self.rounds if it.task is not None and self.stage(it) in ("green", "approved")}

    @property
    def unchanged_tasks(self) -> set[str]:
        """Tasks for which an agent found nothing to change, without a reviewer to approve that."""
        found = {it.task for it in self.rounds if it.task is not None and self.stage(it) == "unchanged"}
        return found - self.finished_tasks

    @property
    def has_worked(self) -> bool:
        """Whether an agent has worked, so that what runs in a tree may be its code."""
        return bool(self.rounds or self.plans or self.merge is not None)

    @property
    def put_back_settings(self) -> tuple[str, ...]:
        """All files that would rule other agents, and were put back."""
        return tuple(dict.fromkeys(path for it in self.rounds for path in it.put_back_settings))

    @property
    def task(self) -> str | None:
        """Task of the next round; None: the whole."""
        passed = self.finished_tasks | self.unchanged_tasks
        return next((task for task in self.tasks if task not in passed), None)

    def stage(self, it: Round) -> Stage:
        """Return the stage of a round."""
        settings, work = self.settings, it.work
        if work is None:
            return "candidates" if it.candidates else "work"
        if work.outcome != "ok" or work.question or work.unusable:
            return "failed"
        if work.conflicts:
            return "conflict"
        if it.red is not None:
            return "red"
        if it.passed < len(settings.checks):
            return "check"
        if work.held:
            return "held"
        if not it.has_changed and work.refused:
            return "refused"
        return self._stage_of_green(it)

    def _stage_of_green(self, it: Round) -> Stage:
        reviewers = len(self.settings.reviews)
        if not it.has_changed and (reviewers == 0 or (it.task is None and self.head_differs_from_base(it))):
            return "unchanged"
        if any(not review.approved for review in it.reviews):
            return "not_approved"
        if len(it.reviews) < reviewers:
            return "review"
        if not it.has_changed:
            return "approved"
        if it.commit is None:
            return "commit"
        return "green" if it.published is not None else "publish"

    def head_differs_from_base(self, it: Round) -> bool:
        """Return whether the tree with which a round began is another one than that of the base."""
        return it.head_tree != self.began.base_tree

    @property
    def has_held(self) -> bool:
        """Whether an edit of the prompt, or a message, waits to be confirmed."""
        return bool(self.held_prompt or self.held_messages)

    @property
    def current_base_tests(self) -> BaseTests:
        """Checks of the last green commit with the tests and build files of the base; none if it has not begun."""
        found = self.base_tests
        return found if found is not None and found.tree == self.head_tree else BaseTests(self.head_tree)

    @property
    def has_changed_checks(self) -> bool:
        """Whether the checks of the base might judge otherwise: other tests or build files than new tests alone."""
        is_red = any(not result.is_green for result in self.current_base_tests.results)
        return is_red or any(one.is_read or one.change != "new" for one in self.look_at)

    @property
    def has_unread(self) -> bool:
        """Whether the user has written or edited the prompt since the last round began."""
        return self.unread == len(self.rounds) > 0

    def unfinished_budget(self) -> LoopBudget:
        """Return what is left of the budget, never less than zero."""
        budget, used = self.budget, self.used
        return LoopBudget(
            rounds=max(0, budget.rounds - used.rounds),
            ms=None if budget.ms is None else max(0, budget.ms - used.ms),
            cost_usd=None if budget.cost_usd is None else max(0.0, budget.cost_usd - used.cost_usd),
            tokens=None if budget.tokens is None else max(0, budget.tokens - used.tokens),
        )


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: an agent works, the checks run, reviewers judge, and a green result is committed."""

    number: int
    task: str | None
    head_tree: str
    """Tree of the last green commit when the round began."""
    agent: str
    merges: str = ""
    """Commit of the user's branch that the round merges."""
    work: AgentEnded | None = None
    passed: int = 0
    """Number of checks that are green."""
    reds: int = 0
    """Number of times that the next check was red."""
    red: CommandEnded | None = None
    red_command: str = ""
    flaky: tuple[str, ...] = ()
    """Checks that were red, and green when they were repeated."""
    reviews: tuple[Review, ...] = ()
    commit: Committed | None = None
    published: BranchPublished | None = None
    problem: str = ""
    """Why the commit could not be published."""
    put_back_settings: tuple[str, ...] = ()
    """Files that would rule other agents, and were put back in the round."""
    candidates: tuple[Round, ...] = ()
    """Results of the candidates, each as that of a round of its own; the chosen one is the result of the round."""
    sits_out: bool = False
    """The candidate could not work in this round, e.g. because of a limit."""
    losses: int = 0
    """Number of times that Penstock was killed while the candidate worked."""
    comparisons: tuple[Comparison, ...] = ()
    chosen: int = 0
    """Number of the chosen candidate, from 1."""
    chosen_reason: str = ""
    ms: int = 0
    cost_usd: float | None = None
    """Known cost of all of its steps in US dollars."""

    @property
    def has_changed(self) -> bool:
        """Whether the tree differs from the last green commit, or has another one merged in."""
        return self.work is not None and (self.work.tree != self.head_tree or bool(self.merges))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks of all reviewers."""
        return tuple(remark for review in self.reviews for remark in review.remarks)

    @property
    def signature(self) -> str:
        """Text that is equal for two rounds with the same failing check; "" if none failed."""
        return "" if self.red is None else f"{self.red_command}\n{normalised(self.red.output)}"


def round_of(state: LoopState, step: RunCheck | RunAgent) -> Round:
    """Return the round of a step, or the candidate of it that the step is about."""
    it = state.rounds[step.round - 1]
    return it.candidates[step.candidate - 1] if step.candidate else it


class BaseTests(msgspec.Struct, frozen=True):
    """Checks of a green commit with the tests and build files of the base."""

    tree: str
    """Tree of the commit."""
    results: tuple[CommandEnded, ...] = ()
    """Results of the checks, in their order."""
    reds: int = 0
    """Number of times that the next check was red."""


class CandidateTree(msgspec.Struct, frozen=True):
    """Tree of a candidate."""

    path: str = ""
    is_set_up: bool = False
    files: str = ""
    """Tree of git that it has; "" if its agent has worked since."""


class Comparison(msgspec.Struct, frozen=True):
    """Choice of a judge between two candidates, in the order in which they were shown."""

    first: int
    second: int
    better: int
    """Number of the candidate that is better; 0 if the judge made no choice."""


class Merge(msgspec.Struct, frozen=True):
    """Merge of the user's branch into the loop, because the result could not land."""

    commit: str
    name: str
    """Name of the user's branch."""
    ended: LoopEnded | None
    """End of the loop before, which is its end again when the merge is done."""
    is_in_tree: bool = False
    conflicts: tuple[str, ...] = ()


class Review(msgspec.Struct, frozen=True):
    """Verdict of one reviewer."""

    agent: str
    approved: bool
    remarks: tuple[str, ...] = ()


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Consumption of the whole loop."""

    rounds: int = 0
    """Rounds that were charged."""
    ms: int = 0
    cost_usd: float = 0.0
    """Known cost in US dollars."""
    tokens: int = 0
    """Known number of tokens."""
    without_cost: tuple[str, ...] = ()
    """Agents that ended well and did not report what it cost."""
    without_tokens: tuple[str, ...] = ()
    """Agents that ended well and did not report their tokens."""
    is_cost_partial: bool = False
    """True if a step worked and its cost is unknown."""


class UserMessage(msgspec.Struct, frozen=True):
    """Message of the user, after so many rounds, to a question if there was one."""

    text: str
    round: int
    question: str = ""


_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+|(?<=/)[\w.-]*tmp[\w.-]*")


def normalised(output: str) -> str:
    """Return the output of a check without what differs between two runs: numbers, addresses, temporary names."""
    lines = (" ".join(_VARIES.sub("#", line).split()) for line in _ESCAPE.sub("", output).splitlines())
    return "\n".join(line for line in lines if line)
