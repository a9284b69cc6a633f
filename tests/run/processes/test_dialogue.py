"""How the supervision speaks with an agent: opening, questions, the protocol's own cancel."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest
from waiting import until

from penstock.adapter import Command
from penstock.events import Delta, Event, Option, QuestionAnswered, QuestionAsked
from penstock.run.launch import Launch
from penstock.run.lifecycle import Limits
from penstock.run.run import Run
from penstock.run.spec import spec_of
from penstock.updates import Answer, MessageStart, Question, Result, Text, Traits, Update

if TYPE_CHECKING:
    from run.processes.conftest import Place

OPTIONS = [Option("reject", "No", "reject_once"), Option("allow", "Yes", "allow_once")]
Start = Callable[..., Run]
PEER = Path(__file__).parent / "programs" / "peer.py"


class Talk:
    """A small two-way protocol."""

    name: ClassVar[str] = "talk"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = Any

    def __init__(self, prompt: str) -> None:
        self.over = False
        self._said = ""
        self._waiting: set[str] = set()
        self._out = self._line(hello=prompt)

    @staticmethod
    def _line(**line: Any) -> bytes:
        return json.dumps(line).encode() + b"\n"

    def take(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def read(self, event: Any) -> Sequence[Update]:
        return list(self._read(event))

    def _read(self, event: dict[str, Any]) -> Iterator[Update]:
        if "ask" in event:
            self._waiting.add(event["ask"])
            yield Question(event["ask"], event["text"], "command", OPTIONS, blocking=True)
        elif "settled" in event:
            self._waiting.discard(event["settled"])
            yield Answer(event["settled"], "withdrawn")
        elif "text" in event:
            self._said = event["text"]
            yield MessageStart("m1")
            yield Text("text", "snapshot", self._said, message="m1")
        elif "done" in event:
            self.over = True
            self._said += event["done"]
            yield Text("text", "final", self._said, message="m1")
            yield Result(self._said)
        elif "cancelled" in event:
            self.over = True
            yield Result(None, cancelled=True)

    def answer(self, answer: Answer) -> Sequence[Update]:
        self._waiting.remove(answer.id)
        self._out += self._line(answer=answer.option)
        return [answer]

    def cancel(self) -> bool:
        self._out += self._line(cancel=True)
        return True


@pytest.fixture
def talk(place: Place, short: Limits) -> Start:
    """A run of the peer that behaves so."""

    def make(mode: str, prompt: str = "hi", **options: Any) -> Run:
        launch = Launch(
            agent="talk",
            label="talk",
            route="talk",
            reader=Talk(prompt),
            command=Command(argv=(sys.executable, "-S", str(PEER), mode)),
            env=dict(os.environ),
            cwd=os.getcwd(),
            mark=os.urandom(8).hex(),
            allow=options.get("allow", "own"),
        )
        return Run(launch, spec_of({"agent": "talk", "prompt": prompt, "limits": place.patient, **options}))

    return make


def test_opened_answered_and_closed(place: Place, talk: Start) -> None:
    """The opening lines are written, and stdin is closed when all is said, upon which the agent goes."""
    with talk("answers", "é" * 300_000) as run:
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply, run.exit_status) == ("ok", "you said " + "é" * 300_000, 0)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({}, "reject"),
        ({"allow": "all"}, "allow"),
        ({"allow": "edits"}, "reject"),
        ({"allow": "read", "ask": True}, "reject"),
    ],
)
def test_questions_that_nobody_is_asked(place: Place, talk: Start, options: dict[str, Any], answer: str) -> None:
    """A question is refused, or allowed where everything is. Where it may only read, no person is asked either."""
    with talk("asks", **options) as run:
        events = list(run)
    [said] = [event for event in events if isinstance(event, QuestionAnswered)]
    assert said.by == ("allow" if options.get("allow") in ("all", "read") else "nobody")
    assert place.whole(run, events).reply == f"you said hi and answered {answer}"


def test_a_question_that_is_asked(place: Place, talk: Start) -> None:
    """With `ask` a question waits for its answer, longer than the idle limit; other answers are passed over."""
    events: list[Event] = []
    with talk("asks", ask=True, idle_timeout=1) as run:
        for event in run:
            events.append(event)
            if isinstance(event, QuestionAsked):
                assert not place.supervisor(run).join(1.5)
                run.answer("another", "allow")
                run.answer(event.id, "allow")
                run.answer(event.id, "reject")
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", "you said hi and answered allow")


def test_a_question_that_is_taken_back(place: Place, talk: Start) -> None:
    """A question that the agent settles itself no longer waits."""
    events: list[Event] = []
    with talk("withdraws", ask=True) as run:
        for event in run:
            events.append(event)
            if isinstance(event, QuestionAnswered):
                until(lambda: not run.awaits("q1"))
                run.cancel()
    assert place.whole(run, events).outcome == "cancelled"


def _until_it_speaks(run: Run) -> list[Event]:
    events: list[Event] = []
    for event in run:
        events.append(event)
        if isinstance(event, Delta):
            run.cancel()
    return events


def test_cancelled_by_the_protocol(place: Place, talk: Start) -> None:
    """An agent that obeys the protocol's cancel is not signalled."""
    with talk("waits") as run:
        events = _until_it_speaks(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply, run.exit_status) == ("cancelled", "you said hi", 0)


def test_a_cancel_that_is_ignored(place: Place, talk: Start, short: Limits) -> None:
    """An agent that ignores the protocol's cancel, and SIGINT, is ended by the next signal."""
    limits = msgspec.structs.replace(place.patient, ask=short.ask, interrupt=short.interrupt)
    with talk("ignores_cancel", limits=limits) as run:
        events = _until_it_speaks(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply, run.exit_status) == ("cancelled", "you said hi", -signal.SIGTERM)


def test_a_cancelled_server_sees_the_end_of_its_stdin(place: Place, talk: Start, short: Limits) -> None:
    """A server that ignores the protocol's cancel, and SIGINT, may still exit when its stdin is closed."""
    with talk("ends_with_stdin", limits=msgspec.structs.replace(place.patient, ask=short.ask)) as run:
        events = _until_it_speaks(run)
    ended = place.whole(run, events)
    assert (ended.outcome, run.exit_status) == ("cancelled", 0)
