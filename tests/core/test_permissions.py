"""Denied actions, causes and durations: what the events say of the work, from questions, answers and clocks."""

from __future__ import annotations

import msgspec
import pytest
from normalized import checked, of_type, run_of

from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.questions import SAME_COMMAND
from penstock.events import (
    AnsweredBy,
    Change,
    Event,
    Option,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    ToolCalled,
    ToolReturned,
)

OPTIONS = [Option("y", "Yes", "allow_once"), Option("a", "Always", "allow_always"), Option("n", "No", "reject_once")]
EDIT = [Change("f", "update", added=1, removed=1, diff="@@\n-a\n+b\n")]
DONE = up.Result("done")


def asked(id: str = "q", ask: str = "edit", call_id: str | None = "c") -> up.Question:
    """Return a question about a call."""
    return up.Question(id, "May I?", ask, OPTIONS, blocking=True, call_id=call_id, changes=EDIT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "by", "refused"),
    [
        ("y", "person", None),
        ("a", "allow", None),
        ("a thing that was not offered", "person", None),
        ("n", "person", 1),
        (None, "nobody", 1),
        (None, "withdrawn", None),
    ],
)
def test_an_answer_that_denies_is_counted(option: str | None, by: AnsweredBy, refused: int | None) -> None:
    """A permission that is rejected counts, also if nobody could be asked; one that was withdrawn does not."""
    events = run_of(asked(), up.Answer("q", by, option), DONE)
    assert of_type(events, RunEnded)[0].refused == refused
    assert of_type(events, QuestionAsked)[0].changes == EDIT


def test_an_open_question_is_known_as_its_adapter_read_it() -> None:
    """A rule judges the command of the question itself; after the answer there is nothing to judge."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(asked())
    assert normalizer.permissions.asked("q") == asked()
    assert normalizer.permissions.asked("another") is None
    normalizer.apply(up.Answer("q", "person", "y"))
    assert normalizer.permissions.asked("q") is None


def test_an_answer_for_the_same_command_allows_once() -> None:
    """The agent is answered with its own option, and the events say what the person chose."""
    own = msgspec.structs.replace(asked(ask="command"), options=[SAME_COMMAND, *OPTIONS])
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(own)
    assert normalizer.permissions.allow_same("another") is None
    once = normalizer.permissions.allow_same("q")
    assert once == up.Answer("q", "person", "y")
    normalizer.apply(once)
    (event,) = of_type(normalizer.drain(), QuestionAnswered)
    assert isinstance(event, QuestionAnswered)
    assert (event.option, event.by) == (SAME_COMMAND.id, "person")
    assert normalizer.permissions.allow_same("q") is None


@pytest.mark.parametrize("options", [OPTIONS, [SAME_COMMAND, *OPTIONS[1:]], [SAME_COMMAND]])
def test_nothing_is_allowed_that_was_not_offered(options: list[Option]) -> None:
    """A question without Penstock's option, or whose agent cannot allow once, has no such answer."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(msgspec.structs.replace(asked(ask="command"), options=options))
    assert normalizer.permissions.allow_same("q") is None


def test_none_is_known_to_be_denied() -> None:
    """If the agent asks for everything, no denial is a count of zero; else the count is absent."""
    assert of_type(run_of(DONE, traits=up.Traits(asks_for_all=True)), RunEnded)[0].refused == 0
    assert of_type(run_of(DONE), RunEnded)[0].refused is None


def test_a_choice_is_no_permission() -> None:
    """A question that is not about a permission is never denied, nor is an answer to an unknown question."""
    events = run_of(asked(ask="choice"), up.Answer("q", "nobody"), up.Answer("unknown", "nobody"), DONE)
    assert of_type(events, RunEnded)[0].refused is None


def test_the_call_of_a_denied_question_is_marked() -> None:
    """Its result is marked, has no changes, and is counted once, whoever reports it."""
    call = up.ToolCall("c", "Edit", {"path": "f"}, changes=EDIT)
    result = up.ToolReturn("c", "no", refused=True)
    events = run_of(call, asked(), up.Answer("q", "person", "n"), result, DONE)
    [returned] = of_type(events, ToolReturned)
    assert (returned.refused, returned.changes) == (True, None)
    assert of_type(events, RunEnded)[0].refused == 1


