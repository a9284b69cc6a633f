"""Publish of a reply: the document gets it in one exchange, and no save of another program is lost.

The steps, in this order:

1. The reply is durable in `pending.json` before the document is touched.
2. The document is read until it is the same twice.
3. The new text is written to a temporary file beside it, which `pending.json` then names, with the hash of what was
   read.
4. If the document is still the same, the two files are exchanged, and what came out is compared. A save that came out
   is put back in the same way, and the steps begin again at 2.
5. After a pause, everything that came out is read again: a program may have written to it through an old handle. Such a
   save is merged by the steps from 2.
6. Directory, backup and snapshot are made durable, then the temporary files are removed, and `pending.json` last.

A publish that was killed is continued by calling it again: the files named in `pending.json` show how far it came.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from penstock.config.data import fsync_directory, write_private
from penstock.config.regular_files import NotRegular
from penstock.doc.exchange import (
    ExchangeUnsupported,
    exchange,
    is_utf8,
    read_bytes,
    write_in_place,
    write_like,
)
from penstock.doc.saves import merge_saves
from penstock.doc.state import Attempt, DocumentState, Pending
from penstock.errors import TransportError, UsageError, shown

SETTLE_SECONDS = 0.002
"""Seconds between two reads of the document: an editor that truncates a file first writes it at once."""

MAX_UNSETTLED_SECONDS = 2.0
"""Seconds in which a document must once be the same twice; an editor that renames the old file away needs less."""

MAX_EMPTY_SECONDS = 0.1
"""Seconds that an empty document is read again: most likely an editor has truncated it and is about to write it."""

LATE_SECONDS = 0.2
"""Seconds until what came out is read again: an editor that has opened a file to save it has written it by then."""

MAX_ATTEMPTS = 100
"""Attempts of one publish while other saves come between: it must end even if a program saves for ever."""

MAX_SWAPS = 100
"""Exchanges of one attempt while each of them brings out another save."""

MAX_ROUNDS = 10
"""Pauses of one publish after which a late save was found, or the reply was missing again."""

DIRECTORY_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV})
"""Error numbers of a directory or a mount in which a file can be written but not replaced."""

WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
"""Bits of a file's mode of which one is set unless the file is read-only."""

Prepare = Callable[[str, Pending], str]
"""Function that puts the pending reply into a text of the document; pure.

It returns the text unchanged if the whole reply is already in it."""

Method = Literal["exchange", "rename", "in place"]


class Published(NamedTuple):
    """Result of a publish."""

    path: Path
    """File that was written: symbolic links are resolved."""
    text: str
    """Content that the document had when the publish ended."""
    method: Method
    notes: tuple[str, ...]
    """Sentences that the user should read: what the method cannot promise."""


class PublishError(TransportError):
    """The reply could not be published. It stays pending; the next command on the document tries again."""


class Save(NamedTuple):
    """Concurrent save by another program, found in the exchanged file. Our next text must include it."""

    base: str
    """Text that the save changed."""
    text: str
    replaced_by: str = ""
    """SHA-256 of our text that replaced it; empty if the save was restored."""
    certain: bool = True
    """True if every later text by that program is known to be based on this save."""


class OldFile(msgspec.Struct):
    """Previous file of the document. A program with an open handle may still write to it."""

    content: bytes
    """Content that is known."""
    replaced_by: str
    """SHA-256 of our text that replaced it; empty if this is our text."""
    seen: bytes = b""
    """Content at the last look, if it was another one."""


