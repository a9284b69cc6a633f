"""What a snapshot means for text that was already put out: pure functions, no state."""

from __future__ import annotations

from typing import Literal, NamedTuple

MIN_PREFIX_CHARS = 8
"""How much text must stand before a delta that begins with all of it is taken for a snapshot (armed wires
only): "ha" and "haha" follow each other by chance, eight equal characters at the very beginning do not."""

MIN_REPEAT_CHARS = 32
"""How long a delta that equals the whole block so far must be to count as the full frame, sent again."""


class Repair(NamedTuple):
    """What to do: put out `text` as new (`suffix`), as the whole (`diverged`), or nothing (`nothing`)."""

    action: Literal["nothing", "suffix", "diverged"]
    text: str = ""


def repair(sent: str, received: str, final: bool) -> Repair:
    """Compare the text that was put out with a snapshot of it.

    A snapshot that is not final may be older than what was put out; a final is the truth.
    """
    if received == sent:
        return Repair("nothing")
    if received.startswith(sent):
        return Repair("suffix", received[len(sent) :])
    if not final and sent.startswith(received):
        return Repair("nothing")
    return Repair("diverged", received)


def is_snapshot(sent: str, delta: str, known: bool) -> bool:
    """Whether a would-be delta is a snapshot of the block: the one guess, for armed wires alone.

    `sent` is the whole block from its first delta, never the neighbour only. `known`: the block has
    already shown itself to be made of snapshots.
    """
    if len(delta) < len(sent):
        return False
    if delta == sent:
        return known or len(sent) >= MIN_REPEAT_CHARS
    return len(sent) >= MIN_PREFIX_CHARS and delta.startswith(sent)
