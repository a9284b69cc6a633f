"""A turn as a trajectory in the Agent Trajectory Interchange Format."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Numbered
from penstock.chat.history.frames import TurnView
from penstock.sinks.atif import Trajectory


def turn_trajectory(turn: TurnView, rows: Sequence[Numbered]) -> bytes:
    """Return the trajectory of a turn that has ended, as JSON.

    If the run has no recorded end, as when the server was killed, the outcome is that of the chat.
    """
    made = Trajectory(turn.prompt, turn.began_at)
    end: ev.RunEnded | None = None
    for row in rows:
        if isinstance(row.what, ev.RunEnded):
            end = row.what
        elif isinstance(row.what, ev.Base):
            made.apply(row.what)
    if end is None:
        agent, outcome = turn.agent or "unknown", turn.outcome or "cut_off"
        end = ev.RunEnded(outcome, turn.message, 0, reason=turn.reason, cause=turn.cause, agent=agent)
    return msgspec.json.encode(made.close(end))
