"""Fold of a journal: its rows to the state of the loop. There is no other state.

A crash at any time leaves a prefix of the journal, so any prefix that has its first row can be folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from penstock.loop.rows import (
    AnyRow,
    HeldDecided,
    LoopBegan,
    LoopBudget,
    LoopEnded,
    LoopLanded,
    LoopResumed,
    LoopStopRequested,
    MessageAdded,
    PromptChanged,
    StepBegan,
    StepEnded,
    TreeGone,
    Waiting,
)
from penstock.loop.state import (
    UNFINISHED_STAGES,
    CandidateTree,
    Comparison,
    LoopState,
    Merge,
    Review,
    Round,
    Used,
    round_of,
)
from penstock.loop.steering import with_decision, with_message, with_prompt
from penstock.loop.steps import (
    AgentEnded,
    BranchMerged,
    BranchPublished,
    CandidateChosen,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    Committed,
    MakeCommit,
    MakeTree,
    MergeBranch,
    Publish,
    PublishRejected,
    ResetTree,
    Result,
    RunAgent,
    RunCheck,
    RunSetup,
    Step,
    TreeMade,
    TreeReset,
)
from penstock.run.fallback import PASSING, Chain, next_agent

_Number = TypeVar("_Number", int, float)

MAX_RETRIES = 20
"""Retries of one agent in a row after passing failures, some 80 minutes in all; then the failure counts as its own."""


def chain_key(step: RunAgent) -> str:
    """Return the name of the chain of agents to which a step belongs."""
    return candidate_key(step.candidate) if step.role == "work" and step.candidate else f"{step.role}-{step.number}"


def candidate_key(candidate: int) -> str:
    """Return the name of the chain of a candidate, which has one agent."""
    return f"candidate-{candidate}"


def is_charged(state: LoopState, step: RunAgent, ended: AgentEnded) -> bool:
    """Return whether an agent's step counts, so that nothing is tried again without a charge for ever.

    A provider's limit, a missing agent and a passing failure do not count.
    """
    if ended.outcome in ("ok", "lost") or ended.unusable:
        return True
    chain = state.chains[chain_key(step)]
    if ended.cause in PASSING and chain.retries >= MAX_RETRIES:
        return True
    return next_agent(chain, ended.cause, ended.resets_at, 0)[1].action == "failed"


def begin(row: LoopBegan) -> LoopState:
    """Return the state after the first row."""
    settings = row.settings
    chains = {"work-0": Chain.of(*settings.work.agents)}
    chains |= {f"review-{number}": Chain.of(*it.agents) for number, it in enumerate(settings.reviews)}
    chains |= {candidate_key(number): Chain.of(agent) for number, agent in enumerate(settings.candidates, 1)}
    if settings.judge is not None:
        chains["judge-0"] = Chain.of(*settings.judge.agents)
    if settings.plan is not None:
        chains["plan-0"] = Chain.of(*settings.plan.agents)
    return LoopState(
        began=row,
        budget=settings.budget,
        prompt=row.prompt,
        head=row.base,
        head_tree=row.base_tree,
        protects=row.base,
        accepts=settings.accept,
        rows=row.n,
        at=row.at,
        is_set_up=not settings.setup,
        chains=chains,
        candidate_trees=tuple(CandidateTree(is_set_up=not settings.setup) for _ in settings.candidates),
        used=Used(),
    )


def fold(rows: Iterable[AnyRow]) -> LoopState:
    """Return the state after these rows.

    Raises:
        ValueError: they are not the beginning of a journal.
    """
    state: LoopState | None = None
    for row in rows:
        if state is None:
            if not isinstance(row, LoopBegan):
                raise ValueError("a journal begins with the row loop_began")
            state = begin(row)
        else:
            state = apply(state, row)
    if state is None:
        raise ValueError("the journal is empty")
    return state


def apply(state: LoopState, row: AnyRow) -> LoopState:
    """Return the state after the next row.

    Raises:
        ValueError: the row cannot be the next one.
    """
    if row.n != state.rows + 1:
        raise ValueError(f"row {row.n} follows row {state.rows}")
    state = msgspec.structs.replace(state, rows=row.n, at=row.at, waiting=None)
    match row:
        case StepBegan():
            return _step_began(state, row)
        case StepEnded():
            return _step_ended(state, row)
        case Waiting():
            return _with(state, waiting=row)
        case MessageAdded():
            return with_message(state, row)
        case PromptChanged():
            return with_prompt(state, row)
        case HeldDecided():
            return with_decision(state, row)
        case LoopStopRequested():
            return _with(state, stop=row)
        case LoopResumed():
            return _resumed(state, row)
        case TreeGone():
            return _tree_gone(state, row)
        case LoopEnded():
            is_merged = bool(state.rounds) and bool(state.rounds[-1].merges) and state.rounds[-1].published is not None
            return _with(state, ended=row, merge=None if is_merged else state.merge, is_end_held=state.has_held)
        case LoopLanded():
            return _with(state, landed=row)
        case LoopBegan():
            raise ValueError("a loop begins once")


def _with(state: LoopState, **fields: object) -> LoopState:
    return msgspec.structs.replace(state, **fields)


def _resumed(state: LoopState, row: LoopResumed) -> LoopState:
    budget, used = state.budget, state.used
    more = LoopBudget(
        rounds=budget.rounds + row.rounds,
        ms=_raised(budget.ms, row.ms, used.ms),
        cost_usd=_raised(budget.cost_usd, row.cost_usd, used.cost_usd),
        tokens=_raised(budget.tokens, row.tokens, used.tokens),
    )
    rounds = tuple(msgspec.structs.replace(it, problem="") if it.problem else it for it in state.rounds)
    was_over = state.ended is not None
    chains = {name: _reopened(chain) for name, chain in state.chains.items()} if was_over else state.chains
    merge = Merge(row.merges, row.merges_name, state.ended) if row.merges else state.merge
    # A round that would have ended the loop but for what was held decides again.
    since = _ended_rounds(state) - state.is_end_held if was_over else state.since
    return _with(
        state,
        budget=more,
        rounds=rounds,
        merge=merge,
        chains=chains,
        since=since,
        plans=0 if was_over else state.plans,
        accepts=(*state.accepts, *row.accepts),
        setup_failed=None,
        touched=() if was_over else state.touched,
        stop=None,
        ended=None,
    )


def _ended_rounds(state: LoopState) -> int:
    """Return the number of rounds that have ended. One that was stopped before its end still decides."""
    is_open = bool(state.rounds) and state.stage(state.rounds[-1]) in UNFINISHED_STAGES
    is_proved = any(isinstance(step, RunCheck) and step.with_base for step in state.open.values())
    return len(state.rounds) - (is_open or is_proved)


def _raised(limit: _Number | None, more: _Number, used: _Number) -> _Number | None:
    """Return a raised limit. One that is new counts from here on."""
    if limit is not None:
        return limit + more
    return used + more if more else None


def _reopened(chain: Chain) -> Chain:
    """Return a chain in which agents that were missing or logged out may be tried again: the user may have acted."""
    closed = {agent: until for agent, until in chain.closed.items() if until is not None}
    return msgspec.structs.replace(chain, closed=closed, retries=0)


def _tree_gone(state: LoopState, row: TreeGone) -> LoopState:
    """Return a state that makes a tree again. Agents' steps have ended before; others begin again."""
    state = _with(state, open={})
    if row.path:
        state = _with(state, abandoned=(*state.abandoned, f"{row.path} {row.reason}"))
    is_set_up = not state.settings.setup
    if row.candidate:
        return _with_candidate_tree(state, row.candidate, path="", is_set_up=is_set_up, files="")
    merge = None if state.merge is None else msgspec.structs.replace(state.merge, is_in_tree=False)
    return _with(state, path="", is_set_up=is_set_up, merge=merge)


