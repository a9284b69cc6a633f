"""Errors of opencode (1.18.33), and their causes."""

from __future__ import annotations

import re
from typing import Any

from penstock.agents._causes import cause_of_body, cause_of_status
from penstock.agents._json import as_dict, as_int, as_ms, inner_message, text_of, text_or
from penstock.events import Cause
from penstock.updates import Failure, Notice

_NAMES: dict[str, Cause] = {
    "ProviderAuthError": "auth",
    "ProviderModelNotFoundError": "missing",
    "ContextOverflowError": "context",
    "MessageOutputLengthError": "length",
    "ContentFilterError": "refusal",
}
"""Causes by the name of an error."""

_CODES = frozenset({"ECONNRESET", "ProviderHeaderTimeoutError", "ProviderResponseStreamError"})
"""Codes in `data.metadata` of an error for a connection that failed."""

_SENTENCES: tuple[tuple[str, Cause], ...] = (
    ("Model not found: ", "missing"),
    ("ProviderModelNotFoundError: ", "missing"),
    ("Cannot connect to API: ", "network"),
    ("Provider is overloaded", "overloaded"),
    ("Too Many Requests", "rate_limit"),
)
"""Beginnings of sentences of opencode and its AI SDK."""

_LIMITS = frozenset({"account_rate_limit", "free_tier_limit"})
"""`action.reason` of a retry that waits for a quota."""

_STACK = re.compile(r"\n    at .*", re.DOTALL)
_CLASS = re.compile(r"\w+Error: ")

ID_TIME_BITS = 36
"""Low bits of the milliseconds since 1970 that the id of an event has: 12 hexadecimal digits, the last 3 a count."""

_ID = re.compile(r"evt_([0-9a-f]{9})[0-9a-f]{3}")


def reason_of(value: Any) -> str:
    """Return the message of an error of opencode, without the stack trace and the JSON around it."""
    error = as_dict(value)
    return (
        sentence_of(text_of(as_dict(error.get("data")).get("message")))
        or sentence_of(text_of(error.get("message")))
        or text_of(error.get("name"))
        or sentence_of(text_of(value))
        or "opencode reported an error and gave no message"
    )


def sentence_of(message: str) -> str:
    """Return what a message says: the message inside JSON, and the first lines of a stack trace."""
    message = inner_message(message)
    without = _STACK.sub("", message)
    return message if without == message else _CLASS.sub("", without, count=1)


def cause_of(value: Any) -> Cause | None:
    """Return the cause of an error of opencode."""
    error = as_dict(value)
    data = as_dict(error.get("data"))
    return (
        _NAMES.get(text_or(error.get("name"), ""))
        or cause_of_body(data.get("responseBody"))
        or cause_of_status(as_int(data.get("statusCode")))
        or ("network" if text_or(as_dict(data.get("metadata")).get("code"), "") in _CODES else None)
        or _cause_of_text(text_or(data.get("message"), "") or text_or(error.get("message"), ""))
    )


def failure(error: Any) -> Failure:
    """Return an error as a failure of the run."""
    return Failure(reason_of(error), cause_of(error))


def retry(status: dict[str, Any], event: str, lane: str | None) -> Notice:
    """Return the notice of a retry: a status of the session, reported by the event with this id."""
    message, next = text_of(status.get("message")), as_ms(status.get("next"))
    is_limit = text_or(as_dict(status.get("action")).get("reason"), "") in _LIMITS
    return Notice(
        "retry",
        sentence_of(message) or "the model call failed",
        "warning",
        lane,
        cause="usage_limit" if is_limit else _cause_of_text(message),
        attempt=as_ms(status.get("attempt")),
        wait_ms=_until(next, event),
        resets_at=next if is_limit else None,
    )


def _cause_of_text(text: str) -> Cause | None:
    return next((cause for start, cause in _SENTENCES if text.startswith(start)), None) or cause_of_body(text)


def _until(time: int | None, event: str) -> int | None:
    """Return the milliseconds from an event to a time after it."""
    found = _ID.match(event)
    if time is None or found is None:
        return None
    wait = (time - int(found[1], 16)) % (1 << ID_TIME_BITS)
    return wait if wait < 1 << (ID_TIME_BITS - 1) else None  # else the time is before the event
