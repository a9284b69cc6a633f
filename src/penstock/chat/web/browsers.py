"""Signed-in browsers, in a file of the data directory: they survive a restart, and each can be signed out.

A cookie is a random value. The file has only its SHA-256, so that a reader of the file cannot sign in with it. If there
are several machines, a table of their store takes the place of the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from penstock.chat.history.entries import OWNER
from penstock.chat.store.database import sync_folder
from penstock.chat.store.logins import Browser, LoginStore, PushSubscription
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.web.errors import StoreUnavailable
from penstock.errors import UsageError

SECRET_BYTES = 32
"""Bytes of a cookie: impossible to guess, so its hash needs no salt."""

COOKIE_DAYS = 90
"""Days without use after which a browser is signed out."""
DAY = 24 * 60 * 60

MAX_BROWSERS = 200
"""Maximum number of browsers, more than one person has.

A new one signs out the one unused for the longest time. The limit also bounds the list of a program that signs in
repeatedly instead of sending the token.
"""

USED_SECONDS = 60
"""Seconds between two writes of the time of last use, and so its precision: one minute."""

MAX_FILE_BYTES = 1024 * 1024
"""Bytes of the largest file: many times what `MAX_BROWSERS` need. A larger file is not Penstock's."""

SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
PRODUCTS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Version/", "Safari"),
)
"""Marks in a `User-Agent`, and their usual names. Browsers name others that they resemble: the first match counts."""

_PROGRAM = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,39}")
_log = logging.getLogger("penstock.gateway")


class _Kept(msgspec.Struct):
    """Content of the file."""

    token: str
    """Digest of the token at the time the browsers signed in: another token signs them out."""
    browsers: list[Browser]


