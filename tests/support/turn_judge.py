"""What the tests of turns share: a judge of the life cycle, and runs made by hand."""

from __future__ import annotations

import re

import msgspec
from effort import examples

from penstock import updates as up
from penstock.chat import turn as turns
from penstock.chat.turn import Assistant, Completed, FinalMessageStart, Streaming, Turn, TurnEvent
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.events import BlockEnded, BlockStarted, Event, MessageEnded

FEW = examples(12, 150)

STATUSES = {turns.WORKING, turns.PLANNING, turns.DELEGATING, turns.ASKING}
STATUSES |= {*turns.CALLING.values(), *turns.NOTICED.values()}
LIFE_CYCLE = re.compile("S[ST]*(?:F(?:A|S|T)*)?C")


def one_by_one(events: list[Event]) -> list[TurnEvent]:
    """The turn of a run whose events come one at a time."""
    turn = Turn()
    out = turn.start()
    for event in events:
        out += turn.feed([event])
    return out


def conflated(events: list[TurnEvent]) -> list[TurnEvent]:
    """Each `assistant` in the place of the ones right before it."""
    out: list[TurnEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Assistant) and isinstance(last, Assistant):
            out[-1] = Assistant(event.content, event.replace or last.replace)
        else:
            out.append(event)
    return out


def check(out: list[TurnEvent]) -> Completed:
    """Judge one turn by its life cycle; the end of it."""
    order = "".join(type(event).__name__[0] for event in out)
    assert LIFE_CYCLE.fullmatch(order), order
    assert ("F" in order) == ("A" in order)
    assert {event.status for event in out if isinstance(event, Streaming)} <= STATUSES
    bubble = ""
    for event in out:
        if isinstance(event, Assistant):
            assert event.replace or event.content.startswith(bubble), "a bubble that did not grow"
            assert bubble or event.content.strip(), "a bubble for nothing"
            bubble = event.content
    lines = msgspec.json.Encoder().encode_lines(out).splitlines()
    assert msgspec.json.Decoder(list[TurnEvent]).decode(b"[" + b",".join(lines) + b"]") == out
    end = out[-1]
    assert isinstance(end, Completed)
    return end


def said(events: list[Event]) -> list[str]:
    """The texts of the top agent's text blocks that were not given up."""
    gone = {event.message for event in events if isinstance(event, MessageEnded) and event.status == "superseded"}
    top = {e.block for e in events if isinstance(e, BlockStarted) and e.parent is None and e.message not in gone}
    return [e.text for e in events if isinstance(e, BlockEnded) and e.block in top and e.kind == "text"]


# --- runs made by hand -----------------------------------------------------------------------------


def run(*updates: up.Update, exit: Exit | None = None, traits: up.Traits | None = None) -> list[TurnEvent]:
    """The turn of a run of these updates; text has marks for its blocks' ends."""
    normalizer = Normalizer("test", traits or up.Traits(block_ends=True))
    for update in updates:
        normalizer.apply(update)
    normalizer.close(exit)
    out = one_by_one(normalizer.drain())
    check(out)
    return out


def text(content: str, place: int = 0) -> up.Update:
    """New text of the current message."""
    return up.Text("text", "delta", content, place=place)


def thought(content: str) -> up.Update:
    """New thinking."""
    return up.Text("thinking", "delta", content, place="t")


BASH = (up.ToolCall("c1", "Bash", {"command": "rm -r secret"}), up.ToolReturn("c1", "gone"))
WORKING = Streaming("Working…")
START = FinalMessageStart()
