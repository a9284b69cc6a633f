"""Updates to events: the one place where text is accumulated, compared, repaired and closed.

    run      = run_started* (message | loose)* run_ended
    message  = message_started (block_started | delta | block_revised | block_ended | tool_called
               | loose)* message_ended

Each lane has at most one open message. A block is *registered* when it is first spoken of, *started* (told)
with its first text or, for a call's input, its name, and *ended* when its final comes, when its message
ends, or, on wires without end marks, when another block starts. A final or a snapshot goes through
`repair`; nothing else compares text, but the guesses that armed wires need (`armed`). `Ending` gathers what the
run comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.core import tool_titles
from penstock.core.decoding import excerpt, well_formed
from penstock.core.health import Health
from penstock.core.normalizer import armed
from penstock.core.normalizer.outcome import Ending
from penstock.core.normalizer.outcome import Exit as Exit
from penstock.core.normalizer.snapshots import adds_defaults, repair
from penstock.core.normalizer.state import PARTS, Block, Call, Lane, Message, PlaceKey, merged, place_key
from penstock.core.questions import ordered

MAX_LANES = 256
"""Sub-agents that are followed at once; the oldest one's open things are ended for a new one."""

MAX_CALLS = 4096
"""Calls that are remembered after they returned, so that a repeated result is silent."""

NAMELESS = "call-"
"""How the ids begin that calls get where the wire gives them none."""

MAX_RAW_CHARS = 4000
"""What is shown of an event that is not known."""

Events = list[ev.Event]


