"""Persons who may use a server: their names, roles and tokens, in a file of the data directory.

`penstock people` changes the file, and a server that runs reads it again. Whoever starts the server is the owner and is
in no file: without a file there is one person, who may do everything.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from penstock.chat.history.entries import OWNER
from penstock.config.data import write_private
from penstock.config.ownership import NAME
from penstock.errors import UsageError, shown

PEOPLE, PEOPLE_LOCK = "people.json", "people.lock"
"""Files of the data directory: the persons, and the lock of a command that changes them."""

Role = Literal["owner", "member", "viewer"]
"""What a person may do: everything; own chats and those of the team; read those of the team."""

MAX_PEOPLE = 1000
MAX_FILE_BYTES = 1024 * 1024
"""Bytes of the largest file: more than `MAX_PEOPLE` persons need."""

TOKEN_BYTES = 32

_log = logging.getLogger("penstock.gateway")


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Person who may use the server."""

    name: str
    role: Role
    token: str = ""
    """SHA-256 of their token for programs; "" for none."""
    added_at: int = 0
    """Time in milliseconds since 1970."""
    max_runs: int | None = None
    """Maximum number of their turns that run or wait at once; None for no limit of their own."""
    max_cost: float | None = None
    """Most that their turns may cost a day, in US dollars; None for no limit."""


OWNING = Person(OWNER, "owner")
"""The person who starts the server."""


class _KeptPeople(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file."""

    people: list[Person]


class People:
    """Persons of one server: the owner, and those in a file, which is read again when it has changed."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the file; None: the owner is the only person.

        Raises:
            UsageError: the file cannot be used.
        """
        self._path = path
        self._reading = threading.Lock()  # permits are checked in other threads too
        self._seen: tuple[int, ...] | None = None
        self._are_several = False
        self._is_known = False
        self._by_name: dict[str, Person] = {}
        self._by_token: dict[str, Person] = {}
        if path is not None:
            self._seen = _state(path)
        self._set([] if path is None else read(path))

    def all(self) -> list[Person]:
        """Return all persons, the owner first."""
        self._refresh()
        return [*self._by_name.values()]

    def listed(self) -> frozenset[str] | None:
        """Return the names of all persons; None if there is no file, or none that can be read."""
        self._refresh()
        return frozenset(self._by_name) if self._is_known else None

    @property
    def are_several(self) -> bool:
        """Return whether anybody but the owner may use the server, or ever could while it ran."""
        self._refresh()
        return self._are_several

    def find(self, name: str) -> Person | None:
        """Return the person of this name."""
        self._refresh()
        return self._by_name.get(name)

    def with_token(self, token: str) -> Person | None:
        """Return the person who has this token."""
        self._refresh()
        return self._by_token.get(digest_of(token))  # the duration of a look-up among hashes reveals nothing

    def _refresh(self) -> None:
        """Read the file again if it has changed. If it cannot be read, only the owner is known."""
        if self._path is None:
            return
        with self._reading:
            seen = _state(self._path)
            if seen == self._seen:
                return
            try:
                self._set(read(self._path))
            except UsageError as error:
                self._set([], is_known=False)
                _log.warning("only the owner can use this server: %s", error)
            self._seen = seen

    def _set(self, people: list[Person], *, is_known: bool = True) -> None:
        self._is_known = is_known and self._path is not None and self._path.exists()
        self._by_name = {person.name: person for person in (OWNING, *people)}
        self._by_token = {person.token: person for person in people if person.token}
        self._are_several = self._are_several or bool(people)


def read(path: Path) -> list[Person]:
    """Return the persons in a file; none if it does not exist.

    Raises:
        UsageError: it cannot be read, others can write it, or its content is not valid.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o022:
        raise UsageError(f"others can write into {path}", expected="a file of mode 0600", help=f"chmod 600 {path}")
    try:
        found = msgspec.json.decode(data, type=_KeptPeople).people
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(f"{path} has no people: {error}", help="restore it, or delete it and add them anew") from error
    names = [person.name for person in found]
    if len({*names, OWNER}) != len(names) + 1 or not all(map(NAME.fullmatch, names)):
        raise UsageError(f"{path} has a name twice, or one that is not valid", help="correct it")
    return found


def check_name(name: str) -> str:
    """Return the name of a person who is not the owner, if it is valid.

    Raises:
        UsageError: it is not valid, or the owner's.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} cannot be a person's name",
            expected="at most 64 letters, digits and . _ @ + -, the first one a letter or a digit",
        )
    if name == OWNER:
        raise UsageError(f"{OWNER} is the person who starts Penstock", expected="another name")
    return name


def add(
    folder: Path, name: str, role: Role, now: int, *, max_runs: int | None = None, max_cost: float | None = None
) -> str:
    """Add a person, and return their token. It is kept as a hash, so it can be shown this once.

    Raises:
        UsageError: there is one of this name, or the file cannot be changed.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with _changing(folder) as people:
        if name in people:
            raise UsageError(f"there is a person named {name}", help=f"penstock people token {name} makes a new token")
        if len(people) >= MAX_PEOPLE:
            raise UsageError(f"there are {MAX_PEOPLE} people, and no more can be added")
        people[check_name(name)] = Person(name, role, digest_of(token), now, max_runs, max_cost)
    return token


def remove(folder: Path, name: str) -> None:
    """Remove a person: their token and the browsers that they signed in with end at once. Their chats stay.

    Raises:
        UsageError: there is none of this name, or the file cannot be changed.
    """
    with _changing(folder) as people:
        del people[_require(people, name)]


def change(folder: Path, name: str, changed: Callable[[Person], Person]) -> Person:
    """Change a person, and return the new state.

    Raises:
        UsageError: there is none of this name, or the file cannot be changed.
    """
    with _changing(folder) as people:
        made = people[name] = changed(people[_require(people, name)])
    return made


def renew(folder: Path, name: str) -> str:
    """Give a person a new token, and return it. The old one ends at once.

    Raises:
        UsageError: there is none of this name, or the file cannot be changed.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    change(folder, name, lambda person: replace(person, token=digest_of(token)))
    return token


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token, or of the code of a share, by which it is kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _require(people: dict[str, Person], name: str) -> str:
    if name not in people:
        raise UsageError(f"there is no person named {shown(name)}", help="penstock people lists them")
    return name


@contextmanager
def _changing(folder: Path) -> Iterator[dict[str, Person]]:
    """Yield the persons by name, and write them if no exception is raised. Other commands wait meanwhile."""
    path = folder / PEOPLE
    fd = os.open(folder / PEOPLE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        people = {person.name: person for person in read(path)}
        yield people
        data = msgspec.json.encode(_KeptPeople([*people.values()]))
        write_private(path, msgspec.json.format(data, indent=2) + b"\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        os.close(fd)


def _state(path: Path) -> tuple[int, ...] | None:
    """Return values that differ once the file was replaced; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_ctime_ns
