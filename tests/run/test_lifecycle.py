"""The decisions of a run's supervisor, each with its time, on a clock and an agent that exist in a table only."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from penstock.core.normalizer.outcome import KILLED
from penstock.events import Event, RunEnded
from penstock.run.lifecycle import Action, Fact, Lifecycle, Limits, State, Trigger
from penstock.run.limits import Budget, Spending
from penstock.stream import Stream
from penstock.testing.verify import verify

SAID = "hello, all of it is here"
SHOWN = {
    Action.CANCEL_OVER_PROTOCOL: "cancel",
    Action.CLOSE_STDIN: "close",
    Action.INTERRUPT: "INT",
    Action.TERMINATE: "TERM",
    Action.KILL: "KILL",
    Action.KILL_GUARD: "KILL the guard",
    Action.END: "end",
}
"""Actions as the timeline of a row names them."""

# --- what an agent does ---


def _line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def text(words: str = SAID, message: str = "m1") -> bytes:
    """A message of the agent, as claude writes it."""
    return _line(type="assistant", message={"id": message, "content": [{"type": "text", "text": words}]})


def result(words: str = SAID) -> bytes:
    """The agent's answer."""
    return _line(type="result", subtype="success", is_error=False, result=words, session_id="s1", num_turns=1)


def answer(words: str = SAID, message: str = "m1") -> bytes:
    """A message and the answer that has it."""
    return text(words, message) + result(words)


INIT = _line(type="system", subtype="init", session_id="s1", model="m1")
WORK_STARTS = _line(type="system", subtype="task_started", task_id="t1", description="builds")
WORK_ENDS = _line(type="system", subtype="task_notification", task_id="t1", status="completed")

Step = Callable[["Simulation"], None]


def says(data: bytes) -> Step:
    """The agent writes this."""
    return lambda simulation: simulation.read(data)


def complains(words: str) -> Step:
    """The agent writes this to stderr."""
    return lambda simulation: simulation.read_stderr(words)


def exits(code: int = 0, signal: int | None = None) -> Step:
    """The agent's process exits so."""
    return lambda simulation: simulation.exit(code, signal)


def closes(simulation: Simulation) -> None:
    """The agent closes its output."""
    simulation.close()


def reports(trigger: Trigger) -> Step:
    """The supervisor reports this."""
    return lambda simulation: simulation.report(trigger)


def observes(fact: Fact, value: bool) -> Step:
    """The supervisor observes this."""
    return lambda simulation: simulation.observe(fact, value)


CANCEL, KILL = reports(Trigger.CANCEL), reports(Trigger.KILL)
READER_STOPS, READER_CONTINUES = observes(Fact.READING, False), observes(Fact.READING, True)


