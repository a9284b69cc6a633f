"""What viewers must have seen, made of the entries of the store alone, apart from the server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from restarts import RECORDINGS

from penstock import events as ev
from penstock.chat.history.entries import (
    Answered,
    ChangesFound,
    Edited,
    FilesLeft,
    Moved,
    Prompted,
    Released,
    SentNow,
    SteerRequested,
    StopRequested,
    TurnBegan,
    TurnEnded,
    Undone,
    decode,
)
from penstock.chat.history.timeline import Timeline
from penstock.chat.store.protocol import StoredEntry
from penstock.chat.turn import Completed, Turn
from penstock.testing.viewer import Viewer


class Witness(Protocol):
    """Somebody who has watched a chat."""

    @property
    def viewer(self) -> Viewer:
        """What it knows."""
        ...

    @property
    def moments(self) -> dict[int, dict[int, dict[str, Any]]]:
        """What it saw at some numbers."""
        ...


def folded(rows: list[StoredEntry]) -> dict[int, dict[str, Any]]:
    """Fold the rows into turns by `penstock.chat.turn`, event by event, with nothing else of the chat."""
    turns: dict[int, dict[str, Any]] = {}
    running, turn = 0, Turn()
    for numbered in decode(rows):
        told: list[Any] = []
        number = running
        match numbered.what:
            case Prompted(turn=number, text=text, by=by):
                assert number == len(turns) + 1, "turns are numbered from 1 on"
                turns[number] = {"prompt": text, "by": by}
            case TurnBegan(turn=number):
                assert not running, f"turn {number} begins in turn {running}"
                assert "began" not in turns[number], f"turn {number} began twice"
                running, turn = number, Turn()
                turns[number]["began"] = True
                turn.start()
            case TurnEnded(turn=number, outcome=outcome, reason=reason):
                told = turn.close(reason, outcome) if number == running else [Completed("", outcome, reason)]
                running = 0 if number == running else running
            case Edited(turn=number, text=text):
                if "began" not in turns[number]:
                    turns[number]["prompt"] = text
            case StopRequested() | Released() | SentNow() | SteerRequested() | Moved() | Answered() | Undone():
                pass  # what it leads to is an entry of its own
            case FilesLeft() | ChangesFound():
                assert running == numbered.what.turn, f"the files of turn {numbered.what.turn} come too late"
            case None:
                raise AssertionError(f"a row that nobody can read: {rows[numbered.number - 1]}")
            case event:
                assert running, f"an event outside of a turn: {event}"
                told = turn.feed([event])
                if isinstance(event, ev.RunEnded):
                    running = 0
                elif isinstance(event, ev.Notice) and event.code == "user" and event.steer is not None:
                    turns[int(event.steer)] |= {"message": "", "outcome": "ok", "reason": ""}
        for each in told:
            if isinstance(each, Completed):
                turns[number] |= {"message": each.message, "outcome": each.outcome, "reason": each.reason or ""}
    assert not running, f"turn {running} never ended"
    return turns


def judge(rows: list[StoredEntry], watchers: Sequence[Witness]) -> None:
    """What each viewer saw, at the end and at each moment it remembers, is what the rows up to there say."""
    assert [row.number for row in rows] == list(range(1, len(rows) + 1)), "a gap in the entries"
    truth = folded(rows)
    for watcher in watchers:
        for number, seen in watcher.viewer.seen.items():
            kept = {key: truth[number][key] for key in ("prompt", "by", "message", "outcome", "reason")}
            told = {key: seen.get(key, "") for key in kept}
            assert told == kept, f"turn {number}"
        _judge_moments(rows, watcher)


def _judge_moments(rows: list[StoredEntry], watcher: Witness) -> None:
    timeline = Timeline()
    for number, seen in sorted(watcher.moments.items()):
        timeline.take(decode(rows[timeline.number : number]))
        newcomer = Viewer()
        newcomer.take(json.loads(msgspec.json.encode(timeline.snapshot())), number)
        for turn in seen.keys() & newcomer.seen.keys():
            assert seen[turn] == newcomer.seen[turn], f"at row {number}, turn {turn}"


def is_reply(message: str, agent: str, case: str) -> bool:
    """Whether a message is the reply of a recording, as it was read from the wire by hand."""
    reply: Any = json.loads((RECORDINGS / agent / case / "expected.json").read_text("utf-8"))["reply"]
    if isinstance(reply, dict):
        digest = hashlib.sha256(message.encode()).hexdigest()
        return (len(message), digest) == (reply["length"], reply["sha256"])
    return isinstance(reply, str) and message == reply != ""
