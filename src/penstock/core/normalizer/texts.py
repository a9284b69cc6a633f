"""Texts: which block a text belongs to, and which part of it is new."""

from __future__ import annotations

from penstock import updates as up
from penstock.core.decoding import well_formed
from penstock.core.health import Health
from penstock.core.normalizer.calls import CallTracker
from penstock.core.normalizer.messages import Messages
from penstock.core.normalizer.snapshots import repair
from penstock.core.normalizer.state import Block, Lane, Message, PlaceKey, place_key


class Texts:
    """Applies deltas, snapshots and finals to blocks, and also the wire's own marks of their start and end."""

    def __init__(self, messages: Messages, calls: CallTracker, traits: up.Traits, health: Health) -> None:
        self._messages = messages
        self._calls = calls
        self._traits = traits
        self._health = health

    def apply(self, update: up.Text) -> None:
        """Emit the new part of a text, or revise its block."""
        if update.mode == "final":
            self._health.complete_events += 1
        else:
            self._health.delta_events += 1
        if update.kind == "tool_output":
            block = self._calls.output_block(update)
        else:
            block = self._block_of(self._messages.lane(update.lane), update)
        if block is None:
            self._health.suppressed_duplicates += 1
        elif update.mode == "delta":
            self._apply_delta(block, update.text)
        else:
            self._apply_snapshot(block, update.text, update.mode == "final")

    # --- which block -------------------------------------------------------------------------------

    def _block_of(self, lane: Lane, update: up.Text) -> Block | None:
        """Return the block that a text belongs to, creating it if needed; None if the text is already known."""
        call_id = update.call_id if update.kind == "tool_input" else None
        call = self._calls.find(call_id) if call_id is not None else None
        if call is not None:
            if call.called or call.returned or (call.block is not None and call.block.ended):
                return None
            if call.block is not None:
                return call.block
        message = self._messages.find(lane, update)
        key = place_key(update.place, update.kind)
        block = self._registered(message, key, update, call_id)
        if block is not None and block.repeats:
            return None
        if block is not None and block.ended and update.mode != "final":
            if self._is_known(block, update):
                return None
            block = None  # the text belongs to a new block
        if block is None:
            block = self._messages.register(lane, message, key, update.kind, call_id)
            if call_id is not None:
                self._calls.track(call_id, None, lane.parent).block = block
        return block

    def _registered(self, message: Message, key: PlaceKey, update: up.Text, call_id: str | None) -> Block | None:
        """Return the message's block for a text, whether it has ended or not."""
        if update.mode == "final" and update.place is None:
            block = message.unfinished(update.kind, update.text)
            if block is None and self._traits.repair_snapshots:
                block = message.find_repeated(update.kind, update.text)
            return block
        block = message.places.get(key)
        if block is None and self._traits.repair_snapshots and update.mode == "delta":
            block = message.claim_early(key, update.kind)
        if block is not None and (block.kind != update.kind or (call_id and block.call_id not in (None, call_id))):
            return None
        return block

    def _is_known(self, block: Block, update: up.Text) -> bool:
        """Return whether an ended block already has a text: an old snapshot, or deltas after an early full frame."""
        if update.mode == "snapshot":
            return block.text.startswith(well_formed(update.text))
        return block.guess is not None and block.guess.is_echo(block, update.text)

    # --- new text ----------------------------------------------------------------------------------

    def _apply_delta(self, block: Block, text: str) -> None:
        if block.guess is not None:
            size, kind = block.size, block.guess.classify(block, text)
            self._health.repaired_snapshots += kind != "delta"
            if kind == "whole":
                self._messages.revise(block, text)
                return
            if kind == "snapshot":
                text = text[size:]
        if not text.isascii() or block.half:
            text = _join_halves(block, text)
            block.plain = block.open and not block.half and block.guess is None
        self._messages.put(block, text)

    def _apply_snapshot(self, block: Block, text: str, final: bool) -> None:
        block.half = ""  # the snapshot has the whole character
        if not block.number:
            block.ended = False  # nothing of it was emitted yet
        late = block.ended
        if final and block.guess is not None:
            block.guess.note_final(block.size)
        if text != block.text:
            text = well_formed(text)
        if block.superseded or (block.repaired and block.is_joined_deltas(text)) or block.truncated:
            self._health.suppressed_duplicates += 1
        else:
            action, new = repair(block.text, text, final)
            if action == "nothing":
                self._health.suppressed_duplicates += bool(text)
            elif action == "suffix" and not late:
                self._messages.put(block, new)
            else:
                self._messages.revise(block, text)
        if final:
            block.final = True
            if not late:
                self._messages.end_block(block)

    # --- the wire's own marks ----------------------------------------------------------------------

    def start_block(self, update: up.BlockStart) -> None:
        """Register a block whose start the wire reports.

        A block that is already at its place ends, or shows that the message restarts.
        """
        lane = self._messages.lane(update.lane)
        if update.kind == "tool_output":
            return  # it starts with its text
        call = None
        if update.kind == "tool_input" and update.call_id is not None:
            call = self._calls.track(update.call_id, update.name, update.lane)
            if call.block is not None and not call.called:
                self._set_name(call.block, update.name)  # one block, even if it is announced several times
                return
        message = self._messages.find(lane, update)
        key = place_key(update.place, update.kind)
        old = message.places.get(key)
        if message.restarting and old is not None and not message.ended:
            message = self._messages.restart(lane, message)
        elif old is not None:
            self._messages.end_block(old)
        message.restarting = False
        if self._traits.repair_snapshots and message.claim_early(key, update.kind) is not None:
            return
        block = self._messages.register(lane, message, key, update.kind, call.call_id if call is not None else None)
        if call is None:
            block.name = update.name if update.kind == "tool_input" else None
        elif call.called or call.returned or call.lane != lane.parent:
            block.repeats = block.ended = True
        else:
            call.block = block
            self._set_name(block, update.name)

    def _set_name(self, block: Block, name: str | None) -> None:
        """Set the tool's name, which starts the input of its call."""
        if name and not block.name:
            block.name = name
            if not block.ended:
                self._messages.start_block(block)

    def end_block(self, update: up.BlockEnd) -> None:
        """End a block whose end the wire reports. If finals come, its final ends it; a missing final supersedes it."""
        message = self._messages.lane(update.lane).message
        call = self._calls.find(update.call_id)
        block = call.block if call is not None else None
        if block is None and message is not None:
            if update.place is not None:
                block = message.places.get(update.place)
            elif update.kind is not None:
                block = message.unfinished(update.kind)
        if block is None or block.ended:
            return
        block.whole = True
        if not self._traits.finals:
            self._messages.end_block(block)


def _join_halves(block: Block, text: str) -> str:
    """Join surrogate pairs that deltas have split; hold back a first half at the end for the next delta."""
    text = block.half + text
    block.half = ""
    if text and "\ud800" <= text[-1] <= "\udbff":
        block.half = text[-1]
        text = text[:-1]
    return well_formed(text)