class Simulation:
    """A run of an agent that does at given times what its script says, and obeys what it obeys.

    Args:
        script: pairs of a time in seconds and what happens then.
        limits: time limits and grace periods.
        two_way: whether it speaks a protocol.
        obeys: signals at which the agent exits.
        leaves: `nothing`, `output` (a process that holds the output open) or `process` (one that holds nothing).
        obeys_cancel: whether it exits when it is cancelled over its protocol; None: it cannot be cancelled so.
        guard: whether the guard kills when it is ordered to.
        budget: what it may spend.
        turn_limit_status: the status with which it exits at a limit of its own.
    """

    def __init__(
        self,
        script: Sequence[tuple[float, Step]],
        *,
        limits: Limits | None = None,
        two_way: bool = False,
        obeys: str = "INT TERM",
        leaves: str = "nothing",
        obeys_cancel: bool | None = None,
        guard: bool = True,
        budget: Budget | None = None,
        turn_limit_status: int | None = None,
    ) -> None:
        self.now = 0.0
        self.timeline: list[str] = []
        self.lifecycle = Lifecycle(
            limits or Limits(),
            two_way=two_way,
            now=0.0,
            spending=Spending(budget or Budget(), turn_limit_status),
        )
        self.stream = Stream("claude")
        self.events: list[Event] = []
        self.status: int | None = None
        """Exit status of the agent; negative for a signal."""
        self._obeys, self._leaves, self._obeys_cancel, self._guard = obeys.split(), leaves, obeys_cancel, guard
        self._stderr: list[str] = []
        self._order = itertools.count()
        self._coming = [(time, next(self._order), step) for time, step in script]
        heapq.heapify(self._coming)
        self._open = True

    def run(self) -> RunEnded:
        """Let time pass until the run has ended; its last event."""
        while self.lifecycle.state is not State.ENDED:
            deadline = self.lifecycle.deadline
            if self._coming and (deadline is None or self._coming[0][0] <= deadline):
                self.now, _, step = heapq.heappop(self._coming)
                step(self)
            else:
                assert deadline is not None, "the run waits for ever"
                self.now = max(self.now, deadline)
                self.report(Trigger.TICK)
        code, signal = (self.status, None) if self.status is None or self.status >= 0 else (None, -self.status)
        self.events += self.stream.close(self.lifecycle.exit(code, signal, "\n".join(self._stderr)))
        assert verify(self.events) == []
        ended = self.events[-1]
        assert isinstance(ended, RunEnded)
        return ended

    def report(self, trigger: Trigger) -> None:
        """Report a trigger and carry out what follows."""
        self._carry_out(self.lifecycle.on(trigger, self.now))

    def observe(self, fact: Fact, value: bool) -> None:
        """Report a fact and carry out what follows."""
        self._carry_out(self.lifecycle.observe(fact, value, self.now))

    def read(self, data: bytes) -> None:
        """Read output of the agent, as the supervisor does."""
        self.report(Trigger.OUTPUT)
        events = self.stream.feed(data)
        self.events += events
        self._carry_out(self.lifecycle.on_events(events, working=self.stream.working, now=self.now))

    def read_stderr(self, words: str) -> None:
        """Read stderr of the agent."""
        self._stderr.append(words)
        self.report(Trigger.ERROR_OUTPUT)

    def exit(self, code: int, signal: int | None) -> None:
        """The agent's process exits, and what nobody else holds open is closed."""
        if self.status is None:
            self.status = code if signal is None else -signal
            self.report(Trigger.EXITED)
            if self._leaves != "output":
                self.close()
            if self._leaves == "nothing":
                self.report(Trigger.GONE)

    def close(self) -> None:
        """Close the output."""
        if self._open:
            self._open = False
            self.report(Trigger.STDOUT_CLOSED)

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if action in SHOWN:
                self.timeline.append(f"{self.now:g} {SHOWN[action]}")
            match action:
                case Action.CANCEL_OVER_PROTOCOL if self._obeys_cancel is None:
                    self.report(Trigger.CANNOT_CANCEL)
                case Action.CANCEL_OVER_PROTOCOL if self._obeys_cancel:
                    self._soon(exits())
                case Action.INTERRUPT if "INT" in self._obeys:
                    self._soon(exits(signal=2))
                case Action.TERMINATE if "TERM" in self._obeys:
                    self._soon(exits(signal=15))
                case Action.KILL if self._guard:
                    self._soon(Simulation._all_die)
                case Action.KILL_GUARD:
                    self._soon(Simulation._all_die)

    def _soon(self, step: Step) -> None:
        heapq.heappush(self._coming, (self.now, next(self._order), step))

    def _all_die(self) -> None:
        self._leaves = "nothing"
        self.exit(0, 9)
        self.close()
        self.report(Trigger.GONE)


# --- the fault table ---


class Row(NamedTuple):
    """A fault, what is done about it and when, and what becomes of the run."""

    name: str
    script: Sequence[tuple[float, Step]]
    options: dict[str, Any]
    timeline: str
    status: int | None
    outcome: str
    reason: str | None = None
    reply: str = SAID


DEAF: dict[str, Any] = {"obeys": ""}
GOOD, NO_ANSWER = "it is no good", "exit status 0 without an answer"
CLOSED_OUTPUT = "it closed its output and stayed, so it was stopped"
TIMEOUT, IDLE = Limits(timeout=60), Limits(idle=20)
LATE, QUIET = "the time limit of 60 s was reached", "no output for 20 s"
TURN_2 = answer("it is built", "m2")

