"""Scheduler of the chats' heartbeats: one loop submits prompts on a schedule, outside of quiet hours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

from penstock.chat.errors import Conflicting, Invalid, ShuttingDown
from penstock.chat.service.chats.chat import Chat
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import Heartbeat
from penstock.errors import UsageError

MAX_MINUTES = 7 * 24 * 60
"""Minutes between two prompts, at most: a week. Rarer prompts belong in a calendar."""

MAX_SLEEP_SECONDS = 60.0
"""Seconds after which the clock is read again: it may have been set, or the machine may have slept."""

MINUTE_MS = 60_000

_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class Scheduler:
    """Loop that asks for turns when they are due. `now` returns milliseconds since 1970, `sleep` has seconds.

    `may_begin` returns whether the person of a chat may still begin turns; None: everybody may.
    """

    def __init__(
        self,
        chats: Iterable[Chat],
        changed: asyncio.Event,
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
        may_begin: Callable[[str], bool] | None = None,
    ) -> None:
        self._changed = changed
        self._may_begin = may_begin
        self._chats = chats
        self._now = now
        self._sleep = sleep

    async def run(self) -> None:
        """Ask for the turns that are due, until cancelled."""
        while True:
            self._changed.clear()
            now = self._now()
            soonest = now + int(MAX_SLEEP_SECONDS * 1000)
            for chat in self._chats:
                at = _due(chat, now)
                if at is not None and at <= now:
                    await self._ask(chat)
                elif at is not None:
                    soonest = min(soonest, at)
            await self._wait((soonest - now) / 1000)

    async def _ask(self, chat: Chat) -> None:
        heartbeat = chat.row.heartbeat
        if heartbeat is None:
            return  # it was removed meanwhile
        if self._may_begin is not None and not self._may_begin(chat.row.person):
            return  # the person was removed, or only reads now; the next look asks again
        try:
            await chat.ask(heartbeat.prompt, "heartbeat", key=_key(chat, heartbeat), person=chat.row.person)
        except (Conflicting, ShuttingDown):
            pass  # it became busy meanwhile
        except (StoreFailed, UsageError):
            chat.rejected_at = self._now()  # try again an interval later

    async def _wait(self, seconds: float) -> None:
        """Wait, but no longer than until something changes."""
        sleep = asyncio.ensure_future(self._sleep(seconds))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([sleep, changed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            changed.cancel()


def _due(chat: Chat, now: int) -> int | None:
    """Return the time of a chat's next prompt; None if it has none, is busy, or a person has to answer."""
    heartbeat = chat.row.heartbeat
    if heartbeat is None or not heartbeat.on or not chat.is_home or chat.busy or chat.asks:
        return None  # a prompt now would hide a question
    return due(heartbeat, _since(chat), now)


def _since(chat: Chat) -> int:
    return max(chat.used_at, chat.row.heartbeat_since, chat.rejected_at)


def _key(chat: Chat, heartbeat: Heartbeat) -> str | None:
    """Return the key of a prompt that is due: on several machines, two processes of one node submit it once."""
    if chat.row.home is None:
        return None
    return f"heartbeat-{_since(chat) + heartbeat.minutes * MINUTE_MS}"


# --- one heartbeat, without a clock ---


def checked(given: Any) -> Heartbeat | None:
    """Return a heartbeat from what a caller gave: a heartbeat, its fields, or None for none.

    Raises:
        Invalid: the value is not a heartbeat.
    """
    if given is None:
        return None
    try:
        heartbeat = given if isinstance(given, Heartbeat) else msgspec.convert(given, Heartbeat)
    except msgspec.ValidationError as error:
        raise Invalid(f"this is not a heartbeat: {error}", expected='{"minutes", "prompt", "quiet"?, "on"?}') from error
    if not 1 <= heartbeat.minutes <= MAX_MINUTES:
        raise Invalid(f"a heartbeat cannot come every {heartbeat.minutes} minutes", expected=f"1 to {MAX_MINUTES:,}")
    if heartbeat.quiet is not None:
        start, end = hours(heartbeat.quiet)
        if start == end:
            raise Invalid("quiet hours cannot end when they begin", expected='two times, as "22:00-07:00"')
    return heartbeat


def hours(quiet: str) -> tuple[time, time]:
    """Return the beginning and the end of quiet hours.

    Raises:
        Invalid: they cannot be read.
    """
    found = _QUIET.fullmatch(quiet)
    if found is None:
        raise Invalid(f"quiet hours cannot be {quiet[:40]!r}", expected='two local times, as "22:00-07:00"')
    first, second, third, fourth = map(int, found.groups())
    return time(first, second), time(third, fourth)


def due(heartbeat: Heartbeat, since: int, now: int, zone: tzinfo | None = None) -> int:
    """Return the time of the next prompt, at the earliest now: milliseconds since 1970.

    `since` is the end of the turn before. `zone` is the time zone of the quiet hours; None for this machine's.
    """
    return _awake(heartbeat, max(since + heartbeat.minutes * MINUTE_MS, now), zone)


def _awake(heartbeat: Heartbeat, at: int, zone: tzinfo | None) -> int:
    """Return the time `at`, or the end of the quiet hours that it falls into."""
    if heartbeat.quiet is None:
        return at
    start, end = hours(heartbeat.quiet)
    local = datetime.fromtimestamp(at / 1000, zone)
    clock = local.time()
    if not (start <= clock < end if start < end else clock >= start or clock < end):
        return at
    day = local.date() + timedelta(days=clock >= end)
    ends = int(datetime.combine(day, end, zone).timestamp() * 1000)
    return max(at, ends)  # if a clock was set forward, the end may not exist
