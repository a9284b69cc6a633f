"""A viewer of a chat, by `docs/gateway-api.md` alone: it reads the stream's bytes and keeps what a page shows.

It judges the gateway, so it shares no code with it. Anything that the page forbids is an `AssertionError`.
"""

from __future__ import annotations

import json
from typing import Any

EVENTS = {
    "snapshot": {"number", "turns", "earlier"},
    "prompted": {"turn", "prompt", "by", "asked_at", "key"},
    "streaming": {"turn", "status", "hint", "began_at"},
    "thinking": {"turn", "content"},
    "final_message_start": {"turn"},
    "assistant": {"turn", "content", "delta", "offset", "replace"},
    "completed": {"turn", "message", "outcome", "completed_at", "reason", "hint"},
    "recorded": {"turn", "steps", "duration_ms", "usage", "cost_usd", "agent", "model"},
    "deleted": set(),
    "goodbye": set(),
}
"""Each event, with the fields that it may have."""

WHILE_IT_RUNS = ("status", "reply", "hint")


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
            has_data, self._id, self._event, self._data = bool(self._data), None, "", []
            return found if has_data else None
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


class Viewer:
    """What one viewer knows of a chat. Feed it bytes; after a cut, come back with `after`, and feed it those."""

    def __init__(self) -> None:
        self.after: int | None = None
        """The number to come back with."""
        self.turns: dict[int, dict[str, Any]] = {}
        self.earlier = False
        self.names: list[str] = []
        """Of the events, as they came."""
        self.snapshots = 0
        self.deleted = False
        self.goodbye = False
        self.bytes = 0
        self.lines = Lines()
        self._held: list[tuple[str, dict[str, Any]]] = []  # what came without a number, until one comes

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self.bytes += len(data)
        for id, name, text in self.lines.feed(data):
            frame = json.loads(text)
            assert frame.pop("type") == name
            assert not self.deleted, "nothing follows `deleted`"
            assert set(frame) <= EVENTS[name], (name, frame)
            self._held.append((name, frame))
            if self._number(id, name):
                for held, it in self._held:
                    self.names.append(held)
                    getattr(self, f"_{held}")(it)
                self._held = []

    def cut(self) -> None:
        """The connection is lost. What came without a number comes again."""
        self.lines = Lines()
        self._held = []

    @property
    def running(self) -> list[int]:
        """The turns that are not completed."""
        return [number for number, turn in self.turns.items() if turn["state"] != "completed"]

    @property
    def is_quiet(self) -> bool:
        """All turns that it knows are recorded."""
        return bool(self.turns) and all(turn.get("recorded") for turn in self.turns.values())

    def _number(self, id: str | None, name: str) -> bool:
        """Whether all that came so far is to be shown."""
        if name == "goodbye" or (name == "deleted" and id is None):
            assert not self._held[:-1], "a frame without a number is followed at once by one that has it"
            return True
        if id is None:
            return False
        assert id.isdecimal(), id
        if name != "snapshot" and self.after is not None:
            assert int(id) > self.after, f"{name} of row {id} came after row {self.after}"
        self.after = int(id)
        return True

    # --- frames ---

    def _snapshot(self, frame: dict[str, Any]) -> None:
        assert frame["number"] == self.after
        self.snapshots += 1
        self.turns = {turn["turn"]: turn for turn in frame["turns"]}
        self.earlier = frame.get("earlier", False)
        assert [*self.turns] == sorted(self.turns)
        for turn in self.turns.values():
            turn.setdefault("by", "person")
            turn.setdefault("state", "queued")

    def _prompted(self, frame: dict[str, Any]) -> None:
        number = frame["turn"]
        assert number not in self.turns, "a turn is asked for once"
        self.turns[number] = {**frame, "state": "queued"}

    def _streaming(self, frame: dict[str, Any]) -> None:
        turn = self._turn(frame, "queued", "running")
        assert ("began_at" in frame) == (turn["state"] == "queued"), "the first one says when the turn began"
        turn.pop("hint", None)
        turn.update(frame, state="running")

    def _thinking(self, frame: dict[str, Any]) -> None:
        self._turn(frame, "running")["status"] = frame["content"]

    def _final_message_start(self, frame: dict[str, Any]) -> None:
        turn = self._turn(frame, "running")
        assert "reply" not in turn, "once in a turn"
        turn.pop("status", None)
        turn["reply"] = ""

    def _assistant(self, frame: dict[str, Any]) -> None:
        turn = self._turn(frame, "running")
        assert "reply" in turn, "final_message_start comes before"
        assert ("content" in frame) != ("delta" in frame)
        before: str = turn["reply"]
        if "content" in frame:
            reply = frame["content"]
        else:
            assert frame["offset"] <= len(before), "a gap"
            reply = before[: frame["offset"]] + frame["delta"]
        if not frame.get("replace"):
            assert reply.startswith(before), "what was shown is taken back without `replace`"
        turn["reply"] = reply
        turn.pop("status", None)

    def _completed(self, frame: dict[str, Any]) -> None:
        turn = self._turn(frame, "queued", "running")
        for name in WHILE_IT_RUNS:
            turn.pop(name, None)
        turn.update(frame, state="completed")

    def _recorded(self, frame: dict[str, Any]) -> None:
        turn = self._turn(frame, "completed")
        assert not turn.get("recorded")
        turn.update(frame, recorded=True)

    def _deleted(self, frame: dict[str, Any]) -> None:
        self.deleted = True

    def _goodbye(self, frame: dict[str, Any]) -> None:
        self.goodbye = True

    def _turn(self, frame: dict[str, Any], *states: str) -> dict[str, Any]:
        turn = self.turns[frame["turn"]]
        assert turn["state"] in states, f"the turn is {turn['state']}"
        return turn


def shown(turns: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Turns, for a comparison: without what only snapshots have, and what is nothing."""
    return {
        number: {name: value for name, value in turn.items() if name not in ("first", "last") and value}
        for number, turn in turns.items()
    }
