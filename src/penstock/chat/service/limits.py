"""Limits of the service, and of what it keeps."""

from __future__ import annotations

import msgspec

RETAIN_SECONDS = 3600.0
"""Seconds between two searches for turns that are too old; their space is not urgent."""


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the service. Times are in seconds."""

    max_runs: int = 4
    """Agents at work at once; one that waits for a person does not count. Each needs some hundred megabytes."""
    max_turn_seconds: float | None = None
    """Time of a turn, without that in which it waits for a person (`--turn-timeout`); None for no limit."""
    max_turn_cost: float | None = None
    """US dollars of a turn, as far as its agent reports them (`--turn-max-cost`); None for no limit."""
    max_queue: int = 20
    """Maximum number of queued turns of a chat. Only a faulty program sends more."""
    max_chats: int = 10_000
    """Maximum number of chats of all nodes (`--max-chats`): their list is 3 MB, and each request for it takes 16 ms."""
    max_prompt_bytes: int = 512 * 1024
    """Bytes of a prompt as UTF-8, however its request writes it."""
    max_attachment_bytes: int = 10 * 1024 * 1024
    """Bytes of one attachment: a picture of a camera, or a long log. Agents get larger files by their paths."""
    max_attached_bytes: int = 2 * 1024 * 1024 * 1024
    """Bytes of all attachments of one person: a thousand screenshots, which a small disk still has space for."""
    asking_grace: float = 1.0
    """Seconds after a question that does not block the run, in which the agent may answer it itself or end."""
    closing: float = 0.4
    """Seconds for the ends of killed runs. A later end is marked at the next start."""
    recovering: int = 50
    """Chats that are recovered at the same time at the start: PostgreSQL reads so many summaries in one statement."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of what is kept: only complete turns are dropped, so that the rest can be read. None means no limit."""

    max_age_ms: int | None = None
    """Milliseconds since the end of a turn."""
    max_bytes: int | None = None
    """Bytes of the entries of all chats."""
