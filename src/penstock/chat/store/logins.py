"""Logins that several nodes share: who is signed in at one of them is signed in at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from penstock.chat.history.entries import OWNER


class PushSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Address at which a browser is called while its page is closed."""

    key: str
    """Private key that signs the calls of this browser, in base64url. Its push service knows the public one."""
    endpoint: str = ""
    """Secret address at the push service of the browser's maker; "" until the browser has subscribed."""
    p256dh: str = ""
    """Public key of the browser, in base64url: only it can read the calls."""
    auth: str = ""
    """Secret of the browser, in base64url, that is part of each call's key."""
    on: tuple[Literal["asks", "ended"], ...] = ()
    """Occasions on which it is called."""
    contact: str = ""
    """Address of the page, which push services may want to know."""


class Browser(msgspec.Struct):
    """One browser. Times are milliseconds since 1970."""

    id: str
    """Id in requests. It is not derived from the cookie."""
    secret: str
    """SHA-256 of its cookie."""
    name: str
    secure: bool
    """True if it signed in over https: then its cookie is for https only."""
    created_at: int
    used_at: int
    person: str = OWNER
    """Person who signed in."""
    push: PushSubscription | None = None
    """Where it is called; None if it never wanted to be. It ends with the login."""


class KnownLogins(NamedTuple):
    """Logins that are valid now."""

    browsers: list[Browser]
    tokens: frozenset[bytes]
    """SHA-256 of the token of each node."""


class TakenCode(NamedTuple):
    """One-time code that was used."""

    by: str | None
    """Secret of the browser that made its link; None if a node printed it."""
    person: str = OWNER
    """Person whom it signs in."""


class LoginStore(Protocol):
    """Store of the logins. All calls raise `StoreFailed` if it cannot be used."""

    async def read(self) -> KnownLogins:
        """Return the browsers that are signed in, and the tokens of all nodes."""
        ...

    def is_current(self) -> bool:
        """Return whether what was read last may be relied on: a node that is cut off does not learn of sign-outs."""
        ...

    async def write(self, added: Sequence[Browser], gone: Collection[str]) -> None:
        """Add these browsers, and remove those with the secrets `gone`."""
        ...

    async def note_use(self, browsers: Sequence[Browser]) -> None:
        """Store when these browsers were used last. One that was removed meanwhile is not added again."""
        ...

    async def put_push(self, browser: Browser) -> None:
        """Store where this browser is called, `browser.push`. One that was removed meanwhile is not added again."""
        ...

    async def put_code(self, code: bytes, seconds: float, by: str | None, person: str = OWNER) -> None:
        """Add a code, by its SHA-256, that is valid for some seconds and signs a person in."""
        ...

    async def take_code(self, code: bytes) -> TakenCode | None:
        """Remove a code, by its SHA-256; return None if there is none that is valid."""
        ...