def test_a_denial_that_only_the_wire_reports() -> None:
    """A result that says so is counted; the agent's own count at the end is used if it is larger."""
    call, result = up.ToolCall("c", "Edit", {}), up.ToolReturn("c", "no", is_error=True, refused=True)
    assert of_type(run_of(call, result, DONE), RunEnded)[0].refused == 1
    assert of_type(run_of(call, result, up.Result("done", refused=3)), RunEnded)[0].refused == 3
    assert of_type(run_of(up.Result("done", refused=0)), RunEnded)[0].refused == 0


@pytest.mark.parametrize(
    ("result", "made"),
    [
        (up.ToolReturn("c", "ok"), EDIT),
        (up.ToolReturn("c", "ok", changes=[Change("g", "add")]), [Change("g", "add")]),
        (up.ToolReturn("c", "ok", changes=[]), None),
        (up.ToolReturn("c", "no", is_error=True), None),
        (up.ToolReturn("c", "no", is_error=True, changes=EDIT), None),
    ],
)
def test_changes_that_were_made(result: up.ToolReturn, made: list[Change] | None) -> None:
    """The result's own changes are used, else those that were proposed; a failed call has made none."""
    events = run_of(up.ToolCall("c", "Edit", {"path": "f"}, changes=EDIT), result, DONE)
    assert of_type(events, ToolCalled)[0].changes == EDIT
    assert of_type(events, ToolReturned)[0].changes == made


def test_a_call_without_a_result_has_made_nothing() -> None:
    """The changes of a call that the end of the run cut off are only proposed."""
    events = run_of(up.ToolCall("c", "Edit", {"path": "f"}, changes=EDIT), DONE)
    [returned] = of_type(events, ToolReturned)
    assert (returned.complete, returned.changes) == (False, None)