def _with_candidate_tree(state: LoopState, candidate: int, **fields: object) -> LoopState:
    trees = list(state.candidate_trees)
    trees[candidate - 1] = msgspec.structs.replace(trees[candidate - 1], **fields)
    return _with(state, candidate_trees=tuple(trees))


# --- steps -------------------------------------------------------------------------------------------


def _step_began(state: LoopState, row: StepBegan) -> LoopState:
    step = row.does
    if state.open and not _is_side_by_side(step, state.open.values()):
        raise ValueError(f"step {row.step} begins before step {state.steps} has ended")
    if not state.open:
        state = _with(state, open_since=row.at)
    state = _with(state, steps=row.step, open={**state.open, row.step: step}, open_ms=state.open_ms * bool(state.open))
    if not isinstance(step, RunAgent):
        return state
    key = chain_key(step)
    chain = state.chains[key]
    retries = chain.retries if chain.current == step.agent else 0
    chain = msgspec.structs.replace(chain, current=step.agent, retries=retries)
    retry_at = {name: at for name, at in state.retry_at.items() if name != key}
    state = _with(state, chains={**state.chains, key: chain}, retry_at=retry_at)
    if step.role != "work":
        return state
    if step.candidate:
        state = _with_candidate_tree(state, step.candidate, files="")
    if step.round > len(state.rounds):
        return _with(state, rounds=(*state.rounds, _new_round(state, step)))
    if step.candidate:
        return state
    return _in_round(state, step.round, agent=step.agent)


