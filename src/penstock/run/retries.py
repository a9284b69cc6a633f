"""Retries of a run: whether it is repeated after a failure that passes, when, and with which prompt. Pure rules."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.events import Event, QuestionAnswered, QuestionAsked, RunEnded, ToolCalled, ToolReturned, added
from penstock.run.fallback import PASSING, wait_ms
from penstock.run.spec import RunSpec
from penstock.updates import Notice

CONTINUATION = """\
Your last turn was cut off by a failure. Continue where it stopped, do not repeat what is done, and reply in full at the
end. The request was:

{prompt}"""
"""Prompt of a retry whose agent had begun to work."""


class RetryWait(msgspec.Struct, frozen=True):
    """Pause before a retry."""

    notice: Notice
    """Event that announces it."""
    seconds: float


class Retries:
    """Attempts at one run. `observe` all of its events; `next` is the attempt that follows an end.

    Args:
        spec: specification of the first attempt.
    """

    def __init__(self, spec: RunSpec) -> None:
        self.called_tools: bool = False
        """True if an attempt has called a tool, so that it may have changed something."""
        self._spec = spec
        self._made = 0
        self._session_id: str | None = None
        self._is_refused = False
        self._allowing: dict[str, set[str]] = {}  # by question, its options that allow
        self._cost: float | None = None
        self._rounds = 0
        self._tokens: int | None = None

    def observe(self, events: Iterable[Event]) -> None:
        """Note what an attempt does."""
        for event in events:
            match event:
                case ToolCalled():
                    self.called_tools = True
                case ToolReturned(refused=True):
                    self._is_refused = True
                case QuestionAsked():
                    allowing = {one.id for one in event.options or () if one.kind in ("allow_once", "allow_always")}
                    if allowing:
                        self._allowing[event.id] = allowing
                case QuestionAnswered():
                    allowing = self._allowing.pop(event.id, set())
                    if allowing and event.by != "withdrawn" and event.option not in allowing:
                        self._is_refused = True

    def next(self, ended: RunEnded, number: int, now: int) -> tuple[list[RunSpec], RetryWait] | None:
        """Return the specifications of the next attempt and the pause before it; None if there is none.

        The first specification that the agent can carry out counts: the second one begins a new conversation.

        Args:
            ended: end of the attempt.
            number: number of the next one in the output.
            now: the time in milliseconds since 1970.
        """
        self._count(ended)
        is_cut_off = ended.outcome == "cut_off"
        if not (is_cut_off or (ended.outcome == "error" and ended.cause in PASSING)) or self._is_refused:
            return None
        left = self._left()
        if self._made >= (self._spec.retry or 0) or left is None:
            return None
        spec = msgspec.structs.replace(left, number=number)
        specs = [] if self.called_tools else [spec]
        if self._session_id is not None and (self._rounds or self.called_tools):
            specs.insert(0, self._continued(spec, self._session_id))
        if not specs:
            return None  # nobody knows how far it came
        pause = wait_ms(self._made, ended.resets_at, now)
        self._made += 1
        what = "the conversation goes on" if specs[0].session_id is not None else "the prompt is sent again"
        notice = Notice(
            "retry",
            what if ended.cause is not None else f"the stream was cut off: {what}",
            "warning",
            cause=ended.cause,
            attempt=self._made,
            max_attempts=self._spec.retry,
            wait_ms=pause,
        )
        return specs, RetryWait(notice, pause / 1000)

    def _count(self, ended: RunEnded) -> None:
        usage = ended.usage
        tokens = added(usage.input_tokens, usage.output_tokens) if usage is not None else None
        self._cost, self._tokens = added(self._cost, ended.cost_usd), added(self._tokens, tokens)
        self._rounds += ended.rounds
        self._session_id = ended.session_id or self._session_id
        self._is_refused = self._is_refused or bool(ended.refused)

    def _left(self) -> RunSpec | None:
        """Return the specification with what is left of its limits of cost, turns and tokens; None if one is used."""
        limits = {"max_cost": self._cost, "max_turns": self._rounds, "max_tokens": self._tokens}
        left = {}
        for name, spent in limits.items():
            most = getattr(self._spec, name)
            if most is not None:
                left[name] = most - (spent or 0)
                if left[name] <= 0:
                    return None
        return msgspec.structs.replace(self._spec, **left)

    def _continued(self, spec: RunSpec, session_id: str) -> RunSpec:
        spec = msgspec.structs.replace(spec, session_id=session_id, fork=False)
        if not self.called_tools:
            return spec
        prompt = CONTINUATION.format(prompt=spec.prompt)
        return msgspec.structs.replace(spec, prompt=prompt, stdin_text=None, files=())
