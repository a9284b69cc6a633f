"""One run of an agent for a step: followed to its end, and summed up for the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from penstock.agents import registry
from penstock.errors import PenstockError
from penstock.events import Event, QuestionAsked, RunEnded, RunStarted, ToolCalled, ToolReturned, UsageReported
from penstock.loop.steps import MAX_REPLY_CHARS, MAX_SUMMARY_CHARS, AgentEnded, RunAgent
from penstock.loop.tasks import open_tasks
from penstock.loop.verdict import better_of, verdict_of
from penstock.run.replay import find, replay
from penstock.run.run import Run
from penstock.run.secrets import redacted
from penstock.stream import Stream

POLL_SECONDS = 0.25
"""Seconds between two reads of the inbox while an agent works."""

ASKED_OF_PEOPLE = ("choice", "text")
"""Subjects of questions that a loop cannot answer; permissions are answered by what is allowed."""
EDITS = ("edit", "delete", "move")
MAX_REFUSED = 20
"""Maximum number of denied edits that are named; a person does not read more."""


class AgentSummary:
    """Sum of an agent's events, as far as the journal needs it."""

    def __init__(self) -> None:
        self.ended: RunEnded | None = None
        self.session_id: str | None = None
        self.question: str = ""
        self.error: PenstockError | None = None
        """Error that ended the run on the side of Penstock."""
        self.cost_usd: float | None = None
        """Sum of the costs of the model calls so far, in US dollars."""
        self.tokens: int | None = None
        self._refused: list[str] = []
        self._denied = 0
        """Actions that were denied."""
        self._failed: list[str] = []
        """Edits that failed, for agents that report only at the end how many actions were denied."""
        self._titles: dict[str, tuple[str, str]] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Add the next events."""
        for event in events:
            match event:
                case RunStarted(parent=None, session_id=str(session)):
                    self.session_id = session
                case UsageReported():
                    self._add_usage(event)
                case ToolCalled():
                    self._titles[event.call_id] = (event.tool_kind, f"{event.name} {event.title}".strip())
                case ToolReturned() if event.refused or event.failed:
                    kind, title = self._titles.get(event.call_id, ("", ""))
                    found = self._refused if event.refused else self._failed
                    self._denied += event.refused
                    if kind in EDITS and len(found) < MAX_REFUSED:
                        found.append(title)
                case QuestionAsked() if event.ask in ASKED_OF_PEOPLE and not self.question:
                    self.question = event.text
                case RunEnded():
                    self.ended = event
                    self.session_id = event.session_id or self.session_id

    def _add_usage(self, event: UsageReported) -> None:
        if event.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + event.cost_usd
        counts = [count for count in (event.input_tokens, event.output_tokens) if count is not None]
        if counts:
            self.tokens = (self.tokens or 0) + sum(counts)

    def result(self, step: RunAgent, ms: int) -> AgentEnded:
        """Return the result of the step; without the end of the run it is lost."""
        if self.error is not None:  # it is charged as a round, so that it cannot go on for ever
            return AgentEnded(outcome="error", cause="agent", reason=str(self.error), ms=ms)
        ended = self.ended
        cost, tokens = self.cost_usd, self.tokens
        if ended is not None and ended.cost_usd is not None:
            cost = ended.cost_usd
        if ended is not None and ended.usage is not None:
            counts = [it for it in (ended.usage.input_tokens, ended.usage.output_tokens) if it is not None]
            tokens = sum(counts) if counts else tokens
        result = AgentEnded(
            outcome="lost",
            ms=ms,
            session_id=self.session_id,
            cost_usd=cost,
            tokens=tokens,
            refused=tuple(self._refused),
            question=self.question,
        )
        if ended is None:
            return result
        is_ok = ended.outcome == "ok"
        reply = redacted(ended.reply)  # before it is cut, as nothing recognises half of a secret
        refused = self._refused or (self._failed if ended.refused else [])
        denied = self._denied if ended.refused is None else ended.refused
        return msgspec.structs.replace(
            result,
            outcome=ended.outcome,
            refused=tuple(refused),
            denied=max(0, denied - len(refused)),
            reply=reply[-MAX_REPLY_CHARS:],
            summary=reply.strip().partition("\n")[0][:MAX_SUMMARY_CHARS],
            reason=ended.reason or "",
            cause=ended.cause,
            resets_at=ended.resets_at,
            verdict=verdict_of(ended.reply) if is_ok and step.role == "review" else None,
            tasks=open_tasks(ended.reply) if is_ok and step.role == "plan" else (),
            better=better_of(ended.reply) if is_ok and step.role == "judge" else 0,
        )


def follow(
    runs: Mapping[int, Run], *, show: Callable[[int, Run, list[Event]], None], is_stopped: Callable[[], bool]
) -> Iterator[tuple[int, AgentSummary]]:
    """Follow runs that have started, by their numbers, and yield the number and the summary of each when it has ended.

    A run that asks a person is cancelled, and all are if they are to be stopped.
    """
    summaries = {number: AgentSummary() for number in runs}
    left, news = dict(runs), threading.Event()
    cancelled: set[int] = set()
    for run in runs.values():
        run.on_news(news.set)
    while left:
        news.clear()
        is_quiet, stopped = True, is_stopped()
        for number, run in list(left.items()):
            summary = summaries[number]
            batch = _read(run, summary)
            if batch:
                show(number, run, batch)
                is_quiet = False
            if run.ended or summary.error is not None:
                del left[number]
                yield number, summary
            elif number not in cancelled and (summary.question or stopped):
                cancelled.add(number)
                run.cancel()
        if is_quiet and left:
            news.wait(POLL_SECONDS)


def _read(run: Run, summary: AgentSummary) -> list[Event]:
    """Add what is new of a run to its sum, and return it."""
    try:
        batch = run.poll()
    except PenstockError as error:
        summary.error = error
        return []
    summary.add(batch)
    return batch


def read_again(step: RunAgent, folder: Path) -> AgentEnded:
    """Return the result of a step during which Penstock was killed, as far as its recording has it."""
    summary, ms = _recorded(folder)
    return summary.result(step, ms)


def reply_of(folder: Path) -> str:
    """Return the whole reply of an agent from the recording of its step, without secrets; "" if there is none."""
    summary, _ = _recorded(folder)
    return "" if summary.ended is None else redacted(summary.ended.reply)


def _recorded(folder: Path) -> tuple[AgentSummary, int]:
    """Return the sum of a recording, and its duration in milliseconds."""
    summary, ms = AgentSummary(), 0
    try:
        found = find(folder)
        stream = Stream(registry.make(found.agent or "generic", is_resumed=found.is_resumed))
        for line, at in replay(found.input, 1e9, whole=True):
            summary.add(stream.feed(line, at))
            ms = at or ms
        if found.exit is not None:
            summary.add(stream.close(found.exit, ms))
    except PenstockError:
        pass  # it was killed before there was a recording
    return summary, ms
