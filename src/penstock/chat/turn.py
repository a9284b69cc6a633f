"""From events to the turn of a chat: one short line of status, a reply that grows, then only the reply.

    turn = streaming (streaming | thinking | [final_message_start] assistant)* completed

`Turn` is a pure function of a run's events. It never waits, repairs or reads a clock: its caller coalesces events.
Text of thinking and calls is never part of a status or reply. `docs/turns.md` describes what a page does with each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

import msgspec

from penstock import events as ev
from penstock.chat.reasoning_tags import TagStripper, strip_tags
from penstock.core.bounded import BoundedDict
from penstock.core.questions import OpenQuestion as OpenQuestion
from penstock.core.questions import Proposal

MAX_CALLS = 1024
"""Number of open calls whose commands and changes are remembered for questions: more than any agent has."""

WORKING = "Working…"
PLANNING = "Planning…"
DELEGATING = "Sub-agents are working…"
ASKING = "Waiting for your answer…"

CALLING: dict[ev.ToolKind, str] = {
    "read": "Reading…",
    "edit": "Editing…",
    "delete": "Deleting…",
    "move": "Moving files…",
    "search": "Searching…",
    "execute": "Running a command…",
    "think": "Thinking…",
    "fetch": "Looking on the web…",
    "other": "Using a tool…",
}
"""Status while a tool runs. The title and input of the call are in the details of the turn, never here."""

NOTICED: dict[ev.NoticeCode, str] = {
    "retry": "Trying again…",
    "rate_limit": "Waiting for the provider…",
    "compaction": "Shortening the conversation…",
    "background": DELEGATING,
    "model": "Changing the model…",
}
"""Status after a notice. Other codes do not change the status."""


def _first() -> int:
    """Return the number of a caller's only turn. A default that comes from a factory is always encoded."""
    return 1


class Streaming(msgspec.Struct, frozen=True, omit_defaults=True, tag="streaming"):
    """The turn is running. `status` is one of a few fixed lines, never text of the agent.

    `question`: the run waits for the answer to it; the next `streaming` without one removes it.
    """

    status: str
    question: OpenQuestion | None = None
    turn: int = msgspec.field(default_factory=_first)
    """Number of the turn in its chat."""
    began_at: int | None = None
    """Start of the turn in milliseconds since 1970, with its first `streaming`, if the time is known."""


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """New thinking: only this piece. It replaces the piece before, and nothing else."""

    content: str
    turn: int = msgspec.field(default_factory=_first)
    """Number of the turn in its chat."""


class FinalMessageStart(msgspec.Struct, frozen=True, tag="final_message_start"):
    """Reply text begins; once a turn."""

    turn: int = msgspec.field(default_factory=_first)
    """Number of the turn in its chat."""


