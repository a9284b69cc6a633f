"""Submission of an entry that is decided by a chat's timeline, where other nodes may append to the chat as well."""

from __future__ import annotations

from collections.abc import Callable

from penstock.chat.errors import ChatError
from penstock.chat.history.entries import Entry
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.store.protocol import Submitted


async def submit(
    log: ChatLog, decide: Callable[[Timeline], Entry | None], *, key: str | None, is_shared: bool
) -> Submitted | None:
    """Submit the entry that `decide` returns, as `ChatLog.submit`.

    If other nodes append to the chat (`is_shared`), only a timeline with all of the store's entries decides that there
    is none: a client may come from a node whose entries this one was not notified of yet.

    Raises:
        ChatError: `decide` raised it.
        StoreFailed: the entry was most likely not kept.
    """
    try:
        done = await log.submit(decide, key=key)
        if done is not None or not is_shared:
            return done
    except ChatError:
        if not is_shared:
            raise
    await log.catch_up()
    return await log.submit(decide, key=key)
