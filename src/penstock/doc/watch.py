"""Watching of documents: each is submitted when its user has ended it with a line `/send` and stopped typing."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from penstock.doc.components import DocumentError
from penstock.doc.document import SEND, Document
from penstock.doc.opened import hash_of

POLL_SECONDS = 0.25
"""Seconds between two checks of the files: a person does not notice the delay, and a thousand files cost little."""
LOOK_SECONDS = 2.0
"""Seconds between two searches for new documents in folders."""
QUIET_SECONDS = 2.0
"""Seconds for which a file has to be unchanged: editors that save while the user types stop within them."""
MAX_UNCHANGED_RUNS = 3
"""Number of runs in a row that ask the same: something other than the user writes the line `/send`."""

Stamp = tuple[int, int, int]
"""Modification time in nanoseconds, size and inode of a file."""


class WatchedDocument:
    """One watched document. Times are those of one monotonic clock, in seconds.

    Args:
        path: the file.
        is_link_followed: whether the file may become a symbolic link while it is watched.
    """

    def __init__(self, path: Path, *, is_link_followed: bool = True) -> None:
        self.path = path
        self._is_link_followed = is_link_followed
        self.stopped: bool = False
        """True if it is no longer submitted, because the same prompt came again and again."""
        self._stamp: Stamp | None = None
        self._changed_at = 0.0
        self._looked = False
        """True if the text of this stamp has been judged."""
        self._done = ""
        """Hash of the text that was submitted or published last: it is not submitted again."""
        self._asked = ""
        self._same = 0

    def is_due(self, now: float) -> bool:
        """Return whether the document is to be submitted now. So is a broken one, as that shows what is wrong."""
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._stamp, self._changed_at, self._looked = stamp, now, False
        if self.stopped or stamp is None or self._looked or now - self._changed_at < QUIET_SECONDS:
            return False
        self._looked = True
        text = self._read()
        if hash_of(text) == self._done or SEND not in text:
            return False
        self._done = hash_of(text)  # if no reply comes of it, it is not submitted again as it is
        try:
            return Document.parse(text).send_line is not None
        except DocumentError:
            return True

    def published(self, asked: str, text_hash: str) -> None:
        """Remember the text that was published, by its hash, and what was asked."""
        self._done = text_hash
        self._same = self._same + 1 if asked == self._asked else 1
        self._asked = asked
        self.stopped = self._same >= MAX_UNCHANGED_RUNS

    def _read_stamp(self) -> Stamp | None:
        try:
            found = os.stat(self.path, follow_symlinks=self._is_link_followed)
        except OSError:
            return None  # an editor replaces it just now, or it was removed
        if not stat.S_ISREG(found.st_mode):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> str:
        try:
            return self.path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


def watch(
    documents: Sequence[WatchedDocument],
    submit: Callable[[WatchedDocument], bool],
    find: Callable[[], Iterable[WatchedDocument]] | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `submit` for each document that is due, until it returns False or no document is left to watch.

    `find` returns further documents; it is called every `LOOK_SECONDS`, and documents may come for ever.
    """
    watched, looked_at = [*documents], -math.inf
    while find is not None or not all(document.stopped for document in watched):
        if find is not None and clock() - looked_at >= LOOK_SECONDS:
            watched += find()
            looked_at = clock()
        for document in watched:
            if document.is_due(clock()) and not submit(document):
                return
        sleep(POLL_SECONDS)