class Session:
    """The contract of one run. `apply` and `close` append the events they make to `out`.

    `at` and `line` are set by the stream: the time stamp for the events to come, the line they come from.
    Texts are well formed; only that of a delta given to `apply` may begin or end with half of a surrogate pair.
    """

    def __init__(self, agent: str, traits: up.Traits, run: int | None = None, health: Health | None = None) -> None:
        self.agent = agent
        self.traits = traits
        self.run = run
        self.at: int | None = None
        self.line: Callable[[], bytes] = bytes
        self.batch_index = 0
        self.health = health or Health()
        self._top = Lane(None)
        self._lanes: dict[str | None, Lane] = {None: self._top}
        self._calls: dict[str, Call] = {}
        self._blocks = 0
        self._messages = 0
        self._unnamed = 0
        self._info = up.RunStart()
        self._untold = False  # it has news that wait for the end of a message
        self._plan: list[ev.PlanItem] | None = None
        self._ending = Ending(self._top, traits.regular_end)
        self._work: dict[str, None] = {}  # what goes on beside the run
        self._closed = False
        self._handlers: dict[type, Callable[[Any, Events], None]] = {
            up.RunStart: self._run_start,
            up.MessageStart: self._message_start,
            up.MessageEnd: self._message_end,
            up.Phase: self._phase,
            up.BlockStart: self._block_start,
            up.BlockEnd: self._block_end,
            up.ToolCall: self._tool_call,
            up.ToolReturn: self._tool_return,
            up.TurnMark: self._turn_mark,
            up.Plan: self._plan_changed,
            up.ModelUsage: self._usage,
            up.Notice: self._notice,
            up.Question: self._question,
            up.Answer: self._answer,
            up.Work: self._works,
            up.Failure: self._failed,
            up.Result: self._replied,
            up.Unknown: self._unknown,
        }

    # --- what comes in -----------------------------------------------------------------------------

    def apply_batch(self, batch: Sequence[Sequence[up.Update]], out: Events) -> None:
        """`apply` for the updates of many lines, where nearly all are new text of a block that is open.

        `line` is told which line an update comes from by `batch_index`.
        """
        top, agent, run, at, delta, text_update = self._top, self.agent, self.run, self.at, ev.Delta, up.Text
        deltas = 0
        for index, updates in enumerate(batch):
            for update in updates:
                if type(update) is text_update and update.mode == "delta" and update.lane is None:
                    message = top.message
                    # The common case, in few steps.
                    if message is not None:
                        block = message.places.get(update.place)  # type: ignore[arg-type]  # None finds nothing
                        if (
                            block is not None
                            and block.plain
                            and block.kind == update.kind
                            and (update.message is None or update.message == message.key)
                            and update.text
                        ):
                            deltas += 1
                            text = update.text
                            block.parts.append(text)
                            out.append(delta(block.number, block.kind, text, agent=agent, run=run, at=at))
                            continue
                self.batch_index = index
                self.apply(update, out)
        self.health.delta_events += deltas
        self.health.control_events += len(batch) - sum(map(bool, batch))
        self._ending.anything = True

    def apply(self, update: up.Update, out: Events) -> None:
        """The events that an update means. After the end there are none."""
        kind = type(update)
        if self._closed:
            return
        self._ending.anything = True
        if kind is up.Text:
            self._text(update, out)  # type: ignore[arg-type]
            return
        if kind in _COMPLETE:
            self.health.complete_events += 1
        elif kind is not up.Unknown:
            self.health.control_events += 1
        self._handlers[kind](update, out)

    def compact(self) -> None:
        """Bound what the open blocks keep; called now and then."""
        for lane in self._lanes.values():
            if lane.message is not None and not lane.message.ended:
                for block in lane.message.blocks:
                    if len(block.parts) > PARTS:
                        block.compact()

    def control(self) -> None:
        """A line that means nothing to readers."""
        self._ending.anything = True
        self.health.control_events += 1

    def noise(self, text: str, out: Events) -> None:
        """A line that is no JSON."""
        self.health.noise_lines += 1
        self._notice(up.Notice("noise", text), out)

    def malformed(self, line: int, reason: str, shown: str, out: Events) -> None:
        """A line that no reader can take."""
        self._ending.anything = True
        self.health.count_parse_error(line)
        out.append(ev.Malformed(line, reason, shown, agent=self.agent, run=self.run, at=self.at))

    def _text(self, update: up.Text, out: Events) -> None:
        text = update.text
        if update.mode == "final":
            self.health.complete_events += 1
        else:
            self.health.delta_events += 1
        lane = self._lane(update.lane, out)
        block = self._output_of(update) if update.kind == "tool_output" else self._block_of(lane, update, out)
        if block is None:
            self.health.suppressed_duplicates += 1
            return
        lane = self._lane(block.parent, out)
        if update.mode == "delta":
            self._delta(lane, block, text, out)
        else:
            self._snapshot(lane, block, text, update.mode == "final", out)

    # --- which block -------------------------------------------------------------------------------

    def _output_of(self, update: up.Text) -> Block | None:
        """The block of a call's output; None once the call has returned, or where no call is named."""
        if not update.call_id:
            return None
        call = self._call(update.call_id, None, update.lane)
        if call.returned or (call.output is not None and call.output.ended):
            return None
        if call.output is None:
            call.output = Block("tool_output", None, call.lane, call.call_id, call.name)
        return call.output

    def _block_of(self, lane: Lane, update: up.Text, out: Events) -> Block | None:
        """The block that a text belongs to, registered if it is new; None if the text is known already."""
        call_id = update.call_id if update.kind == "tool_input" else None
        if call_id is not None and (call := self._calls.get(call_id)) is not None:
            if call.called or call.returned or (call.block is not None and call.block.ended):
                return None
            if call.block is not None:
                return call.block
        message = self._message_of(lane, update, out)
        key = place_key(update.place, update.kind)
        if update.mode == "final" and update.place is None:
            block = message.unfinished(update.kind, update.text)
            if block is None and self.traits.armed:
                block = armed.frame_again(message, update)
        else:
            block = message.places.get(key)
            if block is not None and (block.kind != update.kind or (call_id and block.call_id not in (None, call_id))):
                block = None
        if block is not None and block.repeats:
            return None
        if block is not None and block.ended and update.mode != "final":
            if self._is_told(block, update):
                return None
            block = None  # it belongs to a new one
        if block is None and self.traits.armed and update.mode == "delta":
            block = armed.claim_early(message, key, update.kind)
            if block is not None:
                return self._block_of(lane, update, out)
        if block is None:
            block = self._register(lane, message, key, Block(update.kind, message, lane.parent, call_id), out)
            if self.traits.armed and update.mode == "final":
                block.echo = 0
            if call_id is not None:
                self._call(call_id, None, lane.parent).block = block
        return block

    def _register(self, lane: Lane, message: Message, key: PlaceKey, block: Block, out: Events) -> Block:
        if message.ended:
            message = self._open(lane, message.key, False, out)
            block.message = message
        message.add(block, key)
        return block

    def _is_told(self, block: Block, update: up.Text) -> bool:
        """Whether an ended block holds a text already: an old snapshot, or what follows an early full frame."""
        if update.mode == "snapshot":
            return block.text.startswith(well_formed(update.text))
        return self.traits.armed and armed.is_echo(block, update.text)

    # --- what happens to a block -------------------------------------------------------------------

    def _delta(self, lane: Lane, block: Block, text: str, out: Events) -> None:
        if self.traits.armed and block.message is not None:
            size, guess = block.size, armed.guess(block, text)
            self.health.repaired_snapshots += guess != "delta"
            if guess == "whole":
                self._revise(lane, block, text, out)
                return
            if guess == "snapshot":
                text = text[size:]
        if not text.isascii() or block.half:
            text = _join_halves(block, text)
            block.plain = block.open and not block.half and not self.traits.armed
        self._put(lane, block, text, out)

    def _put(self, lane: Lane, block: Block, text: str, out: Events) -> None:
        """Put out new text."""
        if not text:
            return
        if not block.open:
            if self._waits(block):
                block.add(text)
                return
            self._start(lane, block, out)
        block.add(text)
        out.append(
            ev.Delta(block.number, block.kind, text, agent=self.agent, run=self.run, parent=lane.parent, at=self.at)
        )

    def _waits(self, block: Block) -> bool:
        """Whether a block cannot start yet: input before its tool's name, output before its call is told."""
        if block.kind == "tool_input":
            return not block.name
        return block.kind == "tool_output" and not self._calls[block.call_id or ""].called

    def _snapshot(self, lane: Lane, block: Block, text: str, final: bool, out: Events) -> None:
        block.half = ""  # the snapshot has the character whole
        if not block.number:
            block.ended = False  # nothing of it was told yet
        late = block.ended
        if final and self.traits.armed and block.echo is None:
            block.echo = block.size
        if text != block.text:
            text = well_formed(text)
        if block.superseded or (block.repaired and block.is_raw(text)) or block.truncated:
            self.health.suppressed_duplicates += 1
        else:
            action, new = repair(block.text, text, final)
            if action == "nothing":
                self.health.suppressed_duplicates += bool(text)
            elif action == "suffix" and not late:
                self._put(lane, block, new, out)
            else:
                self._revise(lane, block, text, out)
        if final:
            block.final = True
            if not late:
                self._end_block(lane, block, True, out)

    def _revise(self, lane: Lane, block: Block, text: str, out: Events) -> None:
        if not block.number:  # nobody saw what it said before
            block.set_text("")
            self._put(lane, block, text, out)
            return
        self.health.discontinuities += 1
        block.set_text(text)
        out.append(ev.BlockRevised(block.number, block.kind, text, **self._marks(lane.parent)))

    def _start(self, lane: Lane, block: Block, out: Events) -> None:
        message = block.message
        if message is not None:
            if message.ended:
                message = self._open(lane, message.key, False, out)
                block.message = message
                message.add(block, ("late", str(self._blocks)))
            for other in message.blocks:
                if other.open and not self.traits.block_ends:
                    self._end_block(lane, other, True, out)
            lane.said()
            self._ending.speak()
        self._blocks += 1
        block.number = self._blocks
        block.open = True
        block.plain = not block.half and not self.traits.armed
        number = message.number if message is not None else None
        out.append(
            ev.BlockStarted(block.number, block.kind, number, block.name, block.call_id, **self._marks(lane.parent))
        )
        if block.size:  # what had to wait
            out.append(ev.Delta(block.number, block.kind, block.text, **self._marks(lane.parent)))

    def _end_block(self, lane: Lane, block: Block, complete: bool, out: Events) -> None:
        if block.ended:
            return
        if block.half:
            block.half = ""
            self._put(lane, block, "\ufffd", out)
        if block.size and not block.open and block.kind == "tool_input":
            block.name = block.name or "tool"  # its name never came
            self._start(lane, block, out)
        block.ended = True
        if block.open:
            block.open = block.plain = False
            text = block.text
            out.append(
                ev.BlockEnded(block.number, block.kind, text, complete, block.truncated, **self._marks(lane.parent))
            )

    def _block_start(self, update: up.BlockStart, out: Events) -> None:
        lane = self._lane(update.lane, out)
        if update.kind == "tool_output":
            return  # starts with its text
        call = None
        if update.kind == "tool_input" and update.call_id is not None:
            call = self._call(update.call_id, update.name, update.lane)
            if call.block is not None and not call.called:
                self._name(call.block, update.name, out)  # one block, however often it is announced
                return
        message = self._message_of(lane, update, out)
        key = place_key(update.place, update.kind)
        old = message.places.get(key)
        if message.restarting and old is not None and not message.ended:
            self._end_message(lane, message, "superseded", False, out)
            message = self._open(lane, message.key, True, out)
        elif old is not None:
            self._end_block(lane, old, True, out)
        message.restarting = False
        if self.traits.armed and armed.claim_early(message, key, update.kind) is not None:
            return
        call_id = call.call_id if call is not None else None
        name = update.name if update.kind == "tool_input" else None
        block = self._register(lane, message, key, Block(update.kind, message, lane.parent, call_id), out)
        if call is None:
            block.name = name
        elif call.called or call.returned or call.lane != lane.parent:
            block.repeats = block.ended = True
        else:
            call.block = block
            self._name(block, name, out)

    def _name(self, block: Block, name: str | None, out: Events) -> None:
        """A call's input starts once the tool's name is known."""
        if name and not block.name:
            block.name = name
            if not block.ended:
                self._start(self._lane(block.parent, out), block, out)

    def _block_end(self, update: up.BlockEnd, out: Events) -> None:
        lane = self._lane(update.lane, out)
        call = self._calls.get(update.call_id) if update.call_id is not None else None
        block = call.block if call is not None else None
        message = lane.message
        if block is None and message is not None:
            if update.place is not None:
                block = message.places.get(update.place)
            elif update.kind is not None:
                block = message.unfinished(update.kind)
        if block is None or block.ended:
            return
        block.whole = True
        if not self.traits.finals:  # else its final comes, or shows by its absence that it was given up
            self._end_block(self._lane(block.parent, out), block, True, out)

    # --- messages ----------------------------------------------------------------------------------

    def _message_of(self, lane: Lane, update: up.Text | up.BlockStart | up.ToolCall, out: Events) -> Message:
        """The message that an update belongs to: the one named, else the current one, else a new one."""
        current = lane.message
        if update.message is None:
            if current is not None and not current.ended:
                return current
            return self._open(lane, None, False, out)
        if current is not None and current.key == update.message:
            return current
        known = lane.messages.get(update.message)
        if known is not None:
            return known
        repeats = isinstance(update, up.ToolCall) or (isinstance(update, up.Text) and update.mode == "final")
        if repeats and current is not None and not current.ended and current.key is None and current.blocks:
            current.key = update.message  # its start was lost, or had no id
            lane.messages[update.message] = current
            return current
        if (
            current is not None
            and self.traits.armed
            and isinstance(update, up.Text)
            and armed.is_frame_of(current, update)
        ):
            return current
        return self._open(lane, update.message, False, out)

    def _open(self, lane: Lane, key: str | None, explicit: bool, out: Events) -> Message:
        self._overtake(lane, out)
        self._messages += 1
        message = Message(key, self._messages, explicit)
        if lane is self._top and not lane.continues(message):
            self._ending.stopped(None)
        lane.remember(message)
        out.append(ev.MessageStarted(message.number, key, **self._marks(lane.parent)))
        return message

    def _overtake(self, lane: Lane, out: Events) -> None:
        """End the message that is open because something else begins."""
        message = lane.message
        if message is None or message.ended:
            return
        if not message.explicit:
            self._end_message(lane, message, "ok", True, out)
        elif self.traits.finals and not any(block.final for block in message.blocks):
            self._end_message(lane, message, "superseded", False, out)
        else:
            cut = any(block.open and not block.whole for block in message.blocks)
            self._end_message(lane, message, "cut" if cut and self.traits.block_ends else "ok", not cut, out)

    def _message_start(self, update: up.MessageStart, out: Events) -> None:
        lane = self._lane(update.lane, out)
        current = lane.message
        if current is not None and not current.ended and current.key is not None and current.key == update.message:
            if self.traits.finals:
                current.restarting = True  # begun again, or going on: the next block tells
                return
            self._end_message(lane, current, "superseded", False, out)
        self._open(lane, update.message, True, out)

    def _phase(self, update: up.Phase, out: Events) -> None:
        lane = self._lane(update.lane, out)
        message = lane.message if update.message is None else lane.messages.get(update.message)
        if message is not None:
            message.phase = update.phase

    def _message_end(self, update: up.MessageEnd, out: Events) -> None:
        lane = self._lane(update.lane, out)
        message = lane.message
        if message is None or message.ended or (update.message is not None and update.message != message.key):
            return
        status = update.status
        if update.abandoned_from is not None:
            for place, block in message.places.items():
                if isinstance(place, int) and place >= update.abandoned_from and not block.final:
                    block.superseded = True
            if update.abandoned_from <= 0 and not any(block.final for block in message.blocks):
                status = "superseded"
        self._end_message(lane, message, status or "ok", status in (None, "ok"), out, update.stop_reason)

    def _end_message(
        self,
        lane: Lane,
        message: Message,
        status: ev.MessageStatus,
        complete: bool,
        out: Events,
        stop_reason: str | None = None,
    ) -> None:
        message.status = status
        for block in list(message.blocks):
            if not block.ended:
                whole = (complete and not block.superseded) or (block.whole and status == "cut")
                self._end_block(lane, block, whole, out)
                if block.kind == "tool_input" and whole:
                    self._settle(lane, block, message, out)
            block.superseded = block.superseded or status == "superseded"
        message.ended = True
        if status == "superseded":
            self.health.superseded_attempts += 1
            if lane is self._top:
                self._ending.give_up(message)
        elif message.usage is not None:
            self._tell_usage(message.usage, message.usage_model, lane, out)
        if lane is self._top and stop_reason is not None and status != "superseded":
            self._ending.stopped(stop_reason)
        out.append(ev.MessageEnded(message.number, status, message.key, stop_reason, **self._marks(lane.parent)))
        lane.trim(message)
        if lane is self._top:
            self._tell_start(out)

    # --- calls -------------------------------------------------------------------------------------

    def _call(self, call_id: str, name: str | None, lane: str | None) -> Call:
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = Call(call_id, name, lane)
        if call.name is None:
            call.name = name
        return call

    def _nameless(self, called: bool) -> str:
        """An id for a call without one: a new one when it is made, then that of the oldest without a result."""
        waiting = (key for key, call in self._calls.items() if key.startswith(NAMELESS) and not call.returned)
        found = next(waiting, None) if called else None
        if found is None:
            self._unnamed += 1
            found = f"{NAMELESS}{self._unnamed}"
        return found

    def _tool_call(self, update: up.ToolCall, out: Events) -> None:
        call = self._call(update.call_id or self._nameless(False), update.name, update.lane)
        if call.called or call.returned:
            self.health.suppressed_duplicates += 1
            return
        block = call.block
        lane = self._lane(call.lane if block is None else block.parent, out)
        if block is not None and block.ended and block.number:
            self._tell_late(lane, call, update, out)
            return
        if block is None or block.ended:
            message = self._message_of(lane, update, out)
            block = message.places.get(place_key(update.place, "tool_input"))  # streamed before it had an id
            if block is None or block.ended or block.kind != "tool_input" or block.call_id is not None:
                block = Block("tool_input", message, lane.parent, call.call_id)
                block = self._register(lane, message, place_key(call.call_id, "tool_input"), block, out)
            block.call_id = call.call_id
            call.block = block
        lane = self._lane(block.parent, out)
        if not block.number:
            block.name = call.name = update.name or "tool"
            self._start(lane, block, out)
        self._settle_text(lane, block, update.input, out)
        block.final = True
        self._end_block(lane, block, True, out)
        self._tell_call(lane, call, update, block.message, out)

    def _tell_late(self, lane: Lane, call: Call, update: up.ToolCall, out: Events) -> None:
        """Tell a call whose input has ended before."""
        block = call.block
        assert block is not None
        message = self._message_of(lane, update, out)
        if message.ended:
            message = self._open(lane, message.key, False, out)
        self._settle_text(lane, block, update.input, out)
        self._tell_call(lane, call, update, message, out)

    def _settle_text(self, lane: Lane, block: Block, value: Any, out: Events) -> None:
        """Compare streamed input with the final one by what it means, not by how it is spelled.

        Defaults that the agent adds are no change: the block keeps what was streamed, the call has all of it.
        """
        sent = block.text
        if block.truncated or (not sent and value in (None, {})):
            return
        if sent:
            try:
                if adds_defaults(msgspec.json.decode(sent), value):
                    return
            except (msgspec.DecodeError, RecursionError):
                pass
        whole = tool_titles.compact(value)
        action, new = repair(sent, whole, True)
        if action == "suffix" and not block.ended:
            self._put(lane, block, new, out)
        elif action != "nothing":
            self._revise(lane, block, whole, out)

    def _settle(self, lane: Lane, block: Block, message: Message, out: Events) -> None:
        """Tell the call of an input that ended whole without being repeated."""
        call = self._calls.get(block.call_id or "")
        if call is None or call.called or call.returned or not call.name:
            return
        try:
            value = msgspec.json.decode(block.text or "{}")
        except (msgspec.DecodeError, RecursionError):
            value = block.text
        self._tell_call(lane, call, up.ToolCall(call.call_id, call.name, value), message, out)

    def _tell_call(self, lane: Lane, call: Call, update: up.ToolCall, message: Message | None, out: Events) -> None:
        call.called = True
        call.lane = lane.parent
        self._ending.speak()
        title = update.title if update.title is not None else tool_titles.title(update.name, update.input)
        kind = update.tool_kind or tool_titles.tool_kind(update.name)
        number = message.number if message is not None else None
        out.append(
            ev.ToolCalled(
                call.call_id, call.name or "tool", update.input, title, kind, number, **self._marks(lane.parent)
            )
        )
        output = call.output
        if output is not None and not output.number:
            output.parent = lane.parent
        if output is not None and output.size and not output.number:  # it had to wait for its call
            ended, output.ended = output.ended, False
            self._start(lane, output, out)
            if ended:
                self._end_block(lane, output, True, out)
        if len(self._calls) > MAX_CALLS:
            self._forget_call(out)

    def _tool_return(self, update: up.ToolReturn, out: Events) -> None:
        call = self._call(update.call_id or self._nameless(True), update.name, update.lane)
        lane = self._lane(call.lane, out)
        if call.returned:
            self.health.suppressed_duplicates += 1
            return
        block = call.block
        if block is not None and not block.ended:
            self._end_block(self._lane(block.parent, out), block, True, out)
            if block.message is not None:
                self._settle(self._lane(block.parent, out), block, block.message, out)
            lane = self._lane(call.lane, out)
        self._return(call, update, lane.parent, True, out)
        if call.call_id in self._lanes:
            self._end_lane(self._lanes[call.call_id], out)
        lane.results_seen = True
        message = lane.message
        if message is not None and not message.ended and not message.explicit:
            waiting = any(
                other.called and not other.returned and other.lane == lane.parent for other in self._calls.values()
            )
            if not waiting:
                self._end_message(lane, message, "ok", True, out)

    def _return(self, call: Call, update: up.ToolReturn, parent: str | None, complete: bool, out: Events) -> None:
        if call.output is not None:
            self._end_block(self._lane(call.output.parent, out), call.output, complete, out)
            call.output = None
        call.returned = True
        call.block = None
        out.append(
            ev.ToolReturned(
                call.call_id, update.text, update.is_error, complete, call.name, update.exit_code, **self._marks(parent)
            )
        )

    def _forget_call(self, out: Events) -> None:
        for call in self._calls.values():
            if call.returned:
                break
        else:
            call = next(iter(self._calls.values()))
            if call.called:
                self._return(call, up.ToolReturn(call.call_id), call.lane, False, out)
        del self._calls[call.call_id]

    # --- lanes and rounds --------------------------------------------------------------------------

    def _lane(self, parent: str | None, out: Events) -> Lane:
        lane = self._lanes.get(parent)
        if lane is None:
            if len(self._lanes) > MAX_LANES:
                self._end_lane(self._lanes[list(self._lanes)[1]], out)
            lane = self._lanes[parent] = Lane(parent)
        return lane

    def _end_lane(self, lane: Lane, out: Events) -> None:
        message = lane.message
        if message is not None and not message.ended:
            whole = not self.traits.block_ends
            self._end_message(lane, message, "ok" if whole else "cut", whole, out)
        self._lanes.pop(lane.parent, None)

    def _turn_mark(self, update: up.TurnMark, out: Events) -> None:
        lane = self._lane(update.lane, out)
        lane.results_seen = True
        if lane.message is not None and not lane.message.ended and not lane.message.explicit:
            self._end_message(lane, lane.message, "ok", True, out)

    # --- all the rest ------------------------------------------------------------------------------

    def _marks(self, parent: str | None) -> dict[str, Any]:
        return {"agent": self.agent, "run": self.run, "parent": parent, "at": self.at}

    def _run_start(self, update: up.RunStart, out: Events) -> None:
        given = {name: value for name, value in msgspec.structs.asdict(update).items() if value is not None}
        info = msgspec.structs.replace(self._info, **given)
        if info != self._info:
            self._info = info
            self._untold = True
            self._tell_start(out)

    def _tell_start(self, out: Events) -> None:
        """What is new about the run, between two messages."""
        message = self._top.message
        if self._untold and (message is None or message.ended):
            self._untold = False
            out.append(ev.RunStarted(**msgspec.structs.asdict(self._info), **self._marks(None)))

    def _plan_changed(self, update: up.Plan, out: Events) -> None:
        if update.items != self._plan:
            self._plan = update.items
            out.append(ev.PlanChanged(update.items, **self._marks(update.lane)))

    def _usage(self, update: up.ModelUsage, out: Events) -> None:
        lane = self._lane(update.lane, out)
        message = lane.message
        if update.message is not None and (message is None or message.key != update.message):
            message = lane.messages.get(update.message)
        if update.whole or message is None or message.ended:
            if update.whole:
                self._tell_usage(update.usage, update.model, lane, out)
            return
        message.usage = merged(message.usage, update.usage)
        message.usage_model = update.model or message.usage_model

    def _tell_usage(self, usage: ev.Usage, model: str | None, lane: Lane, out: Events) -> None:
        self._ending.use(usage)
        out.append(ev.UsageReported(model, **msgspec.structs.asdict(usage), **self._marks(lane.parent)))

    def _notice(self, update: up.Notice, out: Events) -> None:
        if update.code == "error" and update.level == "error" and update.lane is None:
            self._ending.report_error(update.text)
        out.append(ev.Notice(update.level, update.code, update.text, **self._marks(update.lane)))

    def _question(self, update: up.Question, out: Events) -> None:
        out.append(
            ev.QuestionAsked(
                id=update.id,
                text=update.text,
                blocking=update.blocking,
                ask=update.ask,
                options=ordered(update.options) or None,
                free_text=update.free_text,
                call_id=update.call_id,
                tool_kind=update.tool_kind,
                title=update.title,
                **self._marks(update.lane),
            )
        )

    def _answer(self, update: up.Answer, out: Events) -> None:
        out.append(ev.QuestionAnswered(update.id, update.by, update.option, update.text, **self._marks(update.lane)))

    def _works(self, update: up.Work, out: Events) -> None:
        if update.on and update.id is not None and len(self._work) < MAX_WORK:
            self._work[update.id] = None
        elif not update.on:
            self._work = {} if update.id is None else {key: None for key in self._work if key != update.id}

    @property
    def working(self) -> bool:
        """Whether work goes on beside the run."""
        return bool(self._work)

    def _unknown(self, update: up.Unknown, out: Events) -> None:
        self.health.count_unknown(update.wire_type or "?")
        raw = excerpt(self.line(), MAX_RAW_CHARS)
        out.append(ev.Unknown(raw, update.wire_type, update.text, **self._marks(update.lane)))

    # --- the end -----------------------------------------------------------------------------------

    def _failed(self, update: up.Failure, out: Events) -> None:
        self._ending.fail(update.reason)

    def _replied(self, update: up.Result, out: Events) -> None:
        if self._ending.again:
            text = update.reason or (
                "the agent ended again, with an error" if update.is_error else "the agent ended again"
            )
            self._notice(up.Notice("result", text, "warning" if update.is_error else "info"), out)
            return
        good = not update.is_error and not update.cancelled
        message = self._top.message
        if message is not None and not message.ended:
            whole = all(block.ended or block.whole for block in message.blocks) or not self.traits.block_ends
            complete = good and whole
            self._end_message(self._top, message, "ok" if complete else "cut", complete, out)
        self._ending.answer(update)
        if update.session_id is not None:
            self._info = msgspec.structs.replace(self._info, session_id=update.session_id)
        out.append(
            ev.Replied(
                self._ending.reply,
                update.is_error or (good and self._ending.limit is not None),
                self._info.session_id,
                self._ending.usage,
                self._ending.cost_usd,
                update.duration_ms,
                **self._marks(None),
            )
        )

    def close(self, exit: Exit | None, out: Events) -> None:
        """End what is open, inner to outer, then the run. A second call does nothing."""
        if self._closed:
            return
        good = self._ending.outcome(exit)[0] in ("ok", "empty")
        for lane in [lane for lane in self._lanes.values() if lane is not self._top] + [self._top]:
            message = lane.message
            if message is not None and not message.ended:
                whole = all(block.ended or block.whole for block in message.blocks)
                complete = whole or (good and not self.traits.block_ends)
                self._end_message(lane, message, "ok" if complete and good else "cut", complete, out)
        for call in self._calls.values():
            if call.called and not call.returned:
                self._return(call, up.ToolReturn(call.call_id), call.lane, False, out)
            elif call.output is not None:
                self._end_block(self._lane(call.output.parent, out), call.output, False, out)
        self._ending.close()
        outcome, reason = self._ending.outcome(exit)
        out.append(
            ev.RunEnded(
                outcome,
                self._ending.reply,
                self._top.rounds,
                self._info.session_id,
                reason,
                self._ending.usage,
                self._ending.cost_usd,
                self._ending.duration_ms,
                **self._marks(None),
            )
        )
        self._closed = True


MAX_WORK = 1024
"""Tasks in the background that are remembered: more than any agent runs at once."""

_COMPLETE = frozenset({up.ToolCall, up.ToolReturn, up.Plan, up.Result, up.Failure})


def _join_halves(block: Block, text: str) -> str:
    """Surrogate halves joined over deltas; a first half at the end is held back for the next."""
    text = block.half + text
    block.half = ""
    if text and "\ud800" <= text[-1] <= "\udbff":
        block.half = text[-1]
        text = text[:-1]
    return well_formed(text)
