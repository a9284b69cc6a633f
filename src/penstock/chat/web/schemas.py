"""The bodies of requests, checked before anything is done with them, and those of answers."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.adapter import Allow
from penstock.chat.errors import Invalid
from penstock.chat.history.frames import TurnView
from penstock.chat.service.workspaces import Workspace
from penstock.chat.store.rows import Heartbeat
from penstock.chat.web.errors import BodyTooLarge, RequestTimeout, UnsupportedMediaType

MAX_BODY_BYTES = 1024 * 1024
"""Twice the largest prompt: JSON may write a character as six."""

BODY_SECONDS = 30.0
"""For all of a body."""

Given = TypeVar("Given", bound="Body")


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request. A field that is not known is refused: it would not do what its writer hopes."""


class Login(Body):
    """One of the two."""

    code: str | None = None
    """Of a one-time link."""
    token: str | None = None


class NoBody(Body):
    """Nothing has to be said."""


class Logout(Body):
    """Of this browser, or of all."""

    everywhere: bool = False


class Trust(Body):
    """A directory."""

    path: str


class NewChat(Body):
    """A chat to be."""

    agent: str | None = None
    """By default that of `penstock serve --agent`."""
    cwd: str | None = None
    """A directory below a root; by default the first root."""
    model: str | None = None
    title: str | None = None
    allow: Allow = "default"


class Changes(Body):
    """What is to change of a chat; null takes a value away."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    allow: Allow | msgspec.UnsetType = msgspec.UNSET
    heartbeat: Heartbeat | msgspec.UnsetType | None = msgspec.UNSET


class Prompt(Body):
    """A message to the agent."""

    text: str


class Stop(Body):
    """A turn; by default the one that runs, and all that wait."""

    turn: int | None = None


class AnswerBody(Body):
    """The answer to a question of the agent."""

    id: str
    answer: str


async def read(request: Request, kind: type[Given]) -> Given:
    """The body of a request.

    Raises:
        WrongType: it is no JSON.
        BodyTooLarge, BodyTooSlow: it is, or does not come.
        Wrong: it is not of this kind.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType
    data = await _received(request)
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"invalid request body: {error}", expected=_expected(kind)) from error


async def _received(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > MAX_BODY_BYTES:
        raise BodyTooLarge(MAX_BODY_BYTES)
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > MAX_BODY_BYTES:  # it came without a length
                    raise BodyTooLarge(MAX_BODY_BYTES)
    except (TimeoutError, ClientDisconnect) as error:
        raise RequestTimeout(BODY_SECONDS) from error
    return bytes(data)


def _expected(kind: type[Body]) -> str:
    fields = msgspec.structs.fields(kind)
    return "{" + ", ".join(f'"{field.name}"{"" if field.required else "?"}' for field in fields) + "}"


# --- answers ---


class About(msgspec.Struct, frozen=True):
    """This server."""

    version: str
    default_agent: str
    allow: list[str]
    """What a chat's agent can be allowed to do unasked."""
    max_prompt_bytes: int


class Link(msgspec.Struct, frozen=True):
    """A one-time link."""

    url: str


class BrowserView(msgspec.Struct, frozen=True):
    """A browser that is signed in. Times are milliseconds since 1970."""

    id: str
    name: str
    created_at: int
    used_at: int
    """Right to a minute."""
    current: bool
    """It is the one that asks."""


class WorkspaceList(msgspec.Struct, frozen=True):
    """Where agents may work."""

    roots: list[Workspace]
    recent: list[Workspace]


class TurnPage(msgspec.Struct, frozen=True):
    """Turns, oldest first."""

    turns: list[TurnView]
    earlier: bool
    """There are some before these."""


class TurnNumber(msgspec.Struct, frozen=True):
    """A turn."""

    turn: int


class TurnNumbers(msgspec.Struct, frozen=True):
    """Turns."""

    turns: list[int]


class HealthStatus(msgspec.Struct, frozen=True):
    """How the server is."""

    status: Literal["ok", "ending"]


def given(changes: Changes) -> dict[str, Any]:
    """The fields that are to change."""
    fields = ((name, getattr(changes, name)) for name in changes.__struct_fields__)
    return {name: value for name, value in fields if value is not msgspec.UNSET}
