"""Details of a turn: all thinking, text and tool calls of the agent, in the order in which they began.

A pure fold of the turn's entries, for the page that a person opens from the reply. The details show what
`penstock.chat.turn` hides; long texts are shortened, with a mark. `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import TurnView
from penstock.chat.history.items import AnyItem, Asked, Called, Clip, Noticed, Planned, Said, Thought
from penstock.chat.history.steps import OfBlock, Steps
from penstock.core import tool_titles
from penstock.core.causes import retry_text
from penstock.core.diffs import shorten
from penstock.core.questions import answer_in_words

MAX_TEXT_CHARS = 262_144
"""Maximum characters of one text or thought: longer than any reply seen, and short enough for a browser."""

MAX_PART_CHARS = 20_000
"""Characters of the input or output of a call, and of a notice: a person reads its beginning and its end."""

MAX_ALL_CHARS = 8 * 2**20
"""Characters of all texts of the details together; the texts after them have `LEAST_CHARS` each."""

MAX_DIFF_LINES, MAX_FILES = 5_000, 1_000
"""Maximum lines of the diffs, and number of files, of one call.

The first is the limit of the events, the second more than an edit of an agent has.
"""

LEAST_CHARS = 400
"""Characters that are kept of every text: enough to recognize it."""

MAX_ITEMS = 10_000
"""Items of the details. More are only counted: nobody scrolls further, and the turn's events have all."""

MAX_LEVELS = 40
"""Levels of a call's input that are indented; the white space before deeper ones would be larger than the text."""

MAX_NAMES = 3
MAX_NAME_CHARS = 60
"""Number of unknown kinds of events that are named, and the characters of a name."""

SHOWN_NOTICES: frozenset[ev.NoticeCode] = frozenset(
    ("retry", "rate_limit", "compaction", "background", "model", "permission", "refusal", "media", "session")
)
"""Codes of `info` notices that the details show. Warnings and errors are always shown."""


GIVEN = "A message for the agent while it worked:\n"
"""Words before the text of a message that the agent took in the middle of its turn."""


class Details(msgspec.Struct):
    """Turn with its items. `whole` is true once its run is over: nothing more is added."""

    turn: TurnView
    whole: bool
    items: list[AnyItem]


def details_of(turn: TurnView, rows: Iterable[Numbered]) -> Details:
    """Return the details of a turn, made from its entries; entries of other turns between them are skipped."""
    recorder = Recorder(turn.turn)
    recorder.take(rows)
    return Details(turn, recorder.over, recorder.items())


class Recorder:
    """Recorder of the entries of one turn as they come. Any division of them into batches gives the same items."""

    def __init__(self, turn: int) -> None:
        self.over: bool = False
        self._turn = turn
        self._mine: bool | None = None  # None: no entry yet shows to which turn the events belong
        self._began: int | None = None
        self._fold = _Fold()

    def take(self, rows: Iterable[Numbered]) -> None:
        """Record the next entries; they are ignored once the turn is over."""
        for _, at, what in rows:
            if not self.over:
                self._take(at, what)

    def _take(self, at: int, what: Entry | ev.Event | None) -> None:
        if isinstance(what, TurnBegan):
            self.over = bool(self._mine)  # another turn began: this one has no more entries
            self._mine, self._began = what.turn == self._turn, at
        elif isinstance(what, Prompted):
            if what.turn == self._turn:
                self._mine, self._fold = False, _Fold()  # what came before belongs to another turn
        elif isinstance(what, TurnEnded):
            self.over = what.turn == self._turn
        elif self._mine is not False and (what is None or isinstance(what, ev.Base)):
            self._began = at if self._began is None else self._began
            stamp = what.at if what is not None else None
            self._fold.take(what, max(0, at - self._began if stamp is None else stamp))
            self.over = isinstance(what, ev.RunEnded)
        if self.over:
            self._fold.close()

    def items(self) -> list[AnyItem]:
        """Return the items so far."""
        return self._fold.items()