def _is_side_by_side(step: Step, others: Iterable[Step]) -> bool:
    """Return whether a step may run beside others: all are candidates at work."""
    return all(isinstance(it, RunAgent) and it.role == "work" and it.candidate > 0 for it in (step, *others))


def _new_round(state: LoopState, step: RunAgent) -> Round:
    merges = state.merge.commit if state.merge is not None else ""
    new = Round(number=step.round, task=step.task, head_tree=state.head_tree, agent=step.agent, merges=merges)
    if not step.candidate:
        return new
    candidates = tuple(msgspec.structs.replace(new, agent=agent) for agent in state.settings.candidates)
    return msgspec.structs.replace(new, candidates=candidates)


def _step_ended(state: LoopState, row: StepEnded) -> LoopState:  # noqa: C901, PLR0912 - one branch for each kind of step
    step, result = state.open.get(row.step), row.result
    if step is None:
        raise ValueError(f"step {row.step} ends and was not open")
    state = _with(state, open={number: it for number, it in state.open.items() if number != row.step})
    if isinstance(result, AgentEnded | CommandEnded | Committed | CommitRejected):
        seen = dict.fromkeys((*state.repository_changes, *result.touched, *result.changed))
        touched = dict.fromkeys((*state.touched, *result.touched))
        state = _with(state, touched=tuple(touched), repository_changes=tuple(seen))
    state = _note_put_back(state, step, result)
    match step, result:
        case MakeTree(), TreeMade():
            if step.candidate:
                return _with_candidate_tree(state, step.candidate, path=result.path)
            return _with(state, path=result.path)
        case ResetTree(), TreeReset():
            return _with_candidate_tree(state, step.candidate, files=step.tree)
        case ChooseCandidate(), CandidateChosen():
            return _chosen(state, step)
        case RunSetup(), CommandEnded():
            state = _spend(state, 0, result)
            if step.candidate and result.is_green:
                return _with_candidate_tree(state, step.candidate, is_set_up=True)
            if step.candidate:
                return _with(state, setup_failed=result)
            return _with(state, is_set_up=result.is_green, setup_failed=None if result.is_green else result)
        case RunCheck(), CommandEnded():
            return _checked(_spend(state, step.round, result, step.candidate), step, result)
        case RunAgent(), AgentEnded():
            return _agent_ended(state, step, result, row.at)
        case MergeBranch(), BranchMerged() if state.merge is not None:
            merge = msgspec.structs.replace(state.merge, is_in_tree=True, conflicts=result.conflicts)
            return _with(state, merge=merge, protects=step.commit)
        case MakeCommit(), Committed():
            state = _in_round(state, step.round, commit=result)
            # If the loop had ended before the merge, this is needed to end it in the same way again.
            is_over = bool(step.merges) and state.merge is not None and state.merge.ended is None
            state = _with(state, merge=None) if is_over else state
            return _with(state, head=result.commit, head_tree=result.tree, look_at=result.look_at)
        case MakeCommit(), CommitRejected():
            red = CommandEnded(status=1, output=result.output)
            return _in_round(state, step.round, red=red, red_command=result.hook)
        case Publish(), BranchPublished():
            return _in_round(state, step.round, published=result)
        case Publish(), PublishRejected():
            return _in_round(state, step.round, problem=result.reason)
    raise ValueError(f"{type(result).__name__} is not a result of {type(step).__name__}")


