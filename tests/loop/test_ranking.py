"""The order of candidates, and the rules about them, with invented results. Whole loops are in `test_candidates.py`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import pytest
from simulated_loop import BASE_TREE, Script, Simulation, failed, reviewed, settings, worked

from penstock.loop.effects import Begin, BeginTogether, Wait
from penstock.loop.next import next_effect
from penstock.loop.rows import LoopBudget, LoopResumed, RoleAgents, StepBegan, TreeGone
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    AgentEnded,
    ChangeSize,
    ChooseCandidate,
    HeldPath,
    MakeTree,
    ResetTree,
    RunAgent,
    RunCheck,
    RunSetup,
)

TWO = ("claude", "codex")
THREE = ("claude", "codex", "gemini")


def left(tree: str, lines: int = 1, **fields: object) -> AgentEnded:
    """Return the result of a candidate that changed so many lines."""
    return worked(tree, size=ChangeSize(files=1, added=lines), **fields)


def judged(better: int) -> AgentEnded:
    """Return the result of a judge."""
    return AgentEnded(outcome="ok", ms=100, cost_usd=0.01, tokens=10, better=better)


def loop_of(
    *works: AgentEnded,
    names: tuple[str, ...] = TWO,
    red: tuple[str, ...] = (),
    judges: Iterable[AgentEnded] = (),
    **more: object,
) -> Simulation:
    """Return a loop of one round with these results of its candidates; the checks of the trees in `red` fail."""

    def is_green(step: RunCheck, state: LoopState) -> bool:
        work = state.rounds[-1].candidates[step.candidate - 1].work if state.rounds else None
        return work is not None and f"{work.tree} {step.command}" not in red

    fields = {"candidates": names, "budget": LoopBudget(rounds=1), **more}
    return Simulation(settings(**fields), Script(works, is_green, judges=judges))


def chosen(loop: Simulation) -> tuple[str, str]:
    """Run a loop, and return the tree that was chosen first, and why."""
    loop.run()
    step = loop.steps(ChooseCandidate)[0]
    assert isinstance(step, ChooseCandidate)
    return step.tree, step.reason


def test_checks_come_before_size() -> None:
    """A red candidate is not chosen, however small it is."""
    assert chosen(loop_of(left("t1", 1), left("t2", 90), red=("t1 make test",))) == ("t2", "the only green one")


def test_of_red_candidates_the_one_with_more_green_checks_is_chosen() -> None:
    """Both are red: the one that gets further in the checks goes on."""
    loop = loop_of(left("t1", 1), left("t2", 90), checks=("lint", "test"), red=("t1 lint", "t2 test"))
    assert chosen(loop) == ("t2", "more of its checks are green")


def test_approval_comes_before_size() -> None:
    """Both are green: the approved one is chosen, though the other one is smaller."""
    answers = [reviewed(False, "no"), reviewed(True)]
    loop = Simulation(
        settings(candidates=TWO, reviews=(RoleAgents(agents=("gemini",)),)),
        Script([left("t1", 1), left("t2", 90)], reviews=answers),
    )
    assert chosen(loop) == ("t2", "the only approved one")


@pytest.mark.parametrize(("choices", "tree"), [((2, 1), "t2"), ((1, 2), "t1"), ((1, 1), "t1"), ((0, 1), "t1")])
def test_a_judge_decides_if_both_orders_agree(choices: tuple[int, int], tree: str) -> None:
    """The judge sees the two in both orders; if the answers contradict each other, the smaller change is chosen."""
    judge = RoleAgents(agents=("gemini",))
    loop = loop_of(left("t1", 1), left("t2", 9), judge=judge, judges=[judged(one) for one in choices])
    assert chosen(loop)[0] == tree
    assert [step.pair for step in loop.steps(RunAgent) if step.role == "judge"] == [(1, 2), (2, 1)]


def test_the_best_of_three_meets_each_other_one() -> None:
    """Of three equal candidates the judge prefers the third one: four comparisons."""
    judges = [judged(2), judged(1), judged(2), judged(1)]
    loop = loop_of(left("t1"), left("t2"), left("t3"), names=THREE, judge=RoleAgents(agents=("x",)), judges=judges)
    assert chosen(loop) == ("t3", "the judge prefers it")
    assert [step.pair for step in loop.steps(RunAgent) if step.role == "judge"] == [(1, 2), (2, 1), (2, 3), (3, 2)]


def test_a_judge_is_not_asked_about_red_or_equal_candidates() -> None:
    """Nothing is compared if one candidate is ahead by its checks, or if all have left the same tree."""
    judge = RoleAgents(agents=("gemini",))
    for loop in (loop_of(left("t1"), left("t2"), judge=judge, red=("t1 make test",)),
            loop_of(left("t1"), left("t1"), judge=judge)):  # fmt: skip
        chosen(loop)
        assert not [step for step in loop.steps(RunAgent) if step.role == "judge"]


def test_nothing_done_is_not_better_than_something_done() -> None:
    """On a green base one candidate changes nothing, and the other one does the work: the work goes on."""
    loop = Simulation(settings(candidates=TWO), Script([worked(BASE_TREE), left("t1", 99), *repeat(left("t1"), 2)]))
    assert loop.run() == 0
    assert loop.state.rounds[0].agent == "codex"
    assert loop.state.used.rounds == 2


def test_held_files_are_worse_than_a_change_that_can_be_committed() -> None:
    """A candidate with a held-back file is not chosen if the other one is green."""
    held = left("t1", 1, held=(HeldPath(path="a.pem", reason="key"),))
    assert chosen(loop_of(held, left("t2", 9))) == ("t2", "the only green one")


def test_a_question_of_a_candidate_that_is_not_chosen_stops_nothing() -> None:
    """One candidate asks a person and the other one is green: the loop goes on without an answer."""
    loop = loop_of(left("t1", 1, question="which?"), left("t2", 9))
    assert chosen(loop)[0] == "t2"
    assert not loop.state.question
    loop = loop_of(left("t1", 1, question="which?"), left("t2", 9, question="why?"))
    assert chosen(loop)[0] == "t1"
    assert loop.ended == 4
    assert "which?" in loop.reason


def test_a_round_of_candidates_is_one_round() -> None:
    """A round is charged once, and what all candidates cost counts."""
    loop = loop_of(left("t1"), left("t2", 3))
    chosen(loop)
    assert loop.state.used.rounds == 1
    assert loop.state.used.cost_usd == pytest.approx(0.2)
    assert loop.state.used.ms == 1_000 + 3 * 10  # they worked at the same time; the checks run one after the other


def test_each_candidate_gets_an_equal_part_of_the_budget() -> None:
    """Cost and tokens are divided by the candidates that can work; the time is not."""
    budget = LoopBudget(cost_usd=3.0, tokens=900, ms=60_000)
    loop = loop_of(left("t1"), left("t2"), left("t3"), names=THREE, budget=budget)
    while not isinstance(effect := next_effect(loop.state, loop.now), BeginTogether):
        loop.step()
    assert [(step.cost_left, step.tokens_left) for step in effect.steps] == [(1.0, 300)] * 3
    assert {step.ms_left for step in effect.steps} == {60_000 - loop.state.used.ms}


def test_a_candidate_that_was_interrupted_goes_on_in_the_same_round() -> None:
    """Penstock is killed while two candidates work: both go on with their files and their conversations."""
    loop = loop_of(left("t1"), left("t2"))
    while not isinstance(effect := next_effect(loop.state, loop.now), BeginTogether):
        loop.step()
    for number, step in enumerate(effect.steps, loop.state.steps + 1):
        loop.add(StepBegan(n=loop.number, at=loop.now, step=number, does=step))
    loop.add(LoopResumed(n=loop.number, at=loop.now))
    for number in list(loop.state.open):
        loop.end(number, AgentEnded(outcome="lost", tree=f"half{number}", session_id=f"s{number}", ms=10))
    again = next_effect(loop.state, loop.now)
    assert isinstance(again, BeginTogether)
    assert [step.session_id for step in again.steps] == [f"s{loop.state.steps - 1}", f"s{loop.state.steps}"]
    assert chosen(loop)[0] == "t1"
    assert loop.state.used.rounds == 1
    assert len(loop.steps(ResetTree)) == 2  # before they began; their files are not touched after that


def test_a_candidate_that_is_lost_again_and_again_is_given_up() -> None:
    """After three losses the other candidate goes on alone, so a crash that repeats itself does not hold the loop."""
    lost = AgentEnded(outcome="lost", tree="t9", ms=10)
    loop = loop_of(lost, left("t1"), lost, lost)
    assert chosen(loop)[0] == "t1"
    assert loop.state.rounds[0].candidates[0].losses == 3


def test_a_passing_failure_of_all_candidates_is_retried() -> None:
    """All fail temporarily: they are tried again after the pause, and nothing is charged for it."""
    loop = loop_of(failed("overloaded"), failed("overloaded"), left("t1"), left("t2"))
    while not isinstance(effect := next_effect(loop.state, loop.now), Wait):
        loop.step()
    assert "failed temporarily" in effect.reason
    assert chosen(loop)[0] == "t1"
    assert loop.state.used.rounds == 1


def test_candidates_that_cannot_be_used() -> None:
    """No agent of the candidates is installed: status 2."""
    loop = loop_of(failed("missing"), failed("missing"))
    assert loop.run() == 2
    assert loop.reason == "no agent can be used: claude, codex"


def test_a_conflict_with_the_users_branch_is_resolved_by_one_agent() -> None:
    """A round that merges the user's branch has no candidates: the first agent works in the tree of the loop."""
    loop = loop_of(left("t1"), left("t2"), left("t1"), left("t1"), worked("t5"), budget=LoopBudget(rounds=3))
    loop.run()
    loop.add(LoopResumed(n=loop.number, at=loop.now, rounds=1, merges="c9", merges_name="main"))
    assert isinstance(loop.answer, Script)
    loop.answer.checks = lambda step, state: True
    loop.run()
    step = loop.steps(RunAgent)[-1]
    assert isinstance(step, RunAgent)
    assert (step.agent, step.candidate) == ("claude", 0)
    assert loop.state.rounds[-1].merges == "c9"


def test_a_tree_that_is_gone_is_made_with_the_files_of_its_last_step() -> None:
    """The tree of the loop gets what the last round left, that of a candidate what it left in this round."""
    loop = loop_of(left("t1"), left("t2"), setup="make deps")
    while not (loop.state.rounds and loop.state.rounds[0].candidates[1].work):
        loop.step()
    loop.add(TreeGone(n=loop.number, at=loop.now, candidate=2))
    assert next_effect(loop.state, loop.now) == Begin(MakeTree(candidate=2, tree="t2"))
    loop.step()
    assert next_effect(loop.state, loop.now) == Begin(RunSetup(command="make deps", candidate=2))
    loop.run()
    loop.add(LoopResumed(n=loop.number, at=loop.now, rounds=1))
    loop.add(TreeGone(n=loop.number, at=loop.now))
    assert next_effect(loop.state, loop.now) == Begin(MakeTree(tree="t1"))
