"""The rules of a loop, with invented results. The tests of whole loops are in `test_loop.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, repeat

import msgspec
import pytest
from simulated_loop import BASE, BASE_TREE, Script, Simulation, failed, reviewed, settings, worked

from penstock.adapter import Allow
from penstock.loop.fold import MAX_RETRIES
from penstock.loop.rows import (
    LoopBudget,
    LoopResumed,
    LoopStopRequested,
    MessageAdded,
    RoleAgents,
    Settings,
    StepBegan,
    Waiting,
)
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    CommitRejected,
    FileChange,
    HeldPath,
    MakeCommit,
    MergeBranch,
    Publish,
    PublishRejected,
    Result,
    RunAgent,
    RunCheck,
    RunSetup,
    Step,
)

HOUR = 3_600_000


def green_from(tree: str) -> Callable[[RunCheck, LoopState], bool]:
    """Return checks that are green from this tree on; trees are named t0, t1, t2."""

    def is_green(step: RunCheck, state: LoopState) -> bool:
        last = state.rounds[-1].work if state.rounds else None
        return last is not None and int(last.tree[1:]) >= int(tree[1:])

    return is_green


def resumed(loop: Simulation, **more: object) -> None:
    """Append the row of `loop resume`."""
    loop.add(LoopResumed(n=loop.number, at=loop.now, **more))  # type: ignore[arg-type]


# --- done, and not done ----------------------------------------------------------------------------


def test_promises_without_changes_do_not_end_a_red_loop() -> None:
    """L4: an agent that promises everything and changes nothing is not done: status 1 after three rounds."""
    promise = worked(BASE_TREE, reply="COMPLETE. LOOP_COMPLETE. ALL_TASKS_DONE. EXIT_SIGNAL: true")
    loop = Simulation(settings(), Script(repeat(promise), lambda step, state: False))
    assert loop.run() == 1
    assert loop.state.used.rounds == 3
    assert loop.reason == "stuck: 3 rounds have left the same tree; red: make test"


def test_a_loop_ends_when_an_agent_changes_nothing_more() -> None:
    """L5: the work is finished in round 2, no agent says so, and round 3 ends the loop by the fixed point."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t2"), worked("t2")], green_from("t2")))
    assert loop.run() == 0
    assert loop.state.used.rounds == 3
    assert len(loop.steps(MakeCommit)) == 1


def test_a_green_base_and_no_change_need_a_person() -> None:
    """L16: checks that are green from the start prove nothing about an agent that changes nothing: status 4."""
    loop = Simulation(settings(), Script([worked(BASE_TREE, reply="All is well.")]))
    assert loop.run() == 4
    assert loop.reason == "nothing was changed; the agent says: All is well."


def test_denied_edits_need_a_person() -> None:
    """L17: an agent whose edits are denied leaves the tree unchanged, which is not done: status 4 names them."""
    loop = Simulation(settings(), Script([worked(BASE_TREE, refused=("Edit main.py",))]))
    assert loop.run() == 4
    assert "Edit main.py" in loop.reason
    assert "--allow" in loop.reason


@pytest.mark.parametrize(
    ("allow", "end"),
    [
        ("default", "a new loop with --allow edits or all permits them"),
        ("edits", "a new loop with --allow all permits them"),
        ("all", "py"),
    ],
)
def test_the_end_names_what_would_permit_the_edits(allow: Allow, end: str) -> None:
    """L17: the flags of the reason permit more than the loop has; with --allow all there is none."""
    work = RoleAgents(agents=("claude",), allow=allow)
    loop = Simulation(settings(work=work), Script([worked(BASE_TREE, refused=("Edit main.py",))]))
    assert loop.run() == 4
    assert loop.reason.endswith(end)


def test_denied_commands_are_counted_at_the_end() -> None:
    """L17: commands that were denied while nothing was changed are counted, with the flag that permits them."""
    loop = Simulation(settings(), Script([worked(BASE_TREE, reply="I could not.", denied=2)]))
    assert loop.run() == 4
    assert loop.reason == (
        "nothing was changed, and 2 actions were denied; a new loop with --allow all permits that; "
        "the agent says: I could not."
    )


