"""Inbox of a loop: a folder of files by which other processes stop it, and by which the user writes to its agents."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = "inbox"

Kind = Literal["message", "stop", "stop_now", "confirm", "discard"]


class Letter(msgspec.Struct, frozen=True):
    """One file of the inbox."""

    id: str
    """Name of the file."""
    kind: Kind
    text: str = ""
    """Message, or the hash of the text of the prompt that is confirmed or discarded."""
    letters: tuple[str, ...] = ()
    """Ids of the messages that are confirmed or discarded."""
    is_of_person: bool = False
    """True if a person typed the message, at a terminal or on the page."""


class LoopInbox:
    """Inbox in the folder of a loop."""

    def __init__(self, folder: Path) -> None:
        self.path: Path = folder / FOLDER

    def put(self, kind: Kind, text: str = "", letters: Sequence[str] = (), *, is_of_person: bool = False) -> None:
        """Put a letter into the inbox, whole or not at all."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        id = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        letter = Letter(id=id, kind=kind, text=text, letters=tuple(letters), is_of_person=is_of_person)
        aside = self.path / f".{letter.id}"
        with open(aside, "xb", opener=_private) as file:
            file.write(msgspec.json.encode(letter))
            file.flush()
            os.fsync(file.fileno())
        os.rename(aside, self.path / letter.id)

    def letters(self) -> list[Letter]:
        """Return all letters, the oldest first. Files that are not letters are ignored."""
        found = []
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        for name in names:
            if not name.startswith("."):
                try:
                    letter = msgspec.json.decode((self.path / name).read_bytes(), type=Letter)
                    found.append(msgspec.structs.replace(letter, id=name))
                except (OSError, msgspec.DecodeError):
                    continue
        return found

    def remove(self, letter: Letter) -> None:
        """Remove a letter that the journal has."""
        (self.path / letter.id).unlink(missing_ok=True)

    def remove_stops(self) -> None:
        """Remove all requests to stop: those of before a start do not concern it."""
        for letter in self.letters():
            if letter.kind in ("stop", "stop_now"):
                self.remove(letter)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
