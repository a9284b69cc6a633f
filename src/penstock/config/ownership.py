"""Person to whom a document or a loop belongs, and who else sees it: a file in its folder of the data directory.

Without the file, or if it is damaged, it belongs to the owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from penstock.config.data import write_private
from penstock.config.regular_files import read_start
from penstock.errors import UsageError, shown

PERSON_VARIABLE = "PENSTOCK_PERSON"
"""Environment variable with the person to whom new documents and loops belong; without it, to the owner."""

FILE = "ownership.json"

MAX_BYTES = 4096
"""Bytes of the file that are read: a larger one is something else."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""Pattern of the name of a person: also the user names and addresses that proxies pass on."""

RunVisibility = Literal["private", "team"]


class Ownership(msgspec.Struct, frozen=True, omit_defaults=True):
    """Person to whom a document or loop belongs, and who sees it."""

    person: str = "owner"
    visibility: RunVisibility = "private"


def ownership_in(folder: Path) -> Ownership:
    """Return to whom the document or loop of a folder belongs."""
    try:
        found = msgspec.json.decode(read_start(folder / FILE, MAX_BYTES), type=Ownership)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return Ownership()
    return found if NAME.fullmatch(found.person) else Ownership()


def write_ownership(folder: Path, ownership: Ownership) -> None:
    """Write to whom the document or loop of a folder belongs.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_private(folder / FILE, msgspec.json.encode(ownership))
    except OSError as error:
        raise UsageError(f"{folder / FILE} cannot be written: {error.strerror or error}") from error


def person_named(env: Mapping[str, str] | None = None) -> str | None:
    """Return the person to whom a new document or loop belongs; None if none is named.

    Raises:
        UsageError: the name is not valid.
    """
    name = (os.environ if env is None else env).get(PERSON_VARIABLE)
    if name and not NAME.fullmatch(name):
        raise UsageError(f"{PERSON_VARIABLE} is {shown(name)}", expected="the name of a person in: penstock people")
    return name or None


def own_new(folder: Path, person: str | None) -> None:
    """Note to whom a new document or loop belongs, if a person is named."""
    if person is not None:
        write_ownership(folder, Ownership(person))
