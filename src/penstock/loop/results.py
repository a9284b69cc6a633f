"""Results of rounds in words, for people: the terminal and the page use the same."""

from __future__ import annotations

from penstock.loop.state import LoopState, Round

RESULTS = {
    "work": "not finished",
    "check": "not finished",
    "review": "not finished",
    "commit": "not finished",
    "publish": "not published",
    "failed": "agent failed",
    "red": "red",
    "conflict": "conflict left",
    "held": "files held back",
    "not_approved": "not approved",
    "green": "green",
    "approved": "approved",
    "unchanged": "no change",
    "refused": "edits denied",
}
"""Words for the stages of a round."""

UNDER_WAY = ("check", "review", "commit", "publish")
"""Stages after which a round goes on."""

MAX_COMMAND_CHARS = 40
"""Characters of a command that are named, so that a row fits into a usual terminal."""


def is_over(state: LoopState, it: Round) -> bool:
    """Return whether a round has ended; the last one may wait for an agent that could not work yet."""
    stage = state.stage(it)
    return stage not in UNDER_WAY and not (stage == "work" and it.number == len(state.rounds))


def result_of(state: LoopState, it: Round) -> str:
    """Return the result of a round in words."""
    stage = state.stage(it)
    if stage == "red":
        command = it.red_command.strip().partition("\n")[0]
        return f"red: {command if len(command) <= MAX_COMMAND_CHARS else command[: MAX_COMMAND_CHARS - 1] + '…'}"
    return RESULTS[stage] + (", flaky check" if it.flaky else "")
