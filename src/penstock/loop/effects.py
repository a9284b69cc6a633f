"""Effects of a loop, which the rules choose and the engine carries out, and its exit statuses."""

from __future__ import annotations

import msgspec

from penstock.loop.steps import RunAgent, Step

DONE, NOT_DONE, CANNOT_START, NEEDS_PERSON, OVER_BUDGET, ALL_LIMITED, TIMED_OUT = 0, 1, 2, 4, 5, 6, 124
"""Exit statuses, as in `docs/exit-status.md`."""


class Begin(msgspec.Struct, frozen=True):
    """Begin a step."""

    step: Step


class BeginTogether(msgspec.Struct, frozen=True):
    """Begin steps of candidates, which work side by side."""

    steps: tuple[RunAgent, ...]


class Repeat(msgspec.Struct, frozen=True):
    """Do the open step again: it was interrupted, and doing it twice has the effect of doing it once."""

    number: int
    step: Step


class EndLost(msgspec.Struct, frozen=True):
    """End the open step of an agent as lost: it was interrupted, and an agent is never run twice for one step."""

    number: int
    step: RunAgent


class Wait(msgspec.Struct, frozen=True):
    """Wait until a time, in milliseconds since 1970."""

    until: int
    reason: str


class EndLoop(msgspec.Struct, frozen=True):
    """End the loop."""

    status: int
    reason: str
    resets_at: int | None = None
    """Time at which the first agent can be used again, if all are at their limits."""


class LoopOver(msgspec.Struct, frozen=True):
    """The loop has ended; there is nothing to do."""

    status: int


Effect = Begin | BeginTogether | Repeat | EndLost | Wait | EndLoop | LoopOver
