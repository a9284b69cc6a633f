"""Errors of codex and their causes, retries among them.

The app server names an error in `codexErrorInfo`; `codex exec` prints its sentence alone. Names and sentences are those
of codex 0.169.0: `codex app-server generate-json-schema`, and `CodexErr` in its source.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.agents._causes import cause_of_body, cause_of_sentence, cause_of_status
from penstock.agents._json import as_dict, as_int, as_ms
from penstock.events import Cause
from penstock.updates import Notice

_NAMES: dict[str, Cause] = {
    "contextWindowExceeded": "context",
    "sessionBudgetExceeded": "budget",
    "usageLimitExceeded": "usage_limit",
    "rateLimitExceeded": "rate_limit",
    "flexUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "policyCapacityUnavailable": "overloaded",
    "modelNotFound": "missing",
    "cyberPolicy": "refusal",
    "misalignmentPolicyViolation": "refusal",
    "internalServerError": "provider",
    "unauthorized": "auth",
    "threadRollbackFailed": "agent",
    "sandboxError": "agent",
}
"""Causes by `codexErrorInfo`. `other` and `badRequest` say too little."""

_CONNECTION = ("httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected")
"""Kinds of `codexErrorInfo` for a connection that failed; with the provider's status if there was an answer."""

_SENTENCES: tuple[tuple[str, Cause], ...] = (
    ("You've hit your usage limit", "usage_limit"),
    ("Your workspace is out of credits.", "usage_limit"),
    ("You hit your spend cap set ", "usage_limit"),
    ("Quota exceeded. Check your plan and billing details.", "usage_limit"),
    ("To use Codex with your ChatGPT plan, upgrade to Plus", "usage_limit"),
    ("Selected model is at capacity.", "overloaded"),
    ("Policy-restricted capacity is unavailable.", "overloaded"),
    ("We're currently experiencing high demand, which may cause temporary errors.", "provider"),
    ("Codex ran out of room in the model's context window.", "context"),
    ("Incomplete response returned, reason: max_output_tokens", "length"),
    ("stream disconnected before completion: Incomplete response returned, reason: content_filter", "refusal"),
    ("stream disconnected before completion: ", "network"),
    ("Connection failed: ", "network"),
    ("Error while reading the server response: ", "network"),
    ("Reconnecting... waiting for network", "network"),
    ("Your access token could not be refreshed", "auth"),
    ("Missing environment variable: `", "auth"),  # the variable of the provider's key
    ("internal error; agent loop died unexpectedly", "agent"),
)
"""Beginnings of codex's own sentences, with straight quotes. The first that fits counts."""

_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")
_RETRY = re.compile(r"Reconnecting\.\.\. (\d{1,6})/(\d{1,6})(?: \((.*)\))?", re.DOTALL)
"""A retry, with the error in brackets in `codex exec`."""

FULL_PERCENT = 100
"""Use of a limit, in percent, from which on it stops the work."""


def cause_of(info: Any, *texts: str) -> Cause | None:
    """Return the cause of an error by its `codexErrorInfo`, else by the texts that came with it."""
    name, status = info, None
    if isinstance(info, dict):
        name = next(iter(info), None)
        status = as_int(as_dict(info.get(name)).get("httpStatusCode"))
    cause = cause_of_status(status)
    if cause is None and isinstance(name, str):
        cause = _NAMES.get(name)
    if cause is None:
        cause = next((found for text in texts if (found := _cause_of_text(text)) is not None), None)
    return "network" if cause is None and status is None and name in _CONNECTION else cause


def _cause_of_text(text: str) -> Cause | None:
    text = text.strip().replace("’", "'")
    found = _STATUS.match(text)
    stated = (cause_of_status(int(found[1])) if found is not None else None) or cause_of_sentence(text)
    if stated is not None or found is not None:
        return stated
    return next((cause for start, cause in _SENTENCES if text.startswith(start)), None) or cause_of_body(text)


def retry(message: str, details: str = "", info: Any = None, lane: str | None = None) -> Notice:
    """Return the notice of a retry; `details` is the error if it is not part of the message."""
    found = _RETRY.fullmatch(message)
    attempt, max_attempts = (int(found[1]), int(found[2])) if found is not None else (None, None)
    whole = f"{message} ({details})" if details else message
    return Notice(
        "retry",
        whole if found is None else details or found[3] or "Reconnecting...",
        "warning",
        lane,
        cause=cause_of(info, details, found[3] or "" if found is not None else message),
        attempt=attempt,
        max_attempts=max_attempts,
    )


def reset_of(limits: Any) -> int | None:
    """Return when the used-up limits reset, in milliseconds since 1970; None if unknown."""
    windows = [as_dict(as_dict(limits).get(name)) for name in ("primary", "secondary")]
    full = [window for window in windows if (as_int(window.get("usedPercent")) or 0) >= FULL_PERCENT]
    times = [as_ms((as_int(window.get("resetsAt")) or 0) * 1000) for window in full]
    return max((time for time in times if time), default=None)
