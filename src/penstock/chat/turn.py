"""Events to the turn of a chat: one quiet line of status, a reply that grows, then only the reply.

    turn = streaming (streaming | thinking | [final_message_start] assistant)* completed

`Turn` is a pure function of a run's events. It never waits, repairs or reads a clock: coalescing is the shell's.
Words of thoughts and calls stand in no status and no reply. `docs/turns.md` tells what a page does with each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

import msgspec

from penstock import events as ev
from penstock.chat.reasoning_tags import TagStripper, strip_tags
from penstock.core.questions import OpenQuestion as OpenQuestion

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
"""The status while a tool runs. Its title and input are in the record of the turn, never here."""

NOTICED: dict[ev.NoticeCode, str] = {
    "retry": "Trying again…",
    "rate_limit": "Waiting for the provider…",
    "compaction": "Shortening the conversation…",
    "background": DELEGATING,
    "model": "Changing the model…",
}
"""The status after a notice. Other codes change nothing in it."""


def _first() -> int:
    """Number the one turn of a caller that has no others. A default that a factory gives is always encoded."""
    return 1


class Streaming(msgspec.Struct, frozen=True, omit_defaults=True, tag="streaming"):
    """The turn goes on. `status` is one of a few short lines, none of them the agent's words.

    `question`: the run waits for the answer to it; the next `streaming` without one takes it away.
    """

    status: str
    question: OpenQuestion | None = None
    turn: int = msgspec.field(default_factory=_first)
    """The number of the turn in its chat."""
    began_at: int | None = None
    """With the first of a turn, if the time is known: milliseconds since 1970."""


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """New thinking: this piece only. It replaces the one before, and nothing else."""

    content: str
    turn: int = msgspec.field(default_factory=_first)
    """The number of the turn in its chat."""


class FinalMessageStart(msgspec.Struct, frozen=True, tag="final_message_start"):
    """Reply text begins; once a turn."""

    turn: int = msgspec.field(default_factory=_first)
    """The number of the turn in its chat."""


class Assistant(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """The reply so far, whole. `replace`: it does not go on from the `assistant` before."""

    content: str
    replace: bool = False
    turn: int = msgspec.field(default_factory=_first)
    """The number of the turn in its chat."""


class Completed(msgspec.Struct, frozen=True, omit_defaults=True, tag="completed"):
    """The turn is over, exactly once and last. `message` is all of it that stays in the thread.

    `reason`: why, where the outcome is not `ok`. `question`: the turn ended early with this question, which is also the
    last paragraph of the message; the answer is the prompt of the next turn.
    """

    message: str
    outcome: ev.Outcome
    reason: str | None = None
    question: OpenQuestion | None = None
    turn: int = msgspec.field(default_factory=_first)
    """The number of the turn in its chat."""
    completed_at: int = 0
    """Milliseconds since 1970, if the time is known."""


TurnEvent = Streaming | Thinking | FinalMessageStart | Assistant | Completed


class Turn:
    """One run as one turn. Of `assistant` events that only grow, one `feed` puts out the last."""

    def __init__(self, number: int = 1) -> None:
        """`number` is that of the turn in its chat."""
        self._number = number
        self._started = False
        self.completed = False  # the turn is over
        self._status: str | None = None  # as it stands now; None where something else took its place
        self._round = _Round(False)
        self._round_over = False  # the next message opens another one
        self._shown: _Round | None = None  # what the bubble shows
        self._filled = False  # it has words
        self._bubble = ""  # which
        self._question: OpenQuestion | None = None  # asked, and the run does not wait for the answer
        self._waiting: dict[str, OpenQuestion] = {}  # the questions that it waits for; the last one is shown
        self._calls: dict[str, None] = {}  # those that have not returned
        self._lanes: dict[str, int] = {}  # sub-agents in the middle of a message
        self._background = False  # work beside the run was told of

    @property
    def asking(self) -> bool:
        """Whether a question stands that the run does not wait for: it can be stopped, the turn is then complete."""
        return self._question is not None and not self.completed

    def start(self) -> list[TurnEvent]:
        """Shows that work began, before the agent has said anything. Again, nothing."""
        out: list[TurnEvent] = []
        if not self._started:
            self._started = True
            self._say(WORKING, out)
        return out

    def feed(self, events: Iterable[ev.Event]) -> list[TurnEvent]:
        """What the next events of the run mean; nothing once the turn is over."""
        out = self.start()
        for event in events:
            if self.completed:
                break
            self._take(event, out)
        if not self.completed:
            self._emit_status(out)
        return out

    def close(self, reason: str | None = None, outcome: ev.Outcome = "cut_off") -> list[TurnEvent]:
        """End a turn whose events stop without a `run_ended`: the record was cut off. Again, nothing."""
        out = self.start()
        if not self.completed:
            self._round.close()
            self._complete(self._round.text, outcome, reason, out)
        return out

    def _take(self, event: ev.Event, out: list[TurnEvent]) -> None:
        if self._question is not None:
            self._settle(self._question, event, out)
            if self.completed:
                return
        if event.parent is not None:
            self._beside(event, out)
        elif isinstance(event, _OfBlock):
            self._content(event, out)
        elif isinstance(event, ev.MessageStarted):
            self._message_started(event, out)
        elif isinstance(event, ev.MessageEnded):
            self._emit_status(out)  # also what is given up now was said
            self._round.end(event)
        elif isinstance(event, ev.ToolCalled | ev.ToolReturned):
            self._called(event, out)
        elif isinstance(event, ev.QuestionAsked | ev.QuestionAnswered):
            self._asked(event, out)
        elif isinstance(event, ev.PlanChanged):
            self._round_over = True  # the tool that changes the plan may be told as no call
            self._say(PLANNING, out)
        elif isinstance(event, ev.Notice):
            self._background = self._background or event.code == "background"
            self._say(NOTICED.get(event.code), out)
        elif isinstance(event, ev.Replied):
            if self._is_answered(event):
                self._complete(self._final(event.reply), "ok", None, out)
            self._round_over = True  # what comes after an answer is no part of it
        elif isinstance(event, ev.RunEnded):
            self._complete(self._final(event.reply), event.outcome, event.reason, out)

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
        question = OpenQuestion.of(event)
        if not event.blocking:
            self._question = question
            return
        self._emit_status(out)
        self._waiting.pop(event.id, None)
        self._waiting[event.id] = question
        self._status = ASKING
        out.append(Streaming(ASKING, question, self._number))

    def _beside(self, event: ev.Event, out: list[TurnEvent]) -> None:
        """An event of a sub-agent: none of its words, only that it works, and its questions that the run waits for."""
        if isinstance(event, ev.QuestionAnswered) or (isinstance(event, ev.QuestionAsked) and event.blocking):
            self._asked(event, out)
        elif isinstance(event, ev.MessageStarted | ev.ToolCalled):
            self._say(DELEGATING, out)
        if isinstance(event, ev.MessageStarted):
            self._lanes[event.parent or ""] = event.message
        elif isinstance(event, ev.MessageEnded):
            self._lanes.pop(event.parent or "", None)

    def _settle(self, question: OpenQuestion, event: ev.Event, out: list[TurnEvent]) -> None:
        """What comes behind a question that the run does not wait for: the agent's own answer, or the early end."""
        if isinstance(event, ev.QuestionAnswered) and event.id == question.id:
            self._question = None
        elif event.parent is None and not isinstance(event, _BETWEEN):
            self._round.close()
            self._complete(self._round.text, "ok", None, out)

    def _is_answered(self, event: ev.Replied) -> bool:
        """Whether the answer stands and nothing more is known to come. One that failed waits for the reason."""
        whole = not event.is_error and bool(event.reply) and self._round.whole and not self._round_over
        return whole and not (self._background or self._calls or self._lanes or self._waiting)

    def _final(self, reply: str) -> str:
        """The reply as it is shown: block by block where it is what was shown, else as one text."""
        self._round.close()
        return self._round.text if reply == self._round.raw else strip_tags(reply)

    def _complete(self, message: str, outcome: ev.Outcome, reason: str | None, out: list[TurnEvent]) -> None:
        self._emit_status(out)
        self.completed = True
        if self._filled and message.strip() not in ("", self._bubble.strip()):
            # What the reply is, is known at the end alone: of a round, only what the agent calls its answer.
            out.append(Assistant(message, not message.startswith(self._bubble), self._number))
        if self._question is not None:
            message = "\n\n".join(filter(None, (message.rstrip(), self._question.text)))
        out.append(Completed(message, outcome, reason, self._question, self._number))

    def _say(self, status: str | None, out: list[TurnEvent]) -> None:
        """A status, where it is another one than what stands there; a question's stands until it is answered."""
        if status is not None and not self._waiting:
            self._emit_status(out)
            if status != self._status:
                self._status = status
                out.append(Streaming(status, None, self._number))

    def _emit_status(self, out: list[TurnEvent]) -> None:
        """The reply so far, if it has news. A bubble is opened and replaced by words, and emptied only if they went."""
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
_BETWEEN = ev.Notice | ev.UsageReported | ev.Unknown | ev.Malformed | ev.RunStarted | ev.RunEnded
"""What may stand behind a question without telling that the agent goes on without an answer."""


