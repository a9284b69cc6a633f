"""Outcome of a run: its reply, its usage, how it ended and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.core.decoding import well_formed
from penstock.core.normalizer.figures import MAX_TOKENS, believed_totals
from penstock.core.normalizer.state import Lane, Message, reply_of

MAX_SUPERSEDED = 1024
"""Maximum number of superseded attempts whose text is remembered, so that it never becomes the reply."""

OUTPUT_LIMIT = "the model stopped at its output limit"
CONTEXT_LIMIT = "the model stopped at the limit of its context"


SIGKILL = 9
KILLED = "killed by signal 9, as when the memory is full"

_STATUSES = {
    126: "its program cannot be executed",
    127: "its program was not found",
    130: "it was interrupted",
    134: "it crashed",
    137: KILLED,
    139: "it crashed",
    143: "it was ended from outside",
}
"""Meanings that shells give to exit statuses."""


class Defect(msgspec.Struct, frozen=True):
    """Something that went wrong in a run, as far as it is known."""

    text: str | None = None
    cause: ev.Cause | None = None
    resets_at: int | None = None


_LIMITS = {
    **dict.fromkeys(
        ("length", "maxlength", "maxtokens", "maxoutputtokens", "maxcompletiontokens"), Defect(OUTPUT_LIMIT, "length")
    ),
    **dict.fromkeys(("modelcontextwindowexceeded", "modellength"), Defect(CONTEXT_LIMIT, "context")),
}
"""Defects of a reply by its stop reason, which is reduced to lower-case letters."""


class Verdict(msgspec.Struct, frozen=True):
    """Outcome of a run. `reason` is for people, and None if it is obvious."""

    outcome: ev.Outcome
    reason: str | None = None
    cause: ev.Cause | None = None
    resets_at: int | None = None


class Exit(msgspec.Struct, frozen=True):
    """End of the process, if there was one.

    `signal` is the number of the signal that killed it. If Penstock stopped the run, `why` is its action and reason,
    and `cause` the cause. `stderr` has the last lines of the process's stderr.
    """

    code: int | None = None
    signal: int | None = None
    cancelled: bool = False
    timed_out: bool = False
    stderr: str = ""
    why: str = ""
    cause: ev.Cause | None = None

    @property
    def problem(self) -> str | None:
        """Description of an irregular end; None for a regular one."""
        if not (self.code or self.signal or self.why):
            return None
        if self.why:
            return self.why  # this is the reason; the agent's stderr is not
        if self.signal:
            how = KILLED if self.signal == SIGKILL else f"killed by signal {self.signal}"
        else:
            meaning = _STATUSES.get(self.code or 0)
            how = f"exit status {self.code}" + (f" ({meaning})" if meaning else "")
        return f"{how}: {stderr}" if (stderr := _failure_in(self.stderr)) else how

    @property
    def problem_without_answer(self) -> str | None:
        """Description of an end before the agent gave an answer; None if nothing is known about it."""
        if self.problem is not None or self.code is None:
            return self.problem
        stderr = _failure_in(self.stderr)
        return "exit status 0 without an answer" + (f": {stderr}" if stderr else "")


_REMARK = re.compile(
    r"[\s\d:.TZ+-]*(?:\[?(?:warn|warning|info|debug|trace|note)\b"
    r"|\(node:\d+\)|\(Use `node |npm (?:warn|notice)\b|\w*DeprecationWarning\b)",
    re.IGNORECASE,
)
"""Beginning of a line of stderr that is not about a failure: a warning or a log line, possibly after a time."""


def _failure_in(stderr: str) -> str:
    """Return the lines of stderr that may be about a failure; all of them if they are all remarks."""
    lines = [line for line in stderr.strip().split("\n") if not _REMARK.match(line)]
    return "\n".join(lines).strip() or stderr.strip()


class ContextFill:
    """Collector of how full the context of the top agent's model is."""

    def __init__(self) -> None:
        self._tokens: int | None = None
        self._window: int | None = None
        self._is_counted = False  # by the agent itself

    def apply(self, update: up.ContextUse) -> None:
        """Use the agent's own figures. A count of 0 is a placeholder: a conversation is never empty."""
        if update.window is not None and 0 < update.window <= MAX_TOKENS:
            self._window = update.window
        if update.tokens is not None and 0 < update.tokens <= MAX_TOKENS:
            self._tokens, self._is_counted = update.tokens, True

    def add_call(self, usage: ev.Usage) -> None:
        """Use the figures of a model call: the next call sends what it was sent, and what it returned."""
        if not self._is_counted and usage.input_tokens:
            self._tokens = usage.input_tokens + (usage.output_tokens or 0)

    def forget(self) -> None:
        """Forget the count: the conversation was shortened."""
        self._tokens, self._is_counted = None, False

    def figures(self) -> dict[str, int]:
        """Return the fields of the end of a run; none unless both figures are known."""
        if self._tokens is None or self._window is None:
            return {}
        return {"context_tokens": self._tokens, "context_window": self._window}


