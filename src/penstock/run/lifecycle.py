"""State machine of the life of one run: all decisions of its supervisor, without a file descriptor, clock or thread.

`docs/processes.md` prints the tables of this file (`make lifecycle`).
"""

# How the machine works
#
# Rule 1: every decision about a run is made in this file: whether the agent is waited for, cancelled, interrupted or
# killed, for how long, and how that changes the result of the run. The supervisor reports what happened as a `Trigger`,
# together with the time, and carries out the `Action`s that are returned: all of them, in their order, before the next
# report.
#
# Rule 2: this file depends on no agent, no protocol, no bytes and no system calls. Whether a protocol can cancel is
# known when it was tried (CANNOT_CANCEL). That all processes are gone is known when the guard reports it (GONE).
#
# A run is in one `State`, and each state has one row for each trigger that has an effect in it; every other trigger
# changes nothing there. That is `TRANSITIONS`.
#
# A trigger cannot express circumstances that outlast it: background work that is known to continue, a question that
# waits for a person, a reader that takes nothing, an output that is closed. They are `Fact`s. A fact alone changes the
# state of a run if `FACT_TRANSITIONS` has a row for it: after each trigger these rows are followed until none applies.
# (h11 calls the same pair of tables event-triggered and state-triggered transitions.)
#
# Time. There are three clocks, and `deadline` is the first that runs out:
#
# - the grace period of the state, which begins when the state is entered, or when a row restarts it;
# - the time limit of the run, in the states of `LIMITED`; if `Limits` says so, without the time of questions that wait;
# - the idle limit, in the same states, since the last sign of life (`SIGNS_OF_LIFE`), unless a question waits.
#
# While Penstock itself does not read (no READING, output open), the agent may be blocked because of that. So in
# LIMITED neither a grace period nor the idle limit runs then. Once the run is being stopped, both no longer matter:
# a run whose events nobody takes must end as well.
#
# The `Budget` of a run is not a clock: `on_events` counts what the events report, and the event that passes a limit
# leads to LIMIT_PASSED before it has any other effect. Events that are read after the end of the agent count as well:
# the result of a run depends on its events, and not on when they were read.
#
# Clocks are checked only on TICK, after all other pending reports. So an answer that arrived in time counts, however
# late Penstock checks (it was stopped by Ctrl-Z, or the machine was busy).
#
# The `StopCause` of a run decides how it ends; it is set by the row that first acts against the agent. Without a
# cause the agent ended by itself, and its exit status counts. Only rows of LIMITED states have causes, and these rows
# lead out of LIMITED; so the first cause stays.

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from penstock.config.rules import SECONDS, SECONDS_OR_0, SWITCH, Rules, check, optional
from penstock.core.normalizer.outcome import Exit
from penstock.events import Event, MessageStarted, Replied
from penstock.run.limits import Spending

GUARD_SECONDS = 12.0
"""Time limit, in seconds, of the guard for killing what is left: more than the 10 s of its own limit."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits and grace periods of a run, in seconds."""

    timeout: float | None = None
    """Time limit of the whole run; None: no limit."""
    counts_questions: bool = True
    """Whether time in which a question waits counts for `timeout`. A program may never answer; at a terminal, where a
    person is asked, it does not count."""
    idle: float | None = None
    """Time without any output while no question waits for a person; None: no limit."""
    reply_grace: float = 5.0
    """Time to exit after the answer, if no background work is known. Agents need up to a second or two."""
    work_grace: float = 30.0
    """Time to exit after background work has ended: the agent continues with its result."""
    exit_grace: float = 2.0
    """Time for leftover processes to close the output, and to exit for an agent that closed its output or has
    finished by its protocol."""
    ask: float = 5.0
    """Time to obey the protocol's own cancel; the recorded agents need 0.2 seconds."""
    interrupt: float = 5.0
    """Time between SIGINT and SIGTERM. Agents that react at all (claude writes its `result`) do within a second."""
    terminate: float = 3.0
    """Time between SIGTERM and SIGKILL."""
    step: float = 1.0
    """Time between two signals if nothing more is expected: the agent has answered, or closed its output."""

    def __post_init__(self) -> None:
        check(msgspec.structs.asdict(self), LIMIT_RULES)


LIMIT_RULES: Rules = {
    **dict.fromkeys(Limits.__struct_fields__, SECONDS_OR_0),
    **dict.fromkeys(("timeout", "idle"), optional(SECONDS)),
    "counts_questions": SWITCH,
}