class _TurnBlock:
    """A block of reply text: what of it is shown, and what it really is once it has ended."""

    __slots__ = ("key", "message", "partial", "pieces", "raw", "tags")

    def __init__(self, message: int, key: str | None) -> None:
        self.message, self.key = message, key  # its number, and the agent's id of it
        self.tags = TagStripper()
        self.raw: str | None = None
        self.partial = False
        self.pieces: list[str] = []

    @property
    def shown(self) -> str:
        """What of it is shown."""
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def revise(self, text: str) -> None:
        """Show another text."""
        self.tags = TagStripper()
        self.pieces = [self.tags.feed(text)]
        if self.raw is not None:
            self.raw = text
            self.pieces.append(self.tags.close())


class _Round:
    """The text of one round: messages apart by a blank line, the blocks of one joined as they are."""

    def __init__(self, replaces: bool) -> None:
        self.changed = False  # since it was told
        self.replaces = replaces  # what it is now does not go on from what was told
        self.whole = False  # its last message ended well
        self._keys: dict[int, str | None] = {}  # the messages
        self._blocks: dict[int, _TurnBlock] = {}

    def has(self, key: str | None) -> bool:
        """Whether a message of this id is part of the round: it goes on."""
        return key is not None and key in self._keys.values()

    def open(self, event: ev.MessageStarted) -> None:
        """A message begins."""
        self._keys[event.message] = event.message_id
        self.whole = False

    def take(self, event: _OfBlock) -> None:
        """A block begins, grows, gets another text, or ends with what was held back of it."""
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
        """A message ends. What was given up goes: all of it, or blocks of it that were taken back."""
        self.whole = event.status == "ok"
        for number, block in list(self._blocks.items()):
            # In a message that ended well, a block that did not was taken back.
            gone = event.status == "superseded" or (event.status == "ok" and block.partial)
            if gone and block.message == event.message:
                del self._blocks[number]
                if block.shown:
                    self.changed = self.replaces = True

    def close(self) -> None:
        """Nothing more comes: what was held back of open blocks is shown."""
        for block in self._blocks.values():
            if block.raw is None:
                self._show(block, block.tags.close())

    @property
    def text(self) -> str:
        """What is shown."""
        return _joined((block, block.shown) for block in self._blocks.values())

    @property
    def raw(self) -> str | None:
        """What the agent said; None while a block of it is open."""
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