class _Draft:
    """Draft of an item: its texts are not cut yet, and its result is not yet known."""

    def __init__(self, item: AnyItem, parent: int | None, step: int | None) -> None:
        self.item = item
        self.parent = parent  # the step of its call
        self.step = step
        self.message: int | None = None
        self.text = Clip(MAX_TEXT_CHARS if isinstance(item, Said | Thought) else MAX_PART_CHARS)  # a call's output
        self.input = Clip(MAX_PART_CHARS)
        self.begun = False  # its block has begun, or the call itself was seen
        self.open = False  # there is more to come
        self.partial = False  # its block ended before it was complete
        self.ran = False  # the call has its result

    def end(self, status: ev.MessageStatus) -> None:
        """Apply the end of its message. A part that is not complete, in a message that ended well, was taken back."""
        if isinstance(self.item, Called) and not self.partial and status != "superseded":
            return  # its result may still come
        gone = status == "superseded" or (self.partial and status == "ok")
        self.item.given_up = gone and not self.ran
        self.item.cut = self.item.cut or (self.partial and status == "cut")
        self.open = False


class _Lane:
    """Rounds of one agent, as the session counts them: a round is over with the next results, or with a plan."""

    def __init__(self) -> None:
        self.round = 0
        self._spoke = False
        self._over = False
        self._messages: set[str | None] = set()

    def begin(self, message_id: str | None) -> None:
        """Begin a message: it is of a new round, unless it continues a message of the current one."""
        if self._over and (message_id is None or message_id not in self._messages):
            self._spoke = False
            self._messages.clear()
        self._over = False
        self._messages.add(message_id)

    def speak(self) -> int:
        """Count the round, as it has content; return its number."""
        self.round += not self._spoke
        self._spoke = True
        return self.round

    def end(self) -> None:
        """End the round: results or a plan came."""
        self._over = True