def test_denied_commands_are_counted_when_a_loop_is_stuck() -> None:
    """L17: a loop in which nothing was changed and the checks stay red names the denied command too."""
    loop = Simulation(settings(), Script(repeat(worked(BASE_TREE, denied=1)), lambda step, state: False))
    assert loop.run() == 1
    assert loop.reason.endswith("red: make test, and 1 action was denied; a new loop with --allow all permits that")


def test_denied_commands_are_counted_when_the_rounds_are_used() -> None:
    """L17: a loop whose only round changed nothing, with red checks, names the denied command at its end."""
    script = Script([worked(BASE_TREE, denied=1)], lambda step, state: False)
    loop = Simulation(settings(budget=LoopBudget(rounds=1)), script)
    assert loop.run() == 1
    assert loop.reason.startswith("the only round is used; red: make test, and 1 action was denied")


def test_files_that_are_held_back_in_the_last_round_are_named() -> None:
    """The end of a loop whose rounds are used says which files were held back in the last one, and why."""
    held = (HeldPath(".env", "looks like a secret"),)
    loop = Simulation(settings(budget=LoopBudget(rounds=1)), Script([worked("t1", held=held)]))
    assert loop.run() == 1
    assert loop.reason == "the only round is used; held back: .env (looks like a secret)"


def test_denied_commands_do_not_matter_if_the_work_is_done() -> None:
    """A command that was denied in a round without changes does not undo the green round before it."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t1", denied=1)]))
    assert loop.run() == 0


def test_an_unfinished_box_is_not_done() -> None:
    """L18: of three boxes only the first is worked on: the status is not 0, and the others are named."""
    works = [worked("t1"), worked("t1"), worked("t1"), worked("t1")]
    loop = Simulation(settings(), Script(works), "- [ ] one\n- [ ] two\n- [x] old\n- [ ] three\n")
    assert loop.run() == 4
    assert loop.reason == "nothing was changed for: two; three"
    assert [step.task for step in loop.steps(RunAgent)] == ["one", "two", "three", None]


def test_boxes_are_worked_on_in_order_and_then_the_whole() -> None:
    """Each box has a round of its own, and the fixed point is that of the whole prompt."""
    trees = ["t1", "t2", "t3", "t3"]
    loop = Simulation(settings(), Script(map(worked, trees)), "- [ ] one\n- [ ] two\n")
    assert loop.run() == 0
    assert [step.task for step in loop.steps(RunAgent)] == ["one", "two", None, None]


def test_a_failed_agent_is_not_a_fixed_point() -> None:
    """A run that ends with an error leaves the tree as it is, and says nothing about the work."""
    works = [worked("t1"), worked("t1", outcome="error", reason="crashed"), worked("t1")]
    loop = Simulation(settings(), Script(works))
    assert loop.run() == 0
    assert loop.state.used.rounds == 3


def test_without_checks_the_end_is_called_unchecked() -> None:
    """A loop without checks ends with 0, and its reason says that nothing was checked."""
    loop = Simulation(settings(checks=(), unchecked=True), Script([worked("t1"), worked("t1")]))
    assert loop.run() == 0
    assert loop.reason == "done, unchecked"


# --- checks ------------------------------------------------------------------------------------------


def test_a_check_that_is_green_when_repeated_is_flaky() -> None:
    """A red check is repeated at once; if it is green then, it counts as green and is reported."""
    reds = iter([False, False, True, True, True])
    loop = Simulation(settings(), Script([worked("t1"), worked("t1")], lambda step, state: next(reds)))
    assert loop.run() == 0
    assert loop.state.rounds[0].flaky == ("make test",)
    assert [(step.round, step.attempt) for step in loop.steps(RunCheck)] == [(0, 1), (1, 1), (1, 2), (2, 1)]


def test_the_first_red_check_ends_the_round() -> None:
    """Checks run in order, and those behind a red one do not run; on the base all of them run."""
    loop = Simulation(
        settings(checks=("lint", "test"), budget=LoopBudget(rounds=1)),
        Script([worked("t1")], lambda step, state: False),
    )
    assert loop.run() == 1
    assert [(step.round, step.command) for step in loop.steps(RunCheck)] == [
        (0, "lint"),
        (0, "test"),
        (1, "lint"),
        (1, "lint"),
    ]


def test_the_same_failure_three_times_is_stuck() -> None:
    """Trees that differ do not help if the same check fails in the same way; times in its output do not count."""
    loop = Simulation(settings(), Script((worked(f"t{n}") for n in count(1)), lambda step, state: False))
    assert loop.run() == 1
    assert loop.reason == "stuck: the same check failed in 3 rounds; red: make test"


def test_a_hook_that_rejects_the_commit_is_a_red_check() -> None:
    """What the user's own hook rejects is not committed, and its output goes to the next round."""
    script = Script([worked("t1"), worked("t2"), worked("t2")])
    rejections = iter([CommitRejected(hook="pre-commit", output="trailing space")])

    def answer(step: Step, state: LoopState) -> Result:
        return next(rejections, script(step, state)) if isinstance(step, MakeCommit) else script(step, state)

    loop = Simulation(settings(), answer)
    assert loop.run() == 0
    assert loop.state.rounds[0].red_command == "pre-commit"
    assert len(loop.steps(Publish)) == 1