class State(Enum):
    """State of a run; the value describes it in the documentation."""

    RUNNING = "the agent works on its answer"
    ANSWERED = "the agent has answered and has a short time to exit"
    WORKING = "the agent has answered; background work of it is known to go on"
    CLOSED = "the agent closed its output before it answered"
    WORKING_CLOSED = "the agent closed its output after it answered, with background work known to go on"
    EXITED = "the agent exited by itself; its output is still open"
    UNREAD = "no process is left; the rest of the output waits until the reader of the events takes more"
    CANCELLING = "the agent was asked to cancel, over its protocol"
    INTERRUPTED = "SIGINT was sent before the answer was complete"
    DISMISSED = "SIGINT was sent to an agent that had answered and stayed"
    TERMINATED = "SIGTERM was sent"
    STOPPED = "the agent exited while it was being stopped; its output is still open"
    KILLED = "the guard kills whatever is left"
    ABANDONED = "the guard did not do so in time and was killed itself"
    ENDED = "the run has ended"


class Trigger(Enum):
    """Report to the machine; the value describes it in the documentation."""

    OUTPUT = "output was read"
    ERROR_OUTPUT = "stderr was read"
    MESSAGE_STARTED = "the agent begins a message (a sub-agent's does not count)"
    REPLIED = "the agent answers"
    WORK_STARTED = "background work is known to go on"
    WORK_ENDED = "the last background work ends"
    QUESTION_ASKED = "a question waits for a person"
    QUESTIONS_SETTLED = "the last open question is settled"
    BACKLOG_FULL = "as many events wait for their reader as may wait"
    BACKLOG_TAKEN = "the reader takes events again"
    STDOUT_CLOSED = "the output is closed"
    EXITED = "the agent's process exits"
    GONE = "no process of the run is left"
    CANCEL = "cancel"
    CANNOT_CANCEL = "the protocol has no cancel, or nothing to cancel"
    KILL = "kill"
    LIMIT_PASSED = "the run passes a limit of its cost, turns or tokens"
    TICK = "look at the clocks"
    GRACE_ENDED = "the grace period ends"
    TIME_LIMIT = "the time limit is reached"
    IDLE_LIMIT = "the idle limit is reached"


class Action(Enum):
    """Order to the supervisor; the value describes it in the documentation."""

    CANCEL_OVER_PROTOCOL = "cancel over the protocol"
    CLOSE_STDIN = "close stdin"
    INTERRUPT = "SIGINT"
    TERMINATE = "SIGTERM"
    KILL = "SIGKILL to everything"
    KILL_GUARD = "SIGKILL to the guard"
    PAUSE_READING = "pause reading"
    RESUME_READING = "resume reading"
    READ_REST = "read what is left in the pipe"
    END = "end the run"


class Fact(Enum):
    """Circumstance that outlasts its trigger; the value describes it in the documentation."""

    WORK = "background work is known"
    QUESTION = "a question waits"
    READING = "reading is not paused"
    CLOSED = "the output is closed"


FACTS: dict[Trigger, tuple[Fact, bool]] = {
    Trigger.WORK_STARTED: (Fact.WORK, True),
    Trigger.WORK_ENDED: (Fact.WORK, False),
    Trigger.QUESTION_ASKED: (Fact.QUESTION, True),
    Trigger.QUESTIONS_SETTLED: (Fact.QUESTION, False),
    Trigger.BACKLOG_TAKEN: (Fact.READING, True),
    Trigger.BACKLOG_FULL: (Fact.READING, False),
    Trigger.STDOUT_CLOSED: (Fact.CLOSED, True),
}
"""Facts that triggers set and clear."""
TRIGGER_OF_FACT = {fact: trigger for trigger, fact in FACTS.items()}

SIGNS_OF_LIFE = frozenset(
    {Trigger.OUTPUT, Trigger.ERROR_OUTPUT, Trigger.QUESTIONS_SETTLED, Trigger.BACKLOG_TAKEN, Trigger.STDOUT_CLOSED}
)
"""Triggers that restart the idle limit."""


class StopCause(Enum):
    """Reason why Penstock stopped a run; the value is the reason in its result."""

    CANCELLED = "it was cancelled"
    TIME_LIMIT = "the time limit of {timeout:g} s was reached"
    IDLE_LIMIT = "no output for {idle:g} s"
    BUDGET = "a limit of its cost, turns or tokens was passed"
    CLOSED_OUTPUT = "it closed its output and stayed, so it was stopped"
    FINISHED = "it had answered and stayed"


