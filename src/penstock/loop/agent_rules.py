"""Rules about one run of an agent: budgets, limits of the agents, and the conversation that it continues. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.loop.effects import (
    ALL_LIMITED,
    CANNOT_START,
    OVER_BUDGET,
    TIMED_OUT,
    Begin,
    Effect,
    EndLoop,
    Wait,
)
from penstock.loop.rows import RoleAgents
from penstock.loop.state import LoopState, Round
from penstock.loop.steps import Role, RunAgent, RunCheck
from penstock.run.fallback import first_open


def agent_effect(
    state: LoopState,
    now: int,
    role: Role,
    agents: RoleAgents,
    number: int = 0,
    *,
    round_number: int | None = None,
    task: str | None = None,
    candidate: int = 0,
    pair: tuple[int, int] = (0, 0),
) -> Effect:
    """Return the effect that runs an agent of a role: a budget or a limit of the agents may prevent it."""
    over = budget_is_over(state)
    if over is not None:
        return over
    key = f"{role}-{number}"
    retry_at = state.retry_at.get(key, 0)
    if retry_at > now:
        return wait_for_retry(retry_at, state.chains[key].current)
    _, choice = first_open(state.chains[key], now)
    if choice.action == "wait" and choice.at is not None:
        return wait_for_reset(state, now, choice.agent, choice.at)
    if choice.action != "use":
        return none_can_be_used(agents.agents)
    left = state.unfinished_budget()
    if role == "review":
        round_number, task = state.rounds[-1].number, state.rounds[-1].task
    return Begin(
        RunAgent(
            role=role,
            round=round_number or 0,
            agent=choice.agent,
            number=number,
            task=task,
            session_id=session_of(state, choice.agent) if role == "work" else None,
            cost_left=left.cost_usd,
            tokens_left=left.tokens,
            ms_left=left.ms,
            candidate=candidate,
            pair=pair,
        )
    )


def wait_for_retry(at: int, agent: str) -> Wait:
    """Wait until the retry of an agent, at a time in milliseconds since 1970."""
    return Wait(at, f"{agent} failed temporarily; it is retried")


def wait_for_reset(state: LoopState, now: int, agent: str, at: int) -> Effect:
    """Wait until the limit of this agent resets. End the loop if that takes longer than its settings allow."""
    reason = f"all agents are at their limits; {agent} resets first"
    return EndLoop(ALL_LIMITED, reason, at) if at - now > state.settings.wait_ms else Wait(at, reason)


def none_can_be_used(agents: Sequence[str]) -> EndLoop:
    """End a loop none of whose agents can be started."""
    return EndLoop(CANNOT_START, f"no agent can be used: {', '.join(dict.fromkeys(agents))}")


def next_check(state: LoopState, it: Round, candidate: int = 0) -> RunCheck:
    """Return the next check of a round, or of a candidate of it."""
    command = state.settings.checks[it.passed]
    return RunCheck(round=it.number, number=it.passed, command=command, attempt=it.reds + 1, candidate=candidate)


def review_effect(state: LoopState, it: Round, now: int, candidate: int = 0) -> Effect:
    """Return the effect of the next review of a round, or of a candidate of it."""
    number = len(it.reviews)
    return agent_effect(state, now, "review", state.settings.reviews[number], number, candidate=candidate)


def session_of(state: LoopState, agent: str) -> str | None:
    """Return the conversation that the next round continues.

    It continues one that was lost, and with `keep_session` any but one that was too long.
    """
    works = [it for it in state.rounds if it.work is not None]
    if not works or works[-1].agent != agent or works[-1].work is None:
        return None
    work = works[-1].work
    continues = work.outcome == "lost" or bool(work.question) or state.settings.keep_session
    return work.session_id if continues and work.cause != "context" else None


def budget_is_over(state: LoopState) -> EndLoop | None:
    """End a loop that has used a budget, or whose budget cannot be kept."""
    budget, left = state.budget, state.unfinished_budget()
    if left.cost_usd == 0:
        return EndLoop(OVER_BUDGET, f"the cost budget of ${budget.cost_usd:.2f} is used")
    if left.tokens == 0:
        return EndLoop(OVER_BUDGET, f"the budget of {budget.tokens:,} tokens is used")
    return time_is_over(state) or _was_stopped_at_budget(state) or _cost_is_unknown(state)


def _was_stopped_at_budget(state: LoopState) -> EndLoop | None:
    """End a loop whose last agent met the limit of its step, by a count of its own that may be a little higher."""
    work = state.rounds[-1].work if len(state.rounds) > state.since else None
    return EndLoop(OVER_BUDGET, work.reason) if work is not None and work.cause == "budget" else None


def time_is_over(state: LoopState) -> EndLoop | None:
    """End a loop that has used its time."""
    if state.unfinished_budget().ms == 0:
        return EndLoop(TIMED_OUT, "the time budget is used")
    return None


def _cost_is_unknown(state: LoopState) -> EndLoop | None:
    """End a loop whose budget cannot be kept: an agent does not report what it is measured in."""
    budget, used = state.budget, state.used
    if budget.cost_usd is not None and used.without_cost and budget.tokens is None and budget.ms is None:
        names = ", ".join(used.without_cost)
        return EndLoop(OVER_BUDGET, f"the cost is unknown: {names} does not report it; set a budget of tokens or time")
    if budget.tokens is not None and used.without_tokens and budget.ms is None:
        names = ", ".join(used.without_tokens)
        return EndLoop(OVER_BUDGET, f"the tokens are unknown: {names} does not report them; set a time budget")
    return None