def test_files_that_are_held_back_twice_need_a_person() -> None:
    """L9: the agent is asked about them once; if they are there again, the loop ends and names them."""
    held = (HeldPath(".env", "looks like a secret"),)
    loop = Simulation(settings(), Script([worked("t1", held=held), worked("t2", held=held)]))
    assert loop.run() == 4
    assert loop.reason == "these files are held back: .env (looks like a secret)"
    assert not loop.steps(MakeCommit)


# --- review ------------------------------------------------------------------------------------------


def test_an_approved_round_is_done() -> None:
    """With a reviewer, no further round is needed when it approves."""
    loop = Simulation(
        settings(reviews=(RoleAgents(agents=("codex",)),)), Script([worked("t1")], reviews=[reviewed(True)])
    )
    assert loop.run() == 0
    assert loop.state.used.rounds == 1


def test_all_reviewers_have_to_approve() -> None:
    """One reviewer that does not approve prevents the commit, and those behind it are not asked."""
    reviewers = (RoleAgents(agents=("codex",)), RoleAgents(agents=("gemini",)))
    reviews = [reviewed(False, "no test"), reviewed(True), reviewed(True)]
    loop = Simulation(settings(reviews=reviewers), Script([worked("t1"), worked("t2")], reviews=reviews))
    assert loop.run() == 0
    assert [step.tree for step in loop.steps(MakeCommit)] == ["t2"]


def test_an_agent_cannot_overrule_its_reviewer() -> None:
    """A tree that was not approved is reviewed again if the agent leaves it: it is no fixed point."""
    reviews = repeat(reviewed(False, "no test"))
    loop = Simulation(settings(reviews=(RoleAgents(agents=("codex",)),)), Script(repeat(worked("t1")), reviews=reviews))
    assert loop.run() == 1
    assert not loop.steps(MakeCommit)


def test_the_same_remarks_three_times_are_stuck() -> None:
    """A worker and a reviewer that do not agree end the loop after three rounds."""
    loop = Simulation(
        settings(reviews=(RoleAgents(agents=("codex",)),)),
        Script((worked(f"t{n}") for n in count(1)), reviews=repeat(reviewed(False, "No  test."))),
    )
    assert loop.run() == 1
    assert loop.reason == "stuck: reviewers made the same remarks in 3 rounds; not approved: No  test."


def test_a_stuck_loop_names_its_last_failure() -> None:
    """Of three rounds with the same tree and other remarks each, the reason has those of the last."""
    remarks = [reviewed(False, "First."), reviewed(False, "Second."), reviewed(False, "Third.")]
    loop = Simulation(settings(reviews=(RoleAgents(agents=("codex",)),)), Script(repeat(worked("t1")), reviews=remarks))
    assert loop.run() == 1
    assert loop.reason == "stuck: 3 rounds have left the same tree; not approved: Third."


