"""Parrot: `parrot --json`, an agent that Penstock does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Feature, Request, encoded
from penstock.updates import (
    MessageEnd,
    MessageStart,
    Result,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
)


class Hello(msgspec.Struct, tag="hello"):
    """The first line."""

    session: str | None = None
    model: str | None = None


class Begin(msgspec.Struct, tag="begin"):
    """A model message begins."""

    id: str | None = None


class Say(msgspec.Struct, tag="say"):
    """New text."""

    text: str = ""


class Said(msgspec.Struct, tag="said"):
    """The message once more, whole: it is over."""

    id: str | None = None
    text: str = ""


class Call(msgspec.Struct, tag="call"):
    """A tool is called."""

    id: str = ""
    tool: str = "tool"
    args: Any = None


class Got(msgspec.Struct, tag="got"):
    """What the tool gave back."""

    id: str = ""
    text: str = ""
    failed: bool = False


class Bye(msgspec.Struct, tag="bye"):
    """The end, good or bad."""

    error: str | None = None


class Parrot:
    """Says what each line means, and keeps nothing."""

    name: ClassVar[str] = "parrot"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = Hello | Begin | Say | Said | Call | Got | Bye
    supports: ClassVar[Sequence[Feature]] = ("resume", "args")

    @staticmethod
    def command(request: Request) -> Command:
        """`parrot --json`, with the prompt through stdin."""
        session = () if request.session_id is None else (f"--session={request.session_id}",)
        return Command(argv=("parrot", "--json", *session, *request.args), stdin=encoded(request.prompt))

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one line means."""
        match event:
            case Say():
                return (Text("text", "delta", event.text),)
            case Hello():
                return (RunStart(session_id=event.session, model=event.model),)
            case Begin():
                return (MessageStart(event.id),)
            case Said():
                return (Text("text", "final", event.text, message=event.id), MessageEnd(event.id))
            case Call():
                return (ToolCall(event.id, event.tool, event.args),)
            case Got():
                return (ToolReturn(event.id, event.text, event.failed),)
            case Bye():
                return (Result(is_error=event.error is not None, reason=event.error),)
            case {"type": "squawk"}:
                return ()  # known, and nothing to tell
            case {"type": str(kind)}:
                return (Unknown(kind),)
        return (Unknown(),)
