"""Result of a run: the last event, and the changes of files that its events reported."""

from __future__ import annotations

import msgspec

from penstock.events import Cause, Change, Outcome, RunEnded, Usage


class Result(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Result of a run, with the fields of `penstock.events.RunEnded` and all changes of files that are known."""

    agent: str
    """Label of the agent."""
    outcome: Outcome
    reply: str
    """Answer to the prompt; if the run did not end well, the part that was written."""
    session_id: str | None = None
    """Id of the conversation; pass it to resume."""
    reason: str | None = None
    """Reason of the end, for people, if it is not obvious."""
    cause: Cause | None = None
    resets_at: int | None = None
    """Time at which the limit resets, in milliseconds since 1970, if the cause is one that does."""
    changes: list[Change] = []
    """Changes of files by the agent's editing tools, one for each file. Commands may have changed more."""
    refused: int | None = None
    """Number of actions that were denied; None if the agent does not report it."""
    rounds: int = 0
    """Number of rounds of the main agent."""
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    """Duration by the agent's own clock, in milliseconds."""
    exit_status: int | None = None
    """Exit status of the agent's process; negative for a signal."""

    @classmethod
    def of(cls, ended: RunEnded, changes: list[Change], exit_status: int | None) -> Result:
        """Return the result of a run that `ended`, with its `changes` and the `exit_status` of its process."""
        both = {name: getattr(ended, name) for name in cls.__struct_fields__ if name in ended.__struct_fields__}
        return cls(**both, changes=changes, exit_status=exit_status)
