"""Random loops, crashes and resumes, judged from the rows alone by code that shares nothing with the effects."""

from __future__ import annotations

from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from simulated_loop import BASE_TREE, Answer, Simulation
from simulated_loop import settings as loop_settings

from penstock.loop import effects
from penstock.loop.fold import apply, fold
from penstock.loop.next import next_effect
from penstock.loop.rows import (
    AnyRow,
    LoopBegan,
    LoopBudget,
    LoopEnded,
    LoopResumed,
    MessageAdded,
    RoleAgents,
    Settings,
    StepBegan,
    StepEnded,
    TreeGone,
    decode,
    encode,
)
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    AgentEnded,
    BranchPublished,
    CandidateChosen,
    ChangeSize,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    Committed,
    FileChange,
    HeldPath,
    MakeCommit,
    MakeTree,
    Publish,
    PublishRejected,
    ResetTree,
    Result,
    ReviewVerdict,
    RunAgent,
    RunCheck,
    Step,
    TreeMade,
    TreeReset,
)

MAX_STEPS = 400
CAUSES = ["usage_limit", "rate_limit", "overloaded", "auth", "missing", "context", "length", "agent", "budget", None]
CHARGED = {"context", "length", "agent", "budget", "refusal", None}

roles = st.sampled_from([("claude",), ("claude", "codex"), ("claude", "codex", "gemini")]).map(
    lambda names: RoleAgents(agents=names)
)
budgets = st.builds(
    LoopBudget,
    rounds=st.integers(1, 6),
    ms=st.none() | st.integers(1_000, 20_000),
    cost_usd=st.none() | st.floats(0.1, 2.0),
    tokens=st.none() | st.integers(100, 2_000),
)
loops = st.builds(
    loop_settings,
    work=roles,
    reviews=st.lists(roles, max_size=2).map(tuple),
    checks=st.sampled_from([("test",), ("lint", "test")]),
    plan=st.none() | roles,
    candidates=st.sampled_from([(), (), ("claude", "codex"), ("claude", "claude", "gemini")]),
    judge=st.none() | roles,
    setup=st.sampled_from(["", "make deps"]),
    keep_session=st.booleans(),
    wait_ms=st.sampled_from([0, 10_000_000]),
    budget=budgets,
)
prompts = st.sampled_from(["Make it work.", "- [ ] one\n- [ ] two\n"])
trees = st.sampled_from([BASE_TREE, "t1", "t2", "t3"])
agent_results = st.one_of(
    st.builds(
        AgentEnded,
        outcome=st.just("ok"),
        tree=trees,
        ms=st.integers(0, 3_000),
        cost_usd=st.none() | st.floats(0, 0.5),
        tokens=st.none() | st.integers(0, 500),
        refused=st.sampled_from([(), (), ("Edit a",)]),
        held=st.sampled_from([(), (), (), (HeldPath("a.pem", "key"),)]),
        question=st.sampled_from(["", "", "", "which?"]),
        verdict=st.builds(ReviewVerdict, st.booleans(), st.sampled_from([(), ("a",), ("b",)])),
        tasks=st.sampled_from([(), ("one",), ("one", "two")]),
        size=st.builds(ChangeSize, files=st.integers(0, 2), added=st.integers(0, 3)),
        better=st.integers(0, 2),
        session_id=st.sampled_from([None, "s1"]),
    ),
    st.builds(
        AgentEnded,
        outcome=st.sampled_from(["error", "timed_out", "cut_off", "empty", "cancelled"]),
        tree=trees,
        ms=st.integers(0, 3_000),
        cost_usd=st.none() | st.floats(0, 0.5),
        cause=st.sampled_from(CAUSES),
        resets_at=st.none() | st.integers(1_000_000, 9_000_000),
    ),
)