Grace = Literal[
    "reply_grace", "work_grace", "exit_grace", "ask", "interrupt", "terminate", "step", "guard"
]  # fields of `Limits`, and GUARD_SECONDS


class Transition(NamedTuple):
    """Row of the tables. `state`: the next state; None: the state stays, and its grace period too unless `restart`."""

    state: State | None
    actions: tuple[Action, ...] = ()
    grace: Grace | None = None
    cause: StopCause | None = None
    restart: bool = False


def _to(state: State, *actions: Action, grace: Grace | None = None, cause: StopCause | None = None) -> Transition:
    return Transition(state, actions, grace, cause)


def _stay(*actions: Action, restart: bool = False) -> Transition:
    return Transition(None, actions, restart=restart)


def _cancelling(cause: StopCause) -> Transition:
    return _to(State.CANCELLING, Action.CANCEL_OVER_PROTOCOL, grace="ask", cause=cause)


def _killed(cause: StopCause | None = None) -> Transition:
    # The rest of a killed agent's output is bounded, and is read so that the guard can exit.
    return _to(State.KILLED, Action.KILL, Action.RESUME_READING, grace="guard", cause=cause)


_Rows = dict[Trigger, Transition]

_BACKLOG: _Rows = {
    Trigger.BACKLOG_FULL: _stay(Action.PAUSE_READING),
    Trigger.BACKLOG_TAKEN: _stay(Action.RESUME_READING),
}
_RESTARTING: _Rows = {  # output of the agent may not have been read yet
    Trigger.BACKLOG_FULL: _stay(Action.PAUSE_READING),
    Trigger.BACKLOG_TAKEN: _stay(Action.RESUME_READING, restart=True),
}
_EXITING: _Rows = {
    Trigger.EXITED: _to(State.EXITED, grace="exit_grace"),
    Trigger.GONE: _to(State.UNREAD),
}
_UNFINISHED: _Rows = {
    Trigger.CANCEL: _cancelling(StopCause.CANCELLED),
    Trigger.KILL: _killed(StopCause.CANCELLED),
    Trigger.LIMIT_PASSED: _cancelling(StopCause.BUDGET),
    Trigger.TIME_LIMIT: _cancelling(StopCause.TIME_LIMIT),
    Trigger.IDLE_LIMIT: _cancelling(StopCause.IDLE_LIMIT),
    **_EXITING,
}


def _dismissed(cause: StopCause) -> Transition:
    return _to(State.DISMISSED, Action.CLOSE_STDIN, Action.INTERRUPT, grace="step", cause=cause)


_DISMISSED = _dismissed(StopCause.FINISHED)
_INTERRUPTED = _to(State.INTERRUPTED, Action.CLOSE_STDIN, Action.INTERRUPT, grace="interrupt")
_ENDED = _to(State.ENDED, Action.READ_REST, Action.END)
_STOPPING: _Rows = {
    Trigger.KILL: _killed(),
    Trigger.EXITED: _to(State.STOPPED, grace="exit_grace"),
    Trigger.GONE: _ENDED,
    **_BACKLOG,
}