def test_changed_tests_are_checked_once_more_with_those_of_the_base() -> None:
    """A commit with another test file is done only when the check is green with the test files of the base too."""
    script = Script([worked("t1"), worked("t1")])

    def answer(step: Step, state: LoopState) -> Result:
        result = script(step, state)
        look_at = (FileChange(path="test_a.py", change="new"),)
        return msgspec.structs.replace(result, look_at=look_at) if isinstance(step, MakeCommit) else result

    loop = Simulation(settings(), answer)
    assert loop.run() == 0
    with_base = [step.with_base for step in loop.steps(RunCheck)]
    assert with_base == [False] * (len(with_base) - 1) + [True]


def test_the_setup_runs_once_before_all_checks() -> None:
    """The setup of a loop is run in its tree, before the checks of the base."""
    loop = Simulation(settings(setup="make setup"), Script([worked("t1"), worked("t1")]))
    assert loop.run() == 0
    steps = [row.does for row in loop.rows if isinstance(row, StepBegan)]
    commands = [step.command for step in steps if isinstance(step, RunSetup | RunCheck)]
    assert commands[:2] == ["make setup", "make test"]
    assert commands.count("make setup") == 1


def test_an_unchanged_tree_can_be_approved() -> None:
    """Nothing done is done if every reviewer finds that nothing has to be done."""
    loop = Simulation(
        settings(reviews=(RoleAgents(agents=("codex",)),)), Script([worked(BASE_TREE)], reviews=[reviewed(True)])
    )
    assert loop.run() == 0


# --- agents and their limits -----------------------------------------------------------------------


def chain(**fields: object) -> Settings:
    """Return settings with two agents."""
    return settings(work=RoleAgents(agents=("claude", "codex")), **fields)


def test_the_next_agent_takes_over_at_a_usage_limit() -> None:
    """L7: the second agent goes on, and the failure is not charged as a round."""
    works = [failed("usage_limit", resets_at=10 * HOUR), worked("t1"), worked("t1")]
    loop = Simulation(chain(), Script(works))
    assert loop.run() == 0
    assert [step.agent for step in loop.steps(RunAgent)] == ["claude", "codex", "codex"]
    assert loop.state.used.rounds == 2


def test_the_first_agent_comes_back_when_its_limit_has_reset() -> None:
    """L7: when the reset has passed, the first agent of the chain works again."""
    works = [failed("usage_limit", resets_at=1_010_000), worked("t1"), worked("t1")]
    loop = Simulation(chain(), Script(works))
    assert loop.run() == 0
    assert [step.agent for step in loop.steps(RunAgent)] == ["claude", "codex", "claude"]


def test_a_loop_waits_for_the_first_reset() -> None:
    """L7: all agents are at their limits: the loop waits until the first of them resets, and goes on with it."""
    works = [
        failed("usage_limit", resets_at=3 * HOUR),
        failed("usage_limit", resets_at=2 * HOUR),
        worked("t1"),
        worked("t1"),
    ]
    loop = Simulation(chain(wait_ms=5 * HOUR), Script(works))
    assert loop.run() == 0
    assert [row.until for row in loop.rows if isinstance(row, Waiting)] == [2 * HOUR]
    assert [step.agent for step in loop.steps(RunAgent)] == ["claude", "codex", "codex", "codex"]


def test_a_loop_that_may_not_wait_ends_at_the_limits() -> None:
    """L7: without permission to wait so long, the status is 6 and the reason names the agent."""
    works = [failed("usage_limit", resets_at=3 * HOUR), failed("usage_limit", resets_at=2 * HOUR)]
    loop = Simulation(chain(), Script(works))
    assert loop.run() == 6
    assert "codex resets first" in loop.reason


