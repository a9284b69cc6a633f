"""Past frames of a chat, and those of them that bring a client up to date.

Of frames that replace each other a client gets the newest only, so what a slow client has missed takes fewer steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from penstock.chat import turn as turns
from penstock.chat.history import frames
from penstock.chat.history.frames import Frame

MAX_CHANGES = 20_000
"""Number of past changes kept for clients that reconnect; a client from before them gets a snapshot."""

MAX_FRAMES = 500
"""Maximum number of frames sent at once; beyond it a client gets a snapshot, which is smaller."""


class _Reply(NamedTuple):
    """Reply of the newest turn that began, which became `length` characters long."""

    number: int
    version: int  # one for each text that does not continue the one before
    length: int


class _Change(NamedTuple):
    """Change that clients see, and the entry that caused it."""

    number: int
    turn: int  # 0 for changes of the chat itself
    what: Frame | _Reply


_REPLACED = (_Reply, turns.Thinking, frames.PlanFrame)
"""Changes that the next one of their kind replaces, so that a client may see some of them only."""


class PastFrames:
    """Frames of a chat by the number of the entry that caused each; a reply that grows is kept once."""

    def __init__(self, number: int) -> None:
        """Begin after entry `number`."""
        self.is_urgent: bool = False
        """True if a frame was added that clients should see at once; whoever reads it sets it back."""
        self._oldest = number  # a client from before it needs a snapshot
        self._first = number + 1  # the first entry whose time is known
        self._times = array("q")  # of the entries from there on
        self._changes: list[_Change] = []
        self._turn = 0  # the newest turn that began: its reply grows
        self._text = ""
        self._replies: list[_Reply] = []

    def begin(self, turn: int) -> None:
        """Begin a turn: of the one before it, drop the frames that others have replaced."""
        self._changes = [it for it in self._changes if it.turn != self._turn or not it.turn or _lasts(it.what)]
        self._turn, self._text, self._replies = turn, "", []

    def add(self, number: int, turn: int, frame: Frame) -> None:
        """Add a frame that entry `number` has caused."""
        self._add(_Change(number, turn, frame))

    def grow(self, number: int, text: str, is_new: bool) -> None:
        """Add the reply of the turn that began last, as entry `number` has left it.

        `is_new`: it does not continue the text before it.
        """
        version = self._replies[-1].version if self._replies else 0
        self._text = text
        self._replies.append(_Reply(number, version + is_new, len(text)))
        self._add(_Change(number, self._turn, self._replies[-1]))

    def note_time(self, number: int, at: int) -> None:
        """Note the time of an entry, which follows the one noted before; others are forgotten if it does not."""
        if number != self._first + len(self._times):
            self._first, self._times = number, array("q")
        self._times.append(at)

    def time_of(self, number: int) -> int | None:
        """Return the time of an entry from which a client can come; None if it is unknown."""
        place = number - self._first
        return self._times[place] if 0 <= place < len(self._times) else None

    def _add(self, change: _Change) -> None:
        self.is_urgent = self.is_urgent or not isinstance(change.what, _REPLACED)
        self._changes.append(change)

    def since(self, after: int, *, deltas: bool) -> list[tuple[int, Frame]] | None:
        """Return the frames that bring a client from entry `after` up to date, each with the number that it covers.

        None if `after` is too old or too far back.
        """
        if after < self._oldest:
            return None
        missed = self._changes[bisect_right(self._changes, after, key=_number) :]
        if len(missed) > 1:
            newest = {it.turn: it for it in missed if isinstance(it.what, _Reply)}
            left = [it for it in missed if not isinstance(it.what, _Reply) or newest[it.turn] is it]
            missed = [it for _, alike in groupby(left, _kind) for it in _joined(list(alike))]
        found = [(it.number, self._frame(it, after, deltas)) for it in missed]
        return found if len(found) <= MAX_FRAMES else None

    def _frame(self, change: _Change, after: int, deltas: bool) -> Frame:
        if not isinstance(change.what, _Reply):
            return change.what
        seen = bisect_right(self._replies, after, key=_number) - 1
        known = self._replies[seen] if seen >= 0 else _Reply(0, self._replies[0].version, 0)
        goes_on = known.version == change.what.version
        if not deltas:
            return turns.Assistant(self._text, not goes_on, change.turn)
        offset = known.length if goes_on else 0
        return frames.AssistantDelta(change.turn, self._text[offset:], offset, not goes_on)

    def bound(self) -> None:
        """Drop the older half of what is too much to be kept."""
        for past in (self._changes, self._replies):
            if len(past) > MAX_CHANGES:
                half = len(past) // 2
                self._oldest = max(self._oldest, past[half - 1].number)
                del past[: half - (past is self._replies)]  # the reply at the oldest entry is kept
        if self._oldest - self._first > MAX_CHANGES:
            del self._times[: self._oldest - self._first]
            self._first = self._oldest


def _number(item: _Change | _Reply) -> int:
    return item.number


def _kind(change: _Change) -> tuple[int, type]:
    return change.turn, type(change.what)


def _lasts(what: Frame | _Reply) -> bool:
    """Return whether a change of a turn that is over is still shown: no other change has replaced it."""
    if isinstance(what, turns.Streaming):
        return what.began_at is not None
    return not isinstance(what, _REPLACED)


def _joined(alike: list[_Change]) -> list[_Change]:
    """Merge consecutive changes of one kind and turn, if they can be one."""
    first, last = alike[0].what, alike[-1].what
    if isinstance(last, turns.Thinking):
        content = "".join(it.what.content for it in alike if isinstance(it.what, turns.Thinking))
        return [alike[-1]._replace(what=replace(last, content=content))]
    if isinstance(last, frames.PlanFrame):
        return [alike[-1]]
    if isinstance(first, turns.Streaming) and isinstance(last, turns.Streaming):
        return [alike[-1]._replace(what=replace(last, began_at=first.began_at))]
    return alike
