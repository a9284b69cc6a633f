"""Comparison of the reply with the text that a sink has written, so that none of it is missing or written twice.

Text is written as it arrives, but only at the end is it known which part is the reply. The reply usually repeats
complete blocks, mostly the last ones: blocks of one message are joined as they are, messages with a blank line between
them. The comparison is exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from penstock.events import (
    BlockEnded,
    BlockRevised,
    Event,
    MessageEnded,
    MessageStarted,
    Replied,
    RunEnded,
    ToolReturned,
)

BLANK_LINE = "\n\n"
"""Separator between two messages, in the reply and in the written text."""

MAX_CHARS = 32 * 1024 * 1024
"""Maximum characters of ended blocks that are kept: no reply of several messages has more."""

MAX_SPANS = 65_536
"""Maximum number of spans that are kept: a reply of more blocks is written again in full."""

PROBE_CHARS = 64
"""Number of characters that are compared first: if they differ, no long text has to be copied."""

MAX_COMPARISONS = 64
"""Maximum number of full comparisons for one reply. Many texts with the same beginning would take quadratic time."""


class _Span:
    """Text of one block that was written without another block's text in between."""

    __slots__ = (
        "block",
        "corrections",
        "known",
        "message",
        "message_id",
        "parts",
        "revised",
        "scattered",
        "superseded",
    )

    def __init__(self, block: int, message: int | None, message_id: str | None) -> None:
        self.block = block
        self.message = message
        self.message_id = message_id
        self.known: str | None = None  # the text of the block, once it has ended or was revised
        self.parts: list[str] = []  # the text that was written, unless it is `known`
        self.revised = False
        self.corrections = 0
        self.scattered = False  # the block was not written in one piece
        self.superseded = False

    @property
    def text(self) -> str:
        """Text of the block, as the reply contains it."""
        return self.written_text if self.known is None else self.known

    @property
    def written_text(self) -> str:
        """Text of the block that was written."""
        return "".join(self.parts) if self.parts else self.known or ""

    @property
    def size(self) -> int:
        """Number of characters kept of an ended block."""
        return len(self.known or "")


