"""Entries of a chat: the events of its runs, and between them the requests and their sources.

    turn = prompted turn_began event* [files_left] [changes_found] run_ended | prompted [turn_began event*] turn_ended

A chat runs one turn after another, so an event belongs to the turn that began last. Prompts, stops and answers are
submitted at any time: they may come between the events of a turn. What a turn changed can be `undone` once it is over.
`docs/store.md` describes how entries are numbered and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from penstock import events as ev
from penstock.repo.compared import Problem
from penstock.repo.file_undo import FileUndo
from penstock.repo.left_files import LeftFile

FIRST_TURN = 1
"""Number of the first turn of a chat."""

OWNER = "owner"
"""Name of the person who starts Penstock: the default of each `person`."""

Asker = Literal["person", "answer", "heartbeat"]
"""Source of a turn: a person's message, a person's answer to a question that ended a turn, or the heartbeat."""


class AttachedFile(msgspec.Struct, frozen=True):
    """Attachment of a message: a picture, or another file. The store has its content."""

    id: str
    name: str
    """Name for people; no part of a path."""
    media_type: str
    """Type that its bytes show, as `image/png`, `text/plain`, `application/octet-stream`."""
    size: int
    """Bytes of its content."""


class Prompted(msgspec.Struct, frozen=True, omit_defaults=True, tag="prompted"):
    """A turn was submitted; it waits until those before it are over. Turns of a chat are numbered from 1 on."""

    turn: int
    text: str
    by: Asker = "person"
    key: str | None = None
    """Idempotency key of the caller: a repeated prompt with this key is the same turn."""
    person: str = OWNER
    """Person who submitted it."""
    attachments: list[AttachedFile] = []
    now: bool = False
    """True if it begins before the turns that wait."""
    stops: int | None = None
    """Number of the running turn that it stops; those that wait are not held back."""
    steers: int | None = None
    """Number of the running turn into which it is given. If that cannot take it, it waits like any other."""


class StopRequested(msgspec.Struct, frozen=True, omit_defaults=True, tag="stop_requested"):
    """A person stops a turn, or takes it back from the queue. The end of the turn is an entry of its own.

    If the turn was running, the messages that wait behind it are held back until they are `released`.
    """

    turn: int | None = None
    """Number of the turn; None for the running turn and all waiting ones."""
    queued: bool = False
    """True if only waiting turns are taken back, and the running turn continues."""
    person: str = OWNER


class Released(msgspec.Struct, frozen=True, omit_defaults=True, tag="released"):
    """A person releases the messages held back by a stop."""

    turn: int
    """Number of the last released turn; later ones are not affected."""
    person: str = OWNER


class SentNow(msgspec.Struct, frozen=True, omit_defaults=True, tag="sent_now"):
    """A person lets a waiting turn begin before the others that wait."""

    turn: int
    stops: int | None = None
    """Number of the running turn that it stops; those that wait are not held back."""
    person: str = OWNER


class SteerRequested(msgspec.Struct, frozen=True, omit_defaults=True, tag="steer_requested"):
    """A person gives a waiting turn to the agent of the running one: its text becomes a message within that turn.

    The `notice` with the number of the turn in `steer` says whether the agent took it. If none does before the end of
    the running turn, it waits as before.
    """

    turn: int
    into: int
    """Number of the running turn."""
    person: str = OWNER


class Edited(msgspec.Struct, frozen=True, omit_defaults=True, tag="edited"):
    """A person changes the text of a waiting turn."""

    turn: int
    text: str
    person: str = OWNER


class Moved(msgspec.Struct, frozen=True, omit_defaults=True, tag="moved"):
    """A person changes the order of the waiting turns. They keep their numbers."""

    turns: list[int]
    """Numbers of all of them, the next one first."""
    person: str = OWNER


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, tag="answered"):
    """A person answers a question that the run waits for. The agent's own `question_answered` may follow."""

    turn: int
    id: str
    """Id of the question."""
    answer: str
    """Id of an option, or words."""
    person: str = OWNER
    always: bool = False
    """True if the command that is asked for is allowed in the whole chat."""


class TurnBegan(msgspec.Struct, frozen=True, omit_defaults=True, tag="turn_began"):
    """The agent is about to be started. A turn begins once, whatever happens: it is never run again."""

    turn: int
    agent: str
    cwd: str
    model: str | None = None
    session_id: str | None = None
    """Session id of the conversation that it resumes."""
    mark: str | None = None
    """Value of `PENSTOCK_RUN` in the environment of all processes of the run."""
    steerable: bool = False
    """True if its agent takes messages while it works."""


class FilesLeft(msgspec.Struct, frozen=True, omit_defaults=True, tag="files_left"):
    """State of the files that a turn reported to have changed, at its end: only from there can they be taken back."""

    turn: int
    files: dict[str, LeftFile]
    """States by absolute paths."""


class ChangesFound(msgspec.Struct, frozen=True, omit_defaults=True, tag="changes_found"):
    """Changes that git found in the directory between the beginning and the end of a turn, whoever made them.

    Files of which the agent reported its changes with their lines are not among them.
    """

    turn: int
    changes: list[ev.Change]
    """One for each file, with its absolute path."""
    more: int = 0
    """Number of files that are left out."""
    others: int = 0
    """Number of files, also of those left out, that the agent did not report at all."""
    problem: Problem | None = None
    """Reason why nothing was compared."""


class Undone(msgspec.Struct, frozen=True, omit_defaults=True, tag="undone"):
    """A person took the changes of a turn back, or made them again."""

    turn: int
    files: list[FileUndo]
    """Files of the turn, and what was done to each."""
    redo: bool = False
    """True if they were made again."""
    key: str | None = None
    """Idempotency key of the request."""
    person: str = OWNER


class TurnEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag="turn_ended"):
    """A turn ended without a `run_ended`: it could not be started, was taken back, or was cut off."""

    turn: int
    outcome: ev.Outcome
    reason: str | None = None
    until: int | None = None
    """Time at which the run last added something, in milliseconds since 1970, if it was found lost later."""


Entry = (
    Prompted
    | StopRequested
    | Released
    | SentNow
    | SteerRequested
    | Edited
    | Moved
    | Answered
    | TurnBegan
    | FilesLeft
    | ChangesFound
    | TurnEnded
    | Undone
)
"""Entry that is not an event of a run."""


class Numbered(NamedTuple):
    """Decoded entry with its number. `what` is None if this version of Penstock does not know its kind."""

    number: int
    at: int
    what: Entry | ev.Event | None


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Entry | ev.Event)


def encode(entries: Iterable[Entry | ev.Event]) -> list[bytes]:
    """Encode each entry for the store."""
    return [_encoder.encode(entry) for entry in entries]


def decode(stored: Iterable[tuple[int, int, bytes]]) -> list[Numbered]:
    """Decode numbers, times and entries of the store. The `what` of a kind that a newer version wrote is None.

    Such a kind is not an error.
    """
    return [Numbered(number, at, decode_one(data)) for number, at, data in stored]


def decode_one(data: bytes) -> Entry | ev.Event | None:
    """Decode one entry; None if its kind is unknown."""
    try:
        found: Entry | ev.Event = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found
