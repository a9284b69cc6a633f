"""What a snapshot means for text that was already put out: pure functions, no state."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

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


def adds_defaults(sent: Any, final: Any) -> bool:
    """Whether a final value is the one that was sent, apart from members that its objects gained.

    What is gained must be `false`, `null`, `0`, or an empty string, list or object: an agent that checks a call's
    input against the tool's schema adds such values for the optional members that the model left out.

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
