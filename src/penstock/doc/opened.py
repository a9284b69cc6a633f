"""Document that one command works on: locked, and with the reply of an earlier command that was interrupted."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from penstock.config.data import data_directory, data_path
from penstock.doc.document import Document, check_settings
from penstock.doc.exchange import read_bytes
from penstock.doc.front_matter import FrontMatter
from penstock.doc.merge import Merged
from penstock.doc.pending_reply import item_snapshot, merged, patched_snapshot, pending_reply, reply_line, with_reply
from penstock.doc.publish import PublishError, check_place, check_publishable, publish
from penstock.doc.recovery import is_overwritten, recover
from penstock.doc.state import DocumentState, Pending, document_states
from penstock.doc.submission import submission
from penstock.errors import UsageError
from penstock.run.history import now_ms

SESSION = "agent_doc_session"
"""Field of the front matter with the id of the document."""

COMPONENT_SETTINGS = Path(".agent-doc", "components.toml")
"""File in which agent-doc sets modes of components, below the directory of a project."""


class PublishedReply(NamedTuple):
    """Reply that is in its document."""

    line: int | None
    """Line at which it begins, from 1."""
    proposals: tuple[str, ...]
    """Components that the user changed meanwhile, so that the new text stands below theirs."""
    notes: tuple[str, ...]
    text_hash: str
    """SHA-256 of the document."""


class OpenDocument:
    """Document that is locked by this process.

    Args:
        path: its file; symbolic links are resolved.
        state: its state, whose lock is held.
        notes: messages for the user about an earlier reply.
    """

    def __init__(self, path: Path, state: DocumentState, notes: tuple[str, ...]) -> None:
        self.path = path
        self.state = state
        self.notes = notes
        self.document: Document = read_document(path)

    def read(self) -> None:
        """Read the document again.

        Raises:
            UsageError: it cannot be read or is broken.
        """
        self.document = read_document(self.path)

    @property
    def snapshot(self) -> str | None:
        """Document after the last reply; None if there was none yet."""
        return self.state.snapshot or None

    def check_settings(self) -> None:
        """Check that the document itself sets each mode of agent-doc's files: a replaced component would lose text.

        Raises:
            DocumentError: the nearest `.agent-doc/components.toml` above the document sets one.
        """
        for folder in self.path.parents:
            try:
                settings = read_bytes(folder / COMPONENT_SETTINGS).decode("utf-8", "replace")
            except OSError:
                continue
            check_settings(self.document, settings)
            return

    def lacks_only_the_reply(self) -> bool:
        """Return whether the last reply was overwritten by the text that it answers, and nothing else is new."""
        last = self.state.published()
        if last is None or not is_overwritten(last, self.document.text):
            return False
        return not submission(self.document, last.base).is_new

    def publish(self, reply: str, options: dict[str, Any]) -> PublishedReply:
        """Publish a reply to the document as it was opened. `options` are those of the merge, and are kept with it.

        Raises:
            PublishError: the document cannot be written. The reply is kept.
        """
        pending = pending_reply(uuid.uuid4().hex, os.fspath(self.path), self.document.text, reply, options, now_ms())
        if "done" in options:
            pending.snapshot = item_snapshot(pending, self.snapshot)
        return self._publish(pending)

    def patch(self, component: str, text: str) -> PublishedReply:
        """Put a text into a component as an agent would. What is new in the document stays new.

        Raises:
            DocumentError: settings of agent-doc are not those of the document.
            PublishError: the document cannot be written. The text is kept.
        """
        self.check_settings()
        last = self.state.published()
        options = {"conversation": last.options["conversation"]} if last and "conversation" in last.options else {}
        options["fields"] = {SESSION: self.state.session}
        block = f"<!-- patch:{component} -->\n{text}\n<!-- /patch:{component} -->"
        pending = pending_reply(uuid.uuid4().hex, os.fspath(self.path), self.document.text, block, options, now_ms())
        pending.snapshot = patched_snapshot(self.state.snapshot or "", component, block)
        return self._publish(pending)

    def _publish(self, pending: Pending) -> PublishedReply:
        try:
            self.state.write_pending(pending)
        except OSError as error:
            why = error.strerror or error
            raise PublishError(f"the reply cannot be kept: {why}", help="it is in the recording of the run") from error
        check_place(self.path)
        last: list[Merged] = []

        def prepare(now: str, pending: Pending) -> str:
            text = with_reply(now, pending)
            if text != now:
                last[:] = [merged(pending, now)]
            return text

        done = publish(self.path, prepare, self.state)
        found = last[0] if last else merged(pending, pending.base)
        if found.proposals and "done" not in pending.options:
            self.state.write_snapshot(found.snapshot)  # with the proposal, which is not the user's
        self.document = Document.parse(done.text)
        notes = (*found.notes, *done.notes)
        return PublishedReply(reply_line(pending, done.text), found.proposals, notes, hash_of(done.text))


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[OpenDocument]:
    """Open a document for one command. A reply of an earlier command that was interrupted is published first.

    Raises:
        UsageError: it cannot be read or written, is broken, or another process works on it.
        PublishError: the earlier reply cannot be published. It is kept.
    """
    with locked(path) as (file, state):
        yield OpenDocument(file, state, recover(file, state))


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[tuple[Path, DocumentState]]:
    """Hold the lock of a document; give its file, without symbolic links, and its state.

    Raises:
        UsageError: it cannot be read or written, is broken, or another process works on it.
    """
    check_publishable(Path(path))
    file = Path(os.path.realpath(path))
    state = state_of(file, read_document(file), data_directory())
    with state.lock():
        state.claim(file, session_of)
        yield file, state


@contextmanager
def hold_for_watching(paths: Iterable[Path], folders: Iterable[Path] = ()) -> Iterator[None]:
    """Hold documents and folders for one watching process; a command can still work on them meanwhile.

    Raises:
        UsageError: one of them cannot be used, or another process watches it.
    """
    with ExitStack() as held:
        for path in paths:
            check_publishable(path)
            state = state_of(path, read_document(path), data_directory())
            state.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.callback(os.close, _watch_lock(state.directory / "watch.lock", path))
        for folder in folders:
            locks = data_directory() / "docs"
            locks.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = sha256(os.fsencode(folder)).hexdigest()[:16]
            held.callback(os.close, _watch_lock(locks / f"watch-{name}.lock", folder))
        yield


def _watch_lock(file: Path, watched: Path) -> int:
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise UsageError(f"{watched} is watched by another process", help="one is enough") from error
    return fd


def state_of(path: Path, document: Document, data: Path) -> DocumentState:
    """Return the state of a document. One without an id gets an id, which its first publish writes into it."""
    if document.session is not None:
        return DocumentState(data, document.session)
    with _new_ids(data):
        # Two commands that begin at the same time must find the same id, or neither would notice the other.
        known = known_state(path, document)
        if known is not None:
            return known
        state = DocumentState(data, str(uuid.uuid4()))
        state.directory.mkdir(mode=0o700, parents=True)
        state.claim(path, session_of)
        return state


def known_state(path: str | os.PathLike[str], document: Document) -> DocumentState | None:
    """Return the state of a document that may be answered just now, for reading; None if there is none."""
    data = data_path()
    if document.session is not None:
        return DocumentState(data, document.session)
    here = Path(os.path.realpath(path))
    return next((one for one in document_states(data) if one.path == here and _goes_on(one, document.text)), None)


def _goes_on(state: DocumentState, text: str) -> bool:
    """Return whether a text without an id is of this document: no reply has written it, or an editor removed it."""
    last = state.published()
    return state.snapshot is None or (last is not None and is_overwritten(last, text))


@contextmanager
def _new_ids(data: Path) -> Iterator[None]:
    """Hold the lock under which documents get their ids."""
    folder = data / "docs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # which also unlocks it


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a document.

    Raises:
        UsageError: it cannot be read, is not UTF-8, or its components are broken.
    """
    try:
        return Document.parse(read_bytes(Path(path)).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8 (byte {error.start})", help="save it in UTF-8") from error


def session_of(text: str) -> str | None:
    """Return the id in the front matter of a text."""
    return FrontMatter.parse(text).get(SESSION, "session")


def hash_of(text: str) -> str:
    """Return the SHA-256 of a text of a document."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
