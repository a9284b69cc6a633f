"""Retries of a run: the rules that decide about them, on ends and events that no agent has to be started for."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from penstock.events import (
    Cause,
    Event,
    Option,
    Outcome,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    ToolCalled,
    ToolReturned,
    Usage,
)
from penstock.run.fallback import FIRST_WAIT_MS, PASSING
from penstock.run.retries import Retries
from penstock.run.spec import RunSpec

NOW = 1_800_000_000_000
SPEC = RunSpec(agent="claude", prompt="fix it", retry=3, stdin_text="piped", files=("a.txt",))
CALL = ToolCalled(agent="claude", call_id="t1", name="Bash", input={}, title="ls", tool_kind="execute")
REFUSED = ToolReturned(agent="claude", call_id="t1", text="", is_error=True, complete=True, refused=True)
RESULT = ToolReturned(agent="claude", call_id="t1", text="", is_error=False, complete=True)


def end(outcome: Outcome = "error", cause: Cause | None = "overloaded", **more: Any) -> RunEnded:
    """The end of an attempt."""
    return RunEnded(agent="claude", outcome=outcome, reply="", cause=cause, **{"rounds": 0, "session_id": "s1", **more})


def after(spec: RunSpec, events: list[Event], *ends: RunEnded) -> list[tuple[str, str | None, float]]:
    """The prompt and the conversation of each further attempt, and the seconds before it, until there is none."""
    retries, found = Retries(spec), []
    retries.observe(events)
    for ended in ends:
        following = retries.next(ended, 2, NOW)
        if following is None:
            break
        specs, wait = following
        found.append((specs[0].prompt, specs[0].session_id, wait.seconds))
    return found


@pytest.mark.parametrize("cause", [None, *get_args(Cause)])
@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_which_ends_are_followed_by_a_retry(outcome: Outcome, cause: Cause | None) -> None:
    """A stream that was cut off, and an error that passes; nothing that a person or a limit has stopped."""
    is_retried = outcome == "cut_off" or (outcome == "error" and cause in PASSING)
    assert bool(after(SPEC, [], end(outcome, cause))) == is_retried


def test_the_waits_grow_and_the_number_is_bounded() -> None:
    """Each wait is twice the one before it, a known reset is waited for, and after N retries there is no other."""
    assert [wait for *_, wait in after(SPEC, [], *[end()] * 5)] == [
        FIRST_WAIT_MS / 1000 * factor for factor in (1, 2, 4)
    ]
    assert after(SPEC, [], end(cause="rate_limit", resets_at=NOW + 60_000))[0][2] == 60
    for retry in (None, 0):
        assert after(RunSpec(agent="claude", prompt="x", retry=retry), [], end()) == []


def test_the_conversation_goes_on_once_it_has_begun() -> None:
    """Nothing said: the same prompt again. Something said: the same in the conversation. Tools: to go on with them."""
    assert after(SPEC, [], end())[0][:2] == ("fix it", None)
    assert after(SPEC, [], end(rounds=1))[0][:2] == ("fix it", "s1")
    prompt, session, _ = after(SPEC, [CALL, RESULT], end(rounds=1))[0]
    assert session == "s1"
    assert prompt.startswith("Your last turn was cut off")
    assert prompt.endswith("The request was:\n\nfix it")


def test_work_whose_conversation_is_unknown_is_not_repeated() -> None:
    """Once a tool was called, only its own conversation knows what was done."""
    assert after(SPEC, [CALL], end("cut_off", None, session_id=None)) == []
    assert after(SPEC, [], end("cut_off", None, session_id=None, rounds=1))[0][:2] == ("fix it", None)


def test_the_request_of_a_second_retry_is_not_wrapped_twice() -> None:
    """The prompt of each retry has the request of the person, and the files went with the first one."""
    retries = Retries(SPEC)
    retries.observe([CALL, RESULT])
    for number in (2, 3):
        following = retries.next(end(session_id="s1" if number == 2 else None), number, NOW)
        assert following is not None
        specs, wait = following
        assert [(spec.session_id, spec.number, spec.stdin_text, spec.files) for spec in specs] == [
            ("s1", number, None, ())
        ]
        assert specs[0].prompt.count("Your last turn") == 1
        assert (wait.notice.code, wait.notice.attempt, wait.notice.max_attempts) == ("retry", number - 1, 3)


def test_a_fork_is_made_once() -> None:
    """A retry goes on with the branch, and makes no other branch of the conversation."""
    spec = RunSpec(agent="claude", prompt="x", retry=1, session_id="old", fork=True)
    for rounds, expected in ((0, ("old", True)), (1, ("s1", False))):
        following = Retries(spec).next(end(rounds=rounds), 2, NOW)
        assert following is not None
        assert (following[0][0].session_id, following[0][0].fork) == expected


ASKED = QuestionAsked(
    agent="claude",
    id="q1",
    text="may I?",
    blocking=True,
    ask="command",
    options=[Option("y", "Yes", "allow_once"), Option("n", "No", "reject_once")],
)


@pytest.mark.parametrize(
    ("events", "ended", "is_retried"),
    [
        ([ASKED, QuestionAnswered(agent="claude", id="q1", by="person", option="y")], end(), True),
        ([ASKED, QuestionAnswered(agent="claude", id="q1", by="withdrawn")], end(), True),
        ([ASKED, QuestionAnswered(agent="claude", id="q1", by="person", option="n")], end(), False),
        ([ASKED, QuestionAnswered(agent="claude", id="q1", by="person", text="not now")], end(), False),
        ([ASKED, QuestionAnswered(agent="claude", id="q1", by="nobody")], end(), False),
        ([CALL, REFUSED], end(), False),
        ([], end(refused=1), False),
        ([], end("cut_off", None, refused=2), False),
    ],
)  # fmt: skip
def test_a_refusal_is_the_last_word(events: list[Event], ended: RunEnded, is_retried: bool) -> None:
    """What a person, a rule or the level has refused is not tried again."""
    assert bool(after(SPEC, events, ended)) == is_retried


def test_limits_hold_for_all_attempts() -> None:
    """Each retry has what is left of the limits, and with nothing left there is none."""
    spec = RunSpec(agent="claude", prompt="x", retry=9, max_cost=1.0, max_turns=5, max_tokens=100)
    retries, left = Retries(spec), []
    while (following := retries.next(end(rounds=2, cost_usd=0.25, usage=Usage(30, 10)), 2, NOW)) is not None:
        one = following[0][0]
        left.append((one.max_cost, one.max_turns, one.max_tokens))
    assert left == [(0.75, 3, 60), (0.5, 1, 20)]