class Assistant(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """The whole reply so far. `replace`: it does not continue the `assistant` before."""

    content: str
    replace: bool = False
    turn: int = msgspec.field(default_factory=_first)
    """Number of the turn in its chat."""


class Completed(msgspec.Struct, frozen=True, omit_defaults=True, tag="completed"):
    """The turn is over: the last event, exactly once. `message` is all of the turn that remains in the thread.

    `reason`: the cause, if the outcome is not `ok`. `question`: the turn ended early with this question, which is also
    the last paragraph of the message; the answer is the prompt of the next turn.
    """

    message: str
    outcome: ev.Outcome
    reason: str | None = None
    question: OpenQuestion | None = None
    turn: int = msgspec.field(default_factory=_first)
    """Number of the turn in its chat."""
    completed_at: int = 0
    """End of the turn in milliseconds since 1970, if the time is known."""
    cause: ev.Cause | None = None
    """Cause of an outcome other than `ok`, if the agent names it."""
    resets_at: int | None = None
    """Time at which a limit resets, in milliseconds since 1970, if the cause is a limit that does."""


TurnEvent = Streaming | Thinking | FinalMessageStart | Assistant | Completed


class Turn:
    """State machine of one run as one turn. Of `assistant` events that only grow, one `feed` returns the last."""

    def __init__(self, number: int = 1) -> None:
        """`number` is the number of the turn in its chat."""
        self._number = number
        self._started = False
        self.completed: bool = False  # the turn is over
        self._status: str | None = None  # status shown now; None if something else replaced it
        self._round = _Round(False)
        self._round_over = False  # the next message begins another round
        self._shown: _Round | None = None  # round whose text the bubble shows
        self._filled = False  # the bubble has words
        self._bubble = ""  # the text of the bubble
        self._question: OpenQuestion | None = None  # asked, and the run does not wait for the answer
        self._waiting: dict[str, OpenQuestion] = {}  # questions that the run waits for; the last one is shown
        self._calls: dict[str, None] = {}  # calls that have not returned
        self._proposals: BoundedDict[str, Proposal] = BoundedDict(MAX_CALLS)  # of open calls, sub-agents' too
        self._lanes: dict[str, int] = {}  # sub-agents in the middle of a message
        self._background = False  # a notice reported work beside the run

    @property
    def asking(self) -> bool:
        """Return whether a question is open that the run does not wait for: a stop then completes the turn."""
        return self._question is not None and not self.completed

    def waits_for(self, id: str) -> bool:
        """Return whether the run waits for the answer to the question of this id, also if another one is shown."""
        return id in self._waiting and not self.completed

    def start(self) -> list[TurnEvent]:
        """Return the first status, before any output of the agent; nothing if it is called again."""
        out: list[TurnEvent] = []
        if not self._started:
            self._started = True
            self._say(WORKING, out)
        return out

    def feed(self, events: Iterable[ev.Event]) -> list[TurnEvent]:
        """Return the turn events of the run's next events; nothing once the turn is over."""
        out = self.start()
        for event in events:
            if self.completed:
                break
            self._take(event, out)
        if not self.completed:
            self._emit_status(out)
        return out

    def close(self, reason: str | None = None, outcome: ev.Outcome = "cut_off") -> list[TurnEvent]:
        """End a turn whose events stop without a `run_ended`: the record was cut off. Nothing if it is called again."""
        out = self.start()
        if not self.completed:
            self._round.close()
            self._complete(self._round.text, outcome, reason, out)
        return out

    def _take(self, event: ev.Event, out: list[TurnEvent]) -> None:  # noqa: C901 - one branch for each kind of event
        if isinstance(event, ev.ToolCalled):
            self._proposals[event.call_id] = Proposal.of(event)
        elif isinstance(event, ev.ToolReturned):
            self._proposals.pop(event.call_id, None)
        if self._question is not None:
            self._settle(self._question, event, out)
            if self.completed:
                return
        if event.parent is not None:
            self._beside(event, out)
        elif isinstance(event, _OF_BLOCK):
            self._content(event, out)
        elif isinstance(event, ev.MessageStarted):
            self._message_started(event, out)
        elif isinstance(event, ev.MessageEnded):
            self._emit_status(out)  # before the end: superseded text is emitted too
            self._round.end(event)
        elif isinstance(event, _OF_CALL):
            self._called(event, out)
        elif isinstance(event, _OF_QUESTION):
            self._asked(event, out)
        elif isinstance(event, ev.PlanChanged):
            self._round_over = True  # the tool that changes the plan may not be reported as a call
            self._say(PLANNING, out)
        elif isinstance(event, ev.Notice):
            self._background = self._background or event.code == "background"
            self._say(NOTICED.get(event.code), out)
        elif isinstance(event, ev.Replied):
            if self._is_answered(event):
                self._complete(self._final(event.reply), "ok", None, out)
            self._round_over = True  # text after a reply is not part of it
        elif isinstance(event, ev.RunEnded):
            self._complete(self._final(event.reply), event.outcome, event.reason, out, event.cause, event.resets_at)

    def _content(self, event: _OfBlock, out: list[TurnEvent]) -> None:
        if event.kind == "text":
            if isinstance(event, ev.BlockRevised):
                self._emit_status(out)
            self._round.take(event)
        elif event.kind == "thinking" and isinstance(event, ev.Delta):
            self._emit_status(out)
            self._status = None
            out.append(Thinking(event.text, self._number))

    def _message_started(self, event: ev.MessageStarted, out: list[TurnEvent]) -> None:
        if self._round_over and not self._round.has(event.message_id):
            self._emit_status(out)
            self._round = _Round(self._shown is not None)
        self._round_over = False
        self._round.open(event)

    def _called(self, event: ev.ToolCalled | ev.ToolReturned, out: list[TurnEvent]) -> None:
        if isinstance(event, ev.ToolCalled):
            self._calls[event.call_id] = None
            self._say(CALLING[event.tool_kind], out)
            return
        self._calls.pop(event.call_id, None)
        self._round_over = True
        if not self._calls:
            self._say(WORKING, out)

    def _asked(self, event: ev.QuestionAsked | ev.QuestionAnswered, out: list[TurnEvent]) -> None:
        if isinstance(event, ev.QuestionAnswered):
            if event.id in self._waiting:
                shown = next(reversed(self._waiting))
                del self._waiting[event.id]
                self._say(WORKING, out)
                if self._waiting and shown == event.id:
                    self._emit_status(out)
                    self._status = ASKING
                    out.append(Streaming(ASKING, next(reversed(self._waiting.values())), self._number))
            return
        question = OpenQuestion.of(event, self._proposals.get(event.call_id or ""))
        if not event.blocking:
            self._question = question
            return
        self._emit_status(out)
        self._waiting.pop(event.id, None)
        self._waiting[event.id] = question
        self._status = ASKING
        out.append(Streaming(ASKING, question, self._number))

    def _beside(self, event: ev.Event, out: list[TurnEvent]) -> None:
        """Handle an event of a sub-agent: emit a status and its blocking questions, but not its text."""
        if isinstance(event, ev.QuestionAnswered) or (isinstance(event, ev.QuestionAsked) and event.blocking):
            self._asked(event, out)
        elif isinstance(event, _WORK):
            self._say(DELEGATING, out)
        if isinstance(event, ev.MessageStarted):
            self._lanes[event.parent or ""] = event.message
        elif isinstance(event, ev.MessageEnded):
            self._lanes.pop(event.parent or "", None)

    def _settle(self, question: OpenQuestion, event: ev.Event, out: list[TurnEvent]) -> None:
        """Handle an event after a question that the run does not wait for: the agent's own answer, or the early end."""
        if isinstance(event, ev.QuestionAnswered) and event.id == question.id:
            self._question = None
        elif event.parent is None and not isinstance(event, _BETWEEN):
            self._round.close()
            self._complete(self._round.text, "ok", None, out)

    def _is_answered(self, event: ev.Replied) -> bool:
        """Return whether the reply is final and nothing more is expected. A failed one waits for the reason."""
        whole = not event.is_error and bool(event.reply) and self._round.whole and not self._round_over
        return whole and not (self._background or self._calls or self._lanes or self._waiting)

    def _final(self, reply: str) -> str:
        """Return the reply as it is shown: block by block if it equals the text of the round, else as one text."""
        self._round.close()
        return self._round.text if reply == self._round.raw else strip_tags(reply)

    def _complete(
        self,
        message: str,
        outcome: ev.Outcome,
        reason: str | None,
        out: list[TurnEvent],
        cause: ev.Cause | None = None,
        resets_at: int | None = None,
    ) -> None:
        self._emit_status(out)
        self.completed = True
        if self._filled and message.strip() not in ("", self._bubble.strip()):
            # The reply is known only at the end: of a round, only the part that the agent calls its answer.
            out.append(Assistant(message, not message.startswith(self._bubble), self._number))
        if self._question is not None:
            message = "\n\n".join(filter(None, (message.rstrip(), self._question.text)))
        out.append(Completed(message, outcome, reason, self._question, self._number, cause=cause, resets_at=resets_at))

    def _say(self, status: str | None, out: list[TurnEvent]) -> None:
        """Emit a status if it differs from the one shown; the status of a question remains until it is answered."""
        if status is not None and not self._waiting:
            self._emit_status(out)
            if status != self._status:
                self._status = status
                out.append(Streaming(status, None, self._number))

    def _emit_status(self, out: list[TurnEvent]) -> None:
        """Emit the reply so far, if it changed.

        Only words open a bubble or replace its text; it is emptied only if its words were withdrawn.
        """
        this = self._round
        if not this.changed:
            return
        text = "" if this.text.isspace() else this.text
        if not text and not (self._filled and self._shown is this and this.replaces):
            return
        if self._shown is None:
            out.append(FinalMessageStart(self._number))
        out.append(Assistant(text, this.replaces, self._number))
        self._shown, self._filled, self._bubble, self._status = this, bool(text), text, None
        this.changed = this.replaces = False


_OfBlock = ev.Delta | ev.BlockStarted | ev.BlockRevised | ev.BlockEnded
# Tuples: `isinstance` takes several times as long with a union, and every event of a turn comes here.
_OF_BLOCK = (ev.Delta, ev.BlockStarted, ev.BlockRevised, ev.BlockEnded)
_OF_CALL = (ev.ToolCalled, ev.ToolReturned)
_OF_QUESTION = (ev.QuestionAsked, ev.QuestionAnswered)
_WORK = (ev.MessageStarted, ev.ToolCalled)
"""Events that show a sub-agent at work."""
_BETWEEN = (
    ev.Notice,
    ev.UsageReported,
    ev.CommandsChanged,
    ev.Unknown,
    ev.Malformed,
    ev.RunStarted,
    ev.RunEnded,
)
"""Events that may follow a question although the agent does not continue without an answer."""


class _TurnBlock:
    """Block of reply text: the part that is shown, and its raw text once it has ended."""

    __slots__ = ("key", "message", "partial", "pieces", "raw", "tags")

    def __init__(self, message: int, key: str | None) -> None:
        self.message, self.key = message, key  # number of the message, and the agent's id of it
        self.tags = TagStripper()
        self.raw: str | None = None
        self.partial = False
        self.pieces: list[str] = []

    @property
    def shown(self) -> str:
        """Text of the block that is shown."""
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def revise(self, text: str) -> None:
        """Replace the text of the block."""
        self.tags = TagStripper()
        self.pieces = [self.tags.feed(text)]
        if self.raw is not None:
            self.raw = text
            self.pieces.append(self.tags.close())


class _Round:
    """Text of one round: messages separated by a blank line, the blocks of a message joined as they are."""

    def __init__(self, replaces: bool) -> None:
        self.changed = False  # since it was last emitted
        self.replaces = replaces  # its text does not continue what was last emitted
        self.whole = False  # its last message ended well
        self._keys: dict[int, str | None] = {}  # ids of the messages by number
        self._blocks: dict[int, _TurnBlock] = {}

    def has(self, key: str | None) -> bool:
        """Return whether a message with this id is part of the round, which then continues."""
        return key is not None and key in self._keys.values()

    def open(self, event: ev.MessageStarted) -> None:
        """Begin a message."""
        self._keys[event.message] = event.message_id
        self.whole = False

    def take(self, event: _OfBlock) -> None:
        """Apply an event of a block: it begins, grows, is revised, or ends with the text that was held back."""
        block = self._blocks.get(event.block)
        if isinstance(event, ev.BlockStarted):
            message = event.message or 0
            self._blocks[event.block] = _TurnBlock(message, self._keys.get(message))
        elif block is None:
            return  # of an earlier round
        elif isinstance(event, ev.Delta):
            self._show(block, block.tags.feed(event.text))
        elif isinstance(event, ev.BlockEnded):
            block.raw, block.partial = event.text, not event.complete
            self._show(block, block.tags.close())
        else:
            before = block.shown
            block.revise(event.text)
            if block.shown != before:
                self.changed = self.replaces = True

    def end(self, event: ev.MessageEnded) -> None:
        """End a message. Superseded text is removed: all of the message, or those of its blocks that were withdrawn."""
        self.whole = event.status == "ok"
        for number, block in list(self._blocks.items()):
            # In a message that ended well, an incomplete block was withdrawn.
            gone = event.status == "superseded" or (event.status == "ok" and block.partial)
            if gone and block.message == event.message:
                del self._blocks[number]
                if block.shown:
                    self.changed = self.replaces = True

    def close(self) -> None:
        """End the round: show the text of open blocks that was held back."""
        for block in self._blocks.values():
            if block.raw is None:
                self._show(block, block.tags.close())

    @property
    def text(self) -> str:
        """Text that is shown."""
        return _joined((block, block.shown) for block in self._blocks.values())

    @property
    def raw(self) -> str | None:
        """Raw text of the agent; None while a block of it is open."""
        if any(block.raw is None for block in self._blocks.values()):
            return None
        return _joined((block, block.raw or "") for block in self._blocks.values())

    def _show(self, block: _TurnBlock, text: str) -> None:
        if text:
            later = takewhile(lambda other: other is not block, reversed(self._blocks.values()))
            self.changed = True
            self.replaces = self.replaces or any(other.shown for other in later)
            block.pieces.append(text)


def _joined(texts: Iterable[tuple[_TurnBlock, str]]) -> str:
    parts: list[str] = []
    before: _TurnBlock | None = None
    for block, text in texts:
        if text:
            if before is not None and before.message != block.message:
                parts.append("" if block.key is not None and block.key == before.key else "\n\n")
            parts.append(text)
            before = block
    return "".join(parts)