TRANSITIONS: dict[State, _Rows] = {
    State.RUNNING: {
        Trigger.REPLIED: _to(State.ANSWERED, grace="reply_grace"),
        **_UNFINISHED,
        **_BACKLOG,
    },
    State.ANSWERED: {
        Trigger.MESSAGE_STARTED: _to(State.RUNNING),
        Trigger.GRACE_ENDED: _DISMISSED,
        Trigger.CANCEL: _DISMISSED,
        Trigger.TIME_LIMIT: _DISMISSED,
        Trigger.IDLE_LIMIT: _DISMISSED,
        Trigger.LIMIT_PASSED: _dismissed(StopCause.BUDGET),
        Trigger.KILL: _killed(StopCause.FINISHED),
        **_EXITING,
        **_RESTARTING,
    },
    State.WORKING: {
        Trigger.MESSAGE_STARTED: _to(State.RUNNING),
        Trigger.WORK_ENDED: _to(State.ANSWERED, grace="work_grace"),
        **_UNFINISHED,
        **_BACKLOG,
    },
    State.CLOSED: {
        Trigger.GRACE_ENDED: _to(
            State.INTERRUPTED, Action.CLOSE_STDIN, Action.INTERRUPT, grace="step", cause=StopCause.CLOSED_OUTPUT
        ),
        **_UNFINISHED,
    },
    State.WORKING_CLOSED: {
        Trigger.GRACE_ENDED: _DISMISSED,
        **_UNFINISHED,
    },
    State.EXITED: {
        Trigger.GRACE_ENDED: _killed(),
        Trigger.TIME_LIMIT: _killed(),
        Trigger.IDLE_LIMIT: _killed(),
        Trigger.LIMIT_PASSED: _killed(StopCause.BUDGET),
        Trigger.KILL: _killed(),
        Trigger.GONE: _to(State.UNREAD),
        **_RESTARTING,
    },
    State.UNREAD: {
        Trigger.TIME_LIMIT: _ENDED,
        Trigger.LIMIT_PASSED: _ENDED._replace(cause=StopCause.BUDGET),
        Trigger.KILL: _ENDED,
    },
    State.CANCELLING: {
        Trigger.CANNOT_CANCEL: _INTERRUPTED,
        Trigger.GRACE_ENDED: _INTERRUPTED,
        **_STOPPING,
    },
    State.INTERRUPTED: {
        Trigger.GRACE_ENDED: _to(State.TERMINATED, Action.TERMINATE, grace="terminate"),
        **_STOPPING,
    },
    State.DISMISSED: {
        Trigger.GRACE_ENDED: _to(State.TERMINATED, Action.TERMINATE, grace="step"),
        **_STOPPING,
    },
    State.TERMINATED: {
        Trigger.GRACE_ENDED: _killed(),
        **_STOPPING,
    },
    State.STOPPED: {
        Trigger.GRACE_ENDED: _killed(),
        Trigger.KILL: _killed(),
        Trigger.GONE: _ENDED,
        **_RESTARTING,
    },
    State.KILLED: {
        Trigger.OUTPUT: _stay(restart=True),
        Trigger.GRACE_ENDED: _to(State.ABANDONED, Action.KILL_GUARD),
        Trigger.GONE: _ENDED,
    },
    State.ABANDONED: {
        Trigger.GONE: _ENDED,
    },
    State.ENDED: {},
}
"""Transition of each trigger in each state."""

FACT_TRANSITIONS: dict[State, dict[Fact, Transition]] = {
    State.ANSWERED: {Fact.WORK: _to(State.WORKING)},
    State.RUNNING: {Fact.CLOSED: _to(State.CLOSED, grace="exit_grace")},
    State.WORKING: {Fact.CLOSED: _to(State.WORKING_CLOSED, grace="exit_grace")},
    State.EXITED: {Fact.CLOSED: _killed()},  # processes that are left have no output
    State.STOPPED: {Fact.CLOSED: _killed()},
    State.UNREAD: {Fact.READING: _ENDED, Fact.CLOSED: _ENDED},
}
"""Transition that a fact causes by itself in a state."""

LIMITED = frozenset(
    {
        State.RUNNING,
        State.ANSWERED,
        State.WORKING,
        State.CLOSED,
        State.WORKING_CLOSED,
        State.EXITED,
        State.UNREAD,
    }
)
"""States in which Penstock does not act against the agent yet, and in which the limits of the run count."""


_TIMED_OUT = (StopCause.TIME_LIMIT, StopCause.IDLE_LIMIT)


