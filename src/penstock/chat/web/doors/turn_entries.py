"""Entries of one turn as a stream, for programs that fold them themselves.

Each entry is an event with its number as the id, its kind as the name, and the entry as JSON. `live` follows those that
were there when the stream began. The last event is `end`; without it, or after `closed`, the stream was cut, and a
client continues with the last number.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.chat.history.entries import Numbered
from penstock.chat.web.broadcast import escaped
from penstock.chat.web.doors.turn_fold import TurnFold


class TurnEntries:
    """Stream of the entries of a turn."""

    def __init__(self, turn: int, after: int = 0) -> None:
        """`after`: number of the last entry that the client has."""
        self.is_over: bool = False
        """True once the turn has ended: nothing follows."""
        self._fold = TurnFold(turn)
        self._after = after
        self._is_live = False

    @property
    def is_completed(self) -> bool:
        """True if the turn has ended; its usage may follow."""
        return self._fold.completed is not None

    def start(self) -> bytes:
        """Return nothing: the stream begins with the first entry."""
        return b""

    def take(self, rows: Sequence[Numbered]) -> bytes:
        """Return the events for the next entries of the chat."""
        if self.is_over or not rows:
            return b""
        self._fold.take(rows)
        out = [_event(row) for row in rows if row.number > self._after and row.what is not None]
        if not self._is_live:
            self._is_live = True
            out.append(b"event: live\ndata: {}\n\n")
        if self._fold.is_recorded:
            out.append(self._end())
        return b"".join(out)

    def close(self, reason: str) -> bytes:
        """Return the last event if no further entry can come; `reason`: why, if the turn has not ended."""
        if self.is_over:
            return b""
        if self.is_completed:
            return self._end()
        self.is_over = True
        return b"event: closed\ndata: " + escaped(msgspec.json.encode({"reason": reason})) + b"\n\n"

    def _end(self) -> bytes:
        self.is_over = True
        return b"event: end\ndata: {}\n\n"


def _event(row: Numbered) -> bytes:
    assert row.what is not None
    name = str(row.what.__struct_config__.tag).encode()
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (row.number, name, escaped(msgspec.json.encode(row.what)))
