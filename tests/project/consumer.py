"""Program of a user, which type checkers read: `test_types.py` runs mypy and pyright on it. It is never executed."""

from collections.abc import Sequence
from typing import Any, assert_type

import penstock
from penstock import (
    AgentFailed,
    Event,
    Exit,
    Limits,
    Result,
    Run,
    RunEnded,
    Stream,
    TextSink,
    ToolCalled,
    UsageError,
    agent,
    check_adapter,
)
from penstock.adapter import Adapter, Command, Dialogue, Request, encoded
from penstock.events import Cause, Outcome, QuestionAsked
from penstock.updates import Answer, RunStart, Text, Traits, Update


class Plain:
    """The simplest adapter: attributes without annotations."""

    name = "plain"
    traits = Traits()
    wire = dict

    def read(self, event: dict[str, Any]) -> list[Update]:
        """Return the updates of one line."""
        return [RunStart(session_id=event.get("session")), Text("text", "delta", str(event.get("text", "")))]


class PlainDialogue(Plain):
    """The simplest dialogue, whose attributes are of the class, the instance, and computed."""

    supports = ("resume",)

    def __init__(self, request: Request | None) -> None:
        self.over = False
        self._lines = b"" if request is None else encoded(request.prompt)

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command line."""
        return Command(argv=("plain", *request.args))

    def take(self) -> bytes:
        """Return the lines to write."""
        lines, self._lines = self._lines, b""
        return lines

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question."""
        return []

    def cancel(self) -> bool:
        """Ask the agent to stop."""
        return False


class Computed(Plain):
    """A dialogue may also compute whether it is over."""

    @property
    def over(self) -> bool:
        """Whether the agent has answered."""
        return True


one: Adapter = Plain()
two: Dialogue = PlainDialogue(None)
stream = Stream(Plain(), label="mine")
check_adapter(Plain, [b"{}\n"])
check_adapter(lambda: PlainDialogue(None), [b"{}\n"])


def read(data: bytes) -> str:
    """Read a stream to its end."""
    sink = TextSink("none")
    events = stream.feed(data) + stream.close(Exit(code=0))
    assert_type(events, list[Event])
    for event in events:
        if isinstance(event, ToolCalled):
            assert_type(event.name, str)
        elif isinstance(event, RunEnded):
            assert_type(event.outcome, Outcome)
    assert_type(stream.health.lines, int)
    return sink.render(events) + sink.close()


def decide(question: QuestionAsked) -> str | None:
    """Answer a question of the agent."""
    return question.options[0].id if question.options else None


def ask() -> str:
    """Ask an agent."""
    claude = agent("claude", timeout=5, limits=Limits(), files=["a.txt"])
    agent("claude", timeout="5")  # type: ignore[arg-type]
    agent("claude", timout=5)  # type: ignore[call-arg]
    try:
        result = claude.ask("hello", on_question=decide)
    except AgentFailed as error:
        assert_type(error.cause, Cause | None)
        assert_type(error.outcome, Outcome)
        return error.reply
    except UsageError as error:
        return error.help
    assert_type(result, Result)
    assert_type(result.cost_usd, float | None)
    with claude.run("again", session_id=result.session_id) as run:
        assert_type(run, Run)
        for event in run:
            assert_type(event, Event)
    return run.check().reply + penstock.__version__


async def ask_later() -> str:
    """Ask an agent in an event loop."""
    async with agent("claude").run("hello") as run:
        async for event in run:
            assert_type(event, Event)
    return (await agent("claude").ask_async("hello")).reply