def answer(data: st.DataObject) -> Answer:
    """Return a function that draws the result of each step."""

    def result(step: Step, state: LoopState) -> Result:
        match step:
            case MakeTree():
                return TreeMade(path="/tree")
            case RunAgent():
                return data.draw(agent_results)
            case ResetTree():
                return TreeReset()
            case ChooseCandidate():
                return CandidateChosen()
            case MakeCommit():
                if data.draw(st.integers(0, 9)) == 0:
                    return CommitRejected(hook="pre-commit", output="no")
                look_at = data.draw(st.sampled_from([(), (FileChange(path="test_a.py", change="new"),)]))
                return Committed(commit=f"c{state.rows}", tree=step.tree, look_at=look_at)
            case Publish():
                moved = data.draw(st.integers(0, 9)) == 0
                return PublishRejected(reason="moved") if moved else BranchPublished(branch="b")
        red = data.draw(st.booleans())
        return CommandEnded(status=1 if red else 0, ms=10, output=data.draw(st.sampled_from(["a 1", "a 2", "b"])))

    return result


def run(loop: Simulation) -> None:
    """Run a loop to its end."""
    for _ in range(MAX_STEPS):
        if not loop.step():
            return
    raise AssertionError("the loop does not end")


# --- the judge ---------------------------------------------------------------------------------------


def ended_steps(rows: list[AnyRow]) -> list[tuple[int, Step, Result]]:
    """Return the steps that have ended, with the index of the row of their end."""
    found: list[tuple[int, Step, Result]] = []
    begun: dict[int, Step] = {}
    for index, row in enumerate(rows):
        if isinstance(row, StepBegan):
            side_by_side = [*begun.values(), row.does]
            assert len(side_by_side) == 1 or all(is_candidate(it) for it in side_by_side), "two steps are open"
            begun[row.step] = row.does
        elif isinstance(row, StepEnded):
            found.append((index, begun.pop(row.step), row.result))
        elif isinstance(row, TreeGone):
            begun.clear()
    return found


def is_candidate(step: Step) -> bool:
    """Return whether a step is the work of a candidate."""
    return isinstance(step, RunAgent) and step.role == "work" and step.candidate > 0


def judge(rows: list[AnyRow]) -> None:
    """Raise if the rows break a promise of a loop."""
    assert isinstance(rows[0], LoopBegan)
    assert [row.n for row in rows] == list(range(1, len(rows) + 1))
    ended = ended_steps(rows)
    judge_budget(rows)
    judge_commits(rows[0].settings, ended)
    for index, row in enumerate(rows):
        if isinstance(row, LoopEnded) and row.status == 0:
            judge_done(rows[0].settings, [(step, result) for at, step, result in ended if at < index])


def judge_budget(rows: list[AnyRow]) -> None:
    """No agent starts when a budget is used, and no round beyond their number, over all processes."""
    assert isinstance(rows[0], LoopBegan)
    limit = rows[0].settings.budget
    rounds, most, cost, tokens, ms, shared = 0, limit.rounds, 0.0, 0, 0, 0
    open_steps: dict[int, Step] = {}
    for row in rows:
        if isinstance(row, LoopResumed):
            most += row.rounds
        elif isinstance(row, TreeGone):
            open_steps.clear()
        elif isinstance(row, StepBegan):
            begun = row.does
            shared = shared if open_steps else 0
            open_steps[row.step] = begun
            if isinstance(begun, RunAgent):
                assert limit.cost_usd is None or cost < limit.cost_usd
                assert limit.tokens is None or tokens < limit.tokens
                assert limit.ms is None or ms < limit.ms
                assert begun.role != "work" or rounds < most
                parts = sum(getattr(step, "cost_left", 0) or 0 for step in open_steps.values())
                assert begun.cost_left is None or parts <= (limit.cost_usd or 0) - cost + 1e-9
        elif isinstance(row, StepEnded):
            result, begun = row.result, open_steps.pop(row.step)
            more = max(0, getattr(result, "ms", 0) - shared)
            ms, shared = ms + more, shared + more
            cost += getattr(result, "cost_usd", None) or 0.0
            tokens += getattr(result, "tokens", None) or 0
            rounds += isinstance(result, CandidateChosen)
            if isinstance(begun, RunAgent) and begun.role == "work" and isinstance(result, AgentEnded):
                is_charged = result.outcome in ("ok", "lost") or result.cause in CHARGED
                rounds += is_charged and not begun.candidate
    state = fold(rows)
    assert state.used.rounds == rounds
    assert state.used.tokens == tokens
    assert state.used.ms == ms
    assert abs(state.used.cost_usd - cost) < 1e-6


