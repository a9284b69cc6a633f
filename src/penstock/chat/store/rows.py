"""The rows of the store's tables: chats, turns, directories."""

from __future__ import annotations

import msgspec

from penstock.adapter import Allow


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt on a schedule, `minutes` after the end of the turn before."""

    minutes: int
    prompt: str
    quiet: str | None = None
    """`22:00-07:00`, local time: a prompt that is due in between waits for the end."""
    on: bool = True


class ChatRow(msgspec.Struct, frozen=True):
    """A chat, besides its entries. Times are milliseconds since 1970."""

    id: str
    agent: str
    cwd: str
    created_at: int
    model: str | None = None
    title: str | None = None
    allow: Allow = "default"
    session_id: str | None = None
    """The agent's name for the conversation, once the agent has said something in it."""
    heartbeat: Heartbeat | None = None
    heartbeat_since: int = 0
    """The time at which the heartbeat was set: the first prompt comes an interval later."""


class TurnRow(msgspec.Struct, frozen=True):
    """The summary of one turn: it spares a reader the turn's entries."""

    turn: int
    first: int
    """The number of the turn's first entry."""
    last: int
    """The number of the turn's last entry; 0 while more may come."""
    at: int
    """The time of the last entry that the view takes into account, in milliseconds since 1970."""
    view: bytes
    """The turn as it is shown, encoded by the caller."""


class Directory(msgspec.Struct, frozen=True):
    """A directory that a person trusts."""

    path: str
    trusted_at: int
    """Milliseconds since 1970."""