class ShownText:
    """Tracker of the written text of a run. Feed it all events and the written text; it returns the rest of the reply.

    A sink that cannot withdraw text reports each piece with `add`. One that shows corrections reports only the
    beginnings; its written text is the text of the block.

    Args:
        written: function that returns a text as the sink writes it. A reply counts as not shown if the sink would write
            it differently from its separate blocks, as when an escape sequence begins in one and ends in the next.
    """

    def __init__(self, written: Callable[[str], str] = str) -> None:
        self._written = written
        self.open_block: int | None = None
        """Block whose text was written last."""
        self._spans: deque[_Span] = deque()
        self._of_block: dict[int, _Span] = {}
        self._chars = 0
        self._message: tuple[int | None, str | None] = (None, None)  # number and id of the current one
        self._apart = False  # an event that ends a text has come since the last text
        self._answer = ""  # answer of an agent that may continue, until it has been shown

    def note(self, event: Event) -> None:
        """Follow messages and blocks. Sub-agents are ignored: their text is not in the reply."""
        if event.parent is not None:
            return
        if isinstance(event, BlockEnded | BlockRevised):
            if event.kind == "text" and (span := self._of_block.get(event.block)) is not None:
                self._correct(span, event)
        elif isinstance(event, MessageStarted):
            self._message = (event.message, event.message_id)
        elif isinstance(event, MessageEnded):
            self._end(event)
        elif isinstance(event, ToolReturned):
            self._apart = True
        elif isinstance(event, Replied):
            self._answer = event.reply
        elif isinstance(event, RunEnded) and (self._answer == event.reply or self._answer in event.reply):
            self._answer = ""

    def begin(self, block: int, message: int | None, *, correction: bool = False) -> bool:
        """Begin text of this block; return whether a blank line separates it from the text before.

        `correction`: the text of a revised block from the first difference on.
        """
        last = self._spans[-1] if self._spans else None
        self._apart = False
        if last is None or last.block != block:
            self.open_block = block
            self._append(block, message)
        span = self._of_block[block]
        span.corrections += correction
        span.scattered = span.scattered or span.corrections > 1
        return last is not None and last is not span and (last.superseded or not _one_message(last, span))

    def add(self, text: str) -> None:
        """Record text of the open block that was written."""
        self._spans[-1].parts.append(text)
        self._apart = False

    def rest(self, reply: str) -> str:
        """Return the part of the reply that is not written yet, after a blank line unless it continues the text.

        - "" if the reply consists of complete blocks that were written, or is a part of the last one
        - the rest if it continues the last blocks
        - everything after the first difference if the agent revised them
        - else the whole reply
        """
        if not reply:
            return ""
        if (rest := self._compared(reply)) is not None:
            return rest
        if self._contains(reply):
            return ""
        return (BLANK_LINE if self._spans else "") + reply

    def overdue(self, text: str = "") -> str:
        """Return the part of an earlier answer that is not written yet, now that `text` follows it or the run ends.

        Return "" while `text` may be that answer itself, sent late; call it again then.
        """
        answer = self._answer
        if text and answer.startswith(text):
            return ""
        self._answer = ""
        return "" if any(span.text == answer for span in self._spans) else self.rest(answer)

    def _append(self, block: int, message: int | None) -> None:
        number, message_id = self._message
        span = _Span(block, message, message_id if number == message else None)
        if (older := self._of_block.get(block)) is not None:
            older.scattered = span.scattered = True
        self._spans.append(span)
        self._of_block[block] = span
        while len(self._spans) > MAX_SPANS or self._chars - self._spans[0].size > MAX_CHARS:
            gone = self._spans.popleft()
            self._chars -= gone.size
            if self._of_block[gone.block] is gone:
                del self._of_block[gone.block]

    def _correct(self, span: _Span, event: BlockEnded | BlockRevised) -> None:
        self._chars += len(event.text) - span.size
        span.known = event.text
        span.revised = span.revised or isinstance(event, BlockRevised)
        if not span.revised:
            span.parts = []  # the same text; or only the part in the reply, if it was too long to be kept

    def _end(self, event: MessageEnded) -> None:
        for span in reversed(self._spans):
            if span.message != event.message:
                break
            span.message_id = event.message_id  # it may have become known meanwhile
            if event.status == "superseded":
                span.superseded = self._apart = True

    def _contains(self, reply: str) -> bool:
        """Return whether the reply is a part of the text that was written last, with no event after it."""
        if self._apart or not self._spans or self._spans[-1].scattered:
            return False
        last = self._spans[-1]
        return reply in last.written_text and self._written(reply) in self._written(last.written_text)

    def _compared(self, reply: str) -> str | None:
        """Return the rest of a reply that consists of complete spans or continues the last ones; None if neither."""
        spans = [span for span in self._spans if span.text and not span.superseded]
        first = max((index + 1 for index, span in enumerate(spans) if span.scattered), default=0)
        spans = spans[first:]
        text, starts, ends = _joined(spans, [span.text for span in spans])
        comparisons = 0
        for index, start in enumerate(starts):
            if text[start : start + PROBE_CHARS][: len(reply)] != reply[: min(PROBE_CHARS, len(text) - start)]:
                continue
            last = ends.get(start + len(reply)) if text.startswith(reply, start) else None
            if last is not None or reply.startswith(text[start:]):
                return self._missing(spans[index : None if last is None else last + 1], reply)
            comparisons += 1
            if comparisons == MAX_COMPARISONS:
                break
        return None

    def _missing(self, spans: Sequence[_Span], reply: str) -> str | None:
        """Return the unwritten part of a reply that begins with the texts of these spans."""
        if len(spans) == 1 and spans[0].known == reply and not spans[0].parts:
            return ""  # nearly every reply ends here, so that no long text is joined or sanitized again
        text, *_ = _joined(spans, [span.text for span in spans])
        one_by_one, *_ = _joined(spans, [self._written(span.text) for span in spans])
        if one_by_one + self._written(reply[len(text) :]) != self._written(reply):
            return None
        written_text, *_ = _joined(spans, [span.written_text for span in spans])
        rest = reply[shared(written_text, reply) :]
        return None if rest and (self._apart or spans[-1] is not self._spans[-1]) else rest


def _joined(spans: Sequence[_Span], texts: Sequence[str]) -> tuple[str, list[int], dict[int, int]]:
    """Return the texts of these spans joined as in the reply, their starts, and a map from their ends to indexes."""
    parts: list[str] = []
    starts: list[int] = []
    ends: dict[int, int] = {}
    size = 0
    for index, (span, text) in enumerate(zip(spans, texts, strict=True)):
        gap = "" if not index or _one_message(spans[index - 1], span) else BLANK_LINE
        parts += (gap, text)
        starts.append(size + len(gap))
        size += len(gap) + len(text)
        ends[size] = index
    return "".join(parts), starts, ends


def _one_message(one: _Span, other: _Span) -> bool:
    """Return whether both belong to one message, which may have been reopened under another number."""
    return one.message == other.message or (one.message_id is not None and one.message_id == other.message_id)


def shared(one: str, other: str) -> int:
    """Return the length of the common prefix, found by bisection."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low