def test_passing_failures_are_retried_without_a_charge() -> None:
    """L7: two 429 in a row: the same agent, later and later, and no round is charged."""
    works = [failed("rate_limit"), failed("rate_limit"), worked("t1"), worked("t1")]
    loop = Simulation(chain(), Script(works))
    assert loop.run() == 0
    assert [step.agent for step in loop.steps(RunAgent)] == ["claude"] * 4
    waits = [row.until - row.at for row in loop.rows if isinstance(row, Waiting)]
    assert waits[0] < waits[1]
    assert loop.state.used.rounds == 2


def test_passing_failures_do_not_go_on_for_ever() -> None:
    """A provider that never comes back is charged after many retries, so that the budget ends the loop."""
    loop = Simulation(settings(budget=LoopBudget(rounds=2)), Script(repeat(failed("overloaded"))))
    assert loop.run() == 1
    assert [step.round for step in loop.steps(RunAgent)].count(1) == 1 + MAX_RETRIES


def test_no_agent_at_all_cannot_start() -> None:
    """If no agent of the chain is installed or logged in, the status is 2."""
    loop = Simulation(chain(), Script([failed("missing"), failed("auth")]))
    assert loop.run() == 2


def test_an_agent_that_was_not_there_is_tried_again_after_a_resume() -> None:
    """The user may have installed it or logged in, so a resume tries all agents again."""
    loop = Simulation(chain(), Script([failed("missing"), failed("auth"), worked("t1"), worked("t1")]))
    assert loop.run() == 2
    resumed(loop)
    assert loop.run() == 0


def test_a_conversation_that_is_too_long_is_not_continued() -> None:
    """The cause `context` is charged, and the next round begins a fresh conversation even with --keep-session."""
    works = [
        worked("t1", session_id="s1"),
        worked("t1", session_id="s1", outcome="error", cause="context"),
        worked("t2", session_id="s2"),
        worked("t2", session_id="s2"),
    ]
    loop = Simulation(settings(keep_session=True), Script(works))
    assert loop.run() == 0
    assert [step.session_id for step in loop.steps(RunAgent)] == [None, "s1", None, "s2"]


def test_an_approval_after_a_stop_counts() -> None:
    """A loop that is stopped during the check of its only round is done when the rest of that round succeeds."""

    def answer(step: Step, state: LoopState) -> Result:
        if isinstance(step, RunCheck) and step.round == 1 and state.stop is None and not stopped:
            stopped.append(step)
            loop.add(LoopStopRequested(n=loop.number, at=loop.now, status=130))
        return script(step, state)

    stopped: list[RunCheck] = []
    script = Script([worked("t1")], reviews=[reviewed(True)])
    budget = LoopBudget(rounds=1)
    loop = Simulation(settings(reviews=(RoleAgents(agents=("codex",)),), budget=budget), answer)
    assert loop.run() == 130
    resumed(loop)
    assert loop.run() == 0


# --- the user's repository ---------------------------------------------------------------------------

HARM = ("refs/heads/main was removed",)


@pytest.mark.parametrize(
    "script",
    [
        Script([worked("t1", touched=HARM)]),
        Script([failed("usage_limit", touched=HARM)]),
        Script([failed("overloaded", touched=HARM)]),
        Script([worked("t1")], reviews=[worked("t1", touched=HARM)]),
        Script([], plans=[worked(BASE_TREE, tasks=("one",), touched=HARM)]),
    ],
    ids=["worker", "worker at its limit", "worker that is retried", "reviewer", "planner"],
)
def test_harm_by_any_agent_ends_the_loop(script: Script) -> None:
    """Harm to the user's repository ends the loop with 4, whichever agent did it and however its step ended."""
    plan = RoleAgents(agents=("claude",)) if script.plans else None
    loop = Simulation(settings(reviews=(RoleAgents(agents=("codex",)),), plan=plan), script)
    assert loop.run() == 4
    assert HARM[0] in loop.reason


