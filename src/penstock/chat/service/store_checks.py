"""Checks of the store while it fails: the process notices its recovery without a request.

A disk that becomes full while nothing is written is noticed too. The log has one line for each change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from penstock.chat.store.protocol import ChatStore, StoreClosed, StoreFailed
from penstock.chat.store.state import StoreState

CHECK_SECONDS = 1.0
"""Seconds between two checks of a store that fails, and between two checks of the free space."""

_log = logging.getLogger("penstock.store")


async def check_again(store: ChatStore) -> None:
    """Check the store again and again while it fails or has no space, until it is closed."""
    store.state.watch(lambda: _log_change(store.state))
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if store.state.failure is None and store.has_space():
            continue
        try:
            with contextlib.suppress(StoreFailed):  # its state has the reason
                await store.check()
        except StoreClosed:
            return


def _log_change(state: StoreState) -> None:
    failure = state.failure
    if failure is None:
        _log.warning("the store works again, after %.0f s", state.seconds)
    else:
        _log.warning("nothing can be kept: %s%s", failure.what, f"; {failure.help}" if failure.help else "")
