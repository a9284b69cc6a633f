"""Messages of a codex stream, with the state that is needed while they are written."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.agents.codex.items import Item
from penstock.updates import MessagePhase, Phase, RoundEnd, Update

_PHASES: dict[str, MessagePhase] = {"commentary": "commentary", "final_answer": "final"}


class Phases:
    """Phases of messages as codex reports them: commentary, or the answer. Older versions do not report them.

    A phase may come when an item begins, before there is any text, or when it is completed. For each thread only the
    item that began last is remembered.
    """

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str | None, MessagePhase]] = {}

    def begin(self, item: Item, thread: str = "") -> None:
        """Remember the phase of an item that begins."""
        self._begun.pop(thread, None)
        if (phase := _phase_of(item)) is not None:
            self._begun[thread] = (item.id, phase)

    def read(self, id: str | None, thread: str = "", lane: str | None = None) -> Sequence[Update]:
        """Return the phase of a message that has its first text now."""
        begun, phase = self._begun.get(thread, (None, None))
        if phase is None or begun != id:
            return ()
        del self._begun[thread]
        return (Phase(phase, id, lane),)

    def end(self, item: Item, thread: str = "", lane: str | None = None) -> Sequence[Update]:
        """Return the phase of a completed item; a phase at its end replaces that at its beginning."""
        begun = self.read(item.id, thread, lane)
        phase = _phase_of(item)
        return begun if phase is None else (Phase(phase, item.id, lane),)


class Writing:
    """Item that each thread is writing, and whether its round ends after that item."""

    def __init__(self) -> None:
        self._items: dict[str | None, str] = {}
        self._marked: set[str | None] = set()

    def __contains__(self, thread: str | None) -> bool:
        return thread in self._items

    def begin(self, thread: str | None, id: str) -> None:
        """Note that the thread writes this item."""
        self._items[thread] = id

    def drop(self, thread: str | None) -> str | None:
        """Note that the thread writes no more; return the item that will not be completed, if there is one."""
        self._marked.discard(thread)
        return self._items.pop(thread, None)

    def end(self, thread: str | None, id: str | None, lane: str | None) -> Sequence[Update]:
        """Note that an item is completed."""
        if self._items.get(thread) != id:
            return ()
        marked = thread in self._marked
        self.drop(thread)
        return (RoundEnd(lane),) if marked else ()

    def mark(self, thread: str | None, lane: str | None) -> Sequence[Update]:
        """Mark the end of a round: at once, or after the item that is being written."""
        if thread in self._items:
            self._marked.add(thread)
            return ()
        return (RoundEnd(lane),)


def _phase_of(item: Item) -> MessagePhase | None:
    """Return None if the item has no phase, or an unknown one."""
    return _PHASES.get(item.phase) if isinstance(item.phase, str) and item.type == "agent_message" else None