def test_harm_in_a_step_that_is_stopped_is_reported() -> None:
    """A stop during the step does not hide the harm, and neither does a crash before the loop has ended."""

    def answer(step: Step, state: LoopState) -> Result:
        if isinstance(step, RunAgent):
            loop.add(LoopStopRequested(n=loop.number, at=loop.now, status=130))
            return worked("t1", touched=HARM)
        return Script([])(step, state)

    for crashes in (True, False):
        loop = Simulation(settings(), answer)
        while not loop.state.touched:
            loop.step()
        if crashes:
            resumed(loop)
        assert loop.run() == 4
        assert HARM[0] in loop.reason
        resumed(loop)
        assert not loop.state.touched


# --- budgets -------------------------------------------------------------------------------------------


def test_rounds_are_counted_on_after_a_resume() -> None:
    """L8: a loop that has used its rounds goes on only with more of them."""
    loop = Simulation(
        settings(budget=LoopBudget(rounds=2)), Script([worked("t1"), worked("t2"), worked("t3"), worked("t3")])
    )
    assert loop.run() == 1
    resumed(loop)
    assert loop.run() == 1
    assert loop.state.used.rounds == 2
    resumed(loop, rounds=2)
    assert loop.run() == 0
    assert loop.state.used.rounds == 4


def test_a_cost_budget_ends_the_loop() -> None:
    """L8: no agent starts when the cost is used; the status is 5. The step before it got what was left."""
    loop = Simulation(
        settings(budget=LoopBudget(cost_usd=1.0)), Script(worked(f"t{n}", cost_usd=0.6) for n in count(1))
    )
    assert loop.run() == 5
    assert [step.cost_left for step in loop.steps(RunAgent)] == [1.0, pytest.approx(0.4)]


def test_an_agent_that_was_stopped_at_its_limit_ends_the_loop() -> None:
    """L8: an agent counts its cost by itself: if it stops at what was left, the loop ends, and resumes with more."""
    stopped = worked("t1", outcome="cancelled", cause="budget", reason="stopped: the run cost $0.99", cost_usd=0.99)
    loop = Simulation(settings(budget=LoopBudget(cost_usd=1.0)), Script([stopped, worked("t2"), worked("t2")]))
    assert loop.run() == 5
    assert loop.reason == "stopped: the run cost $0.99"
    resumed(loop, cost_usd=1.0)
    assert loop.run() == 0


def test_work_that_was_paid_for_is_checked_and_committed() -> None:
    """A budget that is used up by a round that ended well does not prevent its checks and its commit."""
    loop = Simulation(settings(budget=LoopBudget(cost_usd=0.1)), Script([worked("t1")]))
    assert loop.run() == 5
    assert loop.state.head_tree == "t1"


def test_an_unknown_cost_is_not_zero() -> None:
    """L8: with a cost budget alone, an agent that reports no cost works once, and the loop ends with the reason."""
    loop = Simulation(settings(budget=LoopBudget(cost_usd=1.0)), Script([worked("t1", cost_usd=None)]))
    assert loop.run() == 5
    assert "the cost is unknown: claude" in loop.reason


@pytest.mark.parametrize("outcome", ["lost", "timed_out", "cut_off"])
def test_a_step_that_did_not_end_leaves_its_cost_open(outcome: str) -> None:
    """An agent that reports its cost at the end is not one without costs because it was killed once."""
    works = [worked("t1", cost_usd=None, outcome=outcome), worked("t2"), worked("t2")]
    loop = Simulation(settings(budget=LoopBudget(cost_usd=1.0)), Script(works))
    assert loop.run() == 0
    assert loop.state.used.is_cost_partial


def test_a_resume_adds_a_limit_of_another_kind() -> None:
    """A loop that ended because its cost is unknown goes on with a limit of tokens, which counts from then on."""
    works = [worked("t1", cost_usd=None), worked("t1", cost_usd=None, tokens=60), worked("t2", cost_usd=None)]
    loop = Simulation(settings(budget=LoopBudget(cost_usd=1.0)), Script(works))
    assert loop.run() == 5
    resumed(loop, tokens=50)
    assert loop.state.budget.tokens == 150
    assert loop.run() == 0


