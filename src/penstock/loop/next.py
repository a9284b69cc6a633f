"""Next effect of a loop: all rules, as pure functions of the state.

`RULES` is the whole decision: each rule returns an effect or None, and the first effect counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from penstock.adapter import Allow
from penstock.loop import candidates
from penstock.loop.agent_rules import agent_effect, next_check, review_effect, time_is_over
from penstock.loop.effects import (
    CANNOT_START,
    DONE,
    NEEDS_PERSON,
    NOT_DONE,
    Begin,
    Effect,
    EndLoop,
    EndLost,
    LoopOver,
    Repeat,
)
from penstock.loop.state import LoopState, Round
from penstock.loop.steps import (
    AgentEnded,
    MakeCommit,
    MakeTree,
    MergeBranch,
    Publish,
    RunAgent,
    RunCheck,
    RunSetup,
)

STUCK_ROUNDS = 3
"""Rounds in a row with the same tree, failing check or remarks after which a loop ends: what three agents that had the
whole report could not change, a fourth will not."""
STUCK = "stuck: "
"""Beginning of the reasons of loops whose rounds fail in the same way again and again."""
FAILED_STAGES = ("failed", "conflict", "red", "not_approved", "held")
"""Stages of rounds that have to be made good by the next one."""
MAX_PLANS = 3
"""Attempts of a planner to write tasks."""


def next_effect(state: LoopState, now: int) -> Effect:
    """Return the next effect. `now` is the time in milliseconds since 1970."""
    for rule in RULES:
        effect = rule(state, now)
        if effect is not None:
            return effect
    raise AssertionError("the last rule always returns an effect")


# --- before the rounds -------------------------------------------------------------------------------


def _ended(state: LoopState, now: int) -> Effect | None:
    return LoopOver(state.ended.status) if state.ended is not None else None


def _interrupted(state: LoopState, now: int) -> Effect | None:
    for number, step in state.open.items():
        return EndLost(number, step) if isinstance(step, RunAgent) else Repeat(number, step)
    return None


def _stopped(state: LoopState, now: int) -> Effect | None:
    return EndLoop(state.stop.status, "stopped") if state.stop is not None else None


def _touched(state: LoopState, now: int) -> Effect | None:
    return touched_end(state.touched) if state.touched else None


def touched_end(touched: Sequence[str]) -> EndLoop:
    """Return the end of a loop in which the user's repository was harmed."""
    return EndLoop(NEEDS_PERSON, "your repository was changed during the last step: " + "; ".join(touched))


def _tree(state: LoopState, now: int) -> Effect | None:
    if state.path:
        return None
    return Begin(MakeTree(tree=state.files if state.files != state.began.base_tree else ""))


def _setup(state: LoopState, now: int) -> Effect | None:
    if state.setup_failed is not None:
        return EndLoop(CANNOT_START, f"the setup failed: {state.settings.setup}")
    return None if state.is_set_up else Begin(RunSetup(command=state.settings.setup))


def _base_checks(state: LoopState, now: int) -> Effect | None:
    """Run each check on the base, so that it is known what was red before."""
    number = len(state.base_checks)
    if number == len(state.settings.checks):
        return None
    return time_is_over(state) or Begin(RunCheck(round=0, number=number, command=state.settings.checks[number]))


def _merge(state: LoopState, now: int) -> Effect | None:
    if state.merge is None or state.merge.is_in_tree:
        return None
    return Begin(MergeBranch(commit=state.merge.commit, head=state.head))


def _question(state: LoopState, now: int) -> Effect | None:
    return EndLoop(NEEDS_PERSON, f"an agent asks: {state.question}") if state.question else None


def _plan(state: LoopState, now: int) -> Effect | None:
    settings = state.settings
    if settings.plan is None:
        return None
    if state.plan is None:
        if state.plans >= MAX_PLANS:
            return EndLoop(NOT_DONE, f"{state.plans} attempts to plan have given no tasks")
        return agent_effect(state, now, "plan", settings.plan)
    if settings.plan_is_asked and not state.plan_is_approved:
        return EndLoop(NEEDS_PERSON, "the plan waits for your approval")
    return None


def _candidate_trees(state: LoopState, now: int) -> Effect | None:
    return candidates.make_trees(state)


