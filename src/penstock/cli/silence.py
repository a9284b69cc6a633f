"""Times at which `penstock run` reports that nothing has come from an agent."""

from __future__ import annotations

FIRST_SECONDS = (10, 30)
"""Seconds of silence after which the first reports come: a user wonders early whether anything happens."""
EVERY_SECONDS = 60
"""Seconds between later reports; CI services end jobs without output after some minutes."""


class Silence:
    """Silence of one run. Times are those of one monotonic clock, in seconds."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._reports = 0

    def end(self, now: float) -> None:
        """Begin anew: something came."""
        self._since = now
        self._reports = 0

    @property
    def _next(self) -> int:
        if self._reports < len(FIRST_SECONDS):
            return FIRST_SECONDS[self._reports]
        return EVERY_SECONDS * (self._reports - len(FIRST_SECONDS) + 1)

    def left(self, now: float) -> float:
        """Return the seconds until the next report."""
        return max(0.0, self._since + self._next - now)

    def due(self, now: float) -> int | None:
        """Return the seconds of silence that are to be reported now; None if there is nothing to report yet."""
        if self.left(now) > 0:
            return None
        seconds = self._next
        self._reports += 1
        return seconds