def test_an_unknown_cost_is_accepted_with_another_budget() -> None:
    """L8: tokens or time bound an agent without costs."""
    works = [worked("t1", cost_usd=None), worked("t1", cost_usd=None)]
    loop = Simulation(settings(budget=LoopBudget(cost_usd=1.0, tokens=10_000)), Script(works))
    assert loop.run() == 0


def test_time_is_that_of_the_work() -> None:
    """The time budget counts work, not waiting; when it is used the status is 124."""
    works = [worked("t1", ms=HOUR), failed("usage_limit", resets_at=4 * HOUR), worked("t2", ms=HOUR)]
    loop = Simulation(settings(budget=LoopBudget(ms=2 * HOUR), wait_ms=5 * HOUR), Script(works))
    assert loop.run() == 124
    assert loop.state.used.rounds == 2


# --- merges ---------------------------------------------------------------------------------------------


def test_a_conflict_is_one_more_round() -> None:
    """The user's branch is merged into the tree, one round resolves it, and the loop ends as it did before."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t1"), worked("t2")]))
    assert loop.run() == 0
    resumed(loop, rounds=1, merges="u1", merges_name="main")
    assert loop.run() == 0
    assert loop.reason == "done"
    assert [(step.commit, step.head) for step in loop.steps(MergeBranch)] == [("u1", loop.steps(Publish)[0].commit)]
    assert [step.merges for step in loop.steps(MakeCommit)] == ["", "u1"]
    assert len(loop.steps(RunAgent)) == 3
    assert loop.state.merge is None


def test_a_merge_that_keeps_the_loops_side_is_a_commit() -> None:
    """A resolution that leaves the tree of the loop is a commit all the same: without it, nothing could land."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t1"), worked("t1")]))
    assert loop.run() == 0
    resumed(loop, rounds=1, merges="u1", merges_name="main")
    assert loop.run() == 0
    assert [step.merges for step in loop.steps(MakeCommit)] == ["", "u1"]


def test_marks_of_a_conflict_are_not_committed() -> None:
    """Marks that an agent leaves are red, whatever the checks say; the merge goes on when the loop is resumed."""
    works = [worked("t1"), worked("t1"), worked("t2", conflicts=("a.py",)), worked("t3")]
    loop = Simulation(settings(), Script(works))
    assert loop.run() == 0
    resumed(loop, merges="u1", merges_name="main", rounds=1)
    assert loop.run() == 0
    assert [step.merges for step in loop.steps(MakeCommit)] == ["", "u1"]
    assert loop.state.head_tree == "t3"


# --- people --------------------------------------------------------------------------------------------


def test_a_question_ends_the_loop_until_it_is_answered() -> None:
    """A question for a person ends the loop with 4, also if it is resumed without an answer."""
    works = [worked("t1", question="Which API?", session_id="s1"), worked("t2"), worked("t2")]
    loop = Simulation(settings(), Script(works))
    assert loop.run() == 4
    resumed(loop)
    assert loop.run() == 4
    loop.add(MessageAdded(n=loop.number, at=loop.now, text="the new one"))
    resumed(loop)
    assert loop.run() == 0
    assert loop.state.messages[0].question == "Which API?"
    assert loop.steps(RunAgent)[1].session_id == "s1"


def test_a_plan_waits_for_approval() -> None:
    """With --plan=ask the tasks of the planner wait for the user's yes, and then are worked on."""
    plans = [worked(BASE_TREE, tasks=("one", "two"))]
    loop = Simulation(
        settings(plan=RoleAgents(agents=("claude",)), plan_is_asked=True),
        Script(map(worked, ["t1", "t2", "t2"]), plans=plans),
    )
    assert loop.run() == 4
    loop.add(MessageAdded(n=loop.number, at=loop.now, text="yes"))
    resumed(loop)
    assert loop.run() == 0
    assert [step.task for step in loop.steps(RunAgent)] == [None, "one", "two", None]