def _note_put_back(state: LoopState, step: Step, result: Result) -> LoopState:
    """Note the files that were put back in the round of a step, and for the candidate that it is about."""
    if not isinstance(result, AgentEnded | CommandEnded | Committed) or not result.put_back_settings:
        return state
    number, candidate = getattr(step, "round", 0), getattr(step, "candidate", 0)
    for place in dict.fromkeys(((number, 0), (number, candidate))) if number else ():
        it = state.rounds[number - 1]
        it = it.candidates[candidate - 1] if place[1] else it
        paths = dict.fromkeys((*it.put_back_settings, *(one.path for one in result.put_back_settings)))
        state = _in_round(state, *place, put_back_settings=tuple(paths))
    return state


def _in_round(state: LoopState, number: int, candidate: int = 0, /, **fields: object) -> LoopState:
    """Return the state with other fields of a round, or of a candidate of it."""
    it = state.rounds[number - 1]
    if candidate:
        one = msgspec.structs.replace(it.candidates[candidate - 1], **fields)
        fields = {"candidates": (*it.candidates[: candidate - 1], one, *it.candidates[candidate:])}
    changed = msgspec.structs.replace(it, **fields)
    return _with(state, rounds=(*state.rounds[: number - 1], changed, *state.rounds[number:]))


def _spend(state: LoopState, number: int, result: CommandEnded | AgentEnded, candidate: int = 0) -> LoopState:
    """Count what a step has used, for the loop, for its round and for its candidate."""
    if candidate:
        one = state.rounds[number - 1].candidates[candidate - 1]
        state = _in_round(state, number, candidate, **_spent(one, result, result.ms))
    ms = max(0, result.ms - state.open_ms)  # the time of candidates at work counts once
    state = _with(state, open_ms=state.open_ms + ms)
    used = msgspec.structs.replace(state.used, ms=state.used.ms + ms)
    cost = result.cost_usd if isinstance(result, AgentEnded) else None
    tokens = result.tokens if isinstance(result, AgentEnded) else None
    used = msgspec.structs.replace(used, cost_usd=used.cost_usd + (cost or 0.0), tokens=used.tokens + (tokens or 0))
    state = _with(state, used=used)
    if number == 0:
        return state
    return _in_round(state, number, **_spent(state.rounds[number - 1], result, ms))


def _spent(it: Round, result: CommandEnded | AgentEnded, ms: int) -> dict[str, object]:
    cost = result.cost_usd if isinstance(result, AgentEnded) else None
    return {"ms": it.ms + ms, "cost_usd": it.cost_usd if cost is None else (it.cost_usd or 0.0) + cost}


def _checked(state: LoopState, step: RunCheck, result: CommandEnded) -> LoopState:
    if step.with_base:
        return _checked_with_base(state, result)
    if step.round == 0:
        return _with(state, base_checks=(*state.base_checks, result))
    it, place = round_of(state, step), (step.round, step.candidate)
    if result.is_green:
        flaky = (*it.flaky, step.command) if it.reds else it.flaky
        return _in_round(state, *place, passed=it.passed + 1, reds=0, flaky=flaky)
    if it.reds == 0:
        return _in_round(state, *place, reds=1)
    return _in_round(state, *place, reds=2, red=result, red_command=step.command)


def _checked_with_base(state: LoopState, result: CommandEnded) -> LoopState:
    found = state.current_base_tests
    if not result.is_green and found.reds == 0:
        return _with(state, base_tests=msgspec.structs.replace(found, reds=1))
    found = msgspec.structs.replace(found, results=(*found.results, result), reds=0)
    return _with(state, base_tests=found)


