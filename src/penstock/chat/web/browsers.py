"""The browsers that are signed in, in a file of the data directory: they outlast a restart, and each can be signed out.

A cookie is a random value. The file has its SHA-256 alone, so that whoever reads the file cannot sign in with it.
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

from penstock.chat.store.database import sync_folder
from penstock.chat.web.errors import StoreUnavailable
from penstock.errors import UsageError

SECRET_BYTES = 32
"""Of a cookie: nobody guesses one, and its hash needs no salt."""

COOKIE_DAYS = 90
"""A browser that is not used for so long is signed out."""
DAY = 24 * 60 * 60

MAX_BROWSERS = 200
"""More than one person has; the one that was not used for the longest time is signed out for a new one. A program that
signs in again and again, instead of sending the token, fills a list of this size and no more."""

USED_SECONDS = 60
"""The time of the last use is right to a minute, and written so often at most."""

MAX_FILE_BYTES = 1024 * 1024
"""Many times what `MAX_BROWSERS` need. A larger file is none of ours."""

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
"""What stands in a `User-Agent`, and what people call it. Browsers name others that they are like: the first counts."""

_PROGRAM = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,39}")
_log = logging.getLogger("penstock.gateway")


class Browser(msgspec.Struct):
    """One browser. Times are milliseconds since 1970."""

    id: str
    """Its name for requests. It has nothing to do with the cookie."""
    secret: str
    """The SHA-256 of its cookie."""
    name: str
    secure: bool
    """It signed in by https: its cookie is for nothing else."""
    created_at: int
    used_at: int


class _Kept(msgspec.Struct):
    """The file."""

    token: str
    """What the token came to when the browsers signed in: with another token they are signed out."""
    browsers: list[Browser]


class Browsers:
    """Those that are signed in. Belongs to one event loop. What is true is what the file has."""

    def __init__(self, path: Path | None, token: str, now: Callable[[], float] = time.time) -> None:
        """Read the file; None: they are kept nowhere. `now` gives seconds since 1970.

        Raises:
            UsageError: it cannot be read, or others can write it.
        """
        self._path = path
        self._token = hmac.digest(token.encode(), b"penstock browsers", "sha256").hex()
        self._now = now
        self._known = {browser.secret: browser for browser in _read(path, self._token)}
        self._calls: dict[str, list[Callable[[], None]]] = {}
        self._changing = asyncio.Lock()
        self._writing = threading.Lock()  # a request that is cancelled leaves its thread at work
        self._saving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    # --- who is signed in ---

    def find(self, cookie: str) -> Browser | None:
        """The browser that has this cookie, where it is signed in."""
        browser = self._known.get(_hashed(cookie))
        return browser if browser is not None and self._is_fresh(browser) else None

    def has(self, browser: Browser) -> bool:
        """Whether it is still signed in."""
        return browser.secret in self._known

    def listed(self) -> list[Browser]:
        """All of them, the one used last first."""
        fresh = filter(self._is_fresh, self._known.values())
        return sorted(fresh, key=lambda browser: (browser.used_at, browser.created_at, browser.id), reverse=True)

    def note_use(self, browser: Browser) -> None:
        """It asks for something."""
        now = self._milliseconds()
        if abs(now - browser.used_at) >= USED_SECONDS * 1000:
            browser.used_at = now
            if self._saving is None or self._saving.done():
                self._saving = asyncio.get_running_loop().create_task(self._save())

    @contextlib.contextmanager
    def watched(self, browser: Browser | None, call: Callable[[], None]) -> Iterator[None]:
        """Call this when the browser is signed out, or was already. None: nobody to be signed out."""
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

    async def sign_in(self, name: str, *, secure: bool = False, by: Browser | None = None) -> str | None:
        """Sign a browser in: its cookie. None: `by`, which made the link to it, was signed out meanwhile.

        Raises:
            NotKept: the file cannot be written, and nobody is signed in.
        """
        cookie, now = secrets.token_urlsafe(SECRET_BYTES), self._milliseconds()
        browser = Browser(secrets.token_hex(8), _hashed(cookie), name, secure, now, now)
        async with self._changing:
            if by is not None and not self.has(by):
                return None
            await self._keep([browser, *self.listed()[: MAX_BROWSERS - 1]])
        return cookie

    async def sign_out(self, gone: Collection[Browser]) -> None:
        """Sign these out, with all that they look at. When it returns, the file has them no more.

        Raises:
            NotKept: the file cannot be written, and they are signed in as before.
        """
        secrets_gone = {browser.secret for browser in gone}
        async with self._changing:
            await self._keep([browser for browser in self.listed() if browser.secret not in secrets_gone])

    async def sign_out_all(self) -> None:
        """Sign all out, those too that are just signing in.

        Raises:
            NotKept: the file cannot be written, and they are signed in as before.
        """
        async with self._changing:
            await self._keep([])

    async def close(self) -> None:
        """Write what is not written yet."""
        self._closing.set()
        if self._saving is not None:
            await self._saving

    async def _keep(self, browsers: list[Browser]) -> None:
        """Write these, and know no others from then on. The lock is held."""
        if self._path is not None:
            data = msgspec.json.encode(_Kept(self._token, browsers))
            try:
                await asyncio.to_thread(self._write, self._path, data)
            except OSError as error:
                raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror or error}") from error
        before, self._known = self._known, {browser.secret: browser for browser in browsers}
        for gone in before.keys() - self._known.keys():
            for call in [*self._calls.get(before[gone].id, ())]:
                call()

    async def _save(self) -> None:
        """Write the times of use, those of the next minute with them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(USED_SECONDS):
                await self._closing.wait()
        try:
            async with self._changing:
                await self._keep(self.listed())
        except StoreUnavailable as error:
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
    """What people call a browser, as "Firefox on Linux". Of what it says itself nothing is taken over but a name."""
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
    """Write the file whole, or leave it as it was, whatever happens.

    Raises:
        OSError: it was not written.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    sync_folder(path.parent)
