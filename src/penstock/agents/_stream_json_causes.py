"""Causes of failures on the `stream-json` wire: by its names of errors, by statuses, and by how a run ended."""

from __future__ import annotations

import re
from typing import Any

from penstock.agents._causes import cause_of_status
from penstock.agents._json import as_int, text_or
from penstock.core.budget import stop_reason
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

_LIMIT = re.compile(
    r"Reached maximum (?:budget \(\$(?P<cost>\d{1,9}(?:\.\d{1,9})?)\)|number of turns \((?P<turns>\d{1,9})\))", re.ASCII
)
"""Sentence of Claude Code 2.1.197 about the limit of `--max-budget-usd` or `--max-turns` that a run met."""

NO_CONNECTION = "API Error: Unable to connect to API ("
"""Beginning of the remark of Claude Code 2.1.197 if the provider cannot be reached; its name is `server_error`."""

_LATEST_SECOND = 10**11
"""Seconds since 1970 from which on a number is not a time (the year 5138)."""


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


def reason_of_limit(reported: str, cost: float | None) -> str:
    """Return the reason of a run that ended at a limit of its own, from its sentence about that and its cost."""
    limit = _LIMIT.match(reported)
    if limit is None:
        return reported
    if limit["turns"] is not None:  # it ends where the next turn would begin
        return stop_reason("max_turns", int(limit["turns"]) + 1, int(limit["turns"]))
    return reported if cost is None else stop_reason("max_cost", cost, float(limit["cost"]))


def milliseconds(seconds: Any) -> int | None:
    """Return a time in milliseconds since 1970 from one in seconds; None if it is not a time."""
    number = as_int(seconds)
    return number * 1000 if number is not None and 0 < number < _LATEST_SECOND else None
