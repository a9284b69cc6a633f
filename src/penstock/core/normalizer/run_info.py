"""Facts about the run that the agent reports about itself."""

from __future__ import annotations

import msgspec

from penstock.core.normalizer.emitter import Emitter
from penstock.events import RunStarted
from penstock.updates import RunStart


class RunInfo:
    """Session id, model and more, merged from many updates and emitted between two messages only."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._facts = RunStart()
        self._pending = False  # some facts have changed since the last event

    @property
    def session_id(self) -> str | None:
        """Id of the conversation, if known."""
        return self._facts.session_id

    def set_session_id(self, session_id: str) -> None:
        """Use the id of a result, which emits no event of its own."""
        self._facts = msgspec.structs.replace(self._facts, session_id=session_id)

    def update(self, update: RunStart) -> None:
        """Merge facts. Facts that equal the known ones cause no event."""
        given = {name: value for name, value in msgspec.structs.asdict(update).items() if value is not None}
        facts = msgspec.structs.replace(self._facts, **given)
        if facts != self._facts:
            self._facts = facts
            self._pending = True

    def emit_pending(self) -> None:
        """Emit the facts if they changed. Call it only while no message of the top lane is open."""
        if self._pending:
            self._pending = False
            self._emitter.emit(RunStarted, None, **msgspec.structs.asdict(self._facts))
