"""Wording for people of the causes of failures, and of the retries that follow. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.events import Cause, Notice

WHOLE_SECONDS_FROM_MS = 9_950
"""Milliseconds from which a wait is shown without tenths of seconds."""

CAUSES: Mapping[Cause, str] = {
    "usage_limit": "the usage limit was reached",
    "rate_limit": "too many requests for the moment",
    "overloaded": "the provider is overloaded",
    "provider": "the provider failed",
    "auth": "there is no valid login",
    "missing": "there is no such model or program",
    "context": "the conversation is too long for the model",
    "length": "the reply met the limit of its length",
    "refusal": "the model declined",
    "network": "the provider could not be reached",
    "budget": "a limit that you set was reached",
    "agent": "the agent itself failed",
}
"""Wording of each cause of a failure."""


def retry_text(notice: Notice, text: str) -> str:
    """Return the line of a notice. A retry gets its attempt and its wait, as far as they are known.

    Args:
        notice: any notice.
        text: its text, as it is to be shown.
    """
    if notice.code != "retry" or notice.attempt is None:
        return text
    most = f" of {notice.max_attempts}" if notice.max_attempts is not None else ""
    wait = f", in {_seconds(notice.wait_ms)} s" if notice.wait_ms is not None else ""
    why = [CAUSES[notice.cause] if notice.cause is not None else "", text]
    return ": ".join(filter(None, [f"retry {notice.attempt}{most}{wait}", *why]))


def _seconds(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    return f"{seconds:.1f}" if milliseconds < WHOLE_SECONDS_FROM_MS else f"{seconds:.0f}"
