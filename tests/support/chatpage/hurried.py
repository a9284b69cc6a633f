"""`penstock`, with a clock for heartbeats that is sixty times as fast: a minute is a second."""

from __future__ import annotations

import asyncio
import functools
import sys

from penstock.chat.service import service
from penstock.chat.store.protocol import clock
from penstock.cli.main import main

FASTER = 60


def now() -> int:
    """Milliseconds since some day; `FASTER` of them pass in each."""
    return clock() * FASTER


async def sleep(seconds: float) -> None:
    """Sleep so long by that clock."""
    await asyncio.sleep(seconds / FASTER)


if __name__ == "__main__":
    opened = service.Service.open
    service.Service.open = functools.partial(opened, now=now, sleep=sleep)  # type: ignore[method-assign]
    sys.exit(main())
