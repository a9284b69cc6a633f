"""Bodies of requests, which are validated before anything else, and bodies of responses."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import ClientDisconnect, Request

from penstock import events as ev
from penstock.adapter import Allow
from penstock.chat.errors import Invalid
from penstock.chat.history.entries import Asker, AttachedFile
from penstock.chat.history.frames import TurnState, TurnView
from penstock.chat.history.items import AnyItem
from penstock.chat.people.persons import Role
from penstock.chat.service.agents.workspaces import Workspace
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.share_view import DAYS
from penstock.chat.store.rows import ChatSettings, Visibility
from penstock.chat.web.errors import BodyTooLarge, RequestTimeout, UnsupportedMediaType
from penstock.config.ownership import RunVisibility

MAX_BODY_BYTES = 6 * ServiceLimits().max_prompt_bytes + 64 * 1024
"""Bytes of the largest body: JSON may write each byte of the largest prompt as six characters, and has other fields.
The limits of texts count their UTF-8."""

MAX_FIRST_BYTES = MAX_BODY_BYTES + 32 * 1024 * 1024
"""Bytes of a body that begins a chat: its message, with as many files in base64 as editors send in one line."""

MAX_LOGIN_BYTES = 64 * 1024
"""Maximum bytes of a body without authentication, many times the largest token."""

MAX_PAGE_CHATS = 1_000
"""Maximum number of chats of one page: 400 KB, or 40 KB as they are sent."""

BODY_SECONDS = 30.0
"""Timeout in seconds for the whole body."""

UPLOAD_SECONDS = 300.0
"""Timeout in seconds for a file: the largest one over a slow mobile network."""

OCTETS = "application/octet-stream"
"""Media type of the body of an upload. The type of the file is found in its bytes."""

Given = TypeVar("Given", bound="Body")


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request. An unknown field is an error: it would not have the effect that the client expects."""

    max_bytes: ClassVar[int] = MAX_BODY_BYTES
    """Size of the largest one, as JSON."""


class Login(Body, frozen=True):
    """Login with either a code or the token."""

    max_bytes = MAX_LOGIN_BYTES
    code: str | None = None
    """Code of a one-time link."""
    token: str | None = None


class NoBody(Body, frozen=True):
    """Body without fields."""


class NewLink(Body, frozen=True):
    """One-time link to make."""

    person: str | None = None
    """Person whom it signs in; by default the one who asks for it."""


class Logout(Body, frozen=True):
    """Logout of this browser, or of all."""

    everywhere: bool = False


class NewPush(Body, frozen=True):
    """Subscription of a browser at its push service, as `PushSubscription` of the browser has it."""

    endpoint: str
    p256dh: str
    auth: str
    on: tuple[Literal["asks", "ended"], ...] = ("asks", "ended")


class Trust(Body, frozen=True):
    """Directory to trust."""

    path: str
    home: str | None = None
    """Node whose directory it is; by default this one."""


class FirstFile(Body, frozen=True):
    """File of the message with which a chat begins."""

    name: str
    content: bytes
    """Its bytes, in base64."""


class NewChat(Body, frozen=True):
    """Chat to create."""

    max_bytes = MAX_FIRST_BYTES

    agent: str | None = None
    """Name of the agent; by default that of `penstock serve --agent`."""
    cwd: str | None = None
    """Directory at or below a root; by default the first root."""
    model: str | None = None
    title: str | None = None
    allow: Allow = "default"
    home: str | None = None
    """Node where the agent works; by default this one, or the one with the most free slots."""
    id: str | None = None
    """Id of the chat, which no other chat has had; by default a new one."""
    depth: int = 0
    """Number of agents above that of the chat, if an agent asks for it."""
    visibility: Visibility = "private"
    """Who sees it besides the person who begins it and the owners."""
    effort: str | None = None
    """Level of effort of the model, by the agent's own word."""
    session: str | None = None
    """Id of a conversation of a terminal that it continues; only an owner can."""
    tree: bool = False
    """True if its agent works in a tree of its own: a directory beside the repository, on a new branch."""
    text: str | None = None
    """Message with which it begins: the chat and its first turn are kept together."""
    files: list[FirstFile] = []
    """Pictures and files of that message. Its text may be empty then."""


class Changes(ChatSettings, Body, frozen=True, kw_only=True):
    """Changes of a chat; null removes a value."""