class Lifecycle:
    """State machine of one run. All times are seconds of one clock that never goes back.

    Args:
        limits: time limits and grace periods.
        two_way: the agent's protocol has an end of its own, so the agent exits sooner after its answer.
        now: the time at which the run begins.
        spending: counter of what the run spends, if that has a limit.
    """

    def __init__(self, limits: Limits, *, two_way: bool, now: float, spending: Spending | None = None) -> None:
        self.state: State = State.RUNNING
        self.cause: StopCause | None = None
        """Reason why the run was stopped; None while nothing was done against the agent."""
        self._limits = limits
        self._spending = spending
        self._seconds: dict[str, float] = {**msgspec.structs.asdict(limits), "guard": GUARD_SECONDS}
        if two_way:
            self._seconds["reply_grace"] = limits.exit_grace
        self._began = now
        self._last_sign = now
        self._asked: float | None = None  # when the question came that waits
        self._grace: Grace | None = None
        self._grace_ends: float | None = None
        self._facts = {Fact.READING}

    @property
    def deadline(self) -> float | None:
        """Time at which TICK is due; None: nothing happens by time alone."""
        return min((time for time, _ in self._clocks()), default=None)

    def on(self, trigger: Trigger, now: float) -> list[Action]:
        """Return the actions that follow from a report, to be carried out in their order before the next report."""
        actions: list[Action] = []
        if trigger is Trigger.TICK:
            while (due := self._due(now)) is not None:
                actions += self.on(due, now)
            return actions
        if trigger in FACTS:
            fact, value = FACTS[trigger]
            self._facts = self._facts | {fact} if value else self._facts - {fact}
            self._count_wait(now)
        if trigger in SIGNS_OF_LIFE:
            self._last_sign = now
        transition = TRANSITIONS[self.state].get(trigger) or self._by_fact()
        while transition is not None:
            actions += transition.actions
            self._apply(transition, now)
            transition = self._by_fact()
        return actions

    def observe(self, fact: Fact, value: bool, now: float) -> list[Action]:
        """Report the present value of a fact; the same value as before has no effect."""
        if value == (fact in self._facts):
            return []
        return self.on(TRIGGER_OF_FACT[fact, value], now)

    def on_events(self, events: Sequence[Event], *, working: bool, now: float) -> list[Action]:
        """Report events of the agent, and whether background work is known to continue after them.

        `working` is reported first, as it is after the last event: an answer is followed by work or it is not.
        """
        actions = self.observe(Fact.WORK, working, now)
        for event in events:
            if self._spending is not None and self._spending.add(event):
                actions += self.on(Trigger.LIMIT_PASSED, now)
            kind = type(event)
            if kind is Replied:
                actions += self.on(Trigger.REPLIED, now)
            elif kind is MessageStarted and event.parent is None:
                actions += self.on(Trigger.MESSAGE_STARTED, now)
        return actions

    def exit(self, code: int | None, signal: int | None, stderr: str) -> Exit:
        """Return how the run ended, from the exit status of the agent and the last lines of its stderr."""
        limit = self._spending.passed(code) if self._spending is not None else None
        if limit is not None and self.cause not in (StopCause.CANCELLED, *_TIMED_OUT):
            return Exit(cancelled=True, why=limit, cause="budget")
        if self.cause is None:
            return Exit(code=code, signal=signal, stderr=stderr)
        if self.cause is StopCause.CANCELLED:
            return Exit(cancelled=True)
        if self.cause is StopCause.FINISHED:
            return Exit()
        why = self.cause.value.format(timeout=self._limits.timeout, idle=self._limits.idle)
        return Exit(timed_out=self.cause in _TIMED_OUT, stderr=stderr, why=why)

    def _apply(self, transition: Transition, now: float) -> None:
        if transition.state is not None:
            self.state = transition.state
            self._grace = transition.grace
        if transition.state is not None or transition.restart:
            self._grace_ends = now + self._seconds[self._grace] if self._grace is not None else None
        if transition.cause is not None:
            self.cause = transition.cause

    def _by_fact(self) -> Transition | None:
        rows = FACT_TRANSITIONS.get(self.state, {})
        return next((row for fact, row in rows.items() if fact in self._facts), None)

    def _clocks(self) -> list[tuple[float, Trigger]]:
        """Return the clocks that run, with the trigger that follows when each runs out."""
        limits, limited = self._limits, self.state in LIMITED
        held = limited and not self._facts & {Fact.READING, Fact.CLOSED}
        clocks: list[tuple[float, Trigger]] = []
        if self._grace_ends is not None and not held:
            clocks.append((self._grace_ends, Trigger.GRACE_ENDED))
        waits = Fact.QUESTION in self._facts
        if limited and limits.timeout is not None and (limits.counts_questions or not waits):
            clocks.append((self._began + limits.timeout, Trigger.TIME_LIMIT))
        if limited and limits.idle is not None and not held and not waits:
            clocks.append((self._last_sign + limits.idle, Trigger.IDLE_LIMIT))
        return clocks

    def _count_wait(self, now: float) -> None:
        """Begin the time of the run later by that in which a question waited, unless that counts."""
        if Fact.QUESTION in self._facts:
            self._asked = now if self._asked is None else self._asked
        elif self._asked is not None:
            self._began += 0.0 if self._limits.counts_questions else now - self._asked
            self._asked = None

    def _due(self, now: float) -> Trigger | None:
        return next((trigger for time, trigger in self._clocks() if time <= now), None)