class Browsers:
    """Browsers that are signed in. Belongs to one event loop. The file is authoritative."""

    def __init__(
        self,
        path: Path | None,
        token: str,
        now: Callable[[], float] = time.time,
        *,
        shared: LoginStore | None = None,
    ) -> None:
        """Read the file; None: the browsers are not stored. `now` returns seconds since 1970.

        `shared` is the store of several nodes, instead of a file.

        Raises:
            UsageError: the file cannot be read, or others can write it.
        """
        self._path = path
        self._shared = shared
        self._token = hmac.digest(token.encode(), b"penstock browsers", "sha256").hex()
        self._now = now
        self._known = {browser.secret: browser for browser in _read(path, self._token)}
        self._calls: dict[str, list[Callable[[], None]]] = {}
        self._changing = asyncio.Lock()
        self._writing = threading.Lock()  # a cancelled request leaves its thread running
        self._saving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    # --- signed-in browsers ---

    def find(self, cookie: str) -> Browser | None:
        """Return the browser that has this cookie, if it is signed in."""
        browser = self._known.get(_hashed(cookie))
        return browser if browser is not None and self._is_fresh(browser) else None

    def with_secret(self, secret: str) -> Browser | None:
        """Return the browser with this secret, if it is signed in."""
        return self._known.get(secret)

    def has(self, browser: Browser) -> bool:
        """Return whether the browser is still signed in."""
        return browser.secret in self._known

    def listed(self) -> list[Browser]:
        """Return all browsers, the most recently used first."""
        fresh = filter(self._is_fresh, self._known.values())
        return sorted(fresh, key=lambda browser: (browser.used_at, browser.created_at, browser.id), reverse=True)

    def note_use(self, browser: Browser) -> None:
        """Record that the browser sent a request."""
        now = self._milliseconds()
        if abs(now - browser.used_at) >= USED_SECONDS * 1000:
            browser.used_at = now
            if self._saving is None or self._saving.done():
                self._saving = asyncio.get_running_loop().create_task(self._save())

    @contextlib.contextmanager
    def watched(self, browser: Browser | None, call: Callable[[], None]) -> Iterator[None]:
        """Run `call` when the browser is signed out, or at once if it was already. None: no browser to sign out."""
        if browser is None:
            yield
            return
        if not self.has(browser):
            call()
        calls = self._calls.setdefault(browser.id, [])
        calls.append(call)
        try:
            yield
        finally:
            calls.remove(call)
            if not calls:
                self._calls.pop(browser.id, None)

    # --- changes ---

    async def sign_in(
        self, name: str, *, secure: bool = False, by: Browser | None = None, person: str | None = None
    ) -> str | None:
        """Sign a browser of a person in and return its cookie; by default, the person is that of `by`, or the owner.

        Return None if `by`, which made the link to it, was signed out meanwhile.

        Raises:
            StoreUnavailable: the file cannot be written, and the browser is not signed in.
        """
        cookie, now = secrets.token_urlsafe(SECRET_BYTES), self._milliseconds()
        person = person or (by.person if by is not None else OWNER)
        browser = Browser(secrets.token_hex(8), _hashed(cookie), name, secure, now, now, person)
        async with self._changing:
            if by is not None and not self.has(by):
                return None
            await self._keep([browser, *self.listed()[: MAX_BROWSERS - 1]])
        return cookie

    async def set_push(self, browser: Browser, push: PushSubscription | None) -> None:
        """Store where a browser is called, if it is still signed in.

        Raises:
            StoreUnavailable: it cannot be stored.
        """
        async with self._changing:
            known = self._known.get(browser.secret)
            if known is None:
                return
            before, known.push = known.push, push
            try:
                if self._shared is not None:
                    await self._shared.put_push(known)
                else:
                    await self._keep(self.listed())
            except BaseException as error:
                known.push = before
                if isinstance(error, StoreFailed):
                    raise StoreUnavailable(error.what) from error
                raise

    async def sign_out(self, gone: Collection[Browser]) -> None:
        """Sign these browsers out and end their streams. On return, the file no longer has them.

        Raises:
            StoreUnavailable: the file cannot be written, and they are signed in as before.
        """
        secrets_gone = {browser.secret for browser in gone}
        async with self._changing:
            await self._keep([browser for browser in self.listed() if browser.secret not in secrets_gone])

    async def sign_out_all(self) -> None:
        """Sign all browsers out, also those that are just signing in.

        Raises:
            StoreUnavailable: the file cannot be written, and they are signed in as before.
        """
        await self.read_again()
        async with self._changing:
            await self._keep([])

    async def read_again(self) -> frozenset[bytes]:
        """Read what other nodes changed; return the SHA-256 of their tokens.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if self._shared is None:
            return frozenset()
        async with self._changing:
            found = await self._shared.read()
            for browser in found.browsers:
                known = self._known.get(browser.secret)
                if known is not None:
                    known.used_at = max(known.used_at, browser.used_at)
                    known.push = browser.push
            self._replace({it.secret: self._known.get(it.secret, it) for it in found.browsers})
        return found.tokens

    async def close(self) -> None:
        """Write the changes that are not yet written."""
        self._closing.set()
        if self._saving is not None:
            await self._saving

    async def _keep(self, browsers: list[Browser]) -> None:
        """Write these browsers and sign all others out. The caller holds the lock.

        Raises:
            StoreUnavailable: the file cannot be written, and nothing has changed.
        """
        if self._path is not None:
            data = msgspec.json.encode(_Kept(self._token, browsers))
            try:
                await asyncio.to_thread(self._write, self._path, data)
            except OSError as error:
                raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror or error}") from error
        known = {browser.secret: browser for browser in browsers}
        if self._shared is not None:
            added = [browser for secret, browser in known.items() if secret not in self._known]
            try:
                await self._shared.write(added, self._known.keys() - known.keys())
            except StoreFailed as error:
                raise StoreUnavailable(error.what) from error
        self._replace(known)

    def _replace(self, known: dict[str, Browser]) -> None:
        """Sign all other browsers out."""
        before, self._known = self._known, known
        for gone in before.keys() - self._known.keys():
            for call in [*self._calls.get(before[gone].id, ())]:
                call()

    async def _save(self) -> None:
        """Write the times of last use, together with those of the next minute."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(USED_SECONDS):
                await self._closing.wait()
        try:
            async with self._changing:
                if self._shared is not None:
                    await self._shared.note_use(self.listed())
                else:
                    await self._keep(self.listed())
        except (StoreUnavailable, StoreFailed) as error:
            _log.warning("%s", error.what)

    def _write(self, path: Path, data: bytes) -> None:
        with self._writing:
            _replace(path, data)

    # --- times ---

    def _is_fresh(self, browser: Browser) -> bool:
        return self._milliseconds() - browser.used_at < COOKIE_DAYS * DAY * 1000

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)


def name_of(user_agent: str) -> str:
    """Return a browser's usual name, such as "Firefox on Linux". Only names are copied from its `User-Agent`."""
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    product = next((name for mark, name in PRODUCTS if mark in user_agent), "")
    if not product:
        program = _PROGRAM.match(user_agent)
        product = program[0] if program and program[0] != "Mozilla" else "A browser"
    return f"{product} on {system}" if system else product


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path | None, token: str) -> list[Browser]:
    if path is None:
        return []
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", help="delete it: browsers sign in anew") from error
    if mode & 0o022:
        raise UsageError(f"others can write into {path}", expected="a file of mode 0600", help="delete it")
    try:
        kept = msgspec.json.decode(data, type=_Kept)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        _log.warning("%s has no browsers that can be read: all have to sign in again", path)
        return []
    return kept.browsers[:MAX_BROWSERS] if hmac.compare_digest(kept.token.encode(), token.encode()) else []


def _replace(path: Path, data: bytes) -> None:
    """Replace the file atomically: it is written completely or not changed, whatever happens.

    Raises:
        OSError: the file was not written.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    sync_folder(path.parent)
