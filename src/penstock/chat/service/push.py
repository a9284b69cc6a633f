"""Web Push: calls to browsers whose page is closed, when a chat of their person asks or its turn has ended.

A call goes to the push service of the browser's maker, whose address the browser names. Only listed services are asked,
over TLS, at an address that is checked when the name has been resolved. The text is encrypted for the browser (RFC
8291) and signed by a key of this browser alone (RFC 8292); it names the agent and the directory, never a command.
Nothing waits for a call.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import importlib.util
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from penstock.chat.errors import ChatError, Invalid
from penstock.chat.history.frames import TurnView
from penstock.chat.service.outgoing import SentOnce, post, repeat
from penstock.chat.service.webhooks import sentence
from penstock.chat.store.logins import Browser, PushSubscription
from penstock.chat.store.rows import ChatRow
from penstock.config.addresses import ServerAddress, address_of
from penstock.run.proxy import is_private, resolved

SERVICES = (
    "fcm.googleapis.com:443",
    "*.push.services.mozilla.com:443",
    "web.push.apple.com:443",
    "*.notify.windows.com:443",
)
"""Push services of the makers of browsers; `[serve] push_hosts` names others."""

MAX_WAITING = 200
"""Calls that wait for an answer or for their next try; a further one is dropped. There are as many browsers at most."""

KEEP_SECONDS = {"asks": 12 * 3600, "ended": 3600}
"""Seconds for which a service keeps a call for a browser that is off: what is older is of no use."""

SIGNED_SECONDS = 12 * 3600
"""Seconds for which a signature is valid; services accept 24 hours at most."""

GONE = frozenset({404, 410})
"""Statuses by which a service says that the browser no longer has this subscription."""

MAX_ENDPOINT_CHARACTERS = 1000
"""Characters of the longest address; those of the makers have about 200, of Windows 400."""

_log = logging.getLogger("penstock.gateway")


class NoPush(ChatError):
    """This browser or server cannot call by push."""

    code = "conflict"
    status = 409


class Subscribers(Protocol):
    """The browsers that want to be called."""

    def of_chat(self, chat: ChatRow) -> list[Browser]:
        """Return the browsers of the person whose chat it is, if they may see it."""
        ...

    async def unsubscribe(self, browser: Browser) -> None:
        """Forget where a browser was called."""
        ...


class Push:
    """Calls to the browsers of one server."""

    def __init__(
        self,
        subscribers: Subscribers,
        *,
        hosts: Sequence[str] = (),
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`hosts`: push services besides the known ones, each with its port.

        `now` (milliseconds since 1970) and `sleep` (seconds) are the clock. `tls`: certificates that are trusted; None:
        those of the system.
        """
        self._subscribers = subscribers
        self._services = [it for it in map(address_of, (*SERVICES, *hosts)) if it is not None]
        self._now = now
        self._sleep = sleep
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, endpoint: str) -> None:
        """Check that this can be the address of a browser.

        Raises:
            Invalid: it cannot, or its service is not one that this server calls.
        """
        self._address(endpoint)

    def announce(self, chat: ChatRow, turn: TurnView, happened: Sequence[Literal["asks", "ended"]]) -> None:
        """Call each browser for the first of these occasions that it wants to be called for.

        The requests run concurrently with the caller.
        """
        for browser in self._subscribers.of_chat(chat):
            push = browser.push
            kind = None if push is None or not push.endpoint else next((it for it in happened if it in push.on), None)
            if push is None or kind is None:
                continue
            if len(self._tasks) >= MAX_WAITING:
                _log.warning("push: %d calls wait, so one is dropped", len(self._tasks))
                return
            body = {"text": sentence(chat, turn, kind), "chat": chat.id}
            task = asyncio.create_task(self._call(browser, push, chat, kind, msgspec.json.encode(body)), name="push")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop the calls that wait."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _call(self, browser: Browser, push: PushSubscription, chat: ChatRow, kind: str, body: bytes) -> None:
        topic = hashlib.sha256(chat.id.encode()).hexdigest()[
            :32
        ]  # a service replaces a call that it still has by the next one
        urgency = "high" if kind == "asks" else "normal"
        headers = {"TTL": str(KEEP_SECONDS[kind]), "Urgency": urgency, "Topic": topic}

        async def attempt() -> SentOnce:
            is_current = any(it is browser for it in self._subscribers.of_chat(chat))
            if not is_current or browser.push is None or browser.push.endpoint != push.endpoint:
                return SentOnce("", True)  # it was signed out, lost its rights or subscribed anew meanwhile
            try:
                return await self._send(push, headers, body)
            except Invalid as error:
                return SentOnce(error.what, True)

        result = await repeat(attempt, self._sleep)
        if result.status in GONE:
            await self._subscribers.unsubscribe(browser)
        elif result.problem:
            _log.warning("push %s: %s; the call is lost", urlsplit(push.endpoint).hostname, result.problem)

    async def _send(self, push: PushSubscription, headers: dict[str, str], body: bytes) -> SentOnce:
        address = self._address(push.endpoint)
        try:
            found = await resolved(address)
        except OSError:
            return SentOnce("its name cannot be resolved", False)
        public = [it for it in found if not is_private(it) or ServerAddress(it, address.port) in self._services]
        if not public:
            return SentOnce("its name leads to no public address", True)
        url = urlsplit(push.endpoint)
        at = f"[{public[0]}]" if ":" in public[0] else public[0]
        host = url.netloc
        encrypted, signature = await asyncio.to_thread(_sealed, push, f"https://{host}", self._now() // 1000, body)
        fixed = {
            "Host": host,
            "Authorization": signature,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
        }
        whole = url._replace(netloc=f"{at}:{address.port}").geturl()
        return await post(whole, encrypted, {**fixed, **headers}, name=address.host, tls=self._tls)

    def _address(self, endpoint: str) -> ServerAddress:
        """Return the address of the service of an endpoint.

        Raises:
            Invalid: it is not the address of a push service that this server calls.
        """
        try:
            url = urlsplit(endpoint)
            port = url.port or 443
        except ValueError:
            raise Invalid("the push service has no such address") from None
        is_plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint and "\\" not in endpoint
        if (
            not is_plain
            or len(endpoint) > MAX_ENDPOINT_CHARACTERS
            or url.scheme != "https"
            or "@" in url.netloc
            or url.fragment
        ):
            raise Invalid("the push service has no such address", expected="an https address without a login")
        found = address_of(f"{f'[{url.hostname}]' if ':' in (url.hostname or '') else url.hostname}:{port}")
        if found is None or not any(it.covers(found) for it in self._services):
            raise Invalid(
                f"this server calls no browser through {(url.hostname or '')[:100]}:{port}",
                expected="a push service of a browser's maker",
                help="an owner can add it to push_hosts in [serve]",
            )
        return found


def is_installed() -> bool:
    """Return whether the packages of the extra `push` are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("http_ece", "py_vapid"))


def new_key() -> tuple[str, str]:
    """Return a new private key of a browser's calls and its public key, both in base64url.

    Raises:
        NoPush: the packages of the extra are not installed.
    """
    _require_packages()
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    number = private.private_numbers().private_value.to_bytes(32, "big")
    return _base64url(number), public_key(_base64url(number))


def public_key(key: str) -> str:
    """Return the public key of a private key, both in base64url.

    Raises:
        NoPush: the packages of the extra are not installed.
    """
    _require_packages()
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private = ec.derive_private_key(int.from_bytes(_bytes(key), "big"), ec.SECP256R1())
    return _base64url(private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def check_keys(p256dh: str, auth: str) -> None:
    """Check the keys of a subscription.

    Raises:
        Invalid: they are none.
        NoPush: the packages of the extra are not installed.
    """
    _require_packages()
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(p256dh))
        is_valid = len(_bytes(auth)) == 16
    except (ValueError, binascii.Error):
        is_valid = False
    if not is_valid:
        raise Invalid("the keys of the subscription cannot be used", expected="those of PushSubscription.getKey")


def _require_packages() -> None:
    if not is_installed():
        raise NoPush(
            "this server cannot call browsers: packages are missing",
            help="install the extra push: pip install '.[push]' in a clone of Penstock",
        )


def _sealed(push: PushSubscription, origin: str, seconds: int, body: bytes) -> tuple[bytes, str]:
    """Return a body that only the browser can read, and the header that proves who sent it."""
    import http_ece
    from cryptography.hazmat.primitives.asymmetric import ec
    from py_vapid import Vapid02

    encrypted: bytes = http_ece.encrypt(
        body,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=_bytes(push.p256dh),
        auth_secret=_bytes(push.auth),
        version="aes128gcm",
    )
    claims: dict[str, Any] = {"aud": origin, "exp": seconds + SIGNED_SECONDS, "sub": push.contact}
    signed: dict[str, str] = Vapid02.from_raw(push.key.encode()).sign(claims)
    return encrypted, signed["Authorization"]


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
