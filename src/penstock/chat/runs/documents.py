"""One document for clients: its answers as turns, from their recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock import events as ev
from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import Entry, Prompted, TurnBegan, TurnEnded
from penstock.chat.runs.recordings import RecordingReader, recordings_in
from penstock.chat.runs.views import RunDetails, RunState, RunView
from penstock.config.ownership import ownership_in
from penstock.doc.overview import status_of
from penstock.doc.state import AskedText, DocumentState
from penstock.errors import UsageError
from penstock.run.recording import Meta

MAX_ANSWERS = 50
"""Number of the newest answers that are shown: as many as the first page of a chat has."""

CUT_OFF = "the run was cut off"


class DocumentReader:
    """Reader of one document; another process may be answering it.

    Args:
        id: id for clients.
        state: state of the document.
    """

    def __init__(self, id: str, state: DocumentState) -> None:
        self._id = id
        self._state = state
        self._known: set[str] = set()
        self._turn = 0
        self._reader: RecordingReader | None = None
        self._started_at = 0

    def read(self) -> Iterator[tuple[int, Entry | ev.Event]]:
        """Yield the entries that are new, each with its time."""
        is_live = self._state.is_being_answered  # before the recordings: runs that end meanwhile are read the next time
        found = recordings_in(self._state.recordings, self._state.directory)
        skipped = max(0, len(found) - MAX_ANSWERS) if not self._known else 0
        for number, (path, meta, at) in enumerate(found, 1):
            if path.name in self._known:
                continue
            self._known.add(path.name)
            if number <= skipped:
                continue
            yield from self._read_on(is_live=False)
            self._turn, self._started_at, self._reader = number, at, RecordingReader(path)
            yield at, Prompted(number, self._asked(at))
            yield at, TurnBegan(number, meta.label or meta.agent, meta.cwd or "")
        yield from self._read_on(is_live=is_live)

    def details(self) -> RunDetails:
        """Return the state of the document."""
        return RunDetails(view_of(self._id, self._state))

    def recording(self, turn: int) -> tuple[Path, Meta, bool]:
        """Return the recording of a turn, and whether its run may continue.

        Raises:
            NoSuchTurn: there is none.
        """
        is_live = self._state.is_being_answered
        found = recordings_in(self._state.recordings, self._state.directory)
        if not 1 <= turn <= len(found):
            raise NoSuchTurn("the document has no such answer")
        path, meta, _ = found[turn - 1]
        return path, meta, is_live and turn == len(found)

    def _read_on(self, *, is_live: bool) -> Iterator[tuple[int, Entry | ev.Event]]:
        reader = self._reader
        if reader is None:
            return
        has_ended = False
        for event in reader.read(is_live=is_live):
            has_ended = isinstance(event, ev.RunEnded)
            yield self._started_at + (event.at or 0), event
        if reader.over:
            self._reader = None
            if not has_ended:
                yield self._started_at, TurnEnded(self._turn, "cut_off", CUT_OFF)

    def _asked(self, at: int) -> str:
        """Return the prompt of the run that began at this time; "" if unknown."""
        return next((added_in(one.text) for one in reversed(_asked(self._state)) if one.at <= at), "")


def added_in(text: str) -> str:
    """Return the added text of a diff that only adds; any other text unchanged."""
    lines = text.splitlines()
    if not text.startswith("@@") or any(line.startswith("-") for line in lines):
        return text
    return "\n".join(line[1:] for line in lines if line.startswith("+")).strip()


def _asked(state: DocumentState) -> list[AskedText]:
    try:
        return state.asked()
    except UsageError:
        return []


def view_of(id: str, state: DocumentState) -> RunView:
    """Return the view of a document."""
    path = state.path or Path()
    try:
        status = status_of(path, state)
    except UsageError:
        status = None
    is_answered_now = state.is_being_answered
    note = "being answered" if is_answered_now else status.state if status is not None else "broken"
    ownership = ownership_in(state.directory)
    kind: RunState = "running" if is_answered_now else "idle"
    newest = recordings_in(state.recordings, state.directory)[-1:]
    answered_at = (status.answered_at if status is not None else None) or 0
    return RunView(
        id=id,
        kind="document",
        title=path.name,
        path=str(path),
        state=kind,
        note=note,
        used_at=max([answered_at, *(at for _, _, at in newest)]),
        agent=(status.agent if status is not None else None) or next((meta.agent for _, meta, _ in newest), None),
        person=ownership.person,
        visibility=ownership.visibility,
    )