Ended = list[tuple[Step, Result]]


def last_work(ended: Ended) -> tuple[RunAgent, AgentEnded, Ended]:
    """Return the work of the last round, that of the chosen candidate, and what was done about it since."""
    is_work = [isinstance(step, RunAgent) and step.role == "work" for step, _ in ended]
    choices = [(i, step) for i, (step, _) in enumerate(ended) if isinstance(step, ChooseCandidate)]
    plain = [i for i, (step, _) in enumerate(ended) if is_work[i] and not is_candidate(step)]
    candidate, index = 0, plain[-1] if plain else -1
    if choices and choices[-1][0] > index:
        chosen, candidate = choices[-1][0], choices[-1][1].candidate
        index = max(i for i in range(chosen) if is_work[i] and getattr(ended[i][0], "candidate", 0) == candidate)
    step, work = ended[index]
    assert isinstance(step, RunAgent)
    assert isinstance(work, AgentEnded)
    since = [(done, it) for done, it in ended[index + 1 :] if getattr(done, "candidate", 0) == candidate]
    return step, work, [(done, it) for done, it in since if not is_with_base(done)]


def is_with_base(step: Step) -> bool:
    """Return whether a step is a check with the tests of the base."""
    return isinstance(step, RunCheck) and step.with_base


def is_review(step: Step) -> bool:
    """Return whether a step is a review."""
    return isinstance(step, RunAgent) and step.role == "review"


def judge_commits(settings: Settings, ended: list[tuple[int, Step, Result]]) -> None:
    """Each commit is of the tree of a run that ended well, checked by all checks and approved by all reviewers."""
    for number, (_, step, result) in enumerate(ended):
        if not isinstance(step, MakeCommit) or not isinstance(result, Committed):
            continue
        work, since = last_work([(done, outcome) for _, done, outcome in ended[:number]])[1:]
        assert isinstance(work, AgentEnded)
        assert work.outcome == "ok"
        assert not work.held
        assert work.tree == step.tree
        green = [done.command for done, it in since if isinstance(done, RunCheck) and it.is_green]  # type: ignore[union-attr]
        assert tuple(green) == settings.checks
        verdicts = [it.verdict for done, it in since if is_review(done) and isinstance(it, AgentEnded)]
        approvals = [verdict for verdict in verdicts if verdict is not None and verdict.approved]
        assert len(approvals) == len(settings.reviews)


def judge_done(settings: Settings, ended: list[tuple[Step, Result]]) -> None:
    """Status 0 needs a worker that ended well with green checks, and an approval or a tree that it left as it was."""
    step, work, since = last_work(ended)
    judge_base_tests(settings, ended)
    assert step.task is None
    assert work.outcome == "ok"
    green = [done.command for done, it in since if isinstance(done, RunCheck) and it.is_green]  # type: ignore[union-attr]
    assert tuple(green) == settings.checks
    verdicts = [it.verdict for done, it in since if is_review(done) and isinstance(it, AgentEnded)]
    approvals = [verdict for verdict in verdicts if verdict is not None and verdict.approved]
    if settings.reviews and len(approvals) == len(settings.reviews):
        return
    commits = [it for _, it in ended if isinstance(it, Committed)]
    assert commits, "nothing was changed and nobody approved"
    assert work.tree == commits[-1].tree
    assert not work.refused


