"""What an adapter is, what can be started, and what is talked with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from penstock.commands import Command, Request
from penstock.updates import Answer, Traits, Update


@runtime_checkable
class Adapter(Protocol):
    """The meaning of one agent's words. One instance reads one stream.

    `read` is given each wire event, decoded as `wire` says, and answers with the updates it means; none
    makes it a control event. It is never given twice the same object, is called in the order of the
    lines, and must not raise, whatever the values are: `wire` guarantees types, not sense.
    """

    name: ClassVar[str]
    """The agent's name in the registry."""
    traits: ClassVar[Traits]
    wire: ClassVar[Any]
    """What a line is decoded to: a `msgspec.Struct`, or a union of structs tagged by `type`. All fields
    need defaults. A value of another type becomes the field's default (a number in a text field: its
    digits); an object whose tag is not in its union, and a line that is no object, are given as plain data."""

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one wire event means."""
        ...


@runtime_checkable
class Startable(Protocol):
    """An adapter class whose agent Penstock can start."""

    @staticmethod
    def command(request: Request) -> Command:
        """The command line for a request. Pure: it looks at nothing but the request, which is `checked`.

        Raises:
            UsageError: the agent cannot do what is asked.
        """
        ...


@runtime_checkable
class Finishing(Adapter, Protocol):
    """An adapter that keeps something until the stream has ended."""

    def finish(self) -> Sequence[Update]:
        """What the end of the stream means, before the run is closed."""
        ...


@runtime_checkable
class Dialogue(Adapter, Protocol):
    """An adapter that also speaks: a two-way protocol, one JSON object a line in both directions.

    Sans-IO like every adapter. It is made with the request (`Dialogue(request)`), or with None to read what was
    recorded of a dialogue; whatever it then would say is not asked for. What it has to say gathers, and the
    shell fetches it with `take` after each call. A question of the agent's is a `Question` with `blocking`; what is
    needed to answer it is kept by its id.
    """

    over: bool
    """The agent has answered and nothing more is expected: the shell closes stdin, and the process may go."""

    def take(self) -> bytes:
        """The lines to write now, b"" for none. The first call gives the lines that open the dialogue."""
        ...

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question by the id of one of its options or in words; without either, reject it.

        Raises:
            KeyError: no such question is waiting.
        """
        ...

    def cancel(self) -> bool:
        """Ask the agent to stop, in the protocol's own way, and give up what waits for an answer.

        False where there is nothing to cancel yet: the shell then signals at once.
        """
        ...
