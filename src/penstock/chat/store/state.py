"""State of a store: whether it can keep what comes."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.errors import TransportError

CHECK_BYTES = 256 * 1024
"""Bytes that a store must be able to write before it counts as working again: a single small entry may still find a
place on a full disk, and the next one fails."""


class StoreState:
    """State of one store. It belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create it for a store that works. `clock` returns seconds."""
        self.failure: TransportError | None = None
        """Reason why the store cannot keep anything; None if it can."""
        self._clock = clock
        self._since = clock()
        self._watchers: list[Callable[[], None]] = []

    @property
    def seconds(self) -> float:
        """Seconds since the store last failed after it had worked."""
        return self._clock() - self._since

    def failed(self, error: TransportError) -> None:
        """Note that a call failed. The store counts as failed until `works` is called."""
        if self.failure is None:
            self.failure, self._since = error, self._clock()
            self._notify()

    def works(self) -> None:
        """Note that the store was checked, and works."""
        if self.failure is not None:
            self.failure = None
            self._notify()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` whenever `failure` has changed."""
        self._watchers.append(watcher)

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher()
