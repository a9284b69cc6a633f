"""Names for kinds of lines that the reader does not know, for the counters of unknown events."""

from __future__ import annotations

import msgspec

_NAMES = ("type", "method", "event", "kind", "sessionUpdate", "subtype", "role", "object")
MAX_KEYS = 3
"""Maximum number of fields that are listed for a line without a type or a method."""
MAX_CHARS = 80
MAX_BYTES = 1 << 20
"""Bytes of the longest line that is decoded to find its name."""


def kind_name(line: bytes) -> str:
    """Return the type or the method of a line, `answer` for the answer to a request, else its first field names."""
    try:
        value = msgspec.json.decode(line) if len(line) <= MAX_BYTES else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "not JSON"
    if not isinstance(value, dict):
        return "a long line" if len(line) > MAX_BYTES else type(value).__name__
    for key in _NAMES:
        if isinstance(value.get(key), str) and value[key]:
            return str(value[key])[:MAX_CHARS]
    if "id" in value and ("result" in value or "error" in value):
        return "answer"
    return f"{{{', '.join(list(value)[:MAX_KEYS])}}}"[:MAX_CHARS]