class NewShare(Body, frozen=True):
    """Share of a chat to make."""

    until: int | None = None
    """Last turn that it shows; by default the whole chat, also what is yet to come."""
    details: bool = False
    """Whether it also shows what the agent did: its thoughts, and calls of tools with their output."""
    days: int = DAYS
    """Days after which it expires."""


class Prompt(Body, frozen=True):
    """Message to the agent."""

    text: str
    """It may be empty if there are attachments."""
    attachments: list[str] = []
    """Ids of files that were uploaded for it."""
    now: bool = False
    """True if it begins before the messages that wait, and the running turn is stopped for it."""
    stops: int | None = None
    """Number of the turn that runs, with `now`: if another one runs, nothing is stopped and nothing is sent."""
    steers: int | None = None
    """Number of the turn that runs, whose agent gets it while it works: if the agent cannot take it, it waits."""


class NewBranch(Body, frozen=True):
    """New chat to make, which begins before a message."""

    agent: str | None = None
    """Name of another agent for it; by default that of the chat."""
    send: bool = False
    """True if the message is sent to it."""
    tree: bool = False
    """True if its agent works in a tree of its own, which begins with the last commit of the directory."""


class EditedMessage(Body, frozen=True):
    """New text of a message that waits."""

    text: str
    edits: int
    """Number of its changes that the client has seen: if there are more, it stays as it is."""


class Order(Body, frozen=True):
    """New order of the messages that wait."""

    seen: list[int]
    """Their turns in the order that the client has seen: if they changed meanwhile, they stay as they are."""
    turns: list[int]
    """The same turns, the next one first."""


MAX_READ_CHATS = 500
"""Number of chats of one request to mark them as read."""

ReadTurn = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class ReadChats(Body, frozen=True):
    """Chats that the person has read."""

    chats: Annotated[dict[str, ReadTurn], msgspec.Meta(max_length=MAX_READ_CHATS)]
    """Newest turn that was read of each chat, by its id."""


class SendNow(Body, frozen=True):
    """A message that waits is to begin before the others."""

    stops: int | None = None
    """Number of the turn that runs, which is stopped: if another one runs, nothing happens."""


class SteerTurn(Body, frozen=True):
    """A message that waits is to be given to the agent of the running turn."""

    into: int
    """Number of the turn that runs: if another one runs, nothing happens."""


class UndoTurn(Body, frozen=True):
    """The changes of a turn are to be taken back."""

    redo: bool = False
    """True to make them again after they were taken back."""


class Stop(Body, frozen=True):
    """Turn to stop; by default the running one and all that wait."""

    turn: int | None = None
    queued: bool = False
    """True to take back only what still waits: a turn that runs goes on."""


class StopRun(Body, frozen=True):
    """Stop of a loop: after its step, or at once."""

    now: bool = False


class RunChanges(Body, frozen=True):
    """Changes of a document or loop; what is left out stays."""

    visibility: RunVisibility | None = None
    """Who sees it besides its person and the owners."""
    person: str | None = None
    """Person to whom it is to belong; an owner decides."""


class LandRun(Body, frozen=True):
    """Landing of a loop: with all its commits, or as one."""

    squash: bool = False


class LandChat(Body, frozen=True):
    """Landing of the work in the tree of a chat."""

    seen: str
    """Id of its files, as the look before has returned it: if they have changed since, nothing lands."""
    message: str | None = None
    """Message of the commit; by default the title of the chat."""


class LoopMessage(Body, frozen=True):
    """Message to the agents of a loop, or the answer to its question."""

    text: str


class AnswerBody(Body, frozen=True):
    """Answer to a question of the agent."""

    id: str
    answer: str
    always: bool = False
    """Whether the command that it is about is allowed in the whole chat; with an answer that allows it."""


async def read(request: Request, kind: type[Given]) -> Given:
    """Return the body of a request.

    Raises:
        UnsupportedMediaType: its type is not JSON.
        BodyTooLarge: it is too large.
        RequestTimeout: it does not arrive in time, or the client disconnects.
        Invalid: it is not valid JSON, or not of this kind.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType
    data = await _received(request, kind.max_bytes, BODY_SECONDS)
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"invalid request body: {error}", expected=_expected(kind)) from error


async def read_bytes(request: Request, limit: int) -> bytes:
    """Return the bytes of a body that is a file. A page of another origin cannot send its type unasked.

    Raises:
        UnsupportedMediaType: its type is another one.
        BodyTooLarge, RequestTimeout: as `read`.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != OCTETS:
        raise UnsupportedMediaType(OCTETS)
    return await _received(request, limit, UPLOAD_SECONDS)