TOOL = _line(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]})
CALL = _line(type="assistant", message={"id": "m1", "content": [{"type": "tool_use", "id": "t1", "name": "Bash"}]})
ONE_TURN: dict[str, Any] = {"budget": Budget(max_turns=1)}
OVER = "stopped: the run came to turn 2, the limit is 1"

ENDS_BY_ITSELF = [
    Row("answers", [(0, says(answer())), (1, exits())], {}, "1 KILL, 1 end", 0, "ok"),
    Row("output left", [(0, says(answer())), (1, exits())], {"leaves": "output"}, "3 KILL, 3 end", 0, "ok"),
    Row("process left", [(0, says(answer())), (1, exits())], {"leaves": "process"}, "1 KILL, 1 end", 0, "ok"),
    Row("no answer", [(0, says(text())), (1, exits())], {}, "1 KILL, 1 end", 0, "cut_off", NO_ANSWER),
    Row("nothing", [(0, says(INIT)), (1, exits())], {}, "1 KILL, 1 end", 0, "cut_off", NO_ANSWER, ""),
    Row(
        "exits with 0 and stderr",
        [(0, says(text())), (0, complains(GOOD)), (1, exits())],
        {},
        "1 KILL, 1 end",
        0,
        "cut_off",
        f"{NO_ANSWER}: {GOOD}",
    ),
    Row(
        "exits with 1",
        [(0, says(text())), (0, complains(GOOD)), (1, exits(1))],
        {},
        "1 KILL, 1 end",
        1,
        "error",
        f"exit status 1: {GOOD}",
    ),
    Row("answers, 1", [(0, says(answer())), (1, exits(1))], {}, "1 KILL, 1 end", 1, "ok", "exit status 1"),
    Row(
        "killed from outside",
        [(0, says(text())), (1, exits(signal=15))],
        {},
        "1 KILL, 1 end",
        -15,
        "cut_off",
        "killed by signal 15",
    ),
    Row(
        "killed in a line",
        [(0, says(text())), (0, says(result()[:40])), (1, exits(signal=9))],
        {},
        "1 KILL, 1 end",
        -9,
        "cut_off",
        KILLED,
    ),
    Row(
        "answers twice",
        [(0, says(answer())), (1, says(answer("and one thing more", "m2"))), (2, exits())],
        {},
        "2 KILL, 2 end",
        0,
        "ok",
        None,
        "and one thing more",
    ),
    Row("never executed", [(0, reports(Trigger.GONE))], {}, "0 end", None, "empty", "the agent printed no event", ""),
]

STAYS = [
    Row("stays", [(0, says(answer()))], {}, "5 close, 5 INT, 5 KILL, 5 end", -2, "ok"),
    Row("stays, TERM", [(0, says(answer()))], {"obeys": "TERM"}, "5 close, 5 INT, 6 TERM, 6 KILL, 6 end", -15, "ok"),
    Row("stays, deaf", [(0, says(answer()))], DEAF, "5 close, 5 INT, 6 TERM, 7 KILL, 7 end", -9, "ok"),
    Row("stays, two-way", [(0, says(answer()))], {"two_way": True}, "2 close, 2 INT, 2 KILL, 2 end", -2, "ok"),
    Row(
        "answers, closes, stays",  # a closed output does not prolong the grace period
        [(0, says(answer())), (4, closes)],
        {},
        "5 close, 5 INT, 5 KILL, 5 end",
        -2,
        "ok",
    ),
    Row(
        "closes",
        [(0, says(text())), (1, closes)],
        {},
        "3 close, 3 INT, 3 KILL, 3 end",
        -2,
        "cut_off",
        CLOSED_OUTPUT,
    ),
    Row(
        "closes, deaf",
        [(0, says(text())), (1, closes)],
        DEAF,
        "3 close, 3 INT, 4 TERM, 7 KILL, 7 end",
        -9,
        "cut_off",
        CLOSED_OUTPUT,
    ),
    Row("closes, exits", [(0, says(text())), (1, closes), (2, exits())], {}, "2 KILL, 2 end", 0, "cut_off", NO_ANSWER),
    Row(
        "goes on after its answer",
        [(0, says(answer())), (4, says(text("it is built", "m2"))), (50, says(result("it is built")))],
        {},
        "55 close, 55 INT, 55 KILL, 55 end",
        -2,
        "ok",
        None,
        "it is built",
    ),
]