class _Fold:
    """Fold of events to items."""

    def __init__(self) -> None:
        self._steps = Steps()
        self._drafts: list[_Draft] = []
        self._of_step: dict[int, _Draft] = {}
        self._lanes: dict[str | None, _Lane] = {}
        self._messages: dict[int, list[_Draft]] = {}
        self._plans: dict[str | None, Planned] = {}
        self._questions: dict[str, tuple[ev.QuestionAsked, Asked]] = {}  # questions without an answer
        self._last = 0
        self._diff_chars = MAX_ALL_CHARS  # that are left for diffs
        self._more = 0  # items that are left out
        self._malformed = 0
        self._unknown = 0
        self._kinds: dict[str, None] = {}

    def take(self, event: ev.Event | None, at: int) -> None:
        """Apply the next event; None is an event that this version does not know."""
        self._last = max(self._last, at)
        if event is None or isinstance(event, ev.Unknown):
            self._unknown += 1
            if event is not None and event.wire_type and len(self._kinds) < MAX_NAMES:
                self._kinds[event.wire_type[:MAX_NAME_CHARS]] = None
            return
        step = self._steps.take(event)
        if step is not None:
            self._of_a_step(event, self._draft(step, event, at), at)
        elif isinstance(event, ev.MessageStarted):
            self._lane(event).begin(event.message_id)
        elif isinstance(event, ev.MessageEnded):
            for draft in self._messages.pop(event.message, ()):
                if draft.message == event.message:  # a call may be reported in another message than its input
                    draft.end(event.status)
        elif isinstance(event, ev.Replied):
            self._lane(event).end()
        elif isinstance(event, ev.Malformed):
            self._malformed += 1
        else:
            self._beside(event, at)

    def close(self) -> None:
        """End the fold: items that are open were cut off."""
        for draft in self._drafts:
            draft.item.cut = draft.item.cut or draft.open
            draft.open = False

    # --- events ------------------------------------------------------------------------------------

    def _of_a_step(self, event: ev.Event, draft: _Draft, at: int) -> None:
        if isinstance(event, OfBlock):
            if event.kind == "tool_output":
                draft.open = not draft.ran
            elif not draft.begun:
                self._begin(draft, event, at)
            if not isinstance(event, ev.BlockStarted):
                self._text(event, draft)
            elif isinstance(draft.item, Called):
                draft.item.name = draft.item.name or event.name or ""
        elif isinstance(event, ev.ToolCalled):
            self._called(event, draft, at)
        else:
            assert isinstance(event, ev.ToolReturned)  # no other event has a step
            self._returned(event, draft, at)

    def _text(self, event: ev.Delta | ev.BlockRevised | ev.BlockEnded, draft: _Draft) -> None:
        text = draft.input if event.kind == "tool_input" else draft.text
        if isinstance(event, ev.Delta):
            text.add(event.text)
        elif isinstance(event, ev.BlockRevised) or not event.truncated:
            text.set(event.text)
        if isinstance(event, ev.BlockEnded) and event.kind != "tool_output":
            draft.partial = not event.complete
            draft.open = draft.partial or isinstance(draft.item, Called)

    def _called(self, event: ev.ToolCalled, draft: _Draft, at: int) -> None:
        if not draft.begun:
            self._begin(draft, event, at)
        self._join(draft, event.message)
        assert isinstance(draft.item, Called)
        draft.item.at, draft.item.given_up = at, False  # also if its input had been given up
        draft.item.title, draft.item.name, draft.item.tool_kind = event.title, event.name, event.tool_kind
        draft.input.set(_pretty(event.input))
        self._changed(draft.item, event.changes)
        draft.partial, draft.open = False, not draft.ran

    def _returned(self, event: ev.ToolReturned, draft: _Draft, at: int) -> None:
        self._lane(event).end()
        item = draft.item
        assert isinstance(item, Called)
        if draft.ran:
            return
        if event.text:
            draft.text.set(event.text)
        item.name = item.name or event.name or ""
        item.is_error, item.exit_code = event.failed, event.exit_code
        item.duration_ms, item.refused = event.duration_ms, event.refused
        item.status_unreported = not event.status_reported
        item.output_unreported = not event.output_reported
        self._changed(item, event.changes)
        item.until = max(at, item.at)
        draft.ran, draft.open = event.complete, False
        item.given_up = item.given_up and not draft.ran
        item.cut = not (draft.ran or item.given_up)

    def _beside(self, event: ev.Event, at: int) -> None:
        if isinstance(event, ev.Notice):
            if event.level != "info" or event.code in SHOWN_NOTICES or event.steer is not None:
                text = f"{GIVEN}{event.text}" if event.code == "user" else event.text
                self._add(Noticed(at=at, level=event.level), self._parent(event, at)).text.set(retry_text(event, text))
        elif isinstance(event, ev.PlanChanged):
            self._lane(event).end()  # the tool that changes the plan may not be reported as a call
            if event.parent not in self._plans:
                self._plans[event.parent] = Planned(at=at, items=[])
                self._add(self._plans[event.parent], self._parent(event, at))
            self._plans[event.parent].items = event.items
        elif isinstance(event, ev.QuestionAsked):
            item = Asked(at=at, options=[option.label for option in event.options or ()] or None)
            self._changed(item, event.changes)
            self._questions[event.id] = event, item
            self._add(item, self._parent(event, at)).text.set(event.text)
        elif isinstance(event, ev.QuestionAnswered) and event.id in self._questions:
            question, item = self._questions.pop(event.id)
            item.answer = answer_in_words(event, question)

    def _changed(self, item: Called | Asked, changes: list[ev.Change] | None) -> None:
        """Set the changes of an item. The diffs of all items together are bounded."""
        if not changes:
            return
        item.changes, item.more_changes = shorten(changes, max(0, self._diff_chars), MAX_DIFF_LINES, MAX_FILES)
        self._diff_chars -= sum(len(change.diff or "") for change in item.changes)

    # --- drafts ------------------------------------------------------------------------------------

    def _lane(self, event: ev.Event) -> _Lane:
        if event.parent not in self._lanes:
            self._lanes[event.parent] = _Lane()
        return self._lanes[event.parent]

    def _add(self, item: AnyItem, parent: int | None, step: int | None = None) -> _Draft:
        draft = _Draft(item, parent, step)
        if len(self._drafts) < MAX_ITEMS:
            self._drafts.append(draft)
        else:
            self._more += 1
        return draft

    def _parent(self, event: ev.Event, at: int) -> int | None:
        """Return the step of the call that a sub-agent works for. The call may not have been reported."""
        if event.parent is None:
            return None
        step = self._steps.lane(event.parent)
        if step not in self._of_step:
            self._of_step[step] = self._add(Called(at=at), None, step)
        return step

    def _draft(self, step: int, event: ev.Event, at: int) -> _Draft:
        """Return the draft of a step, which is made at its first event."""
        parent = self._parent(event, at)
        if step not in self._of_step:
            item: AnyItem = Called(at=at)
            if isinstance(event, OfBlock) and event.kind in ("text", "thinking"):
                item = Said(at=at) if event.kind == "text" else Thought(at=at)
            self._of_step[step] = self._add(item, parent, step)
        return self._of_step[step]

    def _begin(self, draft: _Draft, event: OfBlock | ev.ToolCalled, at: int) -> None:
        """Begin a step in a message, and with it, maybe, a round."""
        draft.begun = draft.open = True
        draft.parent = self._parent(event, at)
        number = self._lane(event).speak()
        if isinstance(draft.item, Said | Called):
            draft.item.round = number
        if isinstance(event, ev.BlockStarted):
            self._join(draft, event.message)

    def _join(self, draft: _Draft, message: int | None) -> None:
        if message is not None and message != draft.message:
            draft.message = message
            self._messages.setdefault(message, []).append(draft)

    # --- what is shown -----------------------------------------------------------------------------

    def items(self) -> list[AnyItem]:
        """Return the items so far, as they are shown."""
        filled = [draft for draft in self._drafts if draft.step is None or self._steps.filled(draft.step)]
        used = {draft.step for draft in filled} | {draft.parent for draft in filled} | {None}
        shown = [draft for draft in self._drafts if draft.step in used]
        numbers: dict[int, int] = {}
        left = MAX_ALL_CHARS
        found: list[AnyItem] = []
        for number, draft in enumerate(shown):
            limit = max(LEAST_CHARS, left)
            text, out = draft.text.cut(limit)
            texts: dict[str, Any] = {"text": text}
            if isinstance(draft.item, Called):
                given, more = draft.input.cut(limit)
                texts, out = {"input": given, "output": text}, out + more
                left -= len(given)
            elif isinstance(draft.item, Planned):
                texts = {}
            left -= len(text)
            # A parent that comes after its child is of a stream that confuses its ids: it is left out.
            parent = numbers.get(draft.parent) if draft.parent is not None else None
            found.append(msgspec.structs.replace(draft.item, parent=parent, shortened=out, **texts))
            if draft.step is not None:
                numbers[draft.step] = number
        return [*found, *self._closing()]

    def _closing(self) -> Iterator[Noticed]:
        """Yield a notice of what is not shown, if there is anything."""
        parts = []
        if self._unknown:
            kinds = f" ({', '.join(self._kinds)})" if self._kinds else ""
            parts.append(f"{_count(self._unknown, 'event')} of unknown kinds{kinds}")
        if self._malformed:
            parts.append(f"{_count(self._malformed, 'line')} that could not be read")
        if self._more:
            parts.append(_count(self._more, "more item"))
        if parts:
            level: ev.Level = "warning" if self._malformed else "info"
            yield Noticed(at=self._last, level=level, text=f"Not shown: {', '.join(parts)}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _pretty(value: Any) -> str:
    """Return the input of a call, formatted for people."""
    if value is None or isinstance(value, str):
        return value or ""
    text = tool_titles.compact(value)
    steps = ((mark in "[{") - (mark in "]}") for mark in _NO_BRACKETS.sub("", text))
    if max(itertools.accumulate(steps), default=0) > MAX_LEVELS:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:  # not JSON: as Python writes it
        return text


_NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[^][{}"]+')
