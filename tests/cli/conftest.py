"""What the tests of the command line share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _signals_are_as_before() -> Iterator[None]:
    """A command that runs in this process leaves no handler behind: programs would start with signals ignored."""
    before = [signal.getsignal(number) for number in ENDING]
    yield
    after = [signal.getsignal(number) for number in ENDING]
    for number, handler in zip(ENDING, before, strict=True):
        signal.signal(number, handler)
    assert after == before
