"""Entries of a chat, of recorded runs and of one that has just begun."""

from __future__ import annotations

from served import RECORDINGS, Row

from penstock import Stream
from penstock import events as ev
from penstock.chat.history.entries import Prompted, TurnBegan


def run_of(case: str) -> list[ev.Event]:
    """The events of a recorded run."""
    stream = Stream("claude")
    return [*stream.feed((RECORDINGS / case / "input.ndjson").read_bytes()), *stream.close()]


def rows_of(*cases: str) -> list[Row]:
    """The entries of a chat after these runs."""
    made: list[Row] = []
    for turn, case in enumerate(cases, 1):
        made += [Prompted(turn, f"play {case}", key=f"key {turn}"), TurnBegan(turn, "claude", "/"), *run_of(case)]
    return made


def begun(turn: int = 1) -> list[Row]:
    """A turn that runs, and has begun to say something."""
    return [
        *(Prompted(turn, "go on"), TurnBegan(turn, "claude", "/"), ev.RunStarted(agent="claude")),
        ev.MessageStarted(agent="claude", message=1),
        ev.BlockStarted(agent="claude", block=1, kind="text", message=1),
    ]


def said(text: str) -> ev.Event:
    """More of what it says."""
    return ev.Delta(agent="claude", block=1, kind="text", text=text)