# --- in a round --------------------------------------------------------------------------------------


def _unfinished_round(state: LoopState, now: int) -> Effect | None:
    if not state.rounds:
        return None
    it = state.rounds[-1]
    match state.stage(it):
        case "candidates":
            return candidates.compare(state, it, now)
        case "check":
            return time_is_over(state) or Begin(next_check(state, it))
        case "review":
            return review_effect(state, it, now)
        case "commit":
            assert it.work is not None
            tree, parent = it.work.tree, state.head
            made = MakeCommit(round=it.number, tree=tree, parent=parent, at=now, agent=it.agent, task=it.task)
            return Begin(msgspec.structs.replace(made, merges=it.merges))
        case "publish":
            if it.problem:
                return EndLoop(NEEDS_PERSON, f"the branch could not be moved: {it.problem}")
            assert it.commit is not None
            return Begin(Publish(round=it.number, commit=it.commit.commit, old=_published(state)))
    return None


def _published(state: LoopState) -> str:
    """Return the last commit that was published; the base before the first one."""
    done = [it.commit.commit for it in state.rounds if it.commit is not None and it.published is not None]
    return done[-1] if done else state.began.base


# --- after a round -----------------------------------------------------------------------------------


def _round_ended(state: LoopState, now: int) -> Effect | None:
    """Decide by the round that has just ended whether the loop ends."""
    if len(state.rounds) <= state.since or state.has_unread:
        return None
    it = state.rounds[-1]
    match state.stage(it):
        case "refused":
            return EndLoop(NEEDS_PERSON, _denied_edits(state, it))
        case "held" if _was_held_before(state):
            return EndLoop(NEEDS_PERSON, "these files are held back: " + _held(it))
        case "green" if it.merges and state.merge is not None and state.merge.ended is not None:
            if state.merge.ended.status == DONE:
                return _done(state)
            return EndLoop(state.merge.ended.status, state.merge.ended.reason)
        case "approved" if it.task is None:
            return _done(state)
        case "green" if it.task is None and state.settings.reviews:
            return _done(state)
        case "unchanged" if it.task is None:
            return _fixed_point(state, it)
    return None


def _fixed_point(state: LoopState, it: Round) -> Effect:
    """End the loop after an agent with the whole prompt has changed nothing."""
    if not state.head_differs_from_base(it):
        return EndLoop(NEEDS_PERSON, f"nothing was changed{_denied_others(state, it)}; the agent says: {_said(it)}")
    left = state.unchanged_tasks
    if left:
        names = "; ".join(task.partition("\n")[0] for task in state.tasks if task in left)
        return EndLoop(NEEDS_PERSON, f"nothing was changed for: {names}")
    return _done(state)


def _done(state: LoopState) -> Effect:
    """End a loop whose work is done; before that, check it once more with the tests and build files of the base."""
    checks = state.settings.checks
    if not checks:
        return _held_end(state) or EndLoop(DONE, "done, unchecked")
    number = len(state.current_base_tests.results)
    if state.look_at and number < len(checks) and time_is_over(state) is None:
        attempt = state.current_base_tests.reds + 1
        step = RunCheck(round=len(state.rounds), number=number, command=checks[number], attempt=attempt, with_base=True)
        return Begin(step)
    return _held_end(state) or EndLoop(DONE, "done, with changed checks" if state.has_changed_checks else "done")


def _held_end(state: LoopState) -> EndLoop | None:
    """End a loop that is done but for what a person may have meant: an edit of the prompt, or a message."""
    if not state.has_held:
        return None
    what = "an edit of the prompt" if state.held_prompt else "a message"
    return EndLoop(NEEDS_PERSON, f"{what} waits to be confirmed: it came while an agent or a check worked")


def _said(it: Round) -> str:
    return " ".join(it.work.reply.split()) if it.work is not None else ""


_MORE: dict[Allow, str] = {"edits": "all", "all": ""}
"""Levels at which denied edits are permitted, by the level of the loop."""


def _denied_edits(state: LoopState, it: Round) -> str:
    edits = "; ".join(it.work.refused) if it.work is not None else ""
    more = _MORE.get(state.settings.work.allow, "edits or all")
    how = f"; a new loop with --allow {more} permits them" if more else ""
    return f"nothing was changed, and edits were denied: {edits}{how}"


