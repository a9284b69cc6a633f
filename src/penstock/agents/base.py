"""What an adapter is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from penstock.updates import Traits, Update


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
