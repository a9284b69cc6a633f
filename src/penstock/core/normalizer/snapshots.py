"""Snapshots: the comparison of a complete text with the text that was emitted, and the one repair that guesses.

`repair` compares a snapshot that an adapter marks as such. `SnapshotGuess` is only for wires with the trait
`repair_snapshots` (contract rule 4): a proxy may put snapshots into the delta stream, or send the full
frame of a block early, again, or under another message id.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal, NamedTuple, Protocol

MIN_PREFIX_CHARS = 8
"""Minimum characters of emitted text for which a delta that begins with all of it counts as a snapshot. "ha" and "haha"
can follow each other by chance; eight equal characters at the very beginning do not."""

MIN_REPEAT_CHARS = 32
"""Minimum characters of a delta that counts as the full frame of its block, sent again, because it equals the whole
block so far. Larger than `MIN_PREFIX_CHARS`, since such a delta has no new text that would indicate a snapshot."""

DeltaKind = Literal["delta", "snapshot", "whole"]
"""Kind of a delta: new text; a snapshot of which only the end is new; or a text that replaces the block, because it
proves that the deltas before it were snapshots too."""


class Repair(NamedTuple):
    """Result of comparing a snapshot: `text` is new (`suffix`), replaces everything (`diverged`), or is empty."""

    action: Literal["nothing", "suffix", "diverged"]
    text: str = ""


def repair(sent: str, received: str, final: bool) -> Repair:
    """Compare the text that was emitted with a snapshot of it.

    A snapshot that is not final may be older than the emitted text; a final always counts.
    """
    if received == sent:
        return Repair("nothing")
    if received.startswith(sent):
        return Repair("suffix", received[len(sent) :])
    if not final and sent.startswith(received):
        return Repair("nothing")
    return Repair("diverged", received)


def adds_defaults(sent: Any, final: Any) -> bool:
    """Return whether a final value equals the one that was sent, apart from members that were added to its objects.

    An added member must be `false`, `null`, `0`, or an empty string, list or object. An agent that checks a call's
    input against the tool's schema adds such values for optional members that the model left out.

    Raises:
        RecursionError: the values are nested too deep.
    """
    if isinstance(sent, dict) and isinstance(final, dict):
        if not all(key in final and adds_defaults(value, final[key]) for key, value in sent.items()):
            return False
        return not any(value for key, value in final.items() if key not in sent)
    if isinstance(sent, list) and isinstance(final, list):
        return len(sent) == len(final) and all(map(adds_defaults, sent, final))
    return isinstance(sent, bool) == isinstance(final, bool) and bool(sent == final)  # True is 1, but not in JSON


class SentText(Protocol):
    """Part of a block that `SnapshotGuess` reads."""

    @property
    def size(self) -> int:
        """Number of characters that were emitted."""

    @property
    def text(self) -> str:
        """Text that was emitted."""


class SnapshotGuess:
    """Evidence that the deltas of one block are snapshots, and the full frame that came before its deltas."""

    __slots__ = ("_echoed", "_joined_crc", "_joined_size", "_last", "_snapshots", "repaired")

    def __init__(self) -> None:
        self.repaired: bool = False
        """True if a delta was found to be a snapshot, so that the block's text is not its deltas, joined."""
        self._snapshots = False
        self._last: str | None = ""  # the last delta, as long as each delta began with the one before it
        self._joined_crc = 0  # of the deltas as received, which is the text that the agent itself joined
        self._joined_size = 0
        self._echoed: int | None = None  # characters of the early full frame that its deltas have repeated

    def classify(self, block: SentText, delta: str) -> DeltaKind:
        """Guess the kind of a delta of the block.

        The comparison is with the whole block from its first delta, never with the last delta only.
        """
        self._joined_crc = zlib.crc32(delta.encode("utf-8", "surrogatepass"), self._joined_crc)
        self._joined_size += len(delta)
        if len(delta) >= block.size and self._is_snapshot(block.text, delta):
            self._snapshots = self.repaired = True
            return "snapshot"
        before = self._last
        if before is None or not delta:
            return "delta"
        if len(delta) <= len(before) or not delta.startswith(before):
            self._last = None  # so these are deltas, and stay deltas
            return "delta"
        self._last = delta
        if len(before) < MIN_PREFIX_CHARS:
            return "delta"
        self._snapshots = self.repaired = True
        return "whole"

    def _is_snapshot(self, sent: str, delta: str) -> bool:
        if delta == sent:
            return self._snapshots or len(sent) >= MIN_REPEAT_CHARS
        return len(sent) >= MIN_PREFIX_CHARS and delta.startswith(sent)

    def is_joined(self, text: str) -> bool:
        """Return whether `text` is exactly the received deltas, joined."""
        return len(text) == self._joined_size and _crc(text) == self._joined_crc

    @property
    def has_deltas(self) -> bool:
        """True if any text came as a delta."""
        return self._joined_size > 0

    def note_final(self, emitted: int) -> None:
        """Remember that the full frame came after `emitted` characters of the block; later deltas repeat it."""
        if self._echoed is None:
            self._echoed = emitted

    @property
    def is_early(self) -> bool:
        """True if the full frame came before any delta, and no delta has followed yet."""
        return self._echoed == 0

    def is_echo(self, block: SentText, delta: str) -> bool:
        """Return whether a delta for an ended block repeats the next part of its early full frame."""
        if self._echoed is None:
            return False
        if delta and block.text.startswith(delta, self._echoed):
            self._echoed += len(delta)
            return True
        self._echoed = None
        return False


def _crc(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
