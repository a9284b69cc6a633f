"""When a heartbeat is due."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until_true

from penstock.chat.errors import Invalid
from penstock.chat.service.chats.heartbeats import MAX_MINUTES, Scheduler, checked, due, hours
from penstock.chat.store.rows import Heartbeat

BERLIN = ZoneInfo("Europe/Berlin")
EAST = timezone(timedelta(hours=5, minutes=30))


def at(text: str, zone: Any = EAST) -> int:
    """A local time as milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("since", "now", "quiet", "expected"),
    [
        ("2026-11-21 12:00", "2026-11-21 12:01", None, "2026-11-21 12:30"),
        ("2026-11-20 12:00", "2026-11-21 12:01", None, "2026-11-21 12:01"),
        ("2026-11-21 21:29", "2026-11-21 21:30", "22:00-07:00", "2026-11-21 21:59"),
        ("2026-11-21 21:30", "2026-11-21 21:30", "22:00-07:00", "2026-11-22 07:00"),
        ("2026-11-21 23:50", "2026-11-21 23:55", "22:00-07:00", "2026-11-22 07:00"),
        ("2026-11-22 03:00", "2026-11-22 03:00", "22:00-07:00", "2026-11-22 07:00"),
        ("2026-11-22 06:30", "2026-11-22 06:31", "22:00-07:00", "2026-11-22 07:00"),
        ("2026-11-21 12:45", "2026-11-21 12:50", "13:00-14:00", "2026-11-21 14:00"),
        ("2026-11-21 13:30", "2026-11-21 13:30", "13:00-14:00", "2026-11-21 14:00"),
        ("2026-11-20 12:00", "2026-11-21 23:00", "22:00-07:00", "2026-11-22 07:00"),
    ],
)
def test_due(since: str, now: str, quiet: str | None, expected: str) -> None:
    """Half an hour after the last turn, at the earliest now, and never in quiet hours."""
    beat = Heartbeat(30, "News?", quiet)
    assert due(beat, at(since), at(now), EAST) == at(expected)


def test_quiet_hours_end_where_the_clock_is_set() -> None:
    """In the night in which a clock is set, quiet hours end by what it shows in the morning."""
    beat = Heartbeat(30, "News?", "22:00-07:00")
    for night in ("2026-03-28 23:00", "2026-10-24 23:00"):
        found = datetime.fromtimestamp(due(beat, at(night, BERLIN), 0, BERLIN) / 1000, BERLIN)
        assert (found.hour, found.minute) == (7, 0)
    skipped = Heartbeat(30, "News?", "22:00-02:30")  # there is no 02:30 in that night
    assert due(skipped, at("2026-03-29 01:00", BERLIN), 0, BERLIN) >= at("2026-03-29 01:30", BERLIN)


@given(
    minutes=st.integers(1, MAX_MINUTES),
    start=st.integers(0, 1439),
    length=st.integers(1, 1438),
    since=st.integers(0, 2**41),
    wait=st.integers(0, 10**9),
)
def test_due_is_never_in_quiet_hours(minutes: int, start: int, length: int, since: int, wait: int) -> None:
    """Whatever the times are, it is due no sooner than it may, outside of quiet hours, and within a day of them."""
    end = (start + length) % 1440
    quiet = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    beat = Heartbeat(minutes, "x", quiet)
    found = due(beat, since, since + wait, EAST)
    soonest = max(since + minutes * 60_000, since + wait)
    assert soonest <= found < soonest + 24 * 3_600_000
    local = datetime.fromtimestamp(found / 1000, EAST)
    minute = local.hour * 60 + local.minute
    assert (minute - start) % 1440 >= length
    if found != soonest:
        assert minute == end


@pytest.mark.parametrize(
    "given",
    [
        {},
        5,
        {"minutes": 0, "prompt": "x"},
        {"minutes": MAX_MINUTES + 1, "prompt": "x"},
        {"minutes": "5", "prompt": "x"},
        {"minutes": 5, "prompt": "x", "quiet": "22-7"},
        {"minutes": 5, "prompt": "x", "quiet": "24:00-07:00"},
        {"minutes": 5, "prompt": "x", "quiet": "07:00-07:00"},
        {"minutes": 5, "prompt": "x", "sound": True},
    ],
)
def test_what_is_no_heartbeat_is_refused(given: Any) -> None:
    """Values that cannot be are refused, and fields that nobody knows."""
    with pytest.raises(Invalid):
        checked(given)


def test_what_is_one_is_taken() -> None:
    """Fields or the thing itself, or none at all."""
    beat = Heartbeat(30, "News?", "22:00-07:30")
    assert checked({"minutes": 30, "prompt": "News?", "quiet": "22:00-07:30"}) == checked(beat) == beat
    assert checked(None) is None
    assert [time.isoformat("minutes") for time in hours("22:00-07:30")] == ["22:00", "07:30"]


def test_no_sleep_is_left_behind() -> None:
    """Whatever changes, and at the end: a chat that is busy all day would else leave thousands of them."""
    asleep = 0

    async def sleep(_: float) -> None:
        nonlocal asleep
        asleep += 1
        try:
            await asyncio.Event().wait()
        finally:
            asleep -= 1

    async def use() -> None:
        changed = asyncio.Event()
        running = asyncio.create_task(Scheduler([], changed, lambda: 0, sleep).run())
        for _ in range(3):
            await until_true(lambda: asleep == 1)
            changed.set()
            await until_true(lambda: not changed.is_set())
        running.cancel()
        await until_true(lambda: asleep == 0)

    asyncio.run(use())