class RunOutcome:
    """Collector of the evidence of how a run ended. It emits nothing.

    An agent may send several results: the last one that followed new content counts.

    Args:
        top: the lane of the top agent.
        regular_end: whether the end of the stream is a regular end even without a result.
    """

    def __init__(self, top: Lane, regular_end: bool) -> None:
        self._top = top
        self._regular_end = regular_end
        self.any_line = False
        """True if the agent printed any event."""
        self.reply: str = ""
        """Reply as of the last result."""
        self.limit: Defect | None = None
        """Limit at which the top agent's last model call was cut off."""
        self.context: ContextFill = ContextFill()
        self.is_broken: bool = False
        """True if the stream ended within a message, on a wire that reports the ends of messages."""
        self._new_content = False  # a block or a call came since the last result
        self._last_error: str | None = None  # an error that no content has followed
        self._noted = Defect()  # the latest cause of a notice that no content has followed
        self._resets_at: int | None = None  # the latest reset of a limit
        self._result: up.Result | None = None
        self._answer: list[Message] | None = None  # messages whose text is the reply; None if the result's own text is
        self._used: ev.Usage | None = None  # by all model calls so far
        self._used_by_top: ev.Usage | None = None
        self._failure: Defect | None = None
        self._failing = False  # a reported failure that was not taken back
        self._superseded: dict[int, None] = {}  # the hashes of texts that are not the reply

    def add_usage(self, usage: ev.Usage, *, of_top: bool) -> None:
        """Add the usage of a model call."""
        self._used = usage if self._used is None else self._used + usage
        if of_top:  # some agents leave their sub-agents out of the total
            self._used_by_top = usage if self._used_by_top is None else self._used_by_top + usage
            self.context.add_call(usage)

    def supersede(self, message: Message) -> None:
        """Keep the text of a superseded attempt out of the reply."""
        self._superseded[hash(message.text)] = None
        if len(self._superseded) > MAX_SUPERSEDED:
            del self._superseded[next(iter(self._superseded))]

    def set_stop_reason(self, stop_reason: str | None) -> None:
        """Set the reason why the top agent's latest model call ended; None if a call begins."""
        self.limit = limit_of(stop_reason)

    def note_content(self) -> None:
        """Note that a block or a call was emitted: earlier errors and results are then not final."""
        self._new_content = True
        self._last_error = None
        self._noted = Defect()

    def apply_notice(self, notice: up.Notice) -> None:
        """Use a notice of the top agent. An error ends the run only if no content follows."""
        if notice.code == "error" and notice.level == "error":
            self._last_error = notice.text
        if notice.code == "compaction":
            self.context.forget()
        if notice.cause is not None and (notice.cause, self._noted.cause) != ("rate_limit", "usage_limit"):
            self._noted = Defect(notice.text, notice.cause, notice.resets_at)
        if notice.resets_at is not None:
            self._resets_at = notice.resets_at

    def fail(self, failure: up.Failure) -> None:
        """Note that the agent reports a failure; a later good result withdraws it."""
        self._failure = Defect(failure.reason, failure.cause, failure.resets_at)
        self._failing = True

    @property
    def is_repeated(self) -> bool:
        """True if a result at this point would have nothing new."""
        return self._result is not None and not self._new_content

    def apply_result(self, result: up.Result) -> None:
        """Use the agent's result. Content that follows it begins another round."""
        self._result = believed_totals(result)
        if result.stop_reason is not None:
            self.set_stop_reason(result.stop_reason)
        self._failing = self._failing and (result.is_error or result.cancelled)
        self._new_content = False
        self._last_error = None
        self._top.results_seen = True
        streamed, self.reply = self._top.reply, self._chosen(result)
        self._answer = self._top.answer if self.reply == streamed else None
        self._top.replied = True

    def _chosen(self, result: up.Result) -> str:
        """Return the last round's text, unless the agent's explicit final contains more."""
        streamed = self._top.reply
        if result.is_error or result.reply is None or result.reply == streamed:
            return streamed
        if any(block.repaired for message in self._top.round for block in message.blocks):
            return streamed  # the agent only joined the snapshots that it received
        explicit = well_formed(result.reply)
        return explicit if streamed in explicit and hash(explicit) not in self._superseded else streamed

    def _last_reply(self) -> str:
        """Return the last round's text, else the reply of the last result."""
        if self._top.reply:
            return self._top.reply
        if self._answer is not None:
            return reply_of(self._answer)
        return "" if hash(self.reply) in self._superseded else self.reply

    def close(self) -> None:
        """Settle the reply: no more updates follow."""
        if not self.is_repeated:
            self.reply = self._last_reply()

    def losses(self) -> Iterator[str]:
        """Yield a sentence for each figure or text at the end of the run that contradicts an earlier report."""
        result = self._result
        if result is None or result.is_error or result.cancelled:
            return
        if self._new_content:
            yield "text or calls came after the agent's own end"
        if result.reply and not self._top.rounds and result.usage is not None and result.usage.output_tokens:
            yield "nothing was read of the messages of the model but the agent's own final text"
        if result.reply is not None:
            own, reply = well_formed(result.reply).strip(), self.reply.strip()
            # Nearly all are equal, which is found at once: a search prepares for each character of what it looks for.
            if own != reply and own not in reply and reply not in own:
                yield f"the agent's own final text ({len(own):,} characters) differs from the reply ({len(reply):,})"
        if result.usage is not None and self._used_by_top is not None:
            for name in ("input_tokens", "output_tokens"):
                whole, parts = getattr(result.usage, name), getattr(self._used_by_top, name)
                if whole is not None and parts is not None and parts > whole:
                    yield f"the model calls used {parts:,} {name.replace('_', ' ')}, the run by its end {whole:,}"

    @property
    def usage(self) -> ev.Usage | None:
        """Agent's own totals, else the sum of its model calls."""
        return (self._result.usage if self._result is not None else None) or self._used

    @property
    def cost_usd(self) -> float | None:
        """Cost of the run in US dollars."""
        total = self._result.cost_usd if self._result is not None else None
        return total if total is not None or self.usage is None else self.usage.cost_usd

    @property
    def duration_ms(self) -> int | None:
        """Duration of the run in milliseconds, by the agent's own clock."""
        return self._result.duration_ms if self._result is not None else None

    def judge(self, exit: Exit | None) -> Verdict:
        """Return the outcome of the run, its reason if that is not obvious, and its cause if that is known."""
        result, problem = self._result, exit.problem if exit is not None else None
        stopped = Defect(problem, exit.cause if exit is not None else None)
        if exit is not None and exit.timed_out:
            return self._verdict("timed_out", stopped)
        if (exit is not None and exit.cancelled) or (result is not None and result.cancelled):
            reported = Defect(result.reason, result.cause) if result is not None else None
            if stopped.cause is not None:  # Penstock stopped the run for a reason of its own
                return self._verdict("cancelled", stopped)
            return self._verdict("cancelled", reported, stopped)
        if result is not None and result.is_error:
            reported = Defect(result.reason, result.cause, result.resets_at)
            return self._verdict("error", reported, self._failure, self.limit, stopped, self._noted)
        if self._failure is not None and (self._failing or problem):
            return self._verdict("error", self._failure, stopped, self._noted)
        if result is not None or (self._regular_end and self._new_content):
            if self.limit is not None:
                return self._verdict("error", self.limit)
            if self.is_broken and result is not None:
                return self._verdict("cut_off", stopped, Defect("the stream ended within a message"))
            if self.reply if self.is_repeated else self._last_reply():
                return Verdict("ok", problem)
            return self._verdict("empty", stopped, Defect("the agent ended without saying anything"), self._noted)
        return self._judge_without_result(exit)

    def _judge_without_result(self, exit: Exit | None) -> Verdict:
        killed = exit is not None and exit.signal is not None
        cause = exit.cause if exit is not None else None
        if self._last_error is not None and not killed:
            return self._verdict("error", Defect(self._last_error, cause), self._noted)
        stopped = Defect(exit.problem_without_answer if exit is not None else None, cause)
        if exit is not None and exit.code:
            return self._verdict("error", stopped, self._noted)
        if not self.any_line:
            return self._verdict("empty", stopped, Defect("the agent printed no event"))
        return self._verdict("cut_off", stopped, Defect("the stream ended before the agent did"), self._noted)

    def _verdict(self, outcome: ev.Outcome, *defects: Defect | None) -> Verdict:
        """Return the outcome with the first reason and the first cause of the defects."""
        known = [defect for defect in defects if defect is not None]
        reason = next((defect.text for defect in known if defect.text), None)
        caused = next((defect for defect in known if defect.cause is not None), Defect())
        if (caused.cause, self._noted.cause) == ("rate_limit", "usage_limit"):
            caused = self._noted  # 429 stands for both rate and usage limits; the notice shows which
        cause = caused.cause
        if outcome == "error" and cause in (None, "rate_limit") and _QUOTA.search(reason or ""):
            cause = "rate_limit" if _SOON.search(reason or "") else "usage_limit"
        resets_at = caused.resets_at or self._resets_at if cause in RESETTING else None
        return Verdict(outcome, reason, cause, resets_at)


_QUOTA = re.compile(r"\binsufficient_quota\b|\bexceeded your current quota\b", re.IGNORECASE)
"""Wording of OpenAI and Google for a quota that is used up. They send it with status 429, like too many requests."""
_SOON = re.compile(r"\bretry (?:in|after)\b|\btry again in\b", re.IGNORECASE)
"""Wording of an error that matches `_QUOTA` but ends by itself: Google sends the same sentence for a limit of requests
per minute."""

RESETTING: frozenset[ev.Cause] = frozenset({"usage_limit", "rate_limit"})
"""Causes that end at a known time."""


def limit_of(stop_reason: str | None) -> Defect | None:
    """Return the defect of a reply that stopped for this reason; None if the reply was not cut off."""
    return _LIMITS.get("".join(filter(str.isalpha, stop_reason.lower()))) if stop_reason else None
