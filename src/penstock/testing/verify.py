"""Independent judge of the contract: checks whether a list of events is what Penstock promises.

It is written from `penstock.events` and the contract (`docs/contract.md`) alone: it never imports the normalizer and
shares no code with it.

It judges rules 1 (deltas), 2 (life cycle), 5 (discontinuity), 6 (attempts) and 7 (one end). Rules 3, 4 and 8 to 10
concern the input as well, which a list of events does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from penstock import events as ev
from penstock.events import Event

_VALUE_RULE: dict[type, int] = {ev.Delta: 1, ev.BlockRevised: 5, ev.MessageEnded: 6, ev.Replied: 7, ev.RunEnded: 7}
"""Number of the rule that a value outside of the event table breaks; 2 for all other events."""


class Violation(msgspec.Struct, frozen=True):
    """One breach of the contract."""

    index: int
    """Index of the event, from 0; the length of the list if an event is missing at its end."""
    rule: int
    """Number of the rule."""
    text: str
    """Description of what happened and what was expected."""


def verify(events: Iterable[Event]) -> list[Violation]:
    """Return every breach of the contract in `events`, in order; an empty list if there is none.

    `events` are complete runs, one or several; runs that share an output are distinguished by `run`. After a first
    breach others may follow from it, so read the first one first.
    """
    found: list[Violation] = []
    runs: dict[int | None, _Run] = {}
    index = -1
    for index, event in enumerate(events):
        runs.setdefault(event.run, _Run(found)).judge(index, event)
    for run in runs.values() or [_Run(found)]:
        if not run.over:
            found.append(Violation(index + 1, 7, "the events stop without run_ended; expected exactly one, last"))
    return found


def verify_cut(whole: Iterable[Event], cut: Iterable[Event]) -> list[Violation]:
    """Return every breach in `cut`, the events of the first part of the bytes that gave `whole`.

    Besides `verify(cut)`: its stream is a beginning of the stream of `whole`, and it has no call that `whole` does not
    have. Half a character that waited for its other half may be emitted as U+FFFD at the end.
    """
    whole, cut = list(whole), list(cut)
    found = verify(cut)
    calls = {event.call_id: (event.name, event.input) for event in whole if isinstance(event, ev.ToolCalled)}
    for index, event in enumerate(cut):
        if isinstance(event, ev.ToolCalled) and calls.get(event.call_id) != (event.name, event.input):
            found.append(Violation(index, 2, f"call {event.call_id!r} is made; expected only calls of the whole run"))
    live, read = "".join(head + text for _, head, text in _live(whole)), 0
    for index, head, text in _live(cut):
        piece = head + text
        if live.startswith(piece, read):
            read += len(piece)
        elif text != "\ufffd":
            expected = _short(live[read : read + len(piece)])
            found.append(Violation(index, 1, f"the cut streams {_short(piece)}; expected {expected} as in the whole"))
            break
    return found


def _live(events: list[Event]) -> Iterator[tuple[int, str, str]]:
    """Yield the live channel: index, head (if another block or a revision begins) and text of each delta."""
    last = ""
    for index, event in enumerate(events):
        if isinstance(event, ev.Delta | ev.BlockRevised):
            head = f"[{_name(event)} of {event.kind} {event.block} in {event.parent}] "
            yield index, "" if head == last else head, event.text
            last = head if isinstance(event, ev.Delta) else ""


@dataclass(slots=True)
class _Block:
    lane: str | None
    kind: str
    message: int | None
    call_id: str | None
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class _Run:
    """State of one run, as far as it was read. Each event with rules has a method."""

    def __init__(self, found: list[Violation]) -> None:
        self.found = found
        self.index = 0
        self.over = False
        self.blocks: dict[int, _Block] = {}
        self.open_blocks: dict[int, _Block] = {}
        self.messages: set[int] = set()
        self.open_messages: dict[int, str | None] = {}  # number -> lane, the latest last
        self.superseded: set[int] = set()
        self.calls: dict[str, str | None] = {}  # call_id -> lane
        self.open_calls: set[str] = set()

    def judge(self, index: int, event: Event) -> None:
        self.index = index
        if self.over:
            self.wrong(7, f"{_name(event)} after run_ended", "nothing more in this run")
        elif self.has_good_values(event) and (rules := getattr(self, f"on_{_name(event)}", None)):
            rules(event)

    def wrong(self, rule: int, what: str, expected: str) -> None:
        self.found.append(Violation(self.index, rule, f"{what}; expected {expected}"))

    def has_good_values(self, event: Event) -> bool:
        """Return whether all values are those of the event table; lone surrogates are reported but accepted."""
        try:
            ev.decode(ev.encode([event]).rstrip(b"\n"))
        except UnicodeEncodeError:
            self.wrong(1, f"{_name(event)} holds a lone surrogate", "text that can be written as UTF-8")
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
            self.wrong(_VALUE_RULE.get(type(event), 2), f"{_name(event)}: {error}", "a value of the event table")
            return False
        return True

    def same_lane(self, what: str, lane: str | None, event: Event) -> None:
        if event.parent != lane:
            self.wrong(2, f"{_name(event)} of {what} has parent {event.parent!r}", f"{lane!r}, its lane from the start")

    def current(self, lane: str | None) -> int | None:
        return next((number for number in reversed(self.open_messages) if self.open_messages[number] == lane), None)

    def on_message_started(self, event: ev.MessageStarted) -> None:
        number, open_one = event.message, self.current(event.parent)
        if number in self.messages:
            self.wrong(2, f"message {number} starts again", "a number that is new in the run")
        elif open_one is not None:
            self.wrong(2, f"message {number} starts inside message {open_one}", f"the end of message {open_one} first")
        self.messages.add(number)
        self.open_messages[number] = event.parent

    def on_message_ended(self, event: ev.MessageEnded) -> None:
        number = event.message
        if number not in self.open_messages:
            self.wrong(2, f"message {number} ends, but is not open", "the end of an open message")
            return
        self.same_lane(f"message {number}", self.open_messages.pop(number), event)
        for inner, block in self.open_blocks.items():
            if block.message == number:
                self.wrong(2, f"message {number} ends with block {inner} open", "the end of its blocks first")
        if event.status == "superseded":
            self.superseded.add(number)

    def inside_message(self, what: str, event: ev.BlockStarted | ev.ToolCalled) -> int | None:
        open_one = self.current(event.parent)
        if open_one is None:
            self.wrong(2, f"{what} is outside of any message", "an open message in its lane")
        elif event.message not in (None, open_one):
            self.wrong(2, f"{what} names message {event.message}", f"message {open_one}, which is open in its lane")
        return open_one

    def on_block_started(self, event: ev.BlockStarted) -> None:
        what = f"block {event.block} ({event.kind})"
        if event.block in self.blocks:
            self.wrong(2, f"{what} starts again", "a number that is new in the run")
            return
        message = None
        if event.kind == "tool_output":
            self.inside_call(what, event)
        else:
            message = self.inside_message(what, event)
        if event.kind == "tool_input" and event.name is None:
            self.wrong(2, f"{what} starts without a name", "a start only when the tool's name is known")
        block = _Block(event.parent, event.kind, message, event.call_id)
        self.blocks[event.block] = self.open_blocks[event.block] = block

    def inside_call(self, what: str, event: ev.BlockStarted) -> None:
        if event.call_id not in self.calls:
            self.wrong(2, f"{what} has call_id {event.call_id!r}", "the id of a call that was made")
            return
        if event.call_id not in self.open_calls:
            self.wrong(2, f"{what} starts after call {event.call_id!r} has returned", "output before the result")
        if event.message is not None:
            self.wrong(2, f"{what} names message {event.message}", "none: output belongs to its call")
        self.same_lane(f"call {event.call_id!r}", self.calls[event.call_id], event)

    def known_block(self, event: ev.Delta | ev.BlockRevised | ev.BlockEnded) -> _Block | None:
        block = self.blocks.get(event.block)
        if block is None:
            self.wrong(2, f"{_name(event)} of block {event.block}, which never started", "its block_started first")
            return None
        if event.kind != block.kind:
            self.wrong(2, f"{_name(event)} of block {event.block} says {event.kind}", f"its kind, {block.kind}")
        self.same_lane(f"block {event.block}", block.lane, event)
        return block

    def on_delta(self, event: ev.Delta) -> None:
        if not event.text:
            self.wrong(1, f"a delta of block {event.block} is empty", "new text")
        if (block := self.known_block(event)) is None:
            return
        if event.block not in self.open_blocks:
            self.wrong(2, f"a delta of block {event.block}, which has ended", "deltas of open blocks only")
        block.parts.append(event.text)

    def on_block_revised(self, event: ev.BlockRevised) -> None:
        if (block := self.known_block(event)) is None:
            return
        if event.text == block.text:
            self.wrong(5, f"block {event.block} is revised to the text it has", "silence where nothing diverges")
        elif event.block in self.open_blocks and event.text.startswith(block.text):
            self.wrong(5, f"block {event.block} is open and its revision only adds", "a delta with what is new")
        block.parts = [event.text]

    def on_block_ended(self, event: ev.BlockEnded) -> None:
        if (block := self.known_block(event)) is None:
            return
        if self.open_blocks.pop(event.block, None) is None:
            self.wrong(2, f"block {event.block} ends again", "one end")
            return
        if not block.parts and block.kind != "tool_input":
            self.wrong(2, f"block {event.block} ends without any text", "a start only with the first text")
        joined = block.text
        if not (joined.startswith(event.text) if event.truncated else joined == event.text):
            expected = f"{'a beginning of ' if event.truncated else ''}its deltas joined, {_short(joined)}"
            self.wrong(1, f"block {event.block} ends as {_short(event.text)}", expected)

    def on_tool_called(self, event: ev.ToolCalled) -> None:
        self.inside_message(f"call {event.call_id!r}", event)
        if event.call_id in self.calls:
            when = "again" if event.call_id in self.open_calls else "after it has returned"
            self.wrong(2, f"call {event.call_id!r} is made {when}", "one tool_called, before its result")
            return
        self.calls[event.call_id] = event.parent
        self.open_calls.add(event.call_id)

    def on_tool_returned(self, event: ev.ToolReturned) -> None:
        call_id = event.call_id
        # A result whose call was never seen is not a breach: a resumed run may begin with one.
        if call_id in self.calls and call_id not in self.open_calls:
            self.wrong(2, f"call {call_id!r} returns again", "one result")
        if event.changes and (event.is_error or event.refused or not event.complete):
            self.wrong(2, f"call {call_id!r} failed and has changes", "changes of a call that succeeded only")
        if not event.status_reported and (event.is_error or event.refused or event.exit_code is not None):
            self.wrong(2, f"call {call_id!r} has a status that is not reported", "status_reported: true")
        if not event.output_reported and event.text:
            self.wrong(2, f"call {call_id!r} has an output that is not reported", "output_reported: true")
        self.same_lane(f"call {call_id!r}", self.calls.setdefault(call_id, event.parent), event)
        for number, block in self.open_blocks.items():
            if block.kind == "tool_output" and block.call_id == call_id:
                self.wrong(2, f"call {call_id!r} returns with block {number} open", "the end of its output first")
        self.open_calls.discard(call_id)

    def on_run_started(self, event: ev.RunStarted) -> None:
        self.top_lane_only(event)
        if (open_one := self.current(None)) is not None:
            self.wrong(2, f"run_started inside message {open_one}", "the end of the message first")

    def on_replied(self, event: ev.Replied | ev.RunEnded) -> None:
        self.top_lane_only(event)
        kept = "\n\n".join(self.texts(superseded=False))
        for text in self.texts(superseded=True):
            if text.strip() and text not in kept and f"\n\n{text}\n\n" in f"\n\n{event.reply}\n\n":
                self.wrong(6, f"the reply has {_short(text)} of a superseded message", "text of other messages only")

    def on_run_ended(self, event: ev.RunEnded) -> None:
        self.on_replied(event)
        self.over = True
        if event.rounds < 0:
            self.wrong(7, f"the run ends with {event.rounds} rounds", "0 or more")
        if event.outcome == "ok" and event.cause is not None:
            self.wrong(7, f"the outcome is ok, the cause {event.cause}", "a cause with another outcome only")
        if event.outcome == "empty" and event.reply:
            self.wrong(7, f"the outcome is empty, the reply {_short(event.reply)}", "no reply, or another outcome")
        still_open = [f"block {number}" for number in self.open_blocks]
        still_open += [f"message {number}" for number in self.open_messages]
        for what in still_open + [f"call {call_id!r}" for call_id in sorted(self.open_calls)]:
            self.wrong(7, f"the run ends with {what} open", "everything closed, inner to outer, before run_ended")

    def top_lane_only(self, event: ev.RunStarted | ev.Replied | ev.RunEnded) -> None:
        if event.parent is not None:
            self.wrong(2, f"{_name(event)} has parent {event.parent!r}", "the top lane")

    def texts(self, *, superseded: bool) -> list[str]:
        """Return the text of each message of the top lane: of the superseded ones, or of the others."""
        texts: dict[int | None, str] = {}
        for block in self.blocks.values():
            if block.kind == "text" and block.lane is None and (block.message in self.superseded) == superseded:
                texts[block.message] = texts.get(block.message, "") + block.text
        return list(texts.values())


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:50]!r}… ({len(text)} characters)"


def _name(event: Event) -> str:
    return str(event.__struct_config__.tag)
