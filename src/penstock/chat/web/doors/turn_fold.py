"""Fold of the entries of one turn, for the formats of other programs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Answered, Numbered, TurnBegan, TurnEnded
from penstock.chat.turn import Assistant, Completed, Streaming, Turn, TurnEvent
from penstock.chat.web.broadcast import escaped
from penstock.core.questions import OpenQuestion

DONE = b"data: [DONE]\n\n"
"""Last line of a stream of these protocols."""

FAILURES: dict[ev.Outcome, str] = {
    "error": "the agent failed",
    "timed_out": "the agent ran out of time",
    "cut_off": "the turn was cut off",
}
"""Words for the outcomes that are failures. A run that is cancelled did what a person asked for."""


class TurnFold:
    """Fold of one turn. Entries of other turns between its own are skipped."""

    def __init__(self, turn: int) -> None:
        self.completed: Completed | None = None
        """End of the turn, once it is known."""
        self.is_recorded: bool = False
        """True once the run is over: nothing more is added."""
        self.usage: ev.Usage | None = None
        self.cost_usd: float | None = None
        self.question: OpenQuestion | None = None
        """Question that the run waits for."""
        self.reply: str = ""
        """Reply so far."""
        self._number = turn
        self._answered: set[str] = set()
        self._running = 0
        self._turn = Turn(turn)

    def take(self, rows: Iterable[Numbered]) -> list[ev.Event | TurnEvent]:
        """Return the events of the turn's run, each before its change of the turn; growing text is returned once."""
        out: list[ev.Event | TurnEvent] = []
        text: list[ev.Event] = []
        for _, _, what in rows:
            if self._running == self._number and isinstance(what, ev.Delta) and what.kind == "text":
                text.append(what)
                continue
            self._feed(text, out)
            text = []
            if isinstance(what, TurnBegan):
                self._running = what.turn
                if what.turn == self._number:
                    self._changed(self._turn.start(), out)
            elif isinstance(what, TurnEnded):
                self._end(what, out)
            elif isinstance(what, Answered):
                self._answered.add(what.id)
                if self.question is not None and self.question.id == what.id:
                    self.question = None
            elif isinstance(what, ev.Base) and self._running == self._number:
                self._feed([what], out)
        self._feed(text, out)
        return out

    def waits_for(self, question: str) -> bool:
        """Return whether the run waits for an answer to this question, and none was given."""
        return self._turn.waits_for(question) and question not in self._answered and self.completed is None

    def _feed(self, events: list[ev.Event], out: list[ev.Event | TurnEvent]) -> None:
        if not events:
            return
        out += events
        self._changed(self._turn.feed(events), out)
        last = events[-1]
        if isinstance(last, ev.RunEnded):
            self.is_recorded, self._running = True, 0
            self.usage, self.cost_usd = last.usage, last.cost_usd

    def _end(self, ended: TurnEnded, out: list[ev.Event | TurnEvent]) -> None:
        if ended.turn == self._number:
            if self._running == self._number:
                self._changed(self._turn.close(ended.reason, ended.outcome), out)
            elif self.completed is None:
                self._changed([Completed("", ended.outcome, ended.reason, turn=ended.turn)], out)
            self.is_recorded = True
        if ended.turn == self._running:
            self._running = 0

    def _changed(self, changes: list[TurnEvent], out: list[ev.Event | TurnEvent]) -> None:
        for change in changes:
            if isinstance(change, Completed):
                self.completed, self.question = change, None
            elif isinstance(change, Streaming):
                self.question = change.question
            elif isinstance(change, Assistant):
                self.reply = change.content
        out += changes


def data_line(value: object) -> bytes:
    """Return a value as the data of a server-sent event, in one line."""
    return b"data: " + escaped(msgspec.json.encode(value)) + b"\n\n"


def failure_text(end: Completed) -> str | None:
    """Return a sentence about the end of a turn that failed; None if it did not."""
    words = FAILURES.get(end.outcome)
    return words if words is None or not end.reason else f"{words}: {end.reason}"


def question_text(question: OpenQuestion) -> str:
    """Return a question as the text of a message, with the answers that it offers."""
    lines = [question.text]
    subject = question.command or question.title
    if subject and subject not in question.text:
        lines.append(subject)
    lines += [f"- {change.kind} {change.path}" for change in question.changes or ()]
    text = "\n".join(lines)
    labels = [option.label for option in question.options or ()]
    if labels:
        text += "\n\nAnswer with one of: " + ", ".join(labels)
    return text


def asked_text(reply: str, question: OpenQuestion) -> str:
    """Return the message of a program whose turn waits for the answer to a question."""
    return "\n\n".join(filter(None, (reply.rstrip(), question_text(question))))
