"""What a sink has put out of the top agent's text, and what of the reply it has not.

Text is put out while it comes; which of it is the reply is known only at the end. The reply repeats the last
text, as a rule: whole blocks from some point on, blocks of one message joined as they are, messages with a blank
line between. That is compared exactly, by position, so nothing is put out twice, and nothing is left out because
an older text was equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.events import BlockEnded, BlockRevised, Event, MessageEnded, MessageStarted, ToolReturned

BLANK_LINE = "\n\n"
"""Parts two messages, in the reply as in what is put out."""

MAX_CHARS = 32 * 1024 * 1024
"""Characters of ended blocks that are kept: no reply of several messages has more."""

MAX_SPANS = 65_536
"""Spans that are kept: a reply of more blocks is put out again, whole."""

PROBE_CHARS = 64
"""Compared first: where the reply does not begin like this, no copy of a long text is made."""

MAX_COMPARISONS = 64
"""Whole comparisons for one reply. Texts that begin alike again and again would cost time by their square."""


class _Span:
    """Text of one block that was put out without another block's text in between."""

    __slots__ = (
        "block",
        "corrections",
        "message",
        "message_id",
        "parts",
        "revised",
        "scattered",
        "superseded",
        "text",
    )

    def __init__(self, block: int, message: int | None, message_id: str | None) -> None:
        self.block = block
        self.message = message
        self.message_id = message_id
        self.text = ""  # what the block says, as the reply has it
        self.parts: list[str] = []  # what was put out, unless that is `text`
        self.revised = False
        self.corrections = 0
        self.scattered = False  # the block was not put out in one piece
        self.superseded = False

    @property
    def put_out(self) -> str:
        return "".join(self.parts) if self.parts else self.text


class ShownText:
    """Is given all events of a run, and where text is put out; says what of the reply is missing.

    A sink that cannot take text back reports each piece with `add`; one that shows corrections reports only the
    beginnings, and the text is that of the block.
    """

    def __init__(self) -> None:
        self.open_block: int | None = None
        """The block whose text was put out last."""
        self._spans: deque[_Span] = deque()
        self._of_block: dict[int, _Span] = {}
        self._chars = 0
        self._message: tuple[int | None, str | None] = (None, None)  # the current one's number and id
        self._apart = False  # something that ends a text has come since the last one

    def note(self, event: Event) -> None:
        """Follow the life of messages and blocks; sub-agents have no part in the reply."""
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

    def begin(self, block: int, message: int | None, *, correction: bool = False) -> bool:
        """Text of this block follows; whether a blank line parts it from the text before.

        `correction`: it is what a revised block says from the first difference on.
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
        """This text of the open block was put out."""
        self._spans[-1].parts.append(text)
        self._apart = False

    def rest(self, reply: str) -> str:
        """What of the reply is to be put out still; it begins with a blank line where it is no continuation.

        The rest where the reply goes on from what was put out last. Everything after the first difference where
        the agent revised its text. Otherwise the whole reply, unless all of it was put out.
        """
        if not reply:
            return ""
        rest, found = self._continuation(reply)
        if not found or (rest and self._apart):
            return (BLANK_LINE if self._spans else "") + reply
        return rest

    def _append(self, block: int, message: int | None) -> None:
        number, message_id = self._message
        span = _Span(block, message, message_id if number == message else None)
        if (older := self._of_block.get(block)) is not None:
            older.scattered = span.scattered = True
        self._spans.append(span)
        self._of_block[block] = span
        while len(self._spans) > MAX_SPANS or self._chars - len(self._spans[0].text) > MAX_CHARS:
            gone = self._spans.popleft()
            self._chars -= len(gone.text)
            if self._of_block[gone.block] is gone:
                del self._of_block[gone.block]

    def _correct(self, span: _Span, event: BlockEnded | BlockRevised) -> None:
        self._chars += len(event.text) - len(span.text)
        span.text = event.text
        span.revised = span.revised or isinstance(event, BlockRevised)
        if not span.revised:
            span.parts = []  # the same; or as much of it as the reply has, where it was too long to be kept

    def _end(self, event: MessageEnded) -> None:
        for span in reversed(self._spans):
            if span.message != event.message:
                break
            span.message_id = event.message_id  # it may have become known meanwhile
            if event.status == "superseded":
                span.superseded = self._apart = True

    def _continuation(self, reply: str) -> tuple[str, bool]:
        """The rest of a reply that repeats the last spans; whether it does."""
        spans = [span for span in self._spans if span.text and not span.superseded]
        first = max((index + 1 for index, span in enumerate(spans) if span.scattered), default=0)
        spans = spans[first:]
        text, starts = _joined(spans, [span.text for span in spans])
        comparisons = 0
        for index, start in enumerate(starts):
            if len(text) - start > len(reply) or not reply.startswith(text[start : start + PROBE_CHARS]):
                continue
            if reply.startswith(text[start:]):
                said = spans[index:]
                put_out, _ = _joined(said, [span.put_out for span in said])
                return reply[shared(put_out, reply) :], True
            comparisons += 1
            if comparisons == MAX_COMPARISONS:
                break
        return "", False


def _joined(spans: Sequence[_Span], texts: Sequence[str]) -> tuple[str, list[int]]:
    """The texts of these spans as the reply joins them, and where each begins."""
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    for index, (span, text) in enumerate(zip(spans, texts, strict=True)):
        gap = "" if not index or _one_message(spans[index - 1], span) else BLANK_LINE
        starts.append(size + len(gap))
        size += len(gap) + len(text)
        parts += (gap, text)
    return "".join(parts), starts


def _one_message(one: _Span, other: _Span) -> bool:
    """Whether both are of one message: it may have been opened again under another number."""
    return one.message == other.message or (one.message_id is not None and one.message_id == other.message_id)


def shared(one: str, other: str) -> int:
    """The length of the beginning that both share, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low