def test_words_other_than_yes_make_another_plan() -> None:
    """A remark about the plan goes to the planner, which writes the tasks anew."""
    plans = [worked(BASE_TREE, tasks=("one",)), worked(BASE_TREE, tasks=("two",))]
    loop = Simulation(settings(plan=RoleAgents(agents=("claude",)), plan_is_asked=True), Script([], plans=plans))
    assert loop.run() == 4
    loop.add(MessageAdded(n=loop.number, at=loop.now, text="smaller steps"))
    resumed(loop)
    assert loop.run() == 4
    assert loop.state.tasks == ("two",)


def test_a_message_during_the_last_round_prevents_the_end() -> None:
    """What the user writes while the last agent works is read by another round before the loop is done."""
    works = iter([worked("t1"), worked("t1"), worked("t1")])
    script = Script(works)
    loop = Simulation(settings(), script)
    while len(loop.state.rounds) < 2:
        loop.step()
    loop.add(MessageAdded(n=loop.number, at=loop.now, text="and the docs"))
    assert loop.run() == 0
    assert loop.state.used.rounds == 3


def test_each_commit_is_published_over_the_one_before() -> None:
    """The branch is expected to be at the base first, then at the last commit that was published."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t2"), worked("t2")], green_from("t1")))
    assert loop.run() == 0
    steps = loop.steps(Publish)
    assert [step.old for step in steps] == [BASE, *(step.commit for step in steps[:-1])]


def test_a_stop_ends_the_loop_with_its_status() -> None:
    """A stop ends the loop after the step, and a resume goes on."""
    loop = Simulation(settings(), Script([worked("t1"), worked("t1")]))
    loop.step()
    loop.add(LoopStopRequested(n=loop.number, at=loop.now, status=130))
    assert loop.run() == 130
    resumed(loop)
    assert loop.run() == 0


def test_a_moved_branch_needs_a_person_and_is_published_after_a_resume() -> None:
    """A branch that somebody moved ends the loop with 4; after a resume the same commit is published."""
    script = Script([worked("t1"), worked("t1")])
    rejections = iter([PublishRejected(reason="penstock/loop-1 was moved")])

    def answer(step: Step, state: LoopState) -> Result:
        return next(rejections, script(step, state)) if isinstance(step, Publish) else script(step, state)

    loop = Simulation(settings(), answer)
    assert loop.run() == 4
    resumed(loop)
    assert loop.run() == 0
    assert len({(step.commit, step.old) for step in loop.steps(Publish)}) == 1


def test_a_touched_repository_needs_a_person() -> None:
    """A change of the user's own repository during a round ends the loop, and the reason says how to restore it."""
    touched = ("refs/heads/main moved; git update-ref refs/heads/main 1234",)
    loop = Simulation(settings(), Script([worked("t1", touched=touched)]))
    assert loop.run() == 4
    assert "git update-ref refs/heads/main 1234" in loop.reason


@pytest.mark.parametrize("kind", [RunCheck, MakeCommit])
def test_whatever_runs_the_agents_code_can_touch_the_repository(kind: type[RunCheck | MakeCommit]) -> None:
    """Checks and hooks run what the agent wrote: harm during one of them ends the loop, and only once."""
    script = Script([worked("t1"), worked("t1")])
    harm = iter([("main moved",)])

    def answer(step: Step, state: LoopState) -> Result:
        result = script(step, state)
        return msgspec.structs.replace(result, touched=next(harm, ())) if isinstance(step, kind) else result

    loop = Simulation(settings(), answer)
    assert loop.run() == 4
    assert loop.reason == "your repository was changed during the last step: main moved"
    resumed(loop)
    assert loop.run() == 0


def test_a_crash_does_not_hide_harm() -> None:
    """A loop that was killed before it could end because of harm ends when it is resumed."""
    loop = Simulation(settings(), Script([worked("t1", touched=("main moved",))]))
    while not loop.state.touched:
        loop.step()
    resumed(loop)
    assert loop.run() == 4


def test_rounds_that_penstock_did_not_survive_are_not_stuck() -> None:
    """Three kills in a row, each with the same tree, do not end a loop: its next round works."""
    lost = worked("t1", outcome="lost")
    loop = Simulation(settings(), Script([lost, lost, lost, worked("t2"), worked("t2")]))
    assert loop.run() == 0, loop.reason
