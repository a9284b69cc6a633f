"""View of a chat in lists, from its worker."""

from __future__ import annotations

import msgspec

from penstock.adapter import Allow
from penstock.chat.service.chats.chat import Chat, State
from penstock.chat.service.nodes import ThisNode
from penstock.chat.store.rows import ChatRow, Heartbeat


class ChatView(msgspec.Struct, frozen=True):
    """Chat as an element of a list. Times are milliseconds since 1970."""

    id: str
    title: str | None
    agent: str
    model: str | None
    cwd: str
    allow: Allow
    created_at: int
    used_at: int
    state: State
    asks: bool
    """True if a question waits for a person."""
    turns: int
    heartbeat: Heartbeat | None
    home: str | None = None
    """Name of the node where its agent works; None if there is one machine."""
    has_session: bool = False
    """True if the agent's conversation is known, so that the next turn can continue it."""
    held: int = 0
    """Number of messages that wait until a person releases them: the turn before them was stopped."""
    is_away: bool = False
    """True if its home is not there: prompts wait until it is back."""


SHOWN = tuple(name for name in ChatView.__struct_fields__ if name in ChatRow.__struct_fields__)
"""Fields of the row that the view shows as they are: those that both structs name."""


def view_of(worker: Chat, this_node: ThisNode) -> ChatView:
    """Return the view of a chat as it is now."""
    chat, newest = worker.row, worker.log.live.newest
    return ChatView(
        **{name: getattr(chat, name) for name in SHOWN},
        used_at=worker.used_at,
        state=worker.state,
        asks=worker.asks,
        turns=newest.turn if newest is not None else 0,
        has_session=chat.session_id is not None,
        held=worker.held,
        is_away=this_node.is_away(chat),
    )