def _denied_others(state: LoopState, it: Round) -> str:
    """Return the count of denied actions other than edits, for a round without changes; "" if there are none."""
    denied = it.work.denied if it.work is not None and not it.has_changed else 0
    if not denied:
        return ""
    how = "; a new loop with --allow all permits that" if state.settings.work.allow != "all" else ""
    return f", and {denied:,} action{'s were' if denied > 1 else ' was'} denied{how}"


def _held(it: Round) -> str:
    return "; ".join(f"{held.path} ({held.reason})" for held in it.work.held) if it.work is not None else ""


def _was_held_before(state: LoopState) -> bool:
    """Return whether the same files were held back in the previous round, and the agent was asked about them."""
    if len(state.rounds) < 2:
        return False
    before, it = state.rounds[-2].work, state.rounds[-1].work
    return before is not None and it is not None and before.held == it.held


def _stuck(state: LoopState, now: int) -> Effect | None:
    """End a loop whose last rounds failed in the same way. Rounds that Penstock did not survive do not count."""
    rounds = [it for it in state.rounds[state.since :] if it.work is not None and it.work.outcome != "lost"]
    last = rounds[-STUCK_ROUNDS:]
    if len(last) < STUCK_ROUNDS or any(state.stage(it) not in FAILED_STAGES for it in last):
        return None
    why = _failure(state, last[-1]) + _denied_others(state, last[-1])
    if len({it.work.tree for it in last if it.work is not None}) == 1:
        return EndLoop(NOT_DONE, f"{STUCK}{STUCK_ROUNDS} rounds have left the same tree; {why}")
    if last[0].signature and len({it.signature for it in last}) == 1:
        return EndLoop(NOT_DONE, f"{STUCK}the same check failed in {STUCK_ROUNDS} rounds; {why}")
    remarks = {_folded(it.remarks) for it in last}
    if last[0].remarks and len(remarks) == 1:
        return EndLoop(NOT_DONE, f"{STUCK}reviewers made the same remarks in {STUCK_ROUNDS} rounds; {why}")
    return None


def _folded(remarks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(" ".join(remark.casefold().split()) for remark in remarks))


def _failure(state: LoopState, it: Round) -> str:
    """Return in one line why a round failed."""
    work = it.work or AgentEnded(outcome="lost")
    match state.stage(it):
        case "failed":
            return f"{it.agent}: {work.unusable or work.reason or work.outcome.replace('_', ' ')}"
        case "conflict":
            return f"marks of a conflict are left in {', '.join(work.conflicts)}"
        case "red":
            return f"red: {it.red_command}"
        case "not_approved":
            return f"not approved: {it.remarks[0] if it.remarks else 'without a remark'}"
    return f"held back: {_held(it)}"


# --- the next round ----------------------------------------------------------------------------------


def _work(state: LoopState, now: int) -> Effect:
    left = state.unfinished_budget()
    again = bool(state.rounds) and state.stage(state.rounds[-1]) == "work"
    if left.rounds == 0:
        why = _failure(state, state.rounds[-1]) if _has_failed(state) else "no round has confirmed that all is done"
        why += _denied_others(state, state.rounds[-1])
        used = "the only round is" if state.budget.rounds == 1 else f"all {state.budget.rounds} rounds are"
        return EndLoop(NOT_DONE, f"{used} used; {why}")
    number = len(state.rounds) if again else len(state.rounds) + 1
    task = state.rounds[-1].task if again else None if state.merge is not None else state.task
    if state.settings.candidates and state.merge is None:
        return candidates.work_together(state, now, number, task)
    return agent_effect(state, now, "work", state.settings.work, round_number=number, task=task)


def _has_failed(state: LoopState) -> bool:
    return bool(state.rounds) and state.stage(state.rounds[-1]) in FAILED_STAGES


RULES: tuple[Callable[[LoopState, int], Effect | None], ...] = (
    _ended,
    _touched,
    _stopped,
    _interrupted,
    _tree,
    _setup,
    _base_checks,
    _merge,
    _question,
    _plan,
    _candidate_trees,
    _unfinished_round,
    _round_ended,
    _stuck,
    _work,
)
"""Rules in their order; the first effect counts."""