BACKGROUND_WORK = [
    Row(
        "is waited for",
        [(0, says(WORK_STARTS + answer())), (100, says(WORK_ENDS)), (110, says(TURN_2)), (111, exits())],
        {},
        "111 KILL, 111 end",
        0,
        "ok",
        None,
        "it is built",
    ),
    Row(
        "ends and nothing follows",
        [(0, says(WORK_STARTS + answer())), (100, says(WORK_ENDS))],
        {},
        "130 close, 130 INT, 130 KILL, 130 end",
        -2,
        "ok",
    ),
    Row(
        "ends and a turn follows",
        [(0, says(WORK_STARTS + answer())), (100, says(WORK_ENDS)), (110, says(TURN_2))],
        {},
        "115 close, 115 INT, 115 KILL, 115 end",
        -2,
        "ok",
        None,
        "it is built",
    ),
    Row(
        "ended with the answer",
        [(0, says(WORK_STARTS)), (1, says(WORK_ENDS + answer()))],
        {},
        "6 close, 6 INT, 6 KILL, 6 end",
        -2,
        "ok",
    ),
    Row(
        "begins in the grace period",
        [(0, says(answer())), (3, says(WORK_STARTS)), (100, says(WORK_ENDS)), (101, exits())],
        {},
        "101 KILL, 101 end",
        0,
        "ok",
    ),
    Row(
        "goes on behind a closed output",
        [(0, says(WORK_STARTS + answer())), (1, closes)],
        {},
        "3 close, 3 INT, 3 KILL, 3 end",
        -2,
        "ok",
    ),
    Row(
        "goes on behind a closed output, deaf",
        [(0, says(WORK_STARTS + answer())), (1, closes)],
        DEAF,
        "3 close, 3 INT, 4 TERM, 5 KILL, 5 end",
        -9,
        "ok",
    ),
    Row(
        "is left with the output open",
        [(0, says(WORK_STARTS + answer())), (1, exits())],
        {"leaves": "output"},
        "3 KILL, 3 end",
        0,
        "ok",
    ),
    Row(
        "is cancelled",
        [(0, says(WORK_STARTS + answer())), (10, CANCEL)],
        {},
        "10 cancel, 10 close, 10 INT, 10 KILL, 10 end",
        -2,
        "cancelled",
    ),
    Row(
        "takes too long",
        [(0, says(WORK_STARTS + answer()))],
        {"limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "timed_out",
        LATE,
    ),
]

CANCELLED = [
    Row(
        "obeys SIGINT",
        [(0, says(text())), (9, CANCEL)],
        {},
        "9 cancel, 9 close, 9 INT, 9 KILL, 9 end",
        -2,
        "cancelled",
    ),
    Row(
        "is deaf",
        [(0, says(text())), (9, CANCEL)],
        DEAF,
        "9 cancel, 9 close, 9 INT, 14 TERM, 17 KILL, 17 end",
        -9,
        "cancelled",
    ),
    Row(
        "a second time",
        [(0, says(text())), (9, CANCEL), (12, CANCEL)],
        DEAF,
        "9 cancel, 9 close, 9 INT, 14 TERM, 17 KILL, 17 end",
        -9,
        "cancelled",
    ),
    Row(
        "leaves the output open",
        [(0, says(text())), (9, CANCEL)],
        {"leaves": "output"},
        "9 cancel, 9 close, 9 INT, 11 KILL, 11 end",
        -2,
        "cancelled",
    ),
    Row(
        "obeys its protocol",
        [(0, says(text())), (9, CANCEL)],
        {"two_way": True, "obeys_cancel": True},
        "9 cancel, 9 KILL, 9 end",
        0,
        "cancelled",
    ),
    Row(
        "ignores its protocol",
        [(0, says(text())), (9, CANCEL)],
        {"two_way": True, "obeys_cancel": False},
        "9 cancel, 14 close, 14 INT, 14 KILL, 14 end",
        -2,
        "cancelled",
    ),
    Row(
        "ignores its protocol and SIGINT",
        [(0, says(text())), (9, CANCEL)],
        {"two_way": True, "obeys_cancel": False, "obeys": "TERM"},
        "9 cancel, 14 close, 14 INT, 19 TERM, 19 KILL, 19 end",
        -15,
        "cancelled",
    ),
    Row(
        "answers only then",
        [(0, says(text())), (9, CANCEL), (10, says(result())), (11, exits())],
        {"two_way": True, "obeys_cancel": False},
        "9 cancel, 11 KILL, 11 end",
        0,
        "cancelled",
    ),
    Row(
        "after its answer",
        [(0, says(answer())), (1, CANCEL)],
        DEAF,
        "1 close, 1 INT, 2 TERM, 3 KILL, 3 end",
        -9,
        "ok",
    ),
    Row(
        "after it closed its output",
        [(0, says(text())), (1, closes), (2, CANCEL)],
        {},
        "2 cancel, 2 close, 2 INT, 2 KILL, 2 end",
        -2,
        "cancelled",
    ),
    Row(
        "after its exit",
        [(0, says(answer())), (1, exits()), (2, CANCEL)],
        {"leaves": "output"},
        "3 KILL, 3 end",
        0,
        "ok",
    ),
    Row("killed", [(0, says(text())), (9, KILL)], DEAF, "9 KILL, 9 end", -9, "cancelled"),
    Row(
        "killed while it is cancelled",
        [(0, says(text())), (9, CANCEL), (10, KILL)],
        DEAF,
        "9 cancel, 9 close, 9 INT, 10 KILL, 10 end",
        -9,
        "cancelled",
    ),
    Row("killed after its answer", [(0, says(answer())), (1, KILL)], DEAF, "1 KILL, 1 end", -9, "ok"),
    Row(
        "killed after its exit",
        [(0, says(answer())), (0, exits()), (1, KILL)],
        {"leaves": "output"},
        "1 KILL, 1 end",
        0,
        "ok",
    ),
    Row(
        "with a guard that stands still",
        [(0, says(text())), (9, KILL)],
        {"obeys": "", "guard": False},
        "9 KILL, 21 KILL the guard, 21 end",
        -9,
        "cancelled",
    ),
    Row(
        "with a guard that still passes output on",
        [(0, says(text())), (9, KILL), (19, says(b"\n")), (25, complains("no sign of life of the guard"))],
        {"obeys": "", "guard": False},
        "9 KILL, 31 KILL the guard, 31 end",
        -9,
        "cancelled",
    ),
]

LIMITED = [
    Row(
        "time limit",
        [(0, says(text())), (50, says(b"\n"))],
        {"limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "timed_out",
        LATE,
    ),
    Row(
        "time limit, deaf",
        [(0, says(text()))],
        {"limits": TIMEOUT, "obeys": ""},
        "60 cancel, 60 close, 60 INT, 65 TERM, 68 KILL, 68 end",
        -9,
        "timed_out",
        LATE,
    ),
    Row(
        "time limit, and stderr",
        [(0, says(text())), (1, complains(GOOD))],
        {"limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "timed_out",
        LATE,
    ),
    Row(
        "cancel after the time limit",
        [(0, says(text())), (61, CANCEL)],
        {"limits": TIMEOUT, "obeys": ""},
        "60 cancel, 60 close, 60 INT, 65 TERM, 68 KILL, 68 end",
        -9,
        "timed_out",
        LATE,
    ),
    Row(
        "time limit after the answer",
        [(0, says(answer()))],
        {"limits": Limits(timeout=60, reply_grace=100)},
        "60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "ok",
    ),
    Row(
        "time limit after the exit",
        [(0, says(text())), (1, exits())],
        {"limits": Limits(timeout=60, exit_grace=100), "leaves": "output"},
        "60 KILL, 60 end",
        0,
        "cut_off",
        NO_ANSWER,
    ),
    Row(
        "idle limit",
        [(0, says(text())), (15, says(b"\n"))],
        {"limits": IDLE},
        "35 cancel, 35 close, 35 INT, 35 KILL, 35 end",
        -2,
        "timed_out",
        QUIET,
    ),
    Row(
        "idle limit, stderr",
        [(0, says(text())), (15, complains(GOOD))],
        {"limits": IDLE},
        "35 cancel, 35 close, 35 INT, 35 KILL, 35 end",
        -2,
        "timed_out",
        QUIET,
    ),
    Row(
        "idle limit after the answer",
        [(0, says(answer()))],
        {"limits": Limits(idle=20, reply_grace=100)},
        "20 close, 20 INT, 20 KILL, 20 end",
        -2,
        "ok",
    ),
    Row(
        "idle limit after the exit",
        [(0, says(answer())), (1, exits())],
        {"limits": Limits(idle=20, exit_grace=100), "leaves": "output"},
        "20 KILL, 20 end",
        0,
        "ok",
    ),
    Row(
        "a question waits",
        [(5, observes(Fact.QUESTION, True)), (100, observes(Fact.QUESTION, False)), (101, says(text()))],
        {"limits": IDLE},
        "121 cancel, 121 close, 121 INT, 121 KILL, 121 end",
        -2,
        "timed_out",
        QUIET,
    ),
    Row(
        "a question that is taken back",
        [(0, says(text())), (5, observes(Fact.QUESTION, True)), (6, observes(Fact.QUESTION, False))],
        {"limits": IDLE},
        "26 cancel, 26 close, 26 INT, 26 KILL, 26 end",
        -2,
        "timed_out",
        QUIET,
    ),
    Row(
        "the time limit does not wait for a question",
        [(0, says(text())), (5, observes(Fact.QUESTION, True))],
        {"limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "timed_out",
        LATE,
    ),
    Row(
        "the time limit waits for the questions of a person",
        [
            (0, says(text())),
            (5, observes(Fact.QUESTION, True)),
            (500, observes(Fact.QUESTION, False)),
            (510, observes(Fact.QUESTION, True)),
            (530, observes(Fact.QUESTION, False)),
        ],
        {"limits": Limits(timeout=60, counts_questions=False)},
        "575 cancel, 575 close, 575 INT, 575 KILL, 575 end",
        -2,
        "timed_out",
        LATE,
    ),
]

BUDGET = [
    Row(
        "a turn too many",
        [(0, says(CALL + TOOL)), (1, says(text(SAID, "m2")))],
        ONE_TURN,
        "1 cancel, 1 close, 1 INT, 1 KILL, 1 end",
        -2,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many, over its protocol",
        [(0, says(CALL + TOOL)), (1, says(text(SAID, "m2")))],
        {**ONE_TURN, "obeys_cancel": True, "two_way": True},
        "1 cancel, 1 KILL, 1 end",
        0,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many, of a deaf agent that answers all the same",
        [(0, says(CALL + TOOL)), (1, says(text(SAID, "m2"))), (2, says(result()))],
        {**ONE_TURN, **DEAF},
        "1 cancel, 1 close, 1 INT, 6 TERM, 9 KILL, 9 end",
        -9,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many and the answer in one read",
        [(0, says(CALL + TOOL + answer(SAID, "m2")))],
        ONE_TURN,
        "0 cancel, 0 close, 0 INT, 0 KILL, 0 end",
        -2,
        "cancelled",
        OVER,
    ),
    Row(
        "another turn after the answer",
        [(0, says(answer("first", "m1"))), (1, says(text(SAID, "m2")))],
        ONE_TURN,
        "1 cancel, 1 close, 1 INT, 1 KILL, 1 end",
        -2,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many, read after the exit",
        [(0, says(CALL + TOOL)), (1, exits()), (2, says(text(SAID, "m2")))],
        {**ONE_TURN, "leaves": "output"},
        "2 KILL, 2 end",
        0,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many, read when no process is left",
        [(0, says(CALL + TOOL)), (1, READER_STOPS), (2, reports(Trigger.GONE)), (3, says(text(SAID, "m2")))],
        ONE_TURN,
        "3 end",
        None,
        "cancelled",
        OVER,
    ),
    Row(
        "a turn too many after a cancel",
        [(0, says(CALL + TOOL)), (1, CANCEL), (2, says(text(SAID, "m2")))],
        {**ONE_TURN, **DEAF},
        "1 cancel, 1 close, 1 INT, 6 TERM, 9 KILL, 9 end",
        -9,
        "cancelled",
    ),
    Row(
        "a turn too many after the time limit",
        [(0, says(CALL + TOOL)), (61, says(text(SAID, "m2")))],
        {**ONE_TURN, **DEAF, "limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 65 TERM, 68 KILL, 68 end",
        -9,
        "timed_out",
        LATE,
    ),
    Row(
        "the agent's own limit of turns",
        [(0, says(text())), (1, exits(53))],
        {**ONE_TURN, "turn_limit_status": 53},
        "1 KILL, 1 end",
        53,
        "cancelled",
        OVER,
    ),
    Row(
        "the status of that without a limit",
        [(0, says(text())), (1, exits(53))],
        {"turn_limit_status": 53},
        "1 KILL, 1 end",
        53,
        "error",
        "exit status 53",
    ),
    Row(
        "another status",
        [(0, says(text())), (1, exits(1))],
        {**ONE_TURN, "turn_limit_status": 53},
        "1 KILL, 1 end",
        1,
        "error",
        "exit status 1",
    ),
    Row(
        "no more than the limit",
        [(0, says(CALL + TOOL)), (1, says(answer(SAID, "m2"))), (2, exits())],
        {"budget": Budget(max_turns=2)},
        "2 KILL, 2 end",
        0,
        "ok",
    ),
]

STOPPED_READER = [
    Row(
        "no grace period",
        [(0, says(answer())), (1, READER_STOPS), (100, READER_CONTINUES)],
        {},
        "105 close, 105 INT, 105 KILL, 105 end",
        -2,
        "ok",
    ),
    Row(
        "no grace period after the exit",
        [(0, says(answer())), (1, READER_STOPS), (2, exits()), (100, READER_CONTINUES)],
        {"leaves": "output"},
        "102 KILL, 102 end",
        0,
        "ok",
    ),
    Row(
        "no idle limit",
        [(0, says(text())), (1, READER_STOPS), (100, READER_CONTINUES)],
        {"limits": IDLE},
        "120 cancel, 120 close, 120 INT, 120 KILL, 120 end",
        -2,
        "timed_out",
        QUIET,
    ),
    Row(
        "but the time limit",
        [(0, says(text())), (1, READER_STOPS)],
        {"limits": TIMEOUT},
        "60 cancel, 60 close, 60 INT, 60 KILL, 60 end",
        -2,
        "timed_out",
        LATE,
    ),
    Row(
        "and a cancel",
        [(0, says(text())), (1, READER_STOPS), (9, CANCEL)],
        DEAF,
        "9 cancel, 9 close, 9 INT, 14 TERM, 17 KILL, 17 end",
        -9,
        "cancelled",
    ),
    Row(
        "and an agent that is gone",
        [(0, says(answer())), (1, READER_STOPS), (2, reports(Trigger.GONE)), (100, READER_CONTINUES)],
        {},
        "100 end",
        None,
        "ok",
    ),
    Row(
        "and an agent that is gone, and the time limit",
        [(0, says(answer())), (1, READER_STOPS), (2, reports(Trigger.GONE))],
        {"limits": TIMEOUT},
        "60 end",
        None,
        "ok",
    ),
    Row(
        "and an agent that is gone, and a kill",
        [(0, says(answer())), (1, READER_STOPS), (2, reports(Trigger.GONE)), (9, KILL)],
        {},
        "9 end",
        None,
        "ok",
    ),
]

ROWS = [
    pytest.param(row, id=f"{group}: {row.name}")
    for group, rows in {
        "ends by itself": ENDS_BY_ITSELF,
        "stays": STAYS,
        "background work": BACKGROUND_WORK,
        "cancelled": CANCELLED,
        "limits": LIMITED,
        "budget": BUDGET,
        "stopped reader": STOPPED_READER,
    }.items()
    for row in rows
]


@pytest.mark.parametrize("row", ROWS)
def test_fault(row: Row) -> None:
    """Each fault has its actions at their times, its outcome and its reason, and all text is there."""
    simulation = Simulation(row.script, **row.options)
    ended = simulation.run()
    assert ", ".join(simulation.timeline) == row.timeline
    assert (simulation.status, ended.outcome, ended.reason, ended.reply) == row[4:]


# --- rules of the machine ---


def test_an_answer_that_came_in_time_counts() -> None:
    """Clocks are looked at only on TICK, so what was there before it counts, however late Penstock looks."""
    lifecycle = Lifecycle(Limits(timeout=60), two_way=False, now=0)
    assert lifecycle.on(Trigger.OUTPUT, 1000) == []
    assert lifecycle.on(Trigger.REPLIED, 1000) == []
    assert lifecycle.on(Trigger.EXITED, 1000) == []
    assert lifecycle.on(Trigger.TICK, 1000) == [Action.KILL, Action.RESUME_READING]
    assert lifecycle.cause is None


def test_reading_is_paused_and_resumed_once() -> None:
    """A fact that is observed again as it was has no effect."""
    lifecycle = Lifecycle(Limits(), two_way=False, now=0)
    assert lifecycle.observe(Fact.READING, True, 0) == []
    assert lifecycle.observe(Fact.READING, False, 1) == [Action.PAUSE_READING]
    assert lifecycle.observe(Fact.READING, False, 2) == []
    assert lifecycle.observe(Fact.READING, True, 3) == [Action.RESUME_READING]


def test_what_is_left_of_a_killed_agent_is_read() -> None:
    """A kill resumes reading, whatever the reader takes, and reading is not paused again."""
    lifecycle = Lifecycle(Limits(), two_way=False, now=0)
    lifecycle.observe(Fact.READING, False, 0)
    assert lifecycle.on(Trigger.KILL, 1) == [Action.KILL, Action.RESUME_READING]
    lifecycle.observe(Fact.READING, True, 2)
    assert lifecycle.observe(Fact.READING, False, 3) == []


def test_the_rest_is_read_before_the_end() -> None:
    """When no process is left, what is in the pipe is read before the run ends."""
    lifecycle = Lifecycle(Limits(), two_way=False, now=0)
    assert lifecycle.on(Trigger.GONE, 1) == [Action.READ_REST, Action.END]


def test_grace_periods_of_no_length() -> None:
    """Where an agent is given no time, all signals are due at once, in their order."""
    limits = Limits(ask=0, interrupt=0, terminate=0)
    lifecycle = Lifecycle(limits, two_way=True, now=0)
    assert lifecycle.on(Trigger.CANCEL, 1) == [Action.CANCEL_OVER_PROTOCOL]
    stop = [Action.CLOSE_STDIN, Action.INTERRUPT, Action.TERMINATE, Action.KILL, Action.RESUME_READING]
    assert lifecycle.on(Trigger.TICK, 1) == stop


def test_nothing_happens_by_time_alone_without_limits() -> None:
    """An agent that works, has no limit and is silent is waited for without a deadline."""
    assert Lifecycle(Limits(), two_way=False, now=0).deadline is None
    assert Lifecycle(Limits(timeout=60, idle=20), two_way=False, now=100).deadline == 120
