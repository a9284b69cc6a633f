"""A loop without processes: journals made by the rules and by invented results, for tests of the rules alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.loop import effects
from penstock.loop.fold import apply, fold
from penstock.loop.next import next_effect
from penstock.loop.rows import (
    VERSION,
    AnyRow,
    LoopBegan,
    LoopEnded,
    RoleAgents,
    Settings,
    StepBegan,
    StepEnded,
    Waiting,
    decode,
    encode,
)
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    AgentEnded,
    BranchMerged,
    BranchPublished,
    CandidateChosen,
    ChooseCandidate,
    CommandEnded,
    Committed,
    MakeCommit,
    MakeTree,
    MergeBranch,
    Publish,
    ResetTree,
    Result,
    ReviewVerdict,
    RunAgent,
    RunCheck,
    RunSetup,
    Step,
    TreeMade,
    TreeReset,
)

BASE, BASE_TREE = "c0", "t0"
MAX_STEPS = 2_000

Answer = Callable[[Step, LoopState], Result]
Kind = TypeVar("Kind", bound=Step)


class Simulation:
    """A loop whose steps are answered by a function. Time passes by one second a row, and by waiting."""

    def __init__(self, settings: Settings, answer: Answer, prompt: str = "Make it work.") -> None:
        self.answer = answer
        self.now = 1_000_000
        self.rows: list[AnyRow] = []
        self.state: LoopState
        self.ended: int | None = None
        self.reason = ""
        self.add(
            LoopBegan(
                n=1,
                at=self.now,
                version=VERSION,
                loop="loop-1",
                repository="/repository",
                base=BASE,
                base_tree=BASE_TREE,
                branch="penstock/loop-1",
                prompt_path="PROMPT.md",
                prompt=prompt,
                settings=settings,
            )
        )

    def add(self, row: AnyRow) -> None:
        """Append a row, as the journal would read it again."""
        self.rows.append(decode(encode(row)))
        self.state = fold(self.rows) if len(self.rows) == 1 else apply(self.state, self.rows[-1])
        self.now += 1_000

    @property
    def number(self) -> int:
        """Number of the next row."""
        return len(self.rows) + 1

    def step(self) -> bool:
        """Carry out one effect; return whether the loop goes on."""
        match next_effect(self.state, self.now):
            case effects.Begin(step):
                self.add(StepBegan(n=self.number, at=self.now, step=self.state.steps + 1, does=step))
                self.end_step(self.state.steps, step)
            case effects.BeginTogether(steps):
                numbers = [self.state.steps + number for number in range(1, len(steps) + 1)]
                for number, step in zip(numbers, steps, strict=True):
                    self.add(StepBegan(n=self.number, at=self.now, step=number, does=step))
                for number, step in zip(numbers, steps, strict=True):
                    self.end_step(number, step)
            case effects.Repeat(number, step):
                self.end_step(number, step)
            case effects.EndLost(number, _):
                self.end(number, AgentEnded(outcome="lost", tree=self.tree, ms=1_000))
            case effects.Wait(until, reason):
                self.add(Waiting(n=self.number, at=self.now, until=until, reason=reason))
                self.now = max(self.now, until)
            case effects.EndLoop(status, reason):
                self.add(LoopEnded(n=self.number, at=self.now, status=status, reason=reason))
            case effects.LoopOver(status):
                self.ended, self.reason = status, self.state.ended.reason if self.state.ended else ""
                return False
        return True

    def end_step(self, number: int, step: Step) -> None:
        """End an open step with the result that the function returns."""
        self.end(number, self.answer(step, self.state))

    def end(self, number: int, result: Result) -> None:
        """End an open step with a result."""
        self.add(StepEnded(n=self.number, at=self.now, step=number, result=result))

    @property
    def tree(self) -> str:
        """Tree that the last agent left."""
        works = [it.work.tree for it in self.state.rounds if it.work is not None]
        return works[-1] if works else BASE_TREE

    def run(self) -> int:
        """Run the loop to its end and return its status."""
        for _ in range(MAX_STEPS):
            if not self.step():
                assert self.ended is not None
                return self.ended
        raise AssertionError("the loop does not end")

    def steps(self, kind: type[Kind]) -> list[Kind]:
        """Return the steps of a kind that have begun."""
        return [row.does for row in self.rows if isinstance(row, StepBegan) and isinstance(row.does, kind)]


class Script:
    """Answers that a test lists: results of the agents in order, and of the checks; all else succeeds."""

    def __init__(
        self,
        work: Iterable[AgentEnded],
        checks: Callable[[RunCheck, LoopState], bool] = lambda step, state: True,
        reviews: Iterable[AgentEnded] = (),
        plans: Iterable[AgentEnded] = (),
        judges: Iterable[AgentEnded] = (),
    ) -> None:
        self.agents = {"work": iter(work), "review": iter(reviews), "plan": iter(plans), "judge": iter(judges)}
        self.plans = plans
        self.checks = checks

    def __call__(self, step: Step, state: LoopState) -> Result:
        match step:
            case MakeTree():
                return TreeMade(path="/repository.loop-1")
            case RunSetup():
                return CommandEnded(status=0)
            case ResetTree():
                return TreeReset()
            case ChooseCandidate():
                return CandidateChosen()
            case RunCheck():
                green = self.checks(step, state)
                return CommandEnded(status=0 if green else 1, ms=10, output="" if green else "1 failed in 0.31s")
            case RunAgent():
                return next(self.agents[step.role])
            case MergeBranch():
                return BranchMerged(conflicts=("a.py",))
            case MakeCommit():
                return Committed(commit=f"commit of {step.tree} on {step.parent} at {step.at}", tree=step.tree)
            case Publish():
                return BranchPublished(branch="penstock/loop-1")


def worked(tree: str, **fields: object) -> AgentEnded:
    """Return the result of an agent that left a tree."""
    defaults: dict[str, object] = {"outcome": "ok", "ms": 1_000, "reply": "I did it.", "cost_usd": 0.1, "tokens": 100}
    return AgentEnded(tree=tree, **{**defaults, **fields})  # type: ignore[arg-type]


def failed(cause: str, **fields: object) -> AgentEnded:
    """Return the result of an agent that could not work."""
    return AgentEnded(outcome="error", tree=BASE_TREE, cause=cause, **fields)  # type: ignore[arg-type]


def reviewed(approved: bool, *remarks: str) -> AgentEnded:
    """Return the result of a reviewer."""
    return AgentEnded(outcome="ok", ms=500, cost_usd=0.05, tokens=50, verdict=ReviewVerdict(approved, remarks))


def settings(**fields: object) -> Settings:
    """Return settings with one agent and one check."""
    defaults: dict[str, object] = {"work": RoleAgents(agents=("claude",)), "checks": ("make test",)}
    return Settings(**{**defaults, **fields})  # type: ignore[arg-type]