def _agent_ended(state: LoopState, step: RunAgent, ended: AgentEnded, at: int) -> LoopState:
    state = _spend(state, step.round, ended, step.candidate)
    if not step.candidate:  # of candidates only the question of the chosen one counts
        state = _with(state, question=ended.question or state.question)
    state = _note_unknown(state, step, ended)
    charged = is_charged(state, step, ended)
    state = _move_chain(state, step, ended, at, charged=charged)
    if not charged:
        is_candidate = step.role == "work" and step.candidate > 0
        return _in_round(state, step.round, step.candidate, sits_out=True) if is_candidate else state
    match step.role:
        case "plan":
            if ended.outcome == "lost":
                return state
            return _with(state, plans=state.plans + 1, plan=ended.tasks or None)
        case "work" if step.candidate:
            losses = round_of(state, step).losses + (ended.outcome == "lost")
            return _in_round(state, step.round, step.candidate, work=ended, losses=losses, sits_out=False)
        case "judge":
            return _compared(state, step, ended)
        case "work":
            used = msgspec.structs.replace(state.used, rounds=state.used.rounds + 1)
            return _in_round(_with(state, used=used), step.round, work=ended)
        case "review":
            if ended.outcome == "lost":  # the review is not there, and is made again
                return state
            return _reviewed(state, step, ended)


def _reviewed(state: LoopState, step: RunAgent, ended: AgentEnded) -> LoopState:
    verdict = ended.verdict
    if ended.outcome != "ok" or verdict is None:
        review = Review(step.agent, False, (f"The review by {step.agent} failed: {ended.reason or ended.outcome}",))
    else:
        review = Review(step.agent, verdict.approved, verdict.remarks)
    return _in_round(state, step.round, step.candidate, reviews=(*round_of(state, step).reviews, review))


def _compared(state: LoopState, step: RunAgent, ended: AgentEnded) -> LoopState:
    if ended.outcome == "lost":  # the comparison is made again
        return state
    better = step.pair[ended.better - 1] if ended.outcome == "ok" and ended.better else 0
    comparisons = (*state.rounds[step.round - 1].comparisons, Comparison(*step.pair, better))
    return _in_round(state, step.round, comparisons=comparisons)


def _chosen(state: LoopState, step: ChooseCandidate) -> LoopState:
    """Make the result of a candidate that of the round, which is charged now."""
    it = state.rounds[step.round - 1]
    best = it.candidates[step.candidate - 1]
    assert best.work is not None
    names = ("agent", "work", "passed", "reds", "red", "red_command", "flaky", "reviews")
    state = _in_round(state, step.round, chosen=step.candidate, chosen_reason=step.reason,
        **{name: getattr(best, name) for name in names})  # fmt: skip
    used = msgspec.structs.replace(state.used, rounds=state.used.rounds + 1)
    return _with(state, used=used, question=best.work.question or state.question)


def _note_unknown(state: LoopState, step: RunAgent, ended: AgentEnded) -> LoopState:
    """Note an agent that did not report its usage. One that could not begin has none to report.

    Only an agent that ended well shows that it never reports them: others report them at the end, if they reach it.
    """
    used = state.used
    if ended.outcome not in ("ok", "lost", "cut_off", "timed_out"):
        return state
    names, is_ok = (step.agent,), ended.outcome == "ok"
    if ended.cost_usd is None:
        more = names if is_ok and step.agent not in used.without_cost else ()
        used = msgspec.structs.replace(used, without_cost=(*used.without_cost, *more), is_cost_partial=True)
    if ended.tokens is None:
        more = names if is_ok and step.agent not in used.without_tokens else ()
        used = msgspec.structs.replace(used, without_tokens=(*used.without_tokens, *more))
    return _with(state, used=used)


def _move_chain(state: LoopState, step: RunAgent, ended: AgentEnded, at: int, *, charged: bool) -> LoopState:
    key = chain_key(step)
    chain = state.chains[key]
    if charged:
        chain = msgspec.structs.replace(chain, retries=0)
    else:
        chain, choice = next_agent(chain, ended.cause, ended.resets_at, at)
        if choice.action == "retry" and choice.at is not None:
            state = _with(state, retry_at={**state.retry_at, key: choice.at})
    return _with(state, chains={**state.chains, key: chain})
