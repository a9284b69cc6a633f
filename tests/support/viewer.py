"""A viewer of a chat, by `docs/gateway-api.md` alone: it reads the stream's bytes and keeps what a page shows.

It judges the gateway, so it shares no code with it; what it makes of the frames is `penstock.testing.viewer`. Anything
that the page forbids is an `AssertionError`.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.testing import viewer as testing


class Lines:
    """The bytes of a stream, cut anywhere, as server-sent events."""

    def __init__(self) -> None:
        self.comments = 0
        self.retry: int | None = None
        self._rest = b""
        self._id: str | None = None
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str | None, str, str]]:
        """The events that are whole by now: id (None: it has none), name, data."""
        assert b"\r" not in data, "a line ends with LF alone"
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [found for line in lines if (found := self._line(line.decode()))]

    def _line(self, line: str) -> tuple[str | None, str, str] | None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            found = (self._id, self._event, "\n".join(self._data))
            assert self._data, "a block without data: many readers hand it on as an event with the data ''"
            self._id, self._event, self._data = None, "", []
            return found
        if not name:
            self.comments += 1
        elif name == "retry":
            self.retry = int(value)
        elif name == "id":
            self._id = value
        elif name == "event":
            self._event = value
        elif name == "data":
            # Other readers of lines take these for an end as well.
            assert not set(value) & set("\u2028\u2029\x85\x0b\x0c"), "a character that some take for the end of a line"
            self._data.append(value)
        else:
            raise AssertionError(f"a line that is none: {line!r}")
        return None


class Viewer(testing.Viewer):
    """What one viewer knows of a chat. Feed it bytes; after a cut, come back with `after`, and feed it those."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        """Of the events, as they came."""
        self.bytes = 0
        self.lines = Lines()
        self._unnumbered: list[dict[str, Any]] = []  # what came without a number, until one comes

    @property
    def after(self) -> int | None:
        """The number to come back with."""
        return self.number

    @after.setter
    def after(self, number: int | None) -> None:
        self.number = number

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self.bytes += len(data)
        for id, name, text in self.lines.feed(data):
            frame = json.loads(text)
            assert frame["type"] == name
            if name == "store":
                assert not self._unnumbered, "a frame without a number is followed at once by one that has it"
                assert id is None
                self.take(frame)
                self.names.append(name)
                continue
            self._unnumbered.append(frame)
            ends = name == "goodbye" or (name == "deleted" and id is None)
            assert not (ends and self._unnumbered[1:]), (
                "a frame without a number is followed at once by one that has it"
            )
            if id is not None or ends:
                assert id is None or id.isdecimal(), id
                *before, last = self._unnumbered
                for held in before:
                    self.take(held)
                self.take(last, int(id) if id is not None else None)
                self.names += [held["type"] for held in self._unnumbered]
                self._unnumbered = []

    def cut(self) -> None:
        """The connection is lost. What came without a number comes again."""
        self.lines = Lines()
        self._unnumbered = []

    @property
    def running(self) -> list[int]:
        """The turns that are not completed."""
        return [number for number, turn in self.turns.items() if turn["state"] != "completed"]

    @property
    def is_quiet(self) -> bool:
        """All turns that it knows are recorded."""
        return bool(self.turns) and all(turn.get("finalized") for turn in self.turns.values())


def shown(turns: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Turns, for a comparison: without what only snapshots have, and what is nothing."""
    return {
        number: {name: value for name, value in turn.items() if name not in ("first", "last") and value}
        for number, turn in turns.items()
    }
