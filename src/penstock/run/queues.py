"""What crosses between a run's own thread and the others: events to its reader, orders from anybody."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from penstock.events import Event

READ_BYTES = 64 * 1024
"""Bytes asked for by one read: what a pipe holds on Linux."""
MAX_WAITING_BYTES = 256 * 1024 * 1024
"""Bytes that may wait in memory for a slow output, over all inputs. The largest recorded runs are a few megabytes, so
this is hours of work of many agents; past it the agents wait, which is better than being killed for memory."""


class Outbox:
    """Events on their way from the run's thread to its reader, in batches, bounded by the bytes they came from."""

    def __init__(self, limit: int = MAX_WAITING_BYTES) -> None:
        self.on_put: Callable[[], None] = lambda: None
        """Called from the run's thread when there is something to take."""
        self.on_room: Callable[[], None] = lambda: None
        """Called from the reader's thread when there is room again."""
        self._limit = limit
        self._pid = os.getpid()
        self._batches: deque[tuple[list[Event], int]] = deque()
        self._bytes = 0
        self._over = False
        self._changed = threading.Condition()

    def put(self, events: list[Event], size: int, *, over: bool = False) -> None:
        """Add events that came from so many bytes; `over`: they are the last."""
        with self._changed:
            if events:
                self._batches.append((events, size))
                self._bytes += size
            self._over = self._over or over
            self._changed.notify_all()
        self.on_put()

    @property
    def full(self) -> bool:
        """Whether no more should be read before something was taken."""
        return self._bytes >= self._limit

    def take(self, *, wait: bool = True) -> list[Event] | None:
        """The oldest batch; None when the run is over. Without `wait` an empty one where there is none yet.

        In a fork of the process, which has no thread that could put any: None.
        """
        if os.getpid() != self._pid:
            return None
        with self._changed:
            while wait and not self._batches and not self._over:
                self._changed.wait()
            if not self._batches:
                return None if self._over else []
            was_full = self.full
            events, size = self._batches.popleft()
            self._bytes -= size
        if was_full:
            self.on_room()
        return events


class Orders:
    """Calls that other threads want made in the run's thread. `fd` is readable while there are some."""

    def __init__(self) -> None:
        self.fd = -1
        self._in = -1
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def open(self) -> None:
        """Make the pipe that wakes the run's thread.

        Raises:
            OSError: no file descriptor is left.
        """
        self.fd, self._in = os.pipe()
        os.set_blocking(self._in, False)
        os.set_blocking(self.fd, False)

    def put(self, call: Callable[[], None]) -> None:
        """Have `call` made soon; before `open` it waits, after `close`, and in a fork of the process, it is dropped."""
        if os.getpid() != self._pid:
            return
        self._calls.append(call)
        with self._lock:  # else the number could be another file's when it is written to
            if self._in >= 0:
                try:
                    os.write(self._in, b".")
                except OSError:
                    pass  # it is awake already

    def make(self) -> None:
        """Make all calls that wait."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """No more calls are made."""
        with self._lock:
            for fd in {self.fd, self._in} - {-1}:
                os.close(fd)
            self.fd = self._in = -1
