"""Steps of a turn: its thoughts, texts and calls, counted while they come.

Only this module decides to which step an event belongs: both for the number beside the reply ("31 steps") and for the
items of `penstock.chat.history.details`, so that the two agree.
"""

from __future__ import annotations

from penstock import events as ev

OfBlock = ev.BlockStarted | ev.Delta | ev.BlockRevised | ev.BlockEnded
_OF_BLOCK = (ev.BlockStarted, ev.Delta, ev.BlockRevised, ev.BlockEnded)


class Steps:
    """Counter of the steps of one run. A step is a block of text or thinking, or a call with its input and output."""

    def __init__(self) -> None:
        self._made = 0
        self._filled: set[int] = set()
        self._blocks: dict[int, int] = {}
        self._calls: dict[str, int] = {}
        self._nameless: dict[str | None, list[int]] = {}  # by lane: inputs that came before their call's id
        self._begun: set[int] = set()  # calls whose input, or more, was seen
        self._called: set[int] = set()

    @property
    def count(self) -> int:
        """Number of steps that have content; white space alone does not count."""
        return len(self._filled)

    def filled(self, step: int) -> bool:
        """Return whether a step has content."""
        return step in self._filled

    def take(self, event: ev.Event) -> int | None:
        """Apply the next event; return its step, if it has one. Steps are numbered from 0 in the order they begin."""
        if event.parent is not None:
            self.lane(event.parent)
        if isinstance(event, _OF_BLOCK):
            return self._of_block(event)
        if isinstance(event, ev.ToolCalled):
            return self._call(event)
        if isinstance(event, ev.ToolReturned):
            step = self.lane(event.call_id)
            self._begun.add(step)
            self._filled.add(step)
            return step
        return None

    def lane(self, call_id: str) -> int:
        """Return the step of the newest call with this id; a sub-agent may name a call that was never reported."""
        step = self._calls.get(call_id)
        if step is None:
            step = self._calls[call_id] = self._new()
        return step

    def _new(self) -> int:
        self._made += 1
        return self._made - 1

    def _of_block(self, event: OfBlock) -> int:
        step = None if isinstance(event, ev.BlockStarted) else self._blocks.get(event.block)
        if step is None:
            step = self._blocks[event.block] = self._begin(event)
        if event.kind in ("text", "thinking") and not isinstance(event, ev.BlockStarted):
            whole = not isinstance(event, ev.Delta)
            if event.text and not event.text.isspace():
                self._filled.add(step)
            elif whole:
                self._filled.discard(step)
        return step

    def _begin(self, event: OfBlock) -> int:
        """Return the step of a block that was not seen before."""
        call_id = event.call_id if isinstance(event, ev.BlockStarted) else None
        if event.kind == "tool_output" and call_id is not None:
            step = self.lane(call_id)
        elif event.kind == "tool_input" and call_id is not None:
            step = self.lane(call_id)
            if step in self._begun:  # the call began again
                step = self._calls[call_id] = self._new()
        else:
            step = self._new()
            if event.kind == "tool_input":
                self._nameless.setdefault(event.parent, []).append(step)
        if event.kind in ("tool_input", "tool_output"):
            self._begun.add(step)
            self._filled.add(step)
        return step

    def _call(self, event: ev.ToolCalled) -> int:
        step = self._calls.get(event.call_id)
        nameless = self._nameless.get(event.parent)
        if step is None and nameless:
            step = nameless.pop(0)
        if step is None or step in self._called:
            step = self._new()
        self._calls[event.call_id] = step
        self._begun.add(step)
        self._called.add(step)
        self._filled.add(step)
        return step
