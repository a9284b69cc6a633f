"""JSON object of a loop, for `penstock loop status --json`."""

from __future__ import annotations

import msgspec

from penstock.loop.results import change_text
from penstock.loop.state import LoopState


class LoopLine(msgspec.Struct, omit_defaults=True):
    """JSON object of one loop, for `penstock loop status --json`."""

    loop: str
    repository: str
    branch: str
    begun_at: int
    running: bool
    rounds: int
    ms: int
    cost_usd: float
    tokens: int
    head: str
    cost_is_known: bool = True
    directory: str | None = None
    """Directory of the tree in which all agents work, if it is not the top."""
    path: str | None = None
    process: int | None = None
    status: int | None = None
    reason: str | None = None
    ended_at: int | None = None
    resets_at: int | None = None
    question: str | None = None
    look_at: tuple[str, ...] = ()
    """Tests and other files that the checks read, if they differ from the base."""
    green_with_base_tests: bool | None = None
    put_back_settings: tuple[str, ...] = ()
    repository_changes: tuple[str, ...] = ()
    """Changes of the user's repository that were found after steps, each with the command to undo it."""
    held: bool = False
    """True if an edit of the prompt or a message waits for confirmation."""


def json_line(state: LoopState, process: int | None) -> LoopLine:
    """Return a loop as one JSON object."""
    return LoopLine(
        loop=state.began.loop,
        repository=state.began.repository,
        branch=state.began.branch,
        begun_at=state.began.at,
        running=process is not None,
        rounds=state.used.rounds,
        ms=state.used.ms,
        cost_usd=round(state.used.cost_usd, 6),
        tokens=state.used.tokens,
        head=state.head,
        cost_is_known=not state.used.is_cost_partial,
        directory=state.began.directory or None,
        path=state.path or None,
        process=process,
        status=state.ended.status if state.ended is not None else None,
        reason=state.ended.reason if state.ended is not None else None,
        ended_at=state.ended.at if state.ended is not None else None,
        resets_at=state.ended.resets_at if state.ended is not None else None,
        question=state.question or None,
        look_at=tuple(map(change_text, state.look_at)),
        green_with_base_tests=_green_with_base_tests(state),
        put_back_settings=state.put_back_settings,
        repository_changes=state.repository_changes,
        held=state.has_held,
    )


def _green_with_base_tests(state: LoopState) -> bool | None:
    """Return whether all checks passed with the tests of the base; None if untried."""
    results = state.current_base_tests.results
    return all(result.is_green for result in results) if len(results) == len(state.settings.checks) > 0 else None
