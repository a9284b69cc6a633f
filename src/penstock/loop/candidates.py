"""Rules about candidates: agents that work side by side in a round, each in a tree of its own. Pure."""

from __future__ import annotations

from penstock.loop.agent_rules import (
    agent_effect,
    budget_is_over,
    next_check,
    none_can_be_used,
    review_effect,
    time_is_over,
    wait_for_reset,
    wait_for_retry,
)
from penstock.loop.effects import Begin, BeginTogether, Effect
from penstock.loop.fold import candidate_key
from penstock.loop.ranking import needs_work, pair_to_compare, unfinished, winner
from penstock.loop.rows import LoopBudget
from penstock.loop.state import LoopState, Round
from penstock.loop.steps import AgentEnded, ChooseCandidate, MakeTree, ResetTree, RunAgent, RunSetup
from penstock.run.fallback import first_open


def make_trees(state: LoopState) -> Effect | None:
    """Return the effect that makes the next tree of a candidate, or sets it up; None if all are ready."""
    for number, one in enumerate(state.candidate_trees, 1):
        if not one.path:
            work = _work_of(state, len(state.rounds), number)
            return Begin(MakeTree(candidate=number, tree=work.tree if work is not None else ""))
        if not one.is_set_up:
            return Begin(RunSetup(command=state.settings.setup, candidate=number))
    return None


def compare(state: LoopState, it: Round, now: int) -> Effect:
    """Let candidates work until each has a result or sits the round out, then check, review, compare and choose."""
    ready = [n for n, one in enumerate(it.candidates, 1) if needs_work(one) and not one.sits_out]
    if any(_is_open(state, n, now) for n in ready) or all(one.work is None for one in it.candidates):
        return work_together(state, now, it.number, it.task)
    number = unfinished(state, it)
    if number is not None:
        return _judge_alone(state, it.candidates[number - 1], number, now)
    pair = pair_to_compare(state, it)
    if pair is not None and state.settings.judge is not None:
        return agent_effect(state, now, "judge", state.settings.judge, round_number=it.number, pair=pair)
    number, reason = winner(state, it)
    work = it.candidates[number - 1].work
    assert work is not None
    return Begin(ChooseCandidate(round=it.number, candidate=number, tree=work.tree, reason=reason))


def work_together(state: LoopState, now: int, number: int, task: str | None) -> Effect:
    """Return the effect that starts every ready candidate, in round `number`."""
    over = budget_is_over(state)
    if over is not None:
        return over
    left = _without_result(state, number)
    chosen = [n for n in left if _is_open(state, n, now)]
    if not chosen:
        return _wait(state, left, now)
    for n in chosen:
        goes_on = number == len(state.rounds) and state.rounds[-1].candidates[n - 1].work is not None
        if not goes_on and state.candidate_trees[n - 1].files != state.files:
            return Begin(ResetTree(candidate=n, tree=state.files))
    part = _part(state.unfinished_budget(), len(chosen))
    return BeginTogether(tuple(_step(state, number, task, n, part) for n in chosen))


def _judge_alone(state: LoopState, one: Round, number: int, now: int) -> Effect:
    """Return the next check or review of one candidate. Checks never run side by side: they share ports and caches."""
    if state.stage(one) == "review":
        return review_effect(state, one, now, number)
    return time_is_over(state) or Begin(next_check(state, one, number))


def _without_result(state: LoopState, number: int) -> list[int]:
    """Return the candidates that have to work in a round. Those that sit it out do so only while others have worked."""
    everyone = range(1, len(state.settings.candidates) + 1)
    if number > len(state.rounds):
        return [*everyone]
    candidates = state.rounds[number - 1].candidates
    has_result = any(one.work is not None for one in candidates)
    left = [n for n in everyone if needs_work(candidates[n - 1])]
    return [n for n in left if not (has_result and candidates[n - 1].sits_out)]


def _is_open(state: LoopState, candidate: int, now: int) -> bool:
    """Return whether the agent of a candidate can be started now."""
    key = candidate_key(candidate)
    return state.retry_at.get(key, 0) <= now and first_open(state.chains[key], now)[1].action == "use"


def _wait(state: LoopState, candidates: list[int], now: int) -> Effect:
    """Return the effect if no candidate can work: they wait for the first that can, if that is allowed."""
    names = state.settings.candidates
    retries = [(state.retry_at.get(candidate_key(n), 0), names[n - 1]) for n in candidates]
    soon = [(at, name) for at, name in retries if at > now]
    if soon:
        at, name = min(soon)
        return wait_for_retry(at, name)
    choices = [first_open(state.chains[candidate_key(n)], now)[1] for n in candidates]
    resets = [(choice.at, choice.agent) for choice in choices if choice.action == "wait" and choice.at is not None]
    if not resets:
        return none_can_be_used(names)
    at, name = min(resets)
    return wait_for_reset(state, now, name, at)


def _part(left: LoopBudget, count: int) -> LoopBudget:
    """Return an equal part of what is left of the budget. Time passes for all at once."""
    return LoopBudget(
        ms=left.ms,
        cost_usd=None if left.cost_usd is None else left.cost_usd / count,
        tokens=None if left.tokens is None else max(1, left.tokens // count),
    )


def _step(state: LoopState, number: int, task: str | None, candidate: int, part: LoopBudget) -> RunAgent:
    return RunAgent(
        role="work",
        round=number,
        agent=state.settings.candidates[candidate - 1],
        task=task,
        session_id=_session(state, number, candidate),
        cost_left=part.cost_usd,
        tokens_left=part.tokens,
        ms_left=part.ms,
        candidate=candidate,
    )


def _session(state: LoopState, number: int, candidate: int) -> str | None:
    """Return the conversation that is continued: a lost one, and with `keep_session` that of the last round."""
    lost = _work_of(state, number, candidate)
    if lost is not None:
        return lost.session_id
    last = _work_of(state, number - 1, candidate)
    continues = state.settings.keep_session and last is not None and last.cause != "context"
    return last.session_id if continues and last is not None else None


def _work_of(state: LoopState, number: int, candidate: int) -> AgentEnded | None:
    """Return the result of a candidate in a round; None if there is none."""
    candidates = state.rounds[number - 1].candidates if 0 < number <= len(state.rounds) else ()
    return candidates[candidate - 1].work if candidates else None