async def _received(request: Request, limit: int, seconds: float) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > limit:
        raise BodyTooLarge(limit)
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                data += piece
                if len(data) > limit:  # sent without a Content-Length
                    raise BodyTooLarge(limit)
    except (TimeoutError, ClientDisconnect) as error:
        raise RequestTimeout(seconds) from error
    return bytes(data)


def _expected(kind: type[Body]) -> str:
    fields = msgspec.structs.fields(kind)
    return "{" + ", ".join(f'"{field.encode_name}"{"" if field.required else "?"}' for field in fields) + "}"


# --- responses ---


class PersonView(msgspec.Struct, frozen=True):
    """Person who sends the request."""

    name: str
    role: Role


class About(msgspec.Struct, frozen=True):
    """Description of this server."""

    version: str
    default_agent: str
    allow: list[str]
    """Values of `allow`: what a chat's agent may do."""
    max_prompt_bytes: int
    max_attachment_bytes: int
    """Bytes of the largest file of a message."""
    person: PersonView
    node: str | None = None
    """Name of this node; null if there is one machine."""
    several: bool = False
    """True if the server has more people than its owner."""


class PushKey(msgspec.Struct, frozen=True):
    """Key by which a push service knows the calls of this server for one browser."""

    key: str
    """`applicationServerKey` of the subscription, in base64url."""


class Link(msgspec.Struct, frozen=True):
    """One-time link."""

    url: str
    host: str
    """Name of this machine, for commands that reach it."""
    allowed: list[str]
    """Hosts that requests may name besides this machine's own: another device reaches the server by them."""


class BrowserView(msgspec.Struct, frozen=True):
    """Signed-in browser. Times are milliseconds since 1970."""

    id: str
    name: str
    created_at: int
    used_at: int
    """Time of its last use, precise to one minute."""
    current: bool
    """True if it is the browser that sent the request."""
    person: str
    """Person who signed in."""


class SharedTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a share shows of a turn."""

    turn: int
    prompt: str
    by: Asker
    state: TurnState
    asked_at: int
    text: str
    """Reply, so far if the turn is running."""
    outcome: ev.Outcome | None
    attachments: list[AttachedFile] | None = None
    """Files of the message, if the share shows details."""


class SharedChat(msgspec.Struct, frozen=True):
    """What a share shows of its chat."""

    title: str | None
    agent: str
    expires_at: int
    until: int | None
    details: bool
    turns: list[SharedTurn]
    """Turns that have begun, oldest first."""
    earlier: bool
    """True if there are turns before these."""


class SharedDetails(msgspec.Struct, frozen=True):
    """What a share shows of the work of the agent in a turn."""

    whole: bool
    items: list[AnyItem]


class WorkspaceList(msgspec.Struct, frozen=True):
    """Directories in which agents may work."""

    roots: list[Workspace]
    recent: list[Workspace]


class ChatPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Chats, the one used last first: all, or a page of them."""

    chats: list[ChatView]
    next: str | UnsetType = UNSET
    """Cursor of the next page; absent if there is none."""
    number: int | UnsetType = UNSET
    """Number of the list's stream after which all that changed in it is streamed; only with the first page."""


class TurnPage(msgspec.Struct, frozen=True):
    """Page of turns, oldest first."""

    turns: list[TurnView]
    earlier: bool
    """True if there are turns before these."""


class TurnNumber(msgspec.Struct, frozen=True):
    """Number of a turn."""

    turn: int


class TurnNumbers(msgspec.Struct, frozen=True):
    """Numbers of turns."""

    turns: list[int]


class HealthStatus(msgspec.Struct, frozen=True):
    """State of the server."""

    status: Literal["ok", "ending"]


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Readiness of the server for requests."""

    status: Literal["ready", "unready"]
    reason: str | None = None
    """Why it is not ready."""


class PlacedFrame(msgspec.Struct, frozen=True, omit_defaults=True):
    """Frame in a stream of several chats."""

    place: int
    """Place of the chat in the request, from 0."""
    chat: str
    """Name of the chat in the request, without its number."""
    frame: dict[str, Any]
    """Frame as in the stream of the chat; for `list` one of the list's."""
    number: int | None = None
    """Number to return with; None: the next frame has one."""
    at: int | None = None
    """Time of the entry of this number, to return with as well: after a restore, another entry may have the number."""
