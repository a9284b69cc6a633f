"""Times at which `penstock run` reports that nothing has come from an agent."""

from __future__ import annotations

from collections.abc import Mapping

FIRST_SECONDS = (10, 30)
"""Seconds of silence before the first reports: a user soon wonders whether anything happens."""
EVERY_SECONDS = 60
"""Seconds between later reports; CI services end jobs without output after some minutes."""

CI_VARIABLES = ("CI", "TF_BUILD", "TEAMCITY_VERSION", "JENKINS_URL")
"""Environment variables of CI services: most set the first one; the others are of Azure, TeamCity and Jenkins."""


def is_ci(env: Mapping[str, str]) -> bool:
    """Return whether this is a job of a CI service, which ends jobs without output."""
    return any(env.get(name, "").lower() not in ("", "0", "false") for name in CI_VARIABLES)


class Silence:
    """Silence of one run. Times are in seconds of one monotonic clock.

    `is_early`: report after `FIRST_SECONDS` too; otherwise there is only one report per minute.
    """

    def __init__(self, now: float, *, is_early: bool = True) -> None:
        self._first = FIRST_SECONDS if is_early else ()
        self._since = now
        self._reports = 0

    def end(self, now: float) -> None:
        """Restart the time, because something came."""
        self._since = now
        self._reports = 0

    @property
    def _next(self) -> int:
        if self._reports < len(self._first):
            return self._first[self._reports]
        return EVERY_SECONDS * (self._reports - len(self._first) + 1)

    def left(self, now: float) -> float:
        """Return the seconds until the next report."""
        return max(0.0, self._since + self._next - now)

    def due(self, now: float) -> int | None:
        """Return the seconds of silence to report now; None if no report is due."""
        if self.left(now) > 0:
            return None
        seconds = self._next
        self._reports += 1
        return seconds
