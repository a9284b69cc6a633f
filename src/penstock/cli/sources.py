"""Bytes from pipes and files.

Reading does not wait for writing. Most agents exit without draining their pipe, so the end of the stream would be lost
if the terminal blocks. Therefore each pipe has a thread that reads it into memory at once, up to `MAX_WAITING_BYTES`,
and the bytes are rendered at the reader's pace. Beyond that limit, reading waits too, and so does the agent.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator

import msgspec

from penstock.cli.formats import HEAD_BYTES, check
from penstock.errors import UsageError
from penstock.run.read_sizes import MAX_WAITING_BYTES, READ_BYTES

FOLLOW_POLL_SECONDS = 0.1
"""Seconds between two checks of a followed file: a user does not notice them."""
FOLLOW_QUIET_SECONDS = 2.0
"""Seconds without new data after which a followed file has ended, if its run has replied."""

Chunk = tuple[int, "bytes | None", "int | None"]
"""Number of the input, its bytes (None at its end), and milliseconds since the start, for live inputs.

Without bytes (b""), nothing has come for some time.
"""
NOTHING: Chunk = (0, b"", None)


class Source(msgspec.Struct):
    """One input: a file, or a pipe. `fd` is open."""

    name: str
    fd: int
    is_file: bool
    follow: bool = False
    replied: bool = False
    """True if the run of this input has replied; set by the reader of the events."""


def open_sources(names: list[str], *, follow: bool = False) -> list[Source]:
    """Open all inputs; `-` is standard input.

    Raises:
        UsageError: one of them cannot be opened, is a folder, or is binary data. Then none is read.
    """
    return [_open(name, follow) for name in names]


def _open(name: str, follow: bool) -> Source:
    try:
        fd = 0 if name == "-" else os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot open {name!r}: {why}", expected="a file with what an agent printed, or - for stdin"
        ) from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read {name!r}: it is a folder", help=_instead_of_folder(name))
    is_file = stat.S_ISREG(mode)
    if is_file:
        check(os.pread(fd, HEAD_BYTES, os.lseek(fd, 0, os.SEEK_CUR)), "stdin" if name == "-" else name)
    return Source(name, fd, is_file, follow and is_file)


def _instead_of_folder(name: str) -> str:
    from glob import escape, iglob  # only a mistake needs it

    from penstock.run.recording import INPUT

    folder = escape(name.rstrip("/"))
    if any(next(iglob(pattern), None) for pattern in (f"{folder}/{INPUT}", f"{folder}/*/{INPUT}")):
        return f"replay the record that it holds: penstock replay {name}"
    return f"name its files: {name.rstrip('/')}/*.ndjson"


def chunks(sources: list[Source], patience: Callable[[], float | None] = lambda: None) -> Iterator[Chunk]:
    """Yield the data of the inputs: files one after another, pipes and followed files as their bytes arrive.

    `NOTHING` is yielded if nothing comes for as many seconds as `patience` returns; None is without limit.
    """
    if all(source.is_file and not source.follow for source in sources):
        for number, source in enumerate(sources):
            while data := _read(source.fd):
                yield number, data, None
            yield number, None, None
    else:
        yield from _live(sources, patience)


def _live(sources: list[Source], patience: Callable[[], float | None]) -> Iterator[Chunk]:
    import threading

    inbox = Inbox()
    for number, source in enumerate(sources):
        pump = _follow if source.follow else _drain
        # Daemon threads: one that waits for an agent must not keep a finished program alive.
        threading.Thread(target=pump, args=(number, source, inbox), daemon=True).start()
    open_inputs = len(sources)
    while open_inputs:
        chunk = inbox.take(patience())
        open_inputs -= chunk[1] is None
        yield chunk


class Inbox:
    """Queue of chunks that were read but not yet rendered, limited by their bytes."""

    def __init__(self, limit: int = MAX_WAITING_BYTES) -> None:
        import threading
        from collections import deque

        self._limit = limit
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._start = time.monotonic()

    def put(self, number: int, data: bytes | None, *, stamped: bool) -> None:
        """Add a chunk; wait while the inbox is full."""
        at = int((time.monotonic() - self._start) * 1000) if stamped else None
        with self._changed:
            while self._bytes >= self._limit:
                self._changed.wait()
            self._chunks.append((number, data, at))
            self._bytes += len(data or b"")
            self._changed.notify_all()

    def take(self, seconds: float | None = None) -> Chunk:
        """Remove and return the oldest chunk; wait for one, and return `NOTHING` if none comes in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._chunks, seconds):
                return NOTHING
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk[1] or b"")
            self._changed.notify_all()
        return chunk


def _drain(number: int, source: Source, inbox: Inbox) -> None:
    while data := _read(source.fd):
        inbox.put(number, data, stamped=not source.is_file)
    inbox.put(number, None, stamped=not source.is_file)


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            # Another program that shares this pipe may have made it non-blocking.
            import select

            select.select([fd], [], [])
        except OSError:
            return b""  # the terminal or the mount is gone: the stream is reported as cut off


def _follow(number: int, source: Source, inbox: Inbox) -> None:
    quiet = 0.0
    while True:
        if data := _read(source.fd):
            inbox.put(number, data, stamped=False)
            quiet = 0.0
            continue
        if source.replied and quiet >= FOLLOW_QUIET_SECONDS:
            break
        if os.fstat(source.fd).st_size < os.lseek(source.fd, 0, os.SEEK_CUR):
            os.lseek(source.fd, 0, os.SEEK_SET)  # the file was truncated and is being rewritten
            continue
        time.sleep(FOLLOW_POLL_SECONDS)
        quiet += FOLLOW_POLL_SECONDS
    inbox.put(number, None, stamped=False)


RECORDED = "input"
"""Stem of the file with the bytes of a recording."""


def labels(names: list[str]) -> list[str | None]:
    """Return short labels for several inputs.

    The label is a file's stem. If stems are equal, folders are added until the labels differ; the common name of the
    files of recordings is left out. It is None for an input without a useful name (stdin, `/dev/fd/63`), which is
    named after its agent.
    """
    paths = [os.path.splitext(name)[0].split("/") for name in names if not _nameless(name)]
    if len(paths) > 1 and all(len(path) > 1 and path[-1] == RECORDED for path in paths):
        paths = [path[:-1] for path in paths]
    for depth in range(1, max(map(len, paths), default=0) + 1):
        short = ["/".join(path[-depth:]) for path in paths]
        if len(set(short)) == len(short):
            break
    else:
        short = ["/".join(path) for path in paths]
    labels_in_order = iter(short)
    return [None if _nameless(name) else next(labels_in_order) for name in names]


def _nameless(name: str) -> bool:
    return name == "-" or name.startswith(("/dev/", "/proc/"))
