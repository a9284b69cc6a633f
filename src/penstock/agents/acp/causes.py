"""Causes of errors in the Agent Client Protocol.

The protocol has one code of an error with a cause: a login is required. The agents put what they know into `data`, and
one has the provider's status as the code.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.agents._causes import cause_of_name, cause_of_sdk, cause_of_status
from penstock.agents._facts import AcpQuirks
from penstock.agents._json import as_dict, as_int, parsed, text_or
from penstock.agents._stream_json_causes import cause_of_error
from penstock.events import Cause

AUTH_REQUIRED = -32000
"""ACP's code of an error: the agent requires a login."""

_UNKNOWN_STATUS = 500
"""Code of any error without a status, from an agent whose codes are statuses of HTTP."""

_NAMES: dict[str, Cause] = {
    "unauthorized": "auth",
    "usage_limit_exceeded": "usage_limit",
    "context_window_exceeded": "context",
    "server_overloaded": "overloaded",
    "internal_server_error": "provider",
    "ProviderAuthError": "auth",
    "MessageOutputLengthError": "length",
    "ContextOverflowError": "context",
}
"""Causes by `codex_error_info` and `errorName` in the `data`."""


def cause_of(error: Any, quirks: AcpQuirks) -> Cause | None:
    """Return the cause that a JSON-RPC error names; None if it names none."""
    fields = as_dict(error)
    code, data = as_int(fields.get("code")), as_dict(fields.get("data"))
    if code == AUTH_REQUIRED:
        return "auth"
    answer = as_dict(as_dict(parsed(fields.get("message"))).get("error"))  # the provider's own
    words = next((text for key in ("message", "details") if (text := text_or(data.get(key), ""))), "")
    said = cause_of_words(words or text_or(fields.get("message"), "").removeprefix("Internal error: "), quirks)
    kind = cause_of_error(data.get("errorKind"))
    if kind == "provider" and said is not None:
        return said  # the kind is the same for all failures of the provider's server
    return (
        kind
        or _cause_of_name(data.get("codex_error_info"))
        or _cause_of_name(data.get("errorName"))
        or cause_of_status(None if code == _UNKNOWN_STATUS else code)
        or cause_of_status(as_int(answer.get("code")))
        or cause_of_name(text_or(answer.get("status"), ""))
        or said
    )


def cause_of_info(info: Any) -> Cause | None:
    """Return the cause that `codexErrorInfo` names: a text, or an object with the name as its key; None if unknown."""
    name = next(iter(info), "") if isinstance(info, dict) else text_or(info, "")
    return _cause_of_name(info) or _NAMES.get(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())


def _cause_of_name(name: Any) -> Cause | None:
    """Return the cause of a name, or of the status in an object that has the name as its key."""
    if isinstance(name, dict):
        statuses = (as_int(as_dict(fields).get("http_status_code")) for fields in name.values())
        return next((found for status in statuses if (found := cause_of_status(status))), None)
    return _NAMES.get(name) if isinstance(name, str) else None


def cause_of_words(text: str, quirks: AcpQuirks) -> Cause | None:
    """Return the cause that the beginning of the agent's own sentence names; None if it is unknown."""
    for pattern, cause in quirks.errors:
        if found := re.match(pattern, text):
            return cause or cause_of_status(as_int(parsed(found[1])))
    return cause_of_sdk(text)
