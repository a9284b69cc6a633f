"""What an adapter makes of a kind of event that it does not know."""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_dict, inner_message, text_of
from penstock.updates import Notice, Unknown


def unknown(kind: str, body: Any, lane: str | None = None) -> Notice | Unknown:
    """An event of this kind, with this body: an error where its name says so and it has a message, else unknown."""
    fields = as_dict(body)
    if kind.rpartition("/")[2] == "error":
        reason = inner_message(text_of(fields.get("error")) or text_of(fields.get("message")))
        if reason:
            return Notice("error", reason, "error", lane)
    text = next((found for key in ("text", "content", "message", "delta") if (found := text_of(fields.get(key)))), "")
    return Unknown(kind or None, text or None, lane)
