"""What a run comes to: the answer, the figures, the outcome."""

from __future__ import annotations

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.core.decoding import well_formed
from penstock.core.normalizer.state import Lane, Message, reply_of

MAX_GIVEN_UP = 1024
"""Attempts whose text is remembered as no reply."""


OUTPUT_LIMIT = "the model stopped at its output limit"
CONTEXT_LIMIT = "the model stopped at the limit of its context"

_LIMITS = {
    **dict.fromkeys(("length", "maxlength", "maxtokens", "maxoutputtokens", "maxcompletiontokens"), OUTPUT_LIMIT),
    **dict.fromkeys(("modelcontextwindowexceeded", "modellength"), CONTEXT_LIMIT),
}
"""What is wrong with a reply whose stop reason, in small letters alone, is one of these."""


class Exit(msgspec.Struct, frozen=True):
    """How the process ended, where there was one.

    `signal` is the number that killed it, `why` what the shell did and for what reason, where it stopped the run;
    `stderr` the last lines of it.
    """

    code: int | None = None
    signal: int | None = None
    cancelled: bool = False
    timed_out: bool = False
    stderr: str = ""
    why: str = ""

    @property
    def words(self) -> str | None:
        """How it ended, where that needs words."""
        if not (self.code or self.signal or self.why):
            return None
        how = self.why or (f"killed by signal {self.signal}" if self.signal else f"exit status {self.code}")
        return f"{how}: {self.stderr.strip()}" if self.stderr.strip() else how

    @property
    def unanswered(self) -> str | None:
        """How it ended, where it has not given an answer."""
        if self.words is not None or self.code is None:
            return self.words
        said = self.stderr.strip()
        return "exit status 0 without an answer" + (f": {said}" if said else "")


class Ending:
    """Gathers what tells how a run ended. It makes no events.

    An agent may end more than once: what counts is its last answer that came with something new.
    """

    def __init__(self, top: Lane, regular_end: bool) -> None:
        self._top = top
        self._regular_end = regular_end
        self.anything = False  # the agent printed an event at all
        self.spoke = False  # something was said since the last answer
        self._last_error: str | None = None  # an error that nothing was said after
        self.reply = ""  # as the last answer has it
        self._result: up.Result | None = None
        self._answered: list[Message] | None = None  # whose text the reply is; None where the agent said more
        self._used: ev.Usage | None = None  # by all model calls so far
        self._failure: str | None = None
        self._failing = False  # it was not taken back
        self._given_up: dict[int, None] = {}  # the hashes of texts that are no reply
        self.limit: str | None = None
        """At which limit the top agent's last model call was cut off."""

    def use(self, usage: ev.Usage) -> None:
        """A model call used so much."""
        self._used = usage if self._used is None else self._used + usage

    def give_up(self, message: Message) -> None:
        """The text of this attempt is no reply."""
        self._given_up[hash(message.text)] = None
        if len(self._given_up) > MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    def stopped(self, stop_reason: str | None) -> None:
        """The top agent's latest model call ended for this reason, or, with None, one begins."""
        self.limit = limit_of(stop_reason)

    def speak(self) -> None:
        """Something was said."""
        self.spoke = True
        self._last_error = None

    def report_error(self, text: str) -> None:
        """The agent reports an error that need not be its end; it is, if nothing follows."""
        self._last_error = text

    def fail(self, reason: str) -> None:
        """The agent says that it failed, which a later good answer takes back."""
        self._failure = reason
        self._failing = True

    @property
    def again(self) -> bool:
        """Whether an end that came now would bring nothing new."""
        return self._result is not None and not self.spoke

    def answer(self, result: up.Result) -> None:
        """The agent has given its answer. What comes after it is another round."""
        self._result = result
        if result.stop_reason is not None:
            self.stopped(result.stop_reason)
        self._failing = self._failing and (result.is_error or result.cancelled)
        self.spoke = False
        self._last_error = None
        self._top.results_seen = True
        said, self.reply = self._top.reply, self._chosen(result)
        self._answered = self._top.answer if self.reply == said else None
        self._top.replied = True

    def _chosen(self, result: up.Result) -> str:
        """The last round's text, unless the agent's explicit final says more."""
        said = self._top.reply
        if result.is_error or result.reply is None or result.reply == said:
            return said
        if any(block.repaired for message in self._top.round for block in message.blocks):
            return said  # the agent only joined what it got
        explicit = well_formed(result.reply)
        return explicit if said in explicit and hash(explicit) not in self._given_up else said

    def _last_reply(self) -> str:
        """The last round's text, else the last answer that was told."""
        if self._top.reply:
            return self._top.reply
        if self._answered is not None:
            return reply_of(self._answered)
        return "" if hash(self.reply) in self._given_up else self.reply

    def close(self) -> None:
        """Nothing more will be said."""
        if not self.again:
            self.reply = self._last_reply()

    @property
    def usage(self) -> ev.Usage | None:
        """The agent's own totals, else the sum of its model calls."""
        return (self._result.usage if self._result is not None else None) or self._used

    @property
    def cost_usd(self) -> float | None:
        """What all of it cost, in US dollars."""
        told = self._result.cost_usd if self._result is not None else None
        return told if told is not None or self.usage is None else self.usage.cost_usd

    @property
    def duration_ms(self) -> int | None:
        """How long the run took, by the agent's own clock."""
        return self._result.duration_ms if self._result is not None else None

    def outcome(self, exit: Exit | None) -> tuple[ev.Outcome, str | None]:
        """What became of the run, and why where that is not plain."""
        result, died = self._result, exit.words if exit is not None else None
        if exit is not None and exit.timed_out:
            return "timed_out", died
        if (exit is not None and exit.cancelled) or (result is not None and result.cancelled):
            return "cancelled", (result.reason if result is not None else None) or died
        if result is not None and result.is_error:
            return "error", result.reason or self._failure or self.limit or died
        if self._failure is not None and (self._failing or died):
            return "error", self._failure
        if result is not None or (self._regular_end and self.spoke):
            if self.limit is not None:
                return "error", self.limit
            reply = self.reply if self.again else self._last_reply()
            return ("ok", died) if reply else ("empty", died or "the agent ended without saying anything")
        killed = exit is not None and exit.signal is not None
        if self._last_error is not None and not killed:
            return "error", self._last_error
        if exit is not None:
            died = exit.unanswered
            if exit.code:
                return "error", died
        if not self.anything:
            return "empty", died or "the agent printed no event"
        return "cut_off", died or "the stream ended before the agent did"


def limit_of(stop_reason: str | None) -> str | None:
    """What is wrong with a reply that ended for this reason; None where it was not cut off."""
    return _LIMITS.get("".join(filter(str.isalpha, stop_reason.lower()))) if stop_reason else None
