"""What each person has spent today: the cost of their turns, as agents report it, in a file of the data directory.

A day is one of the server's clock and time zone. The cost counts for the person who asked for the turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.chat.errors import TooMany
from penstock.chat.people.persons import People
from penstock.config.data import write_private

SPENDING = "spending.json"
"""File of the data directory."""

LEAST = 0.0001
"""US dollars of the smallest rest that can be spent: less than any call of a model costs."""

_log = logging.getLogger("penstock.gateway")


class _SpentToday(msgspec.Struct, forbid_unknown_fields=True):
    """Content of the file: US dollars by the name of the person."""

    day: str
    dollars: dict[str, float]


class DailySpending:
    """Costs of one day. A file is kept only if there are several people, as only they have limits."""

    def __init__(
        self, path: Path | None = None, people: People | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """Read the file; None: nothing is kept. `now` returns seconds since 1970."""
        self._path = path
        self._people = people or People()
        self._now = now
        self._spent = _read(path) or _SpentToday(self._today(), {})
        self._fails = False

    def left(self, name: str) -> float | None:
        """Return the US dollars that a person may still spend today, rounded down; None if there is no limit."""
        most = self.limit(name)
        if most is None:
            return None
        return round(max(0, int((most - self._of_today().get(name, 0.0)) / LEAST)) * LEAST, 4)

    def limit(self, name: str) -> float | None:
        """Return the US dollars that a person may spend a day; None if there is no limit."""
        person = self._people.find(name)
        return None if person is None else person.max_cost

    def check(self, name: str) -> None:
        """Check that a person has something left today.

        Raises:
            TooMany: nothing is left.
        """
        if self.left(name) == 0:
            raise TooMany(
                self.used_up(name), help="wait until tomorrow, or ask an owner of the server for a higher limit"
            )

    def used_up(self, name: str) -> str:
        """Return the sentence for a person who has nothing left today."""
        return f"{name} has reached the limit of {dollars(self.limit(name) or 0)} a day"

    def add(self, name: str, cost: float) -> None:
        """Count a cost. A failure to keep it is logged once, until it works again: nothing else fails because of it."""
        spent = self._of_today()
        spent[name] = spent.get(name, 0.0) + cost
        if self._path is None or not self._people.are_several:
            return
        try:
            write_private(self._path, msgspec.json.encode(self._spent) + b"\n")
        except OSError as error:
            if not self._fails:
                _log.warning("what people spend is not kept: %s", error.strerror or error)
            self._fails = True
        else:
            self._fails = False

    def _of_today(self) -> dict[str, float]:
        today = self._today()
        if self._spent.day != today:
            self._spent = _SpentToday(today, {})
        return self._spent.dollars

    def _today(self) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(self._now()))


def dollars(amount: float) -> str:
    """Return an amount of US dollars for people, with two to six decimal places."""
    whole, _, part = f"{amount:.6f}".partition(".")
    return f"${whole}.{part.rstrip('0'):0<2}"


def _read(path: Path | None) -> _SpentToday | None:
    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=_SpentToday)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        _log.warning("%s cannot be read, so what people have spent today counts from now on: %s", path, error)
        return None
