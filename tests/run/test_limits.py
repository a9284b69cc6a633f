"""Limits of a run: what its events say it has spent, and when that is too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_updates import EXITS, TRAITS, UPDATES, events_from

from penstock.adapter import Limit
from penstock.agents import registry
from penstock.errors import UsageError
from penstock.events import (
    BlockStarted,
    Event,
    MessageEnded,
    MessageStarted,
    PlanChanged,
    Replied,
    RunEnded,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from penstock.run.lifecycle import Lifecycle, State, Trigger
from penstock.run.lifecycle import Limits as TimeLimits
from penstock.run.limits import Budget, Spending, Spent
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

BUDGETS = st.builds(
    Budget,
    max_cost=st.sampled_from([None, 0.01, 0.5, 2.0]),
    max_turns=st.sampled_from([None, 1, 2]),
    max_tokens=st.sampled_from([None, 1, 10, 25]),
)
RUNS = st.builds(events_from, st.sampled_from(list(TRAITS.values())), st.lists(UPDATES, max_size=30), EXITS)
CALLS = st.builds(
    UsageReported,
    agent=st.just("test"),
    parent=st.sampled_from([None, "c1"]),
    input_tokens=st.none() | st.integers(0, 10),
    output_tokens=st.none() | st.integers(0, 10),
    cost_usd=st.none() | st.floats(0, 1),
)
REPLIES = st.builds(
    Replied, agent=st.just("test"), reply=st.just(""), is_error=st.just(False), cost_usd=st.none() | st.floats(0, 2)
)


# --- a judge of its own: it looks at all events at once, and knows nothing of the counter ---


def turns_of(events: Sequence[Event]) -> int:
    """The number of groups of messages with content, between which results of tools, plans or answers came."""
    own = [event for event in events if event.parent is None]
    results = list(accumulate((isinstance(event, ToolReturned | PlanChanged | Replied) for event in own), initial=0))
    begins = [number for number, event in enumerate(own) if isinstance(event, MessageStarted)]
    groups = set()
    for number, event in enumerate(own):
        is_content = isinstance(event, ToolCalled) or (isinstance(event, BlockStarted) and event.kind != "tool_output")
        if is_content:
            groups.add(results[max((begin for begin in begins if begin <= number), default=0)])
    return len(groups)


def tokens_of(events: Sequence[Event]) -> int | None:
    """The sum of all counts; None if there is none."""
    calls = [event for event in events if isinstance(event, UsageReported)]
    counts = [count for call in calls for count in (call.input_tokens, call.output_tokens) if count is not None]
    return sum(counts) if counts else None


def cost_of(events: Sequence[Event]) -> float | None:
    """The largest of: the costs of all calls; a total that the agent gave, and the costs of the calls after it."""
    totals = [(number, event.cost_usd) for number, event in enumerate(events) if isinstance(event, Replied)]
    sums = [
        [start, *(call.cost_usd for call in events[number:] if isinstance(call, UsageReported))]
        for number, start in [(0, None), *((n, cost) for n, cost in totals if cost is not None)]
    ]
    known = [[cost for cost in costs if cost is not None] for costs in sums]
    return max((sum(costs) for costs in known if costs), default=None)


def first_excess(events: Sequence[Event], budget: Budget) -> int | None:
    """The number of the first event after which more is spent than allowed."""
    judges = {"max_cost": cost_of, "max_turns": turns_of, "max_tokens": tokens_of}
    for number in range(1, len(events) + 1):
        for limit in budget.limits:
            figure = judges[limit](events[:number])
            if figure is not None and figure > getattr(budget, limit):
                return number
    return None


# --- random runs ---


@given(events=RUNS)
def test_turns_are_counted_in_any_run(events: list[Event]) -> None:
    """After each event of any run, the counter has the turns and tokens that the judge finds."""
    spending = Spending(Budget())
    for number, event in enumerate(events, 1):
        assert not spending.add(event)
        assert (spending.spent.turns, spending.spent.tokens) == (turns_of(events[:number]), tokens_of(events[:number]))


@given(events=st.lists(CALLS | REPLIES, max_size=12))
def test_costs_are_counted_in_any_order(events: list[Event]) -> None:
    """Costs of calls are added up, a total of the agent replaces a smaller sum, and an absent cost stays unknown."""
    spending = Spending(Budget())
    for number, event in enumerate(events, 1):
        spending.add(event)
        expected = cost_of(events[:number])
        assert spending.spent.cost == (expected if expected is None else pytest.approx(expected))


@given(events=RUNS, calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=4), budget=BUDGETS)
def test_a_limit_is_passed_at_one_event(
    events: list[Event], calls: list[tuple[int, UsageReported]], budget: Budget
) -> None:
    """The first event after which more is spent than allowed stops the run, and none before it."""
    for place, call in calls:
        events.insert(min(place, len(events) - 1), call)
    spending = Spending(budget)
    passed = [number for number, event in enumerate(events, 1) if spending.add(event)]
    assert (passed or None) == (None if (first := first_excess(events, budget)) is None else [first])


@given(events=RUNS, budget=BUDGETS, sizes=st.lists(st.integers(1, 5), min_size=1), exits=st.integers(0, 40))
def test_the_end_depends_on_the_events_alone(events: list[Event], budget: Budget, sizes: list[int], exits: int) -> None:
    """However the events are cut into reads, and whenever the agent exits: a limit that they pass ends the run."""
    lifecycle = Lifecycle(TimeLimits(), two_way=False, now=0, spending=Spending(budget))
    rest, number = list(events), 0
    while rest:
        size = sizes[number % len(sizes)]
        if number == exits:
            lifecycle.on(Trigger.EXITED, 0)
        lifecycle.on_events(rest[:size], working=False, now=0)
        del rest[:size]
        number += 1
    passed = first_excess(events, budget) is not None
    ended = lifecycle.exit(0, None, "")
    assert (ended.cancelled, ended.cause) == ((True, "budget") if passed else (False, None))
    if passed:
        assert lifecycle.state not in (State.RUNNING, State.ANSWERED, State.EXITED)


# --- what is not known ---


def test_an_unknown_figure_passes_no_limit() -> None:
    """A run whose events have neither cost nor tokens has not spent nothing: it is not known."""
    spending = Spending(Budget())
    spending.add(UsageReported(agent="test"))
    assert spending.spent == Spent(cost=None, turns=0, tokens=None)
    assert spending.spent.passed(Budget(max_cost=0.01, max_tokens=1)) is None


def test_what_is_allowed_may_be_spent() -> None:
    """A limit is passed by more than it, not by the limit itself."""
    spent = Spent(cost=0.3, turns=3, tokens=100)
    assert spent.passed(Budget(max_cost=0.3, max_turns=3, max_tokens=100)) is None
    assert spent.passed(Budget(max_tokens=99)) == "stopped: the run used 100 tokens, the limit is 99"


@pytest.mark.parametrize("wrong", [{"max_cost": 0}, {"max_turns": 0}, {"max_tokens": 1.5}, {"max_turns": True}])
def test_limits_are_checked(wrong: dict[str, float]) -> None:
    """No limit is zero, and turns and tokens are whole numbers."""
    with pytest.raises(UsageError):
        Budget(**wrong)  # type: ignore[arg-type]


# --- the recordings ---

FEWER_TURNS = {
    "acp/codex-edit": 1,
    "acp/codex-edit_2": 1,
    "acp/claude-background": 1,
    "claude-2.1.331/background": 1,
    "qwen-0.24.4/background": 1,
}
"""Turns of a recording that no event shows: a call left no trace on the wire, or news of background work began one."""


def read(recording: Recording) -> list[Event]:
    """The events of a recording."""
    return feeds.whole(Stream(recording.agent), recording.data)


def route_of(recording: Recording) -> tuple[str, str]:
    """The agent and the route of a recording."""
    agent, _, route = recording.agent.partition("/")
    return (recording.case.partition("-")[0], "acp") if agent == "acp" else (agent, route or "exec")


def test_the_last_turn_ends_before_the_next_one_begins(recording: Recording) -> None:
    """In every recording the limit is passed with the results of the last turn, if it has any: nothing follows in it.

    Without the knowledge that another turn follows, it is passed by the content of that turn.
    """
    events = read(recording)
    for most in range(1, turns_of(events)):
        spending = Spending(Budget(max_turns=most), has_next_turn=True)
        stop = next(number for number, event in enumerate(events) if spending.add(event))
        later = Spending(Budget(max_turns=most))
        begins = next(number for number, event in enumerate(events) if later.add(event))
        if stop == begins:
            turn = events[max(n for n in range(begins) if turns_of(events[:n]) < most) : begins]
            assert not any(isinstance(event, ToolReturned) and event.parent is None for event in turn)
            continue
        assert turns_of(events[: stop + 1]) == most
        between = [event for event in events[stop + 1 : begins] if event.parent is None]
        assert not any(isinstance(event, ToolCalled | ToolReturned | BlockStarted) for event in between)
        assert isinstance(events[stop], ToolReturned | MessageEnded)
        reason = f"stopped: the run came to turn {most + 1}, the limit is {most}"
        assert spending.passed(0) == later.passed(0) == reason


@given(events=RUNS, most=st.integers(1, 3))
def test_a_run_that_ends_in_its_last_turn_is_not_stopped(events: list[Event], most: int) -> None:
    """Open calls and messages, and runs without results of tools after the last content, go on."""
    spending = Spending(Budget(max_turns=most), has_next_turn=True)
    stop = next((number for number, event in enumerate(events) if spending.add(event)), None)
    if stop is None:
        assert turns_of(events) <= most
        return
    own = [event for event in events[: stop + 1] if event.parent is None]
    if turns_of(own) > most:
        return  # it began, since the turn before had open calls or messages
    messages = {event.message for event in own if isinstance(event, MessageStarted)}
    messages -= {event.message for event in own if isinstance(event, MessageEnded)}
    calls = {event.call_id for event in own if isinstance(event, ToolCalled)}
    calls -= {event.call_id for event in own if isinstance(event, ToolReturned)}
    assert (messages, calls) == (set(), set())
    assert any(isinstance(event, ToolReturned) for event in own)


def test_turns_are_the_rounds_of_the_recordings(recording: Recording) -> None:
    """The turns that are counted are the rounds that the end of the run reports."""
    events, spending = read(recording), Spending(Budget())
    for event in events:
        spending.add(event)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert spending.spent.turns == ended.rounds - FEWER_TURNS.get(recording.name, 0)


def test_counted_figures_are_those_of_the_end(recording: Recording) -> None:
    """Where a route's tokens and cost are counted, they are not less than the agent's own totals at the end."""
    agent, route = route_of(recording)
    counts, events, spending = registry.AGENTS[agent].routes[route].counts, read(recording), Spending(Budget())
    for event in events:
        spending.add(event)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    if recording.case.endswith(".nopartial") or ended.outcome != "ok":
        return  # Penstock starts the agents with partial messages
    if "max_tokens" in counts and recording.case != "background":  # the totals have calls that no line reports
        assert ended.usage is not None
        assert (spending.spent.tokens or 0) >= (ended.usage.input_tokens or 0) + (ended.usage.output_tokens or 0)
    if "max_cost" in counts:
        assert spending.spent.cost == pytest.approx(ended.cost_usd)


def reported_limits(recording: Recording) -> Iterator[Limit]:
    """The limits whose figures a recording reports while the agent works: before it begins its last message."""
    events = read(recording)
    answer = next((number for number, event in enumerate(events) if isinstance(event, Replied)), len(events))
    begins = [number for number, event in enumerate(events[:answer]) if isinstance(event, MessageStarted)]
    during = events[: begins[-1] + 2] if begins else []
    calls = [event for event in during if isinstance(event, UsageReported)]
    if turns_of(during) > 1:
        yield "max_turns"
    if calls and all(call.input_tokens is not None and call.output_tokens is not None for call in calls):
        yield "max_tokens"
    if calls and all(call.cost_usd is not None for call in calls):
        yield "max_cost"


def leaves_out_discarded(recording: Recording) -> bool:
    """Whether the figures lack answers that the agent discarded at the limit of tokens."""
    events = read(recording)
    answers = [event for event in events if isinstance(event, MessageEnded)]
    reported = sum(isinstance(event, UsageReported) for event in events)
    return recording.case.endswith("maxtok") and len(answers) > reported > 0


def test_the_facts_are_those_of_the_recordings(recordings: list[Recording]) -> None:
    """A route counts what its recordings report during a run, no more and no less; no tokens if some are left out."""
    found: dict[tuple[str, str], set[Limit]] = {}
    lacking: set[tuple[str, str]] = set()
    for recording in recordings:
        if not recording.case.endswith(".nopartial"):
            found.setdefault(route_of(recording), set()).update(reported_limits(recording))
        if leaves_out_discarded(recording):
            lacking.add(route_of(recording))
    assert lacking == {("vibe", "acp")}
    for route in lacking:
        found[route].discard("max_tokens")
    assert found == {(agent, route): set(registry.AGENTS[agent].routes[route].counts) for agent, route in found}
    assert len(found) > 15


def test_an_unknown_agent_has_what_all_of_its_protocol_have() -> None:
    """A command that supports ACP counts what is counted for each agent on that route."""
    known = [set(facts.routes["acp"].counts) for name, facts in registry.AGENTS.items() if "acp" in facts.routes]
    assert set(registry.AGENTS["acp"].routes["acp"].counts) == set.intersection(*known)