def judge_base_tests(settings: Settings, ended: list[tuple[Step, Result]]) -> None:
    """A result with changed tests was checked with those of the base, each check to its end and once more if red."""
    made = [number for number, (_, it) in enumerate(ended) if isinstance(it, Committed)]
    since = [(step, it) for step, it in ended[made[-1] if made else 0 :] if is_with_base(step)]
    last = ended[made[-1]][1] if made else None
    if settings.budget.ms is not None:
        return  # the time may be over before
    finished = [step for step, it in since if it.is_green or step.attempt == 2]  # type: ignore[union-attr]
    wanted = settings.checks if isinstance(last, Committed) and last.look_at else ()
    assert tuple(step.command for step in finished) == wanted  # type: ignore[union-attr]


# --- the properties ----------------------------------------------------------------------------------


@examples(60, 3_000)
@given(loops, prompts, st.data())
def test_a_loop_keeps_its_promises(given_settings: Settings, prompt: str, data: st.DataObject) -> None:
    """Whatever agents, checks, reviewers and hooks do, the loop ends within its budgets and 0 is proved."""
    loop = Simulation(given_settings, answer(data), prompt)
    run(loop)
    judge(loop.rows)
    loop.add(LoopResumed(n=loop.number, at=loop.now, rounds=data.draw(st.integers(0, 3))))
    loop.add(MessageAdded(n=loop.number, at=loop.now, text="yes"))
    run(loop)
    judge(loop.rows)


@examples(30, 1_000)
@given(loops, prompts, st.data())
def test_every_prefix_folds_and_decides_the_same(given_settings: Settings, prompt: str, data: st.DataObject) -> None:
    """A crash after any row: the rows that are left fold to the state that was there, and to the same decision."""
    loop = Simulation(given_settings, answer(data), prompt)
    run(loop)
    state = fold(loop.rows[:1])
    for number in range(1, len(loop.rows)):
        kept = [decode(encode(row)) for row in loop.rows[:number]]
        assert fold(kept) == state
        following = loop.rows[number]
        effect = next_effect(state, following.at)
        if not state.open:
            begun = following.does if isinstance(following, StepBegan) else None
            steps = effect.steps if isinstance(effect, effects.BeginTogether) else ()
            assert (effect.step if isinstance(effect, effects.Begin) else steps[0] if steps else None) == begun
        else:
            step, does = next(iter(state.open.items()))
            lost = isinstance(does, RunAgent)
            assert effect == (effects.EndLost(step, does) if lost else effects.Repeat(step, does))  # type: ignore[arg-type]
        state = apply(state, following)


def remove_tree(loop: Simulation, candidate: int) -> None:
    """Remove a tree, if there is one of this number and no agent works."""
    works = any(isinstance(step, RunAgent) for step in loop.state.open.values())
    if 0 <= candidate <= len(loop.state.candidate_trees) and not works:
        loop.add(TreeGone(n=loop.number, at=loop.now, candidate=candidate))


@examples(30, 1_000)
@given(loops, prompts, st.data())
def test_a_crash_at_any_row_keeps_the_promises(given_settings: Settings, prompt: str, data: st.DataObject) -> None:
    """A loop that crashes while each of its steps runs, and is resumed, still keeps its promises."""
    loop = Simulation(given_settings, answer(data), prompt)
    for _ in range(MAX_STEPS):
        effect = next_effect(loop.state, loop.now)
        steps: tuple[Step, ...] = (effect.step,) if isinstance(effect, effects.Begin) else ()
        steps = effect.steps if isinstance(effect, effects.BeginTogether) else steps
        if steps and data.draw(st.integers(0, 3)) == 0:
            for step in steps[: data.draw(st.integers(1, len(steps)))]:
                loop.add(StepBegan(n=loop.number, at=loop.now, step=loop.state.steps + 1, does=step))
            loop.add(LoopResumed(n=loop.number, at=loop.now))
            remove_tree(loop, data.draw(st.integers(-9, 3)))
        elif not loop.step():
            break
    judge(loop.rows)
    commits = [step for _, step, result in ended_steps(loop.rows) if isinstance(result, Committed)]
    assert len({step.round for step in commits}) == len(commits), "a round has two commits"  # type: ignore[union-attr]
