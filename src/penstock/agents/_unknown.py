"""Updates for kinds of events that an adapter does not know."""

from __future__ import annotations

from typing import Any

from penstock.agents._json import (
    as_dict,
    inner_message,
    text_in,
    text_of,
)
from penstock.updates import Notice, Unknown


def unknown(kind: str, body: Any, lane: str | None = None) -> Notice | Unknown:
    """Return an error if the kind's name says so and the body has a message, else an unknown event."""
    fields = as_dict(body)
    if kind.rpartition("/")[2] == "error":
        reason = inner_message(text_of(fields.get("error")) or text_of(fields.get("message")))
        if reason:
            return Notice("error", reason, "error", lane)
    text = next((found for key in ("text", "content", "message", "delta") if (found := text_of(fields.get(key)))), "")
    return Unknown(kind or None, text or text_in(fields) or None, lane)
