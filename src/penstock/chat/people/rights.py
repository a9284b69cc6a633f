"""Rights: what a person of a role may do, and with which chats. It is decided here alone."""

from __future__ import annotations

from typing import Literal

from penstock.chat.errors import NoSuchChat, NoSuchRun, NotAllowed
from penstock.chat.people.persons import Person
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.search import Reader
from penstock.config.ownership import Ownership

Right = Literal["public", "signed in", "begin", "read", "drive", "manage", "operate"]
"""What a request needs.

- `public`: nothing
- `signed in`: to be a person whom the server knows
- `begin`: to be one who may begin chats
- `read`, `drive`, `manage`: to be one who may see the chat, write to its agent, or decide about the chat itself; the
  same for a document or a loop
- `operate`: to be an owner: trust, machines, the server itself
"""

OF_A_CHAT: frozenset[Right] = frozenset({"read", "drive", "manage"})
"""Rights that depend on a chat, a document or a loop."""


def is_owner(person: Person) -> bool:
    """Return whether a person may do everything."""
    return person.role == "owner"


def may_begin(person: Person | None) -> bool:
    """Return whether a person may begin turns: not one who only reads, nor one who was removed (None)."""
    return person is not None and person.role != "viewer"


def may_read(person: Person, it: ChatRow | Ownership) -> bool:
    """Return whether a person may see a chat, or a document or loop of this ownership."""
    return is_owner(person) or it.person == person.name or it.visibility == "team"


def reader_of(person: Person) -> Reader:
    """Return the person as statements of the store have it: they find in the chats of `may_read` alone."""
    return Reader(person.name, is_owner(person))


def check(person: Person, right: Right, it: ChatRow | Ownership | None = None) -> None:
    """Check that a person has a right, with a chat or the ownership of a document or loop if the right depends on it.

    Raises:
        NoSuchChat, NoSuchRun: the person may not see it, so not whether it exists either.
        NotAllowed: the person may see it, and no more; or the right is that of another role.
    """
    if right in ("public", "signed in"):
        return
    if right in OF_A_CHAT:
        assert it is not None
        if not may_read(person, it):
            raise NoSuchChat(it.id) if isinstance(it, ChatRow) else NoSuchRun
    if is_owner(person) or right == "read":
        return
    if right == "operate":
        raise NotAllowed(f"{person.name} is a {person.role} of this server", expected="an owner")
    if not may_begin(person):
        raise NotAllowed(f"{person.name} is a viewer of this server, who reads", expected="a member or an owner")
    if right == "manage" and it is not None and it.person != person.name:
        what = "chat" if isinstance(it, ChatRow) else "document or loop"
        raise NotAllowed(f"this {what} is {it.person}'s", expected="the person to whom it belongs, or an owner")