def check_publishable(path: Path) -> None:
    """Check that a document can be published to, before an agent is started.

    Raises:
        UsageError: it is not a regular file, or it cannot be read or written.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist", help=f"penstock doc init {path}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a regular file")
    if not is_utf8(os.path.realpath(path)):
        raise UsageError(f"the path {shown(os.path.realpath(path))} is not UTF-8", help="rename the file or directory")
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise UsageError(f"{path} cannot be written", help="change its mode or its owner")
    if not mode & WRITABLE:  # root may write to it, but its user has said that nobody does
        command = shlex.join(["chmod", "u+w", os.fspath(path)])
        raise UsageError(f"{path} is read-only", help=command if command.isprintable() else "change its mode")


def check_place(path: Path) -> None:
    """Check that a path, which had no symbolic links when the agent was started, still has none.

    An agent that may write nothing but the document's directory could make Penstock write its reply elsewhere.

    Raises:
        PublishError: it leads to another file. The reply stays pending.
    """
    place = os.path.realpath(path)
    if place != os.fspath(path):
        raise PublishError(
            f"{path} was replaced by a symbolic link and leads to {shown(place)}",
            expected="the file that was asked about",
            help=_help(path),
        )


def publish(path: Path, prepare: Prepare, state: DocumentState) -> Published:
    """Put the pending reply of a document into its file. The lock of the state is held by the caller.

    Raises:
        PublishError: the file cannot be written, or other programs do not stop saving it. The reply stays pending.
    """
    publication = _Publication(path, prepare, state)
    try:
        return publication.run()
    except PublishError:
        raise
    except OSError as error:
        raise PublishError(f"{path} cannot be written: {error.strerror or error}", help=_help(path)) from error


class _Publication:
    """One publish."""

    def __init__(self, path: Path, prepare: Prepare, state: DocumentState) -> None:
        pending = state.pending()
        assert pending is not None, "publish is called for a pending reply"
        self.pending = pending
        self.prepare = prepare
        self.state = state
        self.target = Path(os.path.realpath(path))
        self.method: Method = "exchange"
        self.notes: list[str] = []
        self.watched: dict[Path, OldFile] = {}
        self.saves: list[Save] = []
        self.replaced: bytes | None = None
        self.attempts_left = MAX_ATTEMPTS

    def run(self) -> Published:
        self.find_saves()
        for _ in range(MAX_ROUNDS):
            self.bring_in()
            time.sleep(LATE_SECONDS)
            if self.is_complete():
                return self.finish()
        raise PublishError(f"other programs do not stop writing to {self.target}", help=_help(self.target))

    def find_saves(self) -> None:
        """Look through the files of attempts that were killed: a save may have come out and not been put back."""
        attempts = self.pending.attempts
        self.pending.attempts = [one for one in attempts if any(map(os.path.lexists, (one.new, one.old)))]
        for attempt in self.pending.attempts:
            old = Path(attempt.old)
            try:
                content = read_bytes(old)
            except (FileNotFoundError, NotRegular):
                continue  # no program has saved there
            if attempt.in_place:
                self.repair(attempt, content)
            elif os.path.exists(self.target) and os.path.samefile(old, self.target):
                old.unlink()  # a link that was made before a rename that did not happen
            elif _digest(content) == attempt.read:
                self.watched[old] = OldFile(content, attempt.published)
            else:
                if _digest(content) != attempt.published:
                    self.saves.append(Save(self.pending.base, _decode(content), attempt.published, certain=False))
                self.watched[old] = OldFile(content, "")

    def repair(self, attempt: Attempt, before: bytes) -> None:
        """Complete a document that was being written in place: a part of the new text, then the rest of the old one."""
        new = _encode(self.prepare(_decode(before), self.pending))
        now = read_bytes(self.target)
        if attempt is not self.pending.attempts[-1] or _digest(new) != attempt.published or now in (before, new):
            return
        written = next((at for at, pair in enumerate(zip(now, new, strict=False)) if pair[0] != pair[1]), len(now))
        if now[written:] == before[written:]:
            write_in_place(self.target, new, before)

    def bring_in(self) -> None:
        """Put the reply and all known saves into the document, however often it changes meanwhile."""
        while self.attempts_left:
            self.attempts_left -= 1
            now = self.read_document()
            new = _encode(self.new_text(now))
            if new == now or self.put(now, new):
                return
        raise PublishError(f"other programs do not stop saving {self.target}", help=_help(self.target))

    def new_text(self, now: bytes) -> str:
        """Return the text that the document gets: the reply in the newest text of the user."""
        text = _decode(now)
        return self.prepare(self.with_saves(text) if self.saves else text, self.pending)

    def with_saves(self, newest: str) -> str:
        """Return a text of the document with the saves that it lacks."""
        ours = self.has_reply(newest)
        for save in self.saves:
            whole = len(save.text) >= len(save.base)  # a shorter text may be half of a save
            if whole and save.replaced_by == _digest(_encode(newest)):
                newest = save.text  # nobody has changed what replaced it
            elif self.has_reply(save.text) and not self.has_reply(newest):
                newest = merge_saves(save.base, newest, save.text)  # so that the reply stays in one piece
            elif self.has_reply(save.text) and not self.has_reply(save.base) and save.text.startswith(save.base):
                # The base was the first part of this save, and the reply was put into it a second time.
                newest = merge_saves(self.prepare(save.base, self.pending), newest, save.text)
            elif ours or not save.certain:
                newest = merge_saves(save.base, save.text, newest)
        return newest

    def has_reply(self, text: str) -> bool:
        """Return whether a text has the whole reply: it is ours, or was made from ours."""
        return self.prepare(text, self.pending) == text

    def read_document(self) -> bytes:
        """Return the document once it is the same twice."""
        deadline = time.monotonic() + MAX_UNSETTLED_SECONDS
        before = None
        while True:
            try:
                facts = os.stat(self.target)
                if not stat.S_ISREG(facts.st_mode):  # reading a pipe would wait for ever
                    raise PublishError(f"{self.target} is no longer a regular file", help=_help(self.target))
                now = (facts.st_size, facts.st_mtime_ns, facts.st_ino, read_bytes(self.target))
            except FileNotFoundError:
                now = None  # some editors rename the old file away before they write the new one
            left = deadline - time.monotonic()
            if now is not None and now == before and (now[-1] or left < MAX_UNSETTLED_SECONDS - MAX_EMPTY_SECONDS):
                return now[-1]
            if left < 0:
                why = "does not stop changing" if now else "no longer exists"
                raise PublishError(f"{self.target} {why}", help=_help(self.target))
            before = now
            time.sleep(SETTLE_SECONDS)

    def put(self, now: bytes, new: bytes) -> bool:
        """Write the new text, if the document is still what it was. Return False to try again."""
        if self.method == "in place" or os.stat(self.target).st_nlink > 1:
            return self.put_in_place(now, new)
        temporary = self.temporary_path(self.pending.tries + 1)
        temporary.unlink(missing_ok=True)  # half written when a publish was killed
        try:
            write_like(temporary, new, self.target)
            if self.method == "exchange":
                self.announce(now, new, temporary, temporary)
                return self.put_by_exchange(temporary, now, new)
            return self.put_by_rename(temporary, now, new)
        except FileNotFoundError:
            return False  # renamed away by an editor that is about to write it anew
        except ExchangeUnsupported:
            self.use("rename", "this file system cannot exchange two files")
        except OSError as error:
            if error.errno not in DIRECTORY_ERRORS:
                raise
            self.use("in place", f"it cannot be replaced ({error.strerror})")
        return False

    def use(self, method: Method, why: str) -> None:
        self.method = method
        how = "replaced by a plain rename" if method == "rename" else "written in place"
        self.notes.append(f"{self.target} was {how}, as {why}: a save at the same instant can be lost")

    def announce(self, now: bytes, new: bytes, temporary: Path | None, old: Path) -> None:
        """Make the attempt durable before the document is touched. Without a temporary file it is one in place."""
        attempt = Attempt(
            new=str(temporary or ""), old=str(old), read=_digest(now), published=_digest(new), in_place=not temporary
        )
        self.pending.attempts.append(attempt)
        self.pending.tries += 1
        self.state.write_pending(self.pending)

    def temporary_path(self, number: int) -> Path:
        return self.target.with_name(f".{self.target.name}.{self.pending.id}-{number}")

    def put_by_exchange(self, temporary: Path, now: bytes, new: bytes) -> bool:
        """Exchange until what comes out is what was expected; the newest save then is in the document, or our text."""
        if read_bytes(self.target) != now:
            temporary.unlink()
            return False
        exchange(self.target, temporary)
        expected, inserted = now, new
        for _ in range(MAX_SWAPS):
            out = read_bytes(temporary)
            if out == expected:
                self.watched[temporary] = OldFile(out, _digest(new) if inserted == new else "")
                self.replaced = now
                return inserted == new
            self.saves.append(Save(_decode(now), _decode(out)))
            if not self.put_back(temporary, out):
                return False
            expected, inserted = inserted, out
        raise PublishError(f"other programs do not stop saving {self.target}", help=_help(self.target))

    def put_back(self, temporary: Path, out: bytes) -> bool:
        """Exchange once more, as a newer save came out. Return False if the document has been renamed away."""
        try:
            exchange(self.target, temporary)
        except FileNotFoundError:  # an editor is about to write it anew; what came out is merged into that
            self.saves[-1] = self.saves[-1]._replace(certain=False)
            self.watched[temporary] = OldFile(out, "")
            return False
        except OSError as error:
            raise PublishError(
                f"{self.target} cannot be exchanged: {error.strerror}", help=_help(self.target)
            ) from error
        return True

    def put_by_rename(self, temporary: Path, now: bytes, new: bytes) -> bool:
        """Rename the new file over the document. A link keeps the old one, for a program that still writes to it."""
        old = temporary.with_name(f"{temporary.name}-old")
        self.announce(now, new, temporary, old)
        try:
            os.link(self.target, old)
        except OSError:
            write_like(old, now, self.target)  # a file system without links
        if read_bytes(self.target) != now:
            old.unlink()
            temporary.unlink()
            return False
        temporary.replace(self.target)
        self.watched[old] = OldFile(now, _digest(new))
        self.replaced = now
        return True

    def put_in_place(self, now: bytes, new: bytes) -> bool:
        """Write to the file itself; a copy of the old content is kept until the end."""
        if self.method != "in place":
            self.use("in place", "it has several names (hard links)")
        copy = self.state.directory / f"replaced-{self.pending.tries + 1}"
        write_private(copy, now)
        self.announce(now, new, None, copy)
        if read_bytes(self.target) != now:
            return False
        write_in_place(self.target, new, now)
        self.replaced = now
        return True

    def is_complete(self) -> bool:
        """Read again all that came out, and the document. Return False if a save came late or the reply is missing."""
        written = False
        for path, watched in self.watched.items():
            content = read_bytes(path)
            if content == watched.content:
                continue
            written = True
            if content == watched.seen:  # the program has not written since the last look: its save is whole
                self.saves.append(Save(_decode(watched.content), _decode(content), watched.replaced_by))
                watched.content = content
            watched.seen = content
        now = self.read_document()
        return not written and _encode(self.new_text(now)) == now

    def finish(self) -> Published:
        if self.method != "in place":
            fsync_directory(self.target.parent)
        if self.replaced is not None:
            write_private(self.state.backup, self.replaced)
        self.state.write_snapshot(self.pending.snapshot)
        for attempt in self.pending.attempts:
            for name in {attempt.new, attempt.old} - {""}:
                Path(name).unlink(missing_ok=True)
        self.temporary_path(self.pending.tries + 1).unlink(missing_ok=True)
        text = _decode(read_bytes(self.target))
        self.state.finish_pending()
        return Published(self.target, text, self.method, tuple(self.notes))


def _help(path: Path) -> str:
    near = os.path.relpath(path)
    command = shlex.join(["penstock", "doc", "recover", os.fspath(path) if near.startswith("..") else near])
    return f"the reply is kept; {command} publishes it" if command.isprintable() else "the reply is kept"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # a save may have other bytes than the document had at first


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
