"""What stands in the log of a chat: the events of its runs, and between them who asked for what.

    turn = prompted turn_began event* run_ended | prompted [turn_began event*] turn_ended

A chat does one turn after another, so an event belongs to the turn that began last. Prompts come when they come: one
may stand among the events of an earlier turn. `docs/event-log.md` tells how rows are numbered and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.store.protocol import Row

Asker = Literal["person", "answer", "heartbeat"]
"""Who asked for a turn: a person's message, a person's answer to a question that ended a turn, the heartbeat."""


class Prompted(msgspec.Struct, frozen=True, omit_defaults=True, tag="prompted"):
    """A turn was asked for; it waits until those before it are over. Turns of a chat are numbered from 1 on."""

    turn: int
    text: str
    by: Asker = "person"
    key: str | None = None
    """The caller's idempotency key: a prompt that comes again with it is the same turn."""


class TurnBegan(msgspec.Struct, frozen=True, omit_defaults=True, tag="turn_began"):
    """The agent is about to be started. A turn begins once, whatever happens: it is never run again."""

    turn: int
    agent: str
    cwd: str
    model: str | None = None
    session_id: str | None = None
    """The conversation that it goes on with."""
    mark: str | None = None
    """What the processes of its run bear in their environment as `PENSTOCK_RUN`."""


class TurnEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag="turn_ended"):
    """A turn ended without a `run_ended`: it could not be started, was taken back, or was cut off."""

    turn: int
    outcome: ev.Outcome
    reason: str | None = None


class ChatDeleted(msgspec.Struct, frozen=True, tag="chat_deleted"):
    """The chat is gone; nothing follows."""


Entry = Prompted | TurnBegan | TurnEnded | ChatDeleted


class Numbered(NamedTuple):
    """A row, read. `what` is None where this version of Penstock does not know its kind."""

    number: int
    at: int
    what: Entry | ev.Event | None


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Entry | ev.Event)


def encode(rows: Iterable[Entry | ev.Event]) -> list[bytes]:
    """Each as a row for the log."""
    return [_encoder.encode(row) for row in rows]


def decode(rows: Iterable[Row]) -> list[Numbered]:
    """Rows of the log, read. A kind that a newer version wrote is passed over, not refused."""
    found = []
    for number, at, data in rows:
        try:
            what = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            what = None
        found.append(Numbered(number, at, what))
    return found
