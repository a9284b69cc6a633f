"""How much there may be of everything that the runtime has."""

from __future__ import annotations

import msgspec


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much there may be. Seconds, where it is time."""

    max_runs: int = 4
    """Agents at work at once; one that waits for a person is none of them. Each is some hundred megabytes."""
    max_queue: int = 20
    """Turns of a chat that wait. More is a program that went wrong."""
    max_chats: int = 1000
    max_prompt_bytes: int = 512 * 1024
    """Half of what a request may have, as JSON may double it."""
    asking_grace: float = 1.0
    """After a question that the run does not wait for, so long for the agent to answer it itself or to end."""
    closing: float = 0.4
    """For the ends of runs that are killed. What is not in the log by then is marked at the next start."""
    recovering: int = 20
    """Chats that are taken up at the same time at the start: more would only wait for the disk."""
