"""Causes of failures on the `stream-json` wire: by its names of errors, by statuses, and by how a run ended."""

from __future__ import annotations

from typing import Any

from penstock.agents._causes import cause_of_status
from penstock.agents._json import as_int, text_or
from penstock.events import Cause

# `SDKAssistantMessageError` of Claude Code's SDK. `invalid_request` and `unknown` have no cause.
_BY_NAME: dict[str, Cause] = {
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "usage_limit",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "model_not_found": "missing",
    "server_error": "provider",
    "max_output_tokens": "length",
}
_INEXACT: frozenset[Cause | None] = frozenset({None, "provider", "rate_limit"})
"""Causes by name than which a status is more exact: older versions have one name for 429 and 529."""

_BY_SUBTYPE: dict[str, Cause] = {"error_max_turns": "budget", "error_max_budget_usd": "budget"}
"""Causes by the `subtype` of a result."""

_BY_END: dict[str, Cause] = {"prompt_too_long": "context", "blocking_limit": "context", "max_turns": "budget"}
"""Causes by the `terminal_reason` of a result."""

NO_CONNECTION = "API Error: Unable to connect to API ("
"""Beginning of the remark of Claude Code 2.1.197 if the provider cannot be reached; its name is `server_error`."""

_LATEST_SECOND = 10**11
"""Seconds since 1970 from which on a number is no time (the year 5138)."""


def cause_of_error(name: Any, status: Any = None, text: str = "") -> Cause | None:
    """Return the cause of a failed request, by the name of the error, its status and the program's remark on it."""
    if text.startswith(NO_CONNECTION):
        return "network"
    cause = _BY_NAME.get(text_or(name, ""))
    return (cause_of_status(as_int(status)) or cause) if cause in _INEXACT else cause


def cause_of_end(subtype: str, end: str | None, status: Any, stop_reason: str | None) -> Cause | None:
    """Return the cause of a failed run, by fields of its result."""
    if stop_reason == "refusal":
        return "refusal"
    return _BY_SUBTYPE.get(subtype) or _BY_END.get(end or "") or cause_of_status(as_int(status))


def milliseconds(seconds: Any) -> int | None:
    """Return a time in milliseconds since 1970 from one in seconds; None if it is no time."""
    number = as_int(seconds)
    return number * 1000 if number is not None and 0 < number < _LATEST_SECOND else None
