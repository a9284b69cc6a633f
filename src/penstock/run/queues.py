"""Queues between the thread of a run and all others: events to their reader, calls from any thread."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from penstock.events import Event
from penstock.run.read_sizes import MAX_WAITING_BYTES


class EventQueue:
    """Events on their way from the thread of the run to their reader, in batches.

    It is bounded by the number of bytes that the events came from.
    """

    def __init__(self, limit: int = MAX_WAITING_BYTES) -> None:
        self.on_put: Callable[[], None] = lambda: None
        """Called from the thread of the run when there is something to get."""
        self.on_space: Callable[[], None] = lambda: None
        """Called from the reader's thread when the queue is no longer full."""
        self._limit = limit
        self._pid = os.getpid()
        self._batches: deque[tuple[list[Event], int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, events: list[Event], size: int, *, last: bool = False) -> None:
        """Add events that came from `size` bytes. After the `last` ones the queue is closed."""
        with self._changed:
            if events:
                self._batches.append((events, size))
                self._bytes += size
            self._closed = self._closed or last
            self._changed.notify_all()
        self.on_put()

    @property
    def full(self) -> bool:
        """True if nothing should be read until the reader has taken a batch."""
        return self._bytes >= self._limit

    def get(self, *, wait: bool = True) -> list[Event] | None:
        """Take the oldest batch; None at the end of the run. Without `wait`, an empty one if there is none yet.

        None also in a fork of the process, which has no thread that could put any.
        """
        if os.getpid() != self._pid:
            return None
        with self._changed:
            while wait and not self._batches and not self._closed:
                self._changed.wait()
            if not self._batches:
                return None if self._closed else []
            was_full = self.full
            events, size = self._batches.popleft()
            self._bytes -= size
        if was_full:
            self.on_space()
        return events


class CallQueue:
    """Calls that other threads request from the thread of the run. `fd` is readable while there are any."""

    def __init__(self) -> None:
        self.fd: int = -1
        self._in = -1
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def open(self) -> None:
        """Create the pipe that wakes the thread of the run.

        Raises:
            OSError: no file descriptor is left.
        """
        self.fd, self._in = os.pipe()
        os.set_blocking(self._in, False)
        os.set_blocking(self.fd, False)

    def put(self, call: Callable[[], None]) -> None:
        """Request a call. Before `open` it waits; after `close`, and in a fork of the process, it is dropped."""
        if os.getpid() != self._pid:
            return
        self._calls.append(call)
        with self._lock:  # else another file could have this number when it is written to
            if self._in >= 0:
                try:
                    os.write(self._in, b".")
                except OSError:
                    pass  # it is awake already

    def run(self) -> None:
        """Make all pending calls."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Drop all further calls."""
        with self._lock:
            for fd in {self.fd, self._in} - {-1}:
                os.close(fd)
            self.fd = self._in = -1
