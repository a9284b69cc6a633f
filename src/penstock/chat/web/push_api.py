"""Browsers that are called by push: each signed-in browser subscribes for itself, and is forgotten with its login."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from penstock.chat.people.rights import may_read
from penstock.chat.service import push
from penstock.chat.service.push import NoPush, Push
from penstock.chat.store.logins import Browser, PushSubscription
from penstock.chat.store.rows import ChatRow
from penstock.chat.web import schemas
from penstock.chat.web.auth import Logins
from penstock.chat.web.errors import StoreUnavailable
from penstock.chat.web.security import BROWSER


class SignedInSubscribers:
    """`Subscribers`: the browsers that are signed in."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def of_chat(self, chat: ChatRow) -> list[Browser]:
        """As `Subscribers.of_chat`."""
        if not self._logins.is_current:
            return []
        person = self._logins.people.find(chat.person)
        if person is None or not may_read(person, chat):
            return []
        return [it for it in self._logins.browsers.listed() if it.person == person.name and it.push is not None]

    async def unsubscribe(self, browser: Browser) -> None:
        """As `Subscribers.unsubscribe`."""
        with contextlib.suppress(StoreUnavailable):
            await self._logins.browsers.set_push(browser, None)


async def make_key(logins: Logins, request: Request) -> schemas.PushKey:
    """Return the public key for the calls of the browser that sent the request; it keeps the same one.

    Raises:
        NoPush: no signed-in browser sent it, or packages are missing.
        StoreFailed: the store cannot be read.
        StoreUnavailable: it cannot be stored.
    """
    browser = _browser(request)
    await logins.read_again()  # another node may have made one just now
    if browser.push is not None:
        return schemas.PushKey(push.public_key(browser.push.key))
    private, public = push.new_key()
    await logins.browsers.set_push(browser, PushSubscription(key=private))
    return schemas.PushKey(public)


async def subscribe(logins: Logins, calls: Push | None, request: Request, body: schemas.NewPush) -> None:
    """Call the browser that sent the request from now on.

    Raises:
        Invalid: the subscription cannot be used.
        NoPush: no signed-in browser sent it, it has no key, or packages are missing.
        StoreFailed: the store cannot be read.
        StoreUnavailable: it cannot be stored.
    """
    browser = _browser(request)
    await logins.read_again()
    if calls is None or browser.push is None:
        raise NoPush("this browser has no key for calls", help="POST /api/push/key makes one")
    calls.check(body.endpoint)
    push.check_keys(body.p256dh, body.auth)
    origin = urlsplit(request.headers.get("origin", ""))
    changed = msgspec.structs.replace(
        browser.push,
        endpoint=body.endpoint,
        p256dh=body.p256dh,
        auth=body.auth,
        on=tuple(dict.fromkeys(body.on)),
        contact=f"https://{origin.hostname or 'localhost'}",
    )
    await logins.browsers.set_push(browser, changed)


async def unsubscribe(logins: Logins, request: Request) -> None:
    """Call the browser that sent the request no more.

    Raises:
        NoPush: no signed-in browser sent it.
        StoreUnavailable: it cannot be stored.
    """
    await logins.browsers.set_push(_browser(request), None)


def _browser(request: Request) -> Browser:
    found: Browser | None = request.scope.get(BROWSER)
    if found is None:
        raise NoPush(
            "only a browser that signed in by a link of Penstock can be called",
            help="programs use webhooks: [[notify]] in the configuration",
        )
    return found
