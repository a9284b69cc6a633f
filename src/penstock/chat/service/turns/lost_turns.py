"""Turns whose run is lost: their ends, and what this process remembers so that none of them begins again."""

from __future__ import annotations

import asyncio
from collections import deque

from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import TurnBegan
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.service.turns import decisions
from penstock.chat.service.turns.turn_run import sweep

NODE_LOST = "its machine was lost"
ROWS_LOST = "the store lost entries: it was restored from a backup"


class Begun:
    """Turns that began in this process; after the store was restored from a backup, they may be queued again."""

    def __init__(self, max_queue: int) -> None:
        """Create it for a chat in which `max_queue` turns can wait."""
        self._turns: deque[tuple[int, int]] = deque(maxlen=max_queue + 1)

    def add(self, view: TurnView) -> None:
        """Remember a turn by number and time: after a restore, another turn may get its number, but not its time."""
        self._turns.append((view.turn, view.asked_at))

    def __contains__(self, view: TurnView) -> bool:
        return (view.turn, view.asked_at) in self._turns


async def end_lost(log: ChatLog, timeline: Timeline, why: str) -> None:
    """End the running turn, if there is one. Its run no longer exists."""
    if timeline.running is not None:
        await _sweep(log, timeline.running.turn)
        reason = ROWS_LOST if log.claim.rows_lost else why
        await log.write(lambda timeline: decisions.lost(timeline, reason))
        log.claim.rows_lost = False


async def _sweep(log: ChatLog, turn: int) -> None:
    """Kill the processes that may be left of a run whose guard was killed as well."""
    try:
        _, entries = await log.turn(turn)
    except NoSuchTurn:
        return  # its first entries were trimmed
    for entry in entries:
        if isinstance(entry.what, TurnBegan) and entry.what.mark is not None:
            await asyncio.to_thread(sweep, entry.what.mark)
