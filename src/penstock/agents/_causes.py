"""Causes of failures by the status codes and the names of errors that providers use.

An agent's reader passes what a field of its wire holds; a status or a name that is not in these tables has no cause.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.agents._json import as_dict, as_int, parsed
from penstock.events import Cause

_BY_STATUS: dict[int, Cause] = {
    401: "auth",
    403: "auth",
    404: "missing",
    413: "context",
    429: "rate_limit",
    529: "overloaded",
}

_BY_NAME: dict[str, Cause] = {
    # Anthropic: https://docs.anthropic.com/en/api/errors
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "usage_limit",
    "not_found_error": "missing",
    "request_too_large": "context",
    "api_error": "provider",
    "timeout_error": "provider",
    # OpenAI: https://platform.openai.com/docs/guides/error-codes
    "insufficient_quota": "usage_limit",
    "rate_limit_exceeded": "rate_limit",
    "invalid_api_key": "auth",
    "model_not_found": "missing",
    "context_length_exceeded": "context",
    "server_error": "provider",
    "content_filter": "refusal",
    # Google: the canonical codes of google.rpc.Code
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "auth",
    "NOT_FOUND": "missing",
    "UNAVAILABLE": "overloaded",
    "INTERNAL": "provider",
    "DEADLINE_EXCEEDED": "provider",
}

# The JavaScript libraries of OpenAI and Anthropic begin the message of an error with its status, and have one sentence
# if the server is not reached.
_SDK_STATUS = re.compile(r"([45]\d\d):? ")
_SDK_NOT_REACHED = "Connection error."


def cause_of_status(status: int | None) -> Cause | None:
    """Return the cause that an HTTP status of a provider stands for; None if it says nothing."""
    if status is None:
        return None
    return _BY_STATUS.get(status, "provider" if 500 <= status <= 599 else None)


def cause_of_name(name: str | None) -> Cause | None:
    """Return the cause for a provider's name of an error; None if unknown."""
    return _BY_NAME.get(name) if name is not None else None


def cause_of_body(text: Any) -> Cause | None:
    """Return the cause of a provider's error that is JSON text: by its code, its type or its status."""
    if not (isinstance(text, str) and text.lstrip().startswith("{")):
        return None
    body = as_dict(parsed(text))
    error = as_dict(body.get("error")) or body
    for value in (error.get("code"), error.get("type"), error.get("status")):
        cause = cause_of_name(value) if isinstance(value, str) else cause_of_status(as_int(value))
        if cause is not None:
            return cause
    return None


def cause_of_sdk(message: str | None) -> Cause | None:
    """Return the cause that an error's message from the libraries of OpenAI or Anthropic begins with; None if none."""
    if message == _SDK_NOT_REACHED:
        return "network"
    found = _SDK_STATUS.match(message or "")
    return (cause_of_status(int(found[1])) if found else None) or cause_of_sentence(message)


_SENTENCE_CHARS = 400
"""Characters of an error in which a provider's sentence is looked for: it comes first, or after a few words."""

_SENTENCES: tuple[tuple[re.Pattern[str], Cause], ...] = (
    (
        re.compile(
            r"prompt is too long\b|maximum context length is \d|input is too long for requested model"
            r"|exceeds the maximum number of tokens|context is too large to send",
            re.IGNORECASE,
        ),
        "context",
    ),
    (
        re.compile(r"\A(?:Internal error: )?overloaded\b|\b(?:model|server|engine)\b[^.\n]{0,30} overloaded\b", re.I),
        "overloaded",
    ),
    (re.compile(r"\b(?:invalid|incorrect) (?:x-)?api[ -]key\b|\bAPI key not valid\b", re.IGNORECASE), "auth"),
)
"""Sentences of Anthropic, OpenAI and Google, which agents pass on without the status or the name of the error."""


def cause_of_sentence(text: str | None) -> Cause | None:
    """Return the cause that an error states in a provider's own sentence; None if it is none of those."""
    beginning = (text or "")[:_SENTENCE_CHARS]
    return next((cause for pattern, cause in _SENTENCES if pattern.search(beginning)), None)
