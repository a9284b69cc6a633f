"""The one repair that guesses, for armed wires alone (contract rule 4).

A proxy may put snapshots into the delta stream, or send the full frame of a block early, again, or under
another message id. Functions over the session's records: they change only what a block remembers for this
purpose, and put nothing out.
"""

from __future__ import annotations

from typing import Literal

from penstock.core.normalizer.snapshots import MIN_PREFIX_CHARS, is_snapshot
from penstock.core.normalizer.state import Block, Message, PlaceKey
from penstock.events import Kind
from penstock.updates import Text

Guess = Literal["delta", "snapshot", "whole"]


def guess(block: Block, text: str) -> Guess:
    """What a would-be delta is.

    New text; or a snapshot of which only the end is new; or the proof that all before it were snapshots
    too, so that it is the whole.
    """
    block.count_raw(text)
    if len(text) >= block.size and is_snapshot(block.text, text, block.snapshots):
        block.snapshots = block.repaired = True
        return "snapshot"
    before = block.candidate
    if before is None or not text:
        return "delta"
    if len(text) <= len(before) or not text.startswith(before):
        block.candidate = None  # so these are deltas, and stay deltas
        return "delta"
    block.candidate = text
    if len(before) < MIN_PREFIX_CHARS:
        return "delta"
    block.snapshots = block.repaired = True
    return "whole"


def frame_again(message: Message, update: Text) -> Block | None:
    """The finished block that a full frame repeats."""
    if len(update.text) < MIN_PREFIX_CHARS:
        return None
    for block in message.blocks:
        if block.kind == update.kind and (block.text == update.text or block.is_raw(update.text)):
            return block
    return None


def claim_early(message: Message, key: PlaceKey, kind: Kind) -> Block | None:
    """The block whose full frame came before its first delta; it is found at `key` from now on."""
    for block in message.blocks:
        if block.kind == kind and block.echo == 0 and key not in message.places:
            message.places[key] = block
            return block
    return None


def is_echo(block: Block, text: str) -> bool:
    """Whether a delta for an ended block follows the full frame that came before it."""
    if block.echo is None:
        return False
    if text and block.text.startswith(text, block.echo):
        block.echo += len(text)
        return True
    block.echo = None
    return False


def is_frame_of(message: Message, update: Text) -> bool:
    """Whether a text under another id is the full frame of this message."""
    if update.mode != "final":
        return False
    block = message.unfinished(update.kind)
    if block is None:
        again = frame_again(message, update)
        return again is not None and again.raw_size > 0  # where texts stream, a new one has deltas
    return (block.size >= MIN_PREFIX_CHARS and update.text.startswith(block.text)) or block.is_raw(update.text)