@pytest.mark.parametrize(("wire", "duration"), [(None, 250), (90, 90)])
def test_durations_of_calls(wire: int | None, duration: int) -> None:
    """A call lasts as long as the wire says, else from its call to its result; without a clock it is not known."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.stamp(1_000)
    normalizer.apply(up.ToolCall("c", "Bash", {"command": "ls"}))
    normalizer.stamp(1_250)
    normalizer.apply(up.ToolReturn("c", "x", duration_ms=wire))
    normalizer.apply(DONE)
    normalizer.close()
    assert of_type(checked(normalizer), ToolReturned)[0].duration_ms == duration
    events = run_of(up.ToolCall("c", "Bash", {}), up.ToolReturn("c", "x"), DONE)
    assert of_type(events, ToolReturned)[0].duration_ms is None


def timed(*steps: tuple[int, up.Update], end: int = 60_000) -> list[Event]:
    """The events of a run whose updates come at these times."""
    normalizer = Normalizer("test", up.Traits())
    for at, update in steps:
        normalizer.stamp(at)
        normalizer.apply(update)
    normalizer.stamp(end)
    normalizer.apply(DONE)
    normalizer.close()
    return checked(normalizer)


def call(id: str, lane: str | None = None) -> up.ToolCall:
    """A call of a shell."""
    return up.ToolCall(id, "Bash", {"command": id}, lane=lane)


YES = up.Answer("q", "person", "y")


@pytest.mark.parametrize(
    ("steps", "durations", "asked_ms"),
    [
        # The person took 30 s, the command 200 ms.
        ([(0, call("c")), (10, asked()), (30_010, YES), (30_200, up.ToolReturn("c"))], [200], 30_000),
        # The question came before its call.
        ([(0, asked()), (30_000, YES), (30_000, call("c")), (30_200, up.ToolReturn("c"))], [200], 30_000),
        # The agent's own clock does not count the question, or does.
        ([(0, call("c")), (0, asked()), (5_000, YES), (5_300, up.ToolReturn("c", duration_ms=250))], [250], 5_000),
        ([(0, call("c")), (0, asked()), (5_000, YES), (5_300, up.ToolReturn("c", duration_ms=5_290))], [300], 5_000),
        # Another call runs meanwhile, and is not held up.
        (
            [
                (0, call("c")),
                (0, call("d")),
                (0, asked()),
                (4000, up.ToolReturn("d")),
                (5000, YES),
                (6000, up.ToolReturn("c")),
            ],
            [4_000, 1_000],
            5_000,
        ),
        # A question that names no call holds up all of them.
        ([(0, call("c")), (0, asked(call_id=None)), (5_000, YES), (6_000, up.ToolReturn("c"))], [1_000], 5_000),
        # A sub-agent's call holds up the call of the sub-agent.
        (
            [
                (0, call("task")),
                (0, call("c", "task")),
                (0, asked()),
                (5000, YES),
                (5100, up.ToolReturn("c")),
                (6000, up.ToolReturn("task")),
            ],
            [100, 1_000],
            5_000,
        ),
        # Two questions at once wait for one person.
        (
            [
                (0, call("c")),
                (0, asked()),
                (1000, asked("r")),
                (5000, YES),
                (7000, up.Answer("r", "person", "y")),
                (8000, up.ToolReturn("c")),
            ],
            [1_000],
            7_000,
        ),
        # Lanes that lead in a circle, a question that is asked twice, one that is answered twice or never.
        ([(0, call("a", "b")), (0, call("b", "a")), (0, asked(call_id="a")), (10, up.ToolReturn("a"))], [0, 0], 60_000),
        (
            [(0, call("c")), (0, asked()), (9, asked()), (1_000, YES), (2_000, YES), (2_500, up.ToolReturn("c"))],
            [1_500],
            1_000,
        ),
        ([(0, call("c")), (9, up.ToolReturn("c"))], [9], None),
    ],
)
def test_the_wait_for_a_person_is_not_work(
    steps: list[tuple[int, up.Update]], durations: list[int], asked_ms: int | None
) -> None:
    """It is in no duration of a call that it holds up, and the end of the run has all of it."""
    events = timed(*steps)
    known = [event.duration_ms for event in of_type(events, ToolReturned) if event.complete]
    assert known == durations[: len(known)]
    assert of_type(events, RunEnded)[0].asked_ms == asked_ms


def test_a_question_that_nobody_waits_for_takes_no_time() -> None:
    """The agent goes on at once; and without a clock nothing is known."""
    question = up.Question("q", "May I?", "edit", OPTIONS, call_id="c")
    events = timed((0, call("c")), (0, question), (5_000, up.ToolReturn("c")))
    assert of_type(events, ToolReturned)[0].duration_ms == 5_000
    assert of_type(run_of(call("c"), asked(), YES, up.ToolReturn("c"), DONE), RunEnded)[0].asked_ms is None


LIMIT = up.Notice("rate_limit", "used up", cause="usage_limit", resets_at=99)
TEXT = up.Text("text", "final", "hello", message="m")


@pytest.mark.parametrize(
    ("updates", "cause", "resets_at"),
    [
        ([up.Result(None, is_error=True, cause="auth")], "auth", None),
        ([up.Failure("no", "overloaded"), up.Result(None, is_error=True)], "overloaded", None),
        ([up.Failure("no", "usage_limit", 42)], "usage_limit", 42),
        ([LIMIT, up.Result(None, is_error=True, cause="rate_limit")], "usage_limit", 99),
        ([LIMIT, up.Notice("retry", "429", cause="rate_limit"), up.Result(None, is_error=True)], "usage_limit", 99),
        ([up.Notice("status", "", resets_at=7), up.Result(None, is_error=True, cause="rate_limit")], "rate_limit", 7),
        ([up.Notice("retry", "529", cause="overloaded"), up.Result(None, is_error=True)], "overloaded", None),
        ([up.Notice("retry", "529", cause="overloaded"), TEXT, up.Result(None, is_error=True)], None, None),
        ([up.Notice("retry", "529", cause="overloaded"), TEXT, up.Result("hello")], None, None),
        ([TEXT, up.Result("hello", stop_reason="max_tokens")], "length", None),
    ],
)
def test_causes(updates: list[up.Update], cause: str | None, resets_at: int | None) -> None:
    """The cause is that of the failure, else of the trouble that nothing followed; only a limit has a reset."""
    [ended] = of_type(run_of(*updates), RunEnded)
    assert (ended.cause, ended.resets_at) == (cause, resets_at)
    assert (ended.outcome == "ok") <= (ended.cause is None)
