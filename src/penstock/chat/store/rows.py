"""Rows of the store's tables: chats, turns, directories. The columns of both databases follow from these structs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from penstock.adapter import Allow
from penstock.chat.history.entries import OWNER


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prompt on a schedule, `minutes` after the end of the turn before."""

    minutes: int
    prompt: str
    quiet: str | None = None
    """Quiet hours in local time, as `22:00-07:00`: a prompt that is due in between waits for their end."""
    on: bool = True


class ChatRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Command that the agent of a chat may run without a question."""

    id: str
    """Digest of everything that the permission covers: the words of the command, and where it runs."""
    command: str
    """The command for people; it may be shortened."""
    person: str
    """Person who allowed it."""


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place in another chat at which a chat begins: before a message of it."""

    chat: str
    """Id of the other chat. It may be gone, and not everybody who sees this chat sees the other one."""
    turn: int
    """Turn of the message."""
    conversation: str | None = None
    """Attachment of this chat that has the messages before; None if there were none."""


class ContinuedConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conversation that began in a terminal, as the history of runs had it when the chat began."""

    title: str
    """Beginning of its newest prompt."""
    at: int
    """Time of its newest run, in milliseconds since 1970."""


class ChatTree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tree in which the agent of a chat works: a directory and a branch of its own."""

    name: str
    """Name among the trees of the machine."""
    branch: str
    """Branch that gets its work."""
    directory: str
    """Directory from which it was made, whose root and trust hold for it."""
    onto: str
    """Branch that was checked out there, and that gets the work when it lands."""


Visibility = Literal["private", "team"]
"""Who sees a chat besides its person and the owners: nobody, or everybody."""


class ChatFields(msgspec.Struct, frozen=True):
    """Fields of a chat that clients see as they are kept. Times are milliseconds since 1970."""

    id: str
    agent: str
    cwd: str
    created_at: int
    model: str | None = None
    title: str | None = None
    allow: Allow = "default"
    heartbeat: Heartbeat | None = None
    home: str | None = None
    """Name of the node on which the chat's agents run; None if there is one machine."""
    person: str = OWNER
    """Person to whom the chat belongs."""
    visibility: Visibility = "private"
    pinned: bool = False
    """True if lists show it before the others."""
    archived: bool = False
    """True if lists leave it out while it is idle and asks nothing. A message to it ends that."""
    budget: float | None = None
    """US dollars that its turns may cost; None for no limit."""
    spent: float = 0.0
    """US dollars that its turns have cost, as far as their agents report it."""
    rules: list[ChatRule] = []
    """Commands that its agent may run without a question, wherever it asks."""
    effort: str | None = None
    """Level of effort of its model, by the agent's own word; None for the agent's own choice."""
    origin: Origin | None = None
    """Message of another chat before which this one begins; None for a chat that begins with its own first message."""
    continues: ContinuedConversation | None = None
    """Conversation that the chat continues; None for one that has begun here."""
    tree: ChatTree | None = None
    """Tree in which its agent works; None if that works in the directory itself."""

    @property
    def source(self) -> str:
        """Directory whose root and trust count for the chat."""
        return self.cwd if self.tree is None else self.tree.directory


UNMARKED = ""
"""Name in `ChatRow.reads` of all who have no mark of their own in the chat."""

MAX_READS = 1_002
"""Number of read marks of one chat: those of all people of a server, of its owner, and of `UNMARKED`."""


class ChatRow(ChatFields, frozen=True):
    """Chat without its entries. Clients do not see the fields that are named here."""

    session_id: str | None = None
    """Session id of the agent's conversation, once the agent has produced content in it."""
    heartbeat_since: int = 0
    """Time at which the heartbeat was set: the first prompt comes an interval later."""
    foreign_id: str | None = None
    """Id of the chat at a program of another protocol, after the protocol's name; None for a chat that is not one's."""
    depth: int = 0
    """Number of agents above the chat's: each asked for the next one through a server."""
    reads: dict[str, int] = {}
    """Newest turn that each person has read, by name. A chat from before there were marks has that of `UNMARKED`."""
    commands_at: int = 0
    """Number of the entry with the newest list of the commands that the agent offers; 0 if there was none."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a chat that clients can change."""

    title: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    allow: Allow | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    heartbeat: Heartbeat | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    budget: float | UnsetType | None = UNSET
    effort: str | UnsetType | None = UNSET

    def fields(self) -> dict[str, Any]:
        """Return the values that are set, by their names."""
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


class ChatChanges(ChatSettings, frozen=True, kw_only=True):
    """Fields of a chat that change. The others stay as they are in the store, where another writer may change them."""

    rules: list[ChatRule] | UnsetType = UNSET
    session_id: str | UnsetType | None = UNSET
    heartbeat_since: int | UnsetType = UNSET
    spent: float | UnsetType = UNSET
    commands_at: int | UnsetType = UNSET

    def applied(self, row: ChatRow) -> ChatRow:
        """Return the row with these changes."""
        return replace(row, **self.fields())


LASTING_FIELDS: frozenset[str] = frozenset(ChatRow.__struct_fields__) - {*ChatChanges.__struct_fields__, "reads"}
"""Names of the fields of a chat that never change: by these, a store recognizes a chat that it has just made."""


class TurnRow(msgspec.Struct, frozen=True):
    """Summary of one turn: with it, a reader need not read the turn's entries."""

    turn: int
    first: int
    """Number of the turn's first entry."""
    last: int
    """Number of the turn's last entry; 0 while more may come."""
    at: int
    """Time of the last entry that the view includes, in milliseconds since 1970."""
    view: bytes
    """View of the turn for clients, encoded by the caller."""


class Directory(msgspec.Struct, frozen=True):
    """Directory that a person trusts."""

    path: str
    trusted_at: int
    """Time of the decision, in milliseconds since 1970."""
    person: str = OWNER


class Share(msgspec.Struct, frozen=True):
    """Link that shows one chat to whoever has it. Times are milliseconds since 1970."""

    id: str
    """Id in requests. It is not derived from the code of the link."""
    chat: str
    secret: str
    """SHA-256 of the code of the link."""
    created_at: int
    expires_at: int
    until: int | None = None
    """Last turn that it shows; None for the whole chat, also what is yet to come."""
    details: bool = False
    """True if it also shows what the agent did: its thoughts and calls of tools."""
    person: str = OWNER
    """Person who made it."""


SENDING = 2**31
"""Number in the place of a turn's while an attachment is being sent: larger than that of any turn."""


class Attachment(msgspec.Struct, frozen=True):
    """Picture or file that goes with a message of a chat. Its content is kept beside it."""

    id: str
    chat: str
    name: str
    """Name for people, as `clean_name` returns it: no part of a path."""
    media_type: str
    """Type that its bytes show; `application/octet-stream` if they show none."""
    size: int
    """Bytes of its content."""
    created_at: int
    person: str = OWNER
    """Person who uploaded it."""
    turn: int = 0
    """Newest turn that was submitted with it; 0 until it is sent."""
