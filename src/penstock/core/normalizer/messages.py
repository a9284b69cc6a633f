"""Messages and blocks: their start, their text and their end, in the order that the contract promises.

    run      = run_started* (message | loose)* run_ended
    message  = message_started (block_started | delta | block_revised | block_ended | tool_called
               | loose)* message_ended

Each lane has at most one open message. A block is *registered* when an update names it for the first time. It is
*started* by its first text; a call's input is started by the tool's name. It is *ended* when its final comes, when its
message ends or, on wires without end marks, when another block starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.core.health import Health
from penstock.core.normalizer.doubles import Doubles
from penstock.core.normalizer.emitter import Emitter
from penstock.core.normalizer.figures import believed
from penstock.core.normalizer.outcome import RunOutcome, limit_of
from penstock.core.normalizer.run_info import RunInfo
from penstock.core.normalizer.snapshots import SnapshotGuess
from penstock.core.normalizer.state import PARTS, Block, Lane, Message, PlaceKey, merged

MAX_LANES = 256
"""Maximum number of sub-agents that are followed at once. One more ends the open message and blocks of the oldest."""


class Messages:
    """Messages and blocks of all lanes.

    Args:
        top: the lane of the top agent.
        on_input: called when the input of a call ended completely together with its message. The call is then emitted
            even if the wire never repeats it.
    """

    def __init__(
        self,
        emitter: Emitter,
        traits: up.Traits,
        health: Health,
        top: Lane,
        outcome: RunOutcome,
        info: RunInfo,
        on_input: Callable[[Block], None],
    ) -> None:
        self.top = top
        self.ends: bool = False
        """True if the wire has reported the end of a message of the top agent."""
        self._emitter = emitter
        self._traits = traits
        self._health = health
        self._outcome = outcome
        self._info = info
        self._on_input = on_input
        self._lanes: dict[str | None, Lane] = {None: top}
        self._block_count = 0
        self._message_count = 0
        self.doubles: Doubles = Doubles()

    @property
    def count(self) -> int:
        """Number of messages so far."""
        return self._message_count

    # --- lanes -------------------------------------------------------------------------------------

    @property
    def lanes(self) -> Iterable[Lane]:
        """Return all lanes, the top agent's last."""
        return [*islice(self._lanes.values(), 1, None), self.top]

    def lane(self, parent: str | None) -> Lane:
        """Return the lane of a sub-agent, or of the top agent."""
        lane = self._lanes.get(parent)
        if lane is None:
            if len(self._lanes) > MAX_LANES:
                self.end_lane(list(self._lanes)[1])  # the first is the top agent's
            lane = self._lanes[parent] = Lane(parent)
        return lane

    def end_lane(self, parent: str | None) -> None:
        """End the open message and blocks of a sub-agent, if there is such a sub-agent."""
        lane = self._lanes.get(parent)
        if lane is None:
            return
        if message := lane.open_message:
            whole = not self._traits.block_ends
            self.end_message(lane, message, "ok" if whole else "cut", whole)
        del self._lanes[parent]

    def compact(self) -> None:
        """Bound the memory of the open blocks."""
        for lane in self._lanes.values():
            if message := lane.open_message:
                for block in message.blocks:
                    if len(block.parts) > PARTS:
                        block.compact()

    # --- messages ----------------------------------------------------------------------------------

    def find(self, lane: Lane, update: up.Text | up.BlockStart | up.ToolCall) -> Message:
        """Return the message that an update belongs to: the one named, else the current one, else a new one."""
        current = lane.message
        if update.message is None:
            return lane.open_message or self.open(lane, None)
        if current is not None and current.is_named(update.message):
            return current
        known = lane.messages.get(update.message)
        if known is not None:
            return known
        repeats = isinstance(update, up.ToolCall) or (isinstance(update, up.Text) and update.mode == "final")
        if repeats and current is not None and not current.ended and current.key is None and current.blocks:
            current.key = current.wire_key = update.message  # its start was lost, or had no id
            lane.messages[update.message] = current
            return current
        if (
            current is not None
            and self._traits.repair_snapshots
            and isinstance(update, up.Text)
            and current.has_frame(update)
        ):
            return current
        return self.open(lane, update.message)

    def open(self, lane: Lane, key: str | None, explicit: bool = False) -> Message:
        """Begin a message and end the open one. `explicit`: the wire marks its start and its end."""
        self._overtake(lane)
        self._message_count += 1
        message = Message(lane.key_for(key), self._message_count, explicit)
        message.wire_key = key
        if lane is self.top and not lane.continues(message):
            self._outcome.set_stop_reason(None)
        lane.remember(message)
        self._emitter.emit(ev.MessageStarted, lane.parent, message=message.number, message_id=message.key)
        return message

    def reopen(self, lane: Lane, message: Message) -> Message:
        """Return the message itself, or, if it has ended, a new one with its id."""
        return self.open(lane, message.key) if message.ended else message

    def _overtake(self, lane: Lane) -> None:
        """End the open message because another one begins."""
        message = lane.open_message
        if message is None:
            return
        if not message.explicit:
            self.end_message(lane, message)
        elif self._traits.finals and not any(block.final for block in message.blocks):
            self.end_message(lane, message, "superseded", complete=False)
        else:
            cut = any(block.open and not block.whole for block in message.blocks)
            self.end_message(lane, message, "cut" if cut and self._traits.block_ends else "ok", complete=not cut)

    def start(self, update: up.MessageStart) -> None:
        """Begin a message whose start the wire reports."""
        lane = self.lane(update.lane)
        current = lane.open_message
        if current is not None and current.is_named(update.message):
            if self._traits.finals:
                current.restarting = True  # begun again, or continued: the next block shows which
                return
            self.end_message(lane, current, "superseded", complete=False)
        self.open(lane, update.message, explicit=True)

    def restart(self, lane: Lane, message: Message) -> Message:
        """Restart a message; the attempt so far is superseded."""
        self.end_message(lane, message, "superseded", complete=False)
        return self.open(lane, message.key, explicit=True)

    def set_phase(self, update: up.Phase) -> None:
        """Set the agent's own name for the text of a message."""
        lane = self.lane(update.lane)
        message = lane.message if update.message is None else lane.messages.get(update.message)
        if message is not None:
            message.phase = update.phase

    def end(self, update: up.MessageEnd) -> None:
        """End a message whose end the wire reports."""
        lane = self.lane(update.lane)
        message = lane.open_message
        if message is None and update.status == "superseded" and lane.message is not None:
            self._take_back(lane, lane.message)
            return
        if message is None or (update.message is not None and not message.is_named(update.message)):
            return
        status = update.status
        if lane is self.top and status in (None, "ok"):
            self.ends = True
        if update.abandoned_from is not None:
            for place, block in message.places.items():
                if isinstance(place, int) and place >= update.abandoned_from and not block.final:
                    block.superseded = True
            if update.abandoned_from <= 0 and not any(block.final for block in message.blocks):
                status = "superseded"
        self.end_message(lane, message, status or "ok", status in (None, "ok"), update.stop_reason)

    def _take_back(self, lane: Lane, message: Message) -> None:
        """Keep the text of an ended message out of the reply, because the agent produced it again."""
        if all(block.superseded for block in message.blocks):
            return
        for block in message.blocks:
            block.superseded = True
        self._health.superseded_attempts += 1
        if lane is self.top:
            self._outcome.supersede(message)

    def end_round(self, update: up.RoundEnd) -> None:
        """End the round, as the results of tools do."""
        lane = self.lane(update.lane)
        lane.results_seen = True
        self.end_implicit(lane)

    def end_implicit(self, lane: Lane) -> None:
        """End the open message of a lane unless the wire will mark its end."""
        message = lane.open_message
        if message is not None and not message.explicit:
            self.end_message(lane, message)

    def end_message(
        self,
        lane: Lane,
        message: Message,
        status: ev.MessageStatus = "ok",
        complete: bool = True,
        stop_reason: str | None = None,
    ) -> None:
        """End a message and its blocks. `complete`: the text of blocks that are still open is complete."""
        for block in list(message.blocks):
            if not block.ended:
                whole = (complete and not block.superseded) or (block.whole and status == "cut")
                self.end_block(block, whole)
                if block.kind == "tool_input" and whole:
                    self._on_input(block)
            block.superseded = block.superseded or status == "superseded"
        message.ended = True
        limit, last = limit_of(stop_reason), message.blocks[-1] if message.blocks else None
        message.cut_at_limit = (
            limit is not None and limit.cause == "length" and last is not None and last.kind == "text"
        )
        if status == "superseded":
            self._health.superseded_attempts += 1
            if lane is self.top:
                self._outcome.supersede(message)
        elif message.usage is not None:
            self._report_usage(message.usage, message.usage_model, lane)
        if lane is self.top and stop_reason is not None and status != "superseded":
            self._outcome.set_stop_reason(stop_reason)
        self._emitter.emit(
            ev.MessageEnded,
            lane.parent,
            message=message.number,
            status=status,
            message_id=message.key,
            stop_reason=stop_reason,
        )
        if status != "superseded":
            self.doubles.note(lane, message)
        lane.trim(message)
        if lane is self.top:
            self._info.emit_pending()

    def add_usage(self, update: up.ModelUsage) -> None:
        """Keep the usage of a model call until its message ends; report that of a call without a message at once."""
        lane, usage = self.lane(update.lane), believed(update.usage)
        message = lane.message
        if update.message is not None and (message is None or not message.is_named(update.message)):
            message = lane.messages.get(update.message)
        if update.whole:
            self._report_usage(usage, update.model, lane)
        elif message is not None and not message.ended:
            message.usage = merged(message.usage, usage)
            message.usage_model = update.model or message.usage_model

    def _report_usage(self, usage: ev.Usage, model: str | None, lane: Lane) -> None:
        self._outcome.add_usage(usage, of_top=lane is self.top)
        self._emitter.emit(ev.UsageReported, lane.parent, model=model, **msgspec.structs.asdict(usage))

    # --- blocks ------------------------------------------------------------------------------------

    def register(self, lane: Lane, message: Message, key: PlaceKey, kind: ev.Kind, call_id: str | None = None) -> Block:
        """Create a block of a message. Its first text starts it."""
        message = self.reopen(lane, message)
        guess = SnapshotGuess() if self._traits.repair_snapshots else None
        block = Block(kind, message, lane.parent, call_id, guess=guess)
        message.add(block, key)
        return block

    def put(self, block: Block, text: str) -> None:
        """Emit new text of a block, or keep it until the block can start."""
        if not text:
            return
        if not block.open:
            if block.waits:
                block.add(text)
                return
            self.start_block(block)
        block.add(text)
        self._emitter.emit_delta(block.parent, block.number, block.kind, text)

    def revise(self, block: Block, text: str) -> None:
        """Replace the text of a block."""
        if not block.number:  # nothing of it was emitted
            block.set_text("")
            self.put(block, text)
            return
        self._health.discontinuities += 1
        block.set_text(text)
        self._emitter.emit(ev.BlockRevised, block.parent, block=block.number, kind=block.kind, text=text)

    def start_block(self, block: Block) -> None:
        """Emit the start of a block, and the text that waited for it."""
        if block.message is not None:
            self._enter(block, block.message)
        self._block_count += 1
        block.number = self._block_count
        block.open = True
        block.plain = not block.half and block.guess is None
        self._emitter.emit(
            ev.BlockStarted,
            block.parent,
            block=block.number,
            kind=block.kind,
            message=block.message.number if block.message is not None else None,
            name=block.name,
            call_id=block.call_id,
        )
        if block.size:
            self._emitter.emit_delta(block.parent, block.number, block.kind, block.text)

    def _enter(self, block: Block, message: Message) -> None:
        """Prepare a message for the start of one of its blocks."""
        lane = self.lane(block.parent)
        if message.ended:
            message = block.message = self.reopen(lane, message)
            message.add(block, ("late", str(self._block_count)))
        if not self._traits.block_ends:
            for other in message.blocks:
                if other.open:
                    self.end_block(other)
        lane.count_content()
        self._outcome.note_content()

    def end_block(self, block: Block, complete: bool = True) -> None:
        """End a block. A second call does nothing."""
        if block.ended:
            return
        if block.half:
            block.half = ""
            self.put(block, "\ufffd")
        if block.size and not block.open and block.kind == "tool_input":
            block.name = block.name or "tool"  # its name was never sent
            self.start_block(block)
        block.ended = True
        if block.open:
            block.open = block.plain = False
            self._emitter.emit(
                ev.BlockEnded,
                block.parent,
                block=block.number,
                kind=block.kind,
                text=block.text,
                complete=complete,
                truncated=block.truncated,
            )
