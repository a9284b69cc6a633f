"""View of a chat in lists, from its worker."""

from __future__ import annotations

import msgspec

from penstock.chat.people.persons import OWNING, Person
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.nodes import ThisNode
from penstock.chat.service.turns.decisions import State
from penstock.chat.store.rows import UNMARKED, ChatFields


class ChatView(ChatFields, frozen=True, kw_only=True):
    """Chat as an element of a list: the fields of its row that clients see, and its state."""

    used_at: int
    state: State
    asks: bool
    """True if a question waits for a person."""
    turns: int
    has_session: bool = False
    """True if the agent's conversation is known, so that the next turn can continue it."""
    held: int = 0
    """Number of messages that wait until a person releases them: the turn before them was stopped."""
    is_away: bool = False
    """True if its home is down: prompts wait until it is back."""
    read: int = 0
    """Newest turn that the person who asks has read."""


class ListChanged(msgspec.Struct, frozen=True, tag="list"):
    """The list of chats may have changed in any way: a client asks for it."""


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """A chat is new in the list, or is to be shown in another way."""

    chat: ChatView


class Unlisted(msgspec.Struct, frozen=True, tag="unlisted"):
    """A chat was deleted, or the client may no longer see it."""

    id: str


ListFrame = ListChanged | Listed | Unlisted
"""Frame of what changes in the list of chats."""


def view_of(worker: Chat, this_node: ThisNode, person: Person = OWNING) -> ChatView:
    """Return the view of a chat as it is now, for a person who sees it."""
    chat, newest = worker.row, worker.log.live.newest
    return ChatView(
        **{name: getattr(chat, name) for name in ChatFields.__struct_fields__},
        used_at=worker.used_at,
        state=worker.state,
        asks=worker.asks,
        turns=newest.turn if newest is not None else 0,
        has_session=chat.session_id is not None,
        held=worker.held,
        is_away=this_node.is_away(chat),
        read=_read_by(worker, person),
    )


def _read_by(worker: Chat, person: Person) -> int:
    """Return the newest turn that a person has read. What went on before somebody was added counts as read."""
    marked, newest = worker.row.reads.get(person.name), worker.log.live.newest
    if marked is not None:
        return marked
    if newest is not None and worker.used_at <= person.added_at:
        return newest.turn
    return worker.row.reads.get(UNMARKED, 0)
