"""State of a document between two commands: a directory of the data directory, readable by its owner only.

It is found by the id in the document's front matter, so a document can be renamed and moved. The path is kept too, to
notice a copy that has the same id.

    docs/ID/document.json    path of the document
    docs/ID/ownership.json   person to whom it belongs, if that is not the owner
    docs/ID/snapshot         document after the last reply; what differs from it is asked next
    docs/ID/pending.json     reply that is not yet known to be in the document
    docs/ID/published.json   last reply that was published
    docs/ID/backup           content that the last publish replaced
    docs/ID/asked.json       what the last runs were asked, for those who look at the document from elsewhere
    docs/ID/recordings/      recordings of the runs
    docs/ID/lock             held while a command works on the document; contains its process id
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock.config.data import fsync_directory, write_private
from penstock.config.ownership import own_new, person_named
from penstock.doc.exchange import read_bytes
from penstock.errors import UsageError
from penstock.run import locks

FOLDER = "docs"
"""Directory of the data directory with a folder for each document."""

LOCK_NAME = "lock"
DOCUMENT = "document.json"

MAX_ASKED = 50
"""Runs whose question is kept: as many as a page shows."""

MAX_ASKED_CHARS = 20_000
"""Characters of a question that are kept: more than a person reads there."""

SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
"""Ids that are used as the name of a directory as they are. Others may contain anything: the user can write them."""


class Attempt(msgspec.Struct, kw_only=True):
    """One try to put the reply into the document, recorded before the document is touched."""

    new: str
    """Path of the temporary file with the new text; empty if the document is written in place."""
    old: str
    """Path of what comes out of the document: the same file after an exchange, else a link or a copy."""
    read: str
    """SHA-256 of the document as it was read."""
    published: str
    """SHA-256 of the new text."""
    in_place: bool = False


class Pending(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Reply on its way into the document, with all that is needed to publish it after a crash."""

    id: str
    """Unique id of the reply; part of the names of its temporary files."""
    path: str
    """Path of the document when the reply ended."""
    base: str
    """Document as it was submitted."""
    reply: str
    snapshot: str
    """Snapshot that is kept once the reply is published."""
    options: dict[str, Any] = {}
    """Further values that the merge needs."""
    at: int = 0
    """Time of the reply's end, in milliseconds since 1970."""
    attempts: list[Attempt] = []
    """Attempts whose files may still be there."""
    tries: int = 0
    """Number of all attempts."""


class DocumentFacts(msgspec.Struct):
    """Content of `document.json`."""

    session: str
    path: str


class AskedText(msgspec.Struct):
    """Question of one run."""

    at: int
    """Time just before its start, in milliseconds since 1970."""
    text: str


class DocumentState:
    """State of one document.

    Args:
        data: the data directory.
        session: id of the document.
    """

    def __init__(self, data: Path, session: str) -> None:
        self.session = session
        safe = SAFE_ID.fullmatch(session)
        name = session if safe else hashlib.sha256(session.encode("utf-8", "surrogateescape")).hexdigest()
        self.directory: Path = data / FOLDER / name
        self.backup: Path = self.directory / "backup"
        self.recordings: Path = self.directory / "recordings"
        self._snapshot = self.directory / "snapshot"
        self._pending = self.directory / "pending.json"
        self._published = self.directory / "published.json"
        self._document = self.directory / DOCUMENT
        self._asked = self.directory / "asked.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the document for this process; create its directory if it is new.

        Raises:
            UsageError: another process holds it.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not locks.take(fd):
                holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
                by = f"process {holder}" if holder else "another process"
                raise UsageError(f"the document is being answered by {by}", help="wait until it has ended")
            yield
        finally:
            os.close(fd)  # which also unlocks it

    def claim(self, path: Path, session_of: Callable[[str], str | None]) -> None:
        """Keep the path of the document; call it while the lock is held.

        Args:
            path: its path now.
            session_of: returns the id that a text has in its front matter.

        Raises:
            UsageError: the file of the kept path exists too and has the same id; or no person has the name of the one
                to whom new documents are to belong.
        """
        path = Path(os.path.realpath(path))
        known = self.path
        if known is None:
            own_new(self.directory, person_named())
        if known is not None and known != path and known.is_file() and not os.path.samefile(known, path):
            text = read_bytes(known).decode("utf-8", "replace")
            if session_of(text) == self.session:
                raise UsageError(
                    f"two documents have the same id {self.session!r}: {known} and {path}",
                    help="remove the line agent_doc_session from the copy; it then gets an id of its own",
                )
        if known != path:
            write_private(self._document, msgspec.json.encode(DocumentFacts(self.session, os.fspath(path))))

    @property
    def is_being_answered(self) -> bool:
        """Whether a command works on the document."""
        return locks.holder(self.directory / LOCK_NAME) is not None

    @property
    def path(self) -> Path | None:
        """Path of the document when it was last used."""
        found = _read(self._document, DocumentFacts)
        return Path(found.path) if found else None

    @property
    def snapshot(self) -> str | None:
        """Document after the last reply; None if there was none yet."""
        try:
            return read_bytes(self._snapshot).decode("utf-8")
        except FileNotFoundError:
            return None

    def write_snapshot(self, text: str) -> None:
        """Keep the document as it is after a reply."""
        write_private(self._snapshot, text.encode("utf-8"))

    def pending(self) -> Pending | None:
        """Return the reply that is not yet known to be in the document."""
        found: Pending | None = _read(self._pending, Pending)
        return found

    def write_pending(self, pending: Pending) -> None:
        """Keep a reply, durably, before the document is touched."""
        write_private(self._pending, msgspec.json.encode(pending))

    def published(self) -> Pending | None:
        """Return the last reply that was published."""
        found: Pending | None = _read(self._published, Pending)
        return found

    def asked(self) -> list[AskedText]:
        """Return what the last runs were asked, the oldest first."""
        found: list[AskedText] | None = _read(self._asked, list[AskedText])
        return found or []

    def add_asked(self, at: int, text: str) -> None:
        """Keep what a run is asked; call it before the run starts."""
        asked = [*self.asked(), AskedText(at, text[:MAX_ASKED_CHARS])][-MAX_ASKED:]
        write_private(self._asked, msgspec.json.encode(asked))

    def finish_pending(self) -> None:
        """Make the pending reply the last one that was published."""
        self._pending.replace(self._published)
        fsync_directory(self.directory)

    def reset(self) -> None:
        """Forget snapshot and replies, so that the whole document is asked next. The backup is kept."""
        for path in (self._snapshot, self._pending, self._published, self._asked):
            path.unlink(missing_ok=True)


def document_states(data: Path) -> list[DocumentState]:
    """Return the states of all documents that were ever answered."""
    found = (state_in(data, folder) for folder in sorted((data / FOLDER).glob("*/")))
    return [state for state in found if state is not None]


def state_in(data: Path, folder: Path) -> DocumentState | None:
    """Return the state that a folder has; None if it has none.

    Raises:
        UsageError: it is damaged.
    """
    facts = _read(folder / DOCUMENT, DocumentFacts)
    return DocumentState(data, facts.session) if facts is not None else None


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(read_bytes(path), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}", help="move it away; the reply is in the recordings") from error
