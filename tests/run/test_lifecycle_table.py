"""The tables of the lifecycle: every row, every sequence of reports, and the page that shows them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.run.lifecycle import (
    FACT_TRANSITIONS,
    FACTS,
    GUARD_SECONDS,
    LIMITED,
    TRANSITIONS,
    Action,
    Lifecycle,
    Limits,
    State,
    StopCause,
    Transition,
    Trigger,
)

DOCS = Path(__file__).parents[2] / "docs"
CLOCKS = {Trigger.TICK, Trigger.GRACE_ENDED, Trigger.TIME_LIMIT, Trigger.IDLE_LIMIT}
REPORTS = [trigger for trigger in Trigger if trigger not in CLOCKS]
"""What a supervisor may report, besides the time."""
ROWS: list[tuple[State, Transition]] = [
    (state, row) for table in (TRANSITIONS, FACT_TRANSITIONS) for state, rows in table.items() for row in rows.values()
]
NEXT = {state: {row.state for start, row in ROWS if start is state and row.state is not None} for state in State}

# --- every row ---


def test_every_state_has_its_rows() -> None:
    """No state is left out, and each can be reached."""
    assert set(TRANSITIONS) == set(State)
    reached, found = {State.RUNNING}, {State.RUNNING}
    while found:
        found = {after for state in found for after in NEXT[state]} - reached
        reached |= found
    assert reached == set(State)


def test_every_word_is_used() -> None:
    """No trigger, action or cause is without a meaning."""
    used = {trigger for rows in TRANSITIONS.values() for trigger in rows}
    assert used | set(FACTS) | {Trigger.TICK, Trigger.ERROR_OUTPUT} == set(Trigger)
    assert {action for _, row in ROWS for action in row.actions} == set(Action)
    assert {row.cause for _, row in ROWS} - {None} == set(StopCause)


@pytest.mark.parametrize("state", [state for state in State if state is not State.ENDED])
def test_clocks_and_the_end_have_rows(state: State) -> None:
    """A clock that runs in a state has a row there, and in each the run can end."""
    rows = TRANSITIONS[state]
    if any(row.grace is not None for _, row in ROWS if row.state is state):
        assert Trigger.GRACE_ENDED in rows
    if state in LIMITED:
        assert Trigger.TIME_LIMIT in rows
    if state in LIMITED - {State.UNREAD}:  # there the reader is waited for, against whom no idle limit counts
        assert Trigger.IDLE_LIMIT in rows
    if state is not State.UNREAD:
        assert rows[Trigger.GONE].state in (State.UNREAD, State.ENDED)


def test_a_cause_is_set_once() -> None:
    """A row that begins to act against the agent names the cause and leaves the states of the limits for good."""
    acting = {Action.CANCEL_OVER_PROTOCOL, Action.INTERRUPT}
    for state, row in ROWS:
        if row.cause is not None:
            assert state in LIMITED
            assert row.state not in LIMITED
        if state in LIMITED and acting & set(row.actions):
            assert row.cause is not None
        if state not in LIMITED:
            assert row.state not in LIMITED


# --- every sequence ---

SECONDS = st.sampled_from([0.0, 0.1, 1.0, 5.0, 100.0])
LIMITS = st.builds(
    Limits,
    timeout=st.sampled_from([None, 3.0, 50.0]),
    idle=st.sampled_from([None, 2.0]),
    reply_grace=SECONDS,
    work_grace=SECONDS,
    exit_grace=SECONDS,
    ask=SECONDS,
    interrupt=SECONDS,
    terminate=SECONDS,
    step=SECONDS,
)
REPORTED = st.lists(st.tuples(SECONDS, st.sampled_from(REPORTS), st.booleans()), max_size=30)
LEGAL = re.compile(
    r"(CANCEL_OVER_PROTOCOL )?(CLOSE_STDIN INTERRUPT (TERMINATE )?)?(KILL (KILL_GUARD )?)?READ_REST END "
)
"""The order in which a run is stopped, by its actions."""


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limits=LIMITS, two_way=st.booleans(), reported=REPORTED)
def test_any_sequence_ends_the_run_in_order(
    limits: Limits, two_way: bool, reported: list[tuple[float, Trigger, bool]]
) -> None:
    """Whatever is reported and when: the run can be ended, once; signals come in their order and nothing after it."""
    now, actions = 0.0, list[Action]()
    lifecycle = Lifecycle(limits, two_way=two_way, now=now)

    def report(trigger: Trigger) -> None:
        ended, cause = lifecycle.state is State.ENDED, lifecycle.cause
        got = lifecycle.on(trigger, now)
        actions.extend(got)
        assert not (ended and got)
        assert cause in (None, lifecycle.cause)

    def tick() -> None:
        report(Trigger.TICK)
        assert lifecycle.deadline is None or lifecycle.deadline > now

    for seconds, trigger, looked in reported:
        now += seconds
        report(trigger)
        if looked:
            tick()
    report(Trigger.CANCEL)  # whereupon the agent does nothing, and the guard neither
    end = now + limits.reply_grace + limits.work_grace + 2 * limits.exit_grace + 2 * limits.step
    end += limits.ask + limits.interrupt + limits.terminate + 2 * GUARD_SECONDS
    end += (limits.timeout or 0) + (limits.idle or 0)
    while lifecycle.deadline is not None:
        now = max(now, lifecycle.deadline)
        assert now <= end
        tick()
    if lifecycle.state is State.UNREAD:
        report(Trigger.KILL)
    report(Trigger.GONE)
    if lifecycle.state is State.UNREAD:
        report(Trigger.BACKLOG_TAKEN)
    assert lifecycle.state is State.ENDED
    assert lifecycle.deadline is None
    flow = {Action.PAUSE_READING, Action.RESUME_READING}
    assert LEGAL.fullmatch("".join(f"{action.name} " for action in actions if action not in flow))


# --- the page ---


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """The program that writes the tables into the page."""
    spec = importlib.util.spec_from_file_location("docs_lifecycle", DOCS / "lifecycle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_tables(tables: ModuleType) -> None:
    """`docs/processes.md` has the tables as they are; `make lifecycle` writes them."""
    page = tables.PAGE.read_text("utf-8")
    assert page.count(tables.BEGIN) == page.count(tables.END) == 1
    assert page == tables.page(page)


def test_a_changed_table_changes_the_page(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is not on the page is noticed."""
    page = tables.PAGE.read_text("utf-8")
    monkeypatch.setitem(TRANSITIONS, State.ENDED, {Trigger.KILL: TRANSITIONS[State.UNREAD][Trigger.KILL]})
    assert page != tables.page(page)
