"""State of all documents that were answered, for people and for the chat's server. It only reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from penstock.doc.opened import known_state, read_document
from penstock.doc.state import DocumentState, document_states
from penstock.doc.submission import submission
from penstock.errors import UsageError

State = Literal["answered", "new text", "pending reply", "missing", "broken"]


class DocumentStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one document.

    `answered`: nothing was written since the last reply. `new text`: something was. `pending reply`: a reply is not in
    the document yet. `missing`: the file is not there any more. `broken`: it cannot be read as a document.
    """

    path: str
    id: str | None = None
    state: State
    answered_at: int | None = None
    """Time of the last reply, in milliseconds since 1970."""
    agent: str | None = None
    """Agent of the last reply."""
    session_id: str | None = None
    """Its conversation."""


def overview(data: Path, files: Sequence[str] = ()) -> list[DocumentStatus]:
    """Return the state of these documents, or of all that are known, the one answered last at the end.

    Raises:
        UsageError: one of `files` cannot be read.
    """
    if files:
        return [status_of(Path(os.path.realpath(file)), known_state(file, read_document(file))) for file in files]
    found = [status_of(state.path, state) for state in document_states(data) if state.path is not None]
    return sorted(found, key=lambda one: one.answered_at or 0)


def status_of(path: Path, state: DocumentState | None) -> DocumentStatus:
    """Return the status of one document."""
    if state is None:
        return DocumentStatus(path=str(path), state="new text")
    last = state.published()
    conversation = last.options.get("conversation", {}) if last is not None else {}
    return DocumentStatus(
        path=str(path),
        id=state.session,
        state=_state(path, state),
        answered_at=last.at if last is not None else None,
        agent=conversation.get("agent"),
        session_id=conversation.get("session_id"),
    )


def _state(path: Path, state: DocumentState) -> State:
    if not path.exists():
        return "missing"
    if state.pending() is not None:
        return "pending reply"
    try:
        return "new text" if submission(read_document(path), state.snapshot or None).is_new else "answered"
    except UsageError:
        return "broken"
