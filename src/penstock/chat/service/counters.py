"""What the service counts while it works; `/metrics` shows it."""

from __future__ import annotations

from collections import Counter

from penstock import events as ev

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
"""The upper bounds of the buckets of a histogram, in seconds: from a fast disk to one that hangs."""


class Times:
    """A histogram of durations in seconds."""

    def __init__(self) -> None:
        self.buckets = [0] * len(SECONDS)
        """For each of `SECONDS`, the durations of at most that."""
        self.count = 0
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.count += 1
        self.sum += seconds
        for place, bound in enumerate(SECONDS):
            if seconds <= bound:
                self.buckets[place] += 1


class Counters:
    """The counters of one service."""

    def __init__(self) -> None:
        self.entries = 0
        """Entries that were appended."""
        self.appends = Times()
        """Durations of appends."""
        self.failures = 0
        """Appends that the store failed to make."""
        self.ended: Counter[ev.Outcome] = Counter()
        """Turns that ended, by outcome."""
