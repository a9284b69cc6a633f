"""The conformance check accepts a small adapter of one's own, and names what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest
from effort import at_most

from penstock.agents import registry
from penstock.stream import Stream
from penstock.testing import check_adapter, feeds
from penstock.updates import BlockEnd, Result, RunStart, Text, Traits, Unknown, Update


class Said(msgspec.Struct, tag="said", tag_field="type"):
    """A piece of text."""

    text: str = ""


class Over(msgspec.Struct, tag="over", tag_field="type"):
    """The end of the answer."""

    session: str | None = None


class Toy:
    """An agent that says a few words."""

    name: ClassVar[str] = "toy"
    traits: ClassVar[Traits] = Traits(block_ends=True)
    wire: ClassVar[Any] = Said | Over

    def read(self, event: Any) -> Sequence[Update]:
        """The updates of one line."""
        if isinstance(event, Said):
            return [Text("text", "delta", event.text, place=0)]
        if isinstance(event, Over):
            return [BlockEnd(place=0), RunStart(session_id=event.session), Result()]
        return [Unknown()]


GOOD = '{"type":"said","text":"Grüß "}\n{"type":"said","text":"Gott 😀"}\n{"type":"over","session":"s1"}\n'.encode()


def test_a_good_adapter_passes() -> None:
    """Nothing is raised for an adapter that keeps its promises."""
    check_adapter(Toy, [GOOD, GOOD[: GOOD.index(b"\n") + 1]])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", registry.AGENTS)
def test_the_built_in_adapters_pass(name: str, recordings: list[Any]) -> None:
    """What is asked of others holds here too."""
    data = [recording.data for recording in recordings if recording.agent == name and 0 < len(recording.data) < 60_000]
    if data:
        check_adapter(lambda: registry.make(name), data[:: at_most(3, 1)])


class Nameless(Toy):
    """No name."""

    name = ""


class Traitless(Toy):
    """Traits of another kind."""

    traits: ClassVar[Any] = None


class Needy(msgspec.Struct, tag="said", tag_field="type"):
    """A field without a default, of a type that has no empty value."""

    text: str | int


class NoDefaults(Toy):
    """A wire that refuses lines."""

    wire = Needy


class Shared(Toy):
    """Text that depends on how often it was read."""

    count = 0

    def read(self, event: Any) -> Sequence[Update]:
        """Another text each time."""
        Shared.count += 1
        return [Text("text", "delta", f"{Shared.count}", place=0)]


class Raises(Toy):
    """Fails on a value that another version may print."""

    def read(self, event: Any) -> Sequence[Update]:
        """Takes for granted what the wire does not."""
        if not isinstance(event, Said | Over):
            raise TypeError("what is this?")
        return super().read(event)


class Deaf(Toy):
    """Understands nothing."""

    def read(self, event: Any) -> Sequence[Update]:
        """Silence."""
        return []


class Unknowing(Toy):
    """Takes lines of its own agent for unknown."""

    def read(self, event: Any) -> Sequence[Update]:
        """Everything is news."""
        return [*super().read(event), Unknown("news")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Nameless, "name must be"),
        (Traitless, "traits must be"),
        (NoDefaults, "has no default"),
        (Shared, "other events than whole"),
        (Raises, r"raised \d+ times; the adapter failed: TypeError\(.what is this.+ with the line [^ ]"),
        (Deaf, "no recording gave"),
        (Unknowing, "not handled"),
    ],
)
def test_a_bad_adapter_is_named(make: type[Toy], message: str) -> None:
    """The message says which promise is broken."""
    with pytest.raises(AssertionError, match=message):
        check_adapter(make, [GOOD * 20])


def test_recordings_are_needed() -> None:
    """A check against nothing would check nothing."""
    with pytest.raises(AssertionError, match="no recordings"):
        check_adapter(Toy, [])


def test_a_recording_that_cannot_be_read_is_told() -> None:
    """Malformed lines in a recording are no agent's words."""
    with pytest.raises(AssertionError, match="could not be parsed"):
        check_adapter(Toy, [GOOD + b'{"type":"said","text":\n'])


@pytest.mark.parametrize("sizes", [(), (0,), (3, -1)])
def test_chunks_have_sizes(sizes: tuple[int, ...]) -> None:
    """Sizes that would never end are refused."""
    with pytest.raises(ValueError, match="sizes"):
        feeds.chunked(Stream(Toy()), GOOD, sizes)


def test_cut_points_fall_everywhere() -> None:
    """After a line end, before one, inside a line and inside a character."""
    data = GOOD * 50
    points = feeds.cut_points(data, 40)
    assert all(0 <= point < len(data) for point in points)
    assert any(data[point - 1 : point] == b"\n" for point in points)
    assert any(data[point : point + 1] == b"\n" for point in points)
    assert any(data[point] & 0xC0 == 0x80 for point in points)
    assert feeds.cut_points(b"", 5) == []
