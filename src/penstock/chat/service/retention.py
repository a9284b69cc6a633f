"""Limits of what is kept: only complete turns are dropped, so that the rest can be read."""

from __future__ import annotations

import msgspec

AGAIN_SECONDS = 3600.0
"""Seconds between two searches for turns that are too old: their space is not needed sooner."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of what is kept. None means no limit."""

    max_age_ms: int | None = None
    """Milliseconds since the end of a turn."""
    max_bytes: int | None = None
    """Bytes of the entries of all chats."""
