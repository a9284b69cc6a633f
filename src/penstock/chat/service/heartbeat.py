"""The heartbeat of a chat: a prompt on a schedule, outside of quiet hours. Pure; the runtime has the clock."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

from penstock.chat.errors import Wrong

MAX_MINUTES = 7 * 24 * 60
"""A week: what comes more rarely is a calendar's."""

_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt that comes again and again, so many minutes after the end of the turn before."""

    minutes: int
    prompt: str
    quiet: str | None = None
    """`22:00-07:00`, local time: what falls into it waits for its end."""
    on: bool = True


def checked(given: Any) -> Heartbeat | None:
    """A heartbeat from what a caller gave: one, its fields, or None for none.

    Raises:
        Wrong: it cannot be one.
    """
    if given is None:
        return None
    try:
        beat = given if isinstance(given, Heartbeat) else msgspec.convert(given, Heartbeat)
    except msgspec.ValidationError as error:
        raise Wrong(f"this is no heartbeat: {error}", expected='{"minutes", "prompt", "quiet"?, "on"?}') from error
    if not 1 <= beat.minutes <= MAX_MINUTES:
        raise Wrong(f"a heartbeat cannot come every {beat.minutes} minutes", expected=f"1 to {MAX_MINUTES:,}")
    if beat.quiet is not None:
        start, end = hours(beat.quiet)
        if start == end:
            raise Wrong("quiet hours cannot end when they begin", expected='two times, as "22:00-07:00"')
    return beat


def hours(quiet: str) -> tuple[time, time]:
    """The beginning and the end of quiet hours.

    Raises:
        Wrong: they cannot be read.
    """
    found = _QUIET.fullmatch(quiet)
    if found is None:
        raise Wrong(f"quiet hours cannot be {quiet[:40]!r}", expected='two local times, as "22:00-07:00"')
    first, second, third, fourth = map(int, found.groups())
    return time(first, second), time(third, fourth)


def due(beat: Heartbeat, since: int, now: int, zone: tzinfo | None = None) -> int:
    """When it is next to come, at the earliest now: milliseconds since 1970, as `since`, the end of the turn before.

    `zone` is where the quiet hours are; None: this machine's.
    """
    return _awake(beat, max(since + beat.minutes * 60_000, now), zone)


def _awake(beat: Heartbeat, moment: int, zone: tzinfo | None) -> int:
    """The moment, or the end of the quiet hours that it falls into."""
    if beat.quiet is None:
        return moment
    start, end = hours(beat.quiet)
    local = datetime.fromtimestamp(moment / 1000, zone)
    at = local.time()
    if not (start <= at < end if start < end else at >= start or at < end):
        return moment
    day = local.date() + timedelta(days=at >= end)
    ends = int(datetime.combine(day, end, zone).timestamp() * 1000)
    return max(moment, ends)  # where a clock was set forward, the end may not exist
