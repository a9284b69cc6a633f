"""`ask`, `ask_async`, `on_question`: a whole run in one call, and a function that answers the agent's questions."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import AgentFailed, Result, UsageError, agent
from penstock.adapter import Command
from penstock.events import Change, Delta, QuestionAsked, RunEnded, ToolReturned
from penstock.run.launch import Launch
from penstock.run.run import OnQuestion, Run
from penstock.run.spec import spec_of

from .test_dialogue import PEER, Talk

if TYPE_CHECKING:
    from run.processes.conftest import Place

RECORDINGS = Path(__file__).parents[2] / "recordings"


def asking(place: Place, on_question: OnQuestion) -> Run:
    """Return a run of the peer that asks one question."""
    launch = Launch(
        agent="talk",
        label="talk",
        route="talk",
        reader=Talk("hi"),
        command=Command(argv=(sys.executable, "-S", str(PEER), "asks")),
        env=dict(os.environ),
        cwd=os.getcwd(),
        mark=os.urandom(8).hex(),
    )
    return Run(launch, spec_of({"agent": "talk", "prompt": "hi", "ask": True, "limits": place.patient}), on_question)


def printed(recording: str, **options: Any) -> Any:
    """Return an agent that prints a recording."""
    return agent("demo", command=["cat", str(RECORDINGS / recording)], adapter="claude", **options)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("answer", "chosen"), [("allow", "allow"), ("Yes", "allow"), ("reject", "reject"), (None, "reject"), ("", "reject")]
)
def test_a_function_answers(place: Place, answer: str | None, chosen: str) -> None:
    """The function gets the question and returns an option's id, words, or None, which rejects."""
    asked: list[QuestionAsked] = []

    def on_question(question: QuestionAsked) -> str | None:
        asked.append(question)
        return answer

    with asking(place, on_question) as run:
        result = run.wait()
    assert result.reply == f"you said hi and answered {chosen}"
    assert [question.ask for question in asked] == ["command"]
    assert result.refused == (1 if chosen == "reject" else None)


def test_an_async_function_answers(place: Place) -> None:
    """In an event loop the function may be async."""

    async def on_question(question: QuestionAsked) -> str:
        await asyncio.sleep(0.05)
        return (question.options or [])[0].id

    async def whole() -> Result:
        async with asking(place, on_question) as run:
            return await run.await_end()

    assert asyncio.run(whole()).reply == "you said hi and answered allow"


def test_an_async_function_needs_a_loop(place: Place) -> None:
    """Without an event loop an async function is an error, and nothing is left running."""

    async def on_question(question: QuestionAsked) -> str:
        return "allow"

    run = asking(place, on_question)
    with pytest.raises(UsageError, match="on_question is async"), run:
        run.wait()
    place.nothing_left(run.mark)


@pytest.mark.parametrize("wrong", [True, 7, ["allow"]])
def test_another_value_is_an_error(place: Place, wrong: Any) -> None:
    """A function that returns something else allows nothing; the error says what was expected."""
    run = asking(place, lambda question: wrong)
    with pytest.raises((UsageError, TypeError)), run:
        run.wait()
    place.nothing_left(run.mark)


def test_a_function_that_raises(place: Place) -> None:
    """An error of the function reaches the program, and the agent is stopped."""

    def on_question(question: QuestionAsked) -> str:
        raise LookupError("no such answer")

    run = asking(place, on_question)
    with pytest.raises(LookupError, match="no such answer"), run:
        run.wait()
    place.nothing_left(run.mark)


def test_ask_returns_the_result() -> None:
    """One call runs the agent to its end; the result is that of the last event."""
    result = printed("claude/tools/input.ndjson").ask("write notes.txt")
    assert isinstance(result, Result)
    assert (result.outcome, result.exit_status) == ("ok", 0)
    assert result.reply.endswith("FINAL-REPLY.")
    assert asyncio.run(printed("claude/tools/input.ndjson").ask_async("write notes.txt")) == result


def test_ask_raises_if_the_run_failed() -> None:
    """A run that did not end well is an error with all facts, in both forms."""
    failing = agent("demo", command=["sh", "-c", "echo no key >&2; exit 3"], adapter="claude")
    with pytest.raises(AgentFailed) as caught:
        failing.ask("hi")
    assert (caught.value.outcome, caught.value.exit_status, caught.value.stderr) == ("error", 3, "no key")
    with pytest.raises(AgentFailed):
        asyncio.run(failing.ask_async("hi"))


def test_a_function_is_expected() -> None:
    """`on_question` that is no function is rejected before anything starts."""
    with pytest.raises(UsageError, match="on_question"):
        printed("claude/tools/input.ndjson").ask("hi", on_question="allow")


def test_changes_are_joined_by_path() -> None:
    """The result has the changes of all calls, one for each file."""
    result = printed("claude/tools/input.ndjson").run("hi")
    with result as run:
        events = list(run)
    made = [change for event in events if isinstance(event, ToolReturned) for change in event.changes or ()]
    assert [change.path for change in run.result.changes] == list(dict.fromkeys(change.path for change in made))


def test_events_have_their_type_and_a_short_repr() -> None:
    """`type` is that of the wire, and what is not known is not in the repr."""
    delta = Delta(agent="a", block=1, kind="text", text="x")
    assert delta.type == "delta"
    assert repr(delta) == "Delta(block=1, kind='text', text='x', agent='a')"
    assert RunEnded(agent="a", outcome="ok", reply="x", rounds=1).type == "run_ended"
    assert repr(Change("f", "update", added=1)) == "Change(path='f', kind='update', added=1)"


def test_a_run_shows_its_state(place: Place) -> None:
    """The repr of a run has its agent, its route and its state."""
    run = asking(place, lambda question: "allow")
    assert repr(run) == "<Run of talk by talk: not started>"
    with run:
        assert repr(run) == "<Run of talk by talk: running>"
        run.wait()
    assert repr(run) == "<Run of talk by talk: ok>"
    assert repr(run.result).startswith("Result(agent='talk', outcome='ok', reply='you said hi and answered allow'")
