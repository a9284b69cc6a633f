"""Objects that all chats of a service share."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.chat.service.counters import Counters
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.nodes import ThisNode
from penstock.chat.service.slots import Slots
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatRow
from penstock.run.history import History
from penstock.run.run import Run


class Shared(msgspec.Struct):
    """Objects that the chats of a service share."""

    store: ChatStore
    limits: ServiceLimits
    slots: Slots
    """Slots: one for each agent that may be at work."""
    counters: Counters
    run: Callable[[ChatRow, str], Run]
    """Function that makes a run of a prompt; it raises what `Agent.run` raises, or an error for the caller."""
    changed: Callable[[], None]
    """Callback when a turn began or ended."""
    now: Callable[[], int]
    """Clock: milliseconds since 1970."""
    history: History | None
    """History that lists the runs; None if none is kept."""
    this_node: ThisNode
