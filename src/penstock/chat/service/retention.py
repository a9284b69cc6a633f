"""The limits of what is kept: full turns are dropped, so that what stays can be read."""

from __future__ import annotations

import msgspec

AGAIN_SECONDS = 3600.0
"""Seconds between two looks for turns that are too old: nobody needs their space sooner."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The limits. None: no limit."""

    max_age_ms: int | None = None
    """Milliseconds since the end of a turn."""
    max_bytes: int | None = None
    """Bytes of the entries of all chats."""
