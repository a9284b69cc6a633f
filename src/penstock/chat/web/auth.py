"""Authentication: the token, one-time codes for browsers, and the browsers that signed in with one of them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.chat.history.entries import OWNER
from penstock.chat.people.persons import OWNING, People, Person
from penstock.chat.store.logins import Browser, LoginStore
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.web.browsers import Browsers
from penstock.chat.web.errors import RateLimited, StoreUnavailable, Unauthorized
from penstock.errors import UsageError

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
TOKEN_BYTES = 32
MIN_TOKEN_CHARS = 32
"""Characters of the shortest token that a user may choose: shorter ones can be guessed."""
MAX_TOKEN_BYTES = 4096
"""Bytes of the longest token: a larger file is not a token."""

FOLLOW_SECONDS = 1.0
"""Seconds after which a browser that was signed out at another node is signed out here as well."""

LOOK_SECONDS = 0.25
"""Seconds between two checks of the logins that open streams rely on."""

CODE_BYTES = 16
CODE_SECONDS = 15 * 60
"""Seconds for which a login link is valid: enough to walk over to another device."""
MAX_CODES = 20
"""Number of links of one person that may wait to be opened; the oldest are dropped. So nobody makes those of others
invalid."""

FAILURES = 10
FAILURE_SECONDS = 60.0
"""Number of different wrong codes and tokens from one address within `FAILURE_SECONDS`; further ones get 429.

The limit has no other effect: a correct one is always accepted, and no rate is enough to guess one.
"""
MAX_PEERS = 1000
"""Number of addresses whose failures are counted; those that failed longest ago are dropped."""


def make_token(path: Path) -> str:
    """Return the token in this file of Penstock's own; create the file if it does not exist.

    Raises:
        UsageError: others can read the file, it cannot be written, or it does not hold a token.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token(path, private=True)
    except OSError as error:
        raise UsageError(f"the token cannot be written to {path}: {error.strerror}") from error
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with open(fd, "w", encoding="ascii") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(fd)
    return token


def read_token(path: Path, *, private: bool = False) -> str:
    """Return the token in a file. `private`: only the owner may be able to read it; otherwise its group may as well.

    Raises:
        UsageError: the file cannot be read, others can read it, or it does not hold a token.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            raw = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the token in {path} cannot be read: {error.strerror}") from error
    if mode & (0o077 if private else 0o007):
        raise UsageError(
            f"others can read the token in {path}",
            expected="a file of mode 0600",
            help="delete it, and a new one is made" if private else f"chmod 600 {path}",
        )
    return check_token(raw[: MAX_TOKEN_BYTES + 1].decode("utf-8", "replace").strip(), str(path))


def check_token(token: str, where: str) -> str:
    """Return the token if it is valid.

    Raises:
        UsageError: it is too short or too long, or cannot be sent in a header.
    """
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"the token of {where} cannot be used",
            expected=f"at least {MIN_TOKEN_CHARS} characters of plain ASCII",
            help='python3 -c "import secrets; print(secrets.token_urlsafe())" makes one',
        )
    return token


class Code(NamedTuple):
    """One-time code."""

    until: float
    by: Browser | None
    """Browser that made the link: once it is signed out, the link is invalid."""
    person: str = OWNER
    """Person whom it signs in."""


class Failures:
    """Counter of failed logins for each address."""

    def __init__(self) -> None:
        self._peers: dict[str, dict[bytes, float]] = {}

    def add(self, peer: str, guess: bytes, now: float) -> float:
        """Count a failure; return the seconds to wait before the next attempt, 0 if there were not too many.

        The same wrong value again is not counted as a further guess.
        """
        failed = {one: at for one, at in self._peers.pop(peer, {}).items() if now - at < FAILURE_SECONDS}
        wait = 0.0
        if guess not in failed and len(failed) == FAILURES:
            wait = min(failed.values()) + FAILURE_SECONDS - now
        else:
            failed.setdefault(guess, now)
        self._peers[peer] = failed
        if len(self._peers) > MAX_PEERS:
            del self._peers[next(iter(self._peers))]
        return wait


class Logins:
    """Checks the token, issues codes, and signs browsers in."""

    def __init__(
        self,
        token: str,
        cookie: str,
        *,
        browsers: Path | None = None,
        shared: LoginStore | None = None,
        people: People | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`cookie`: name of the cookie. `browsers`: file of the browsers that are signed in.

        `shared`: store of the logins of several nodes, instead of the file. `people`: who may use the server; None: the
        owner alone.

        `clock` counts seconds; `now` returns seconds since 1970.

        Raises:
            UsageError: the file cannot be used.
        """
        self.cookie = cookie
        self.browsers: Browsers = Browsers(browsers, token, now, shared=shared)
        self.people: People = people or People()
        self._shared = shared
        self._tokens: frozenset[bytes] = frozenset()
        self._relying: dict[Callable[[], None], Callable[[], bool]] = {}
        """Callbacks that end streams, each with what returns whether its stream may go on."""
        self._reads = 0  # how often the store was read
        self._reading = asyncio.Lock()
        self._token = token.encode()
        self._codes: dict[bytes, Code] = {}
        self._failures = Failures()
        self._clock = clock

    # --- the token ---

    def is_own_token(self, token: str) -> bool:
        """Return whether this is the token of this node, compared in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)

    def is_token(self, token: str) -> bool:
        """Return whether this is the token of this node or a known one of another node, as `is_own_token`."""
        return self.is_own_token(token) or (self.is_current and _hashed(token) in self._tokens)

    def with_token(self, token: str) -> Person | None:
        """Return the person who has this token: the owner, if it is that of a node."""
        return OWNING if self.is_token(token) else self.people.with_token(token)

    def limit_of(self, name: str) -> int | None:
        """Return the maximum number of turns of a person that run or wait at once; None for no limit of their own."""
        person = self.people.find(name)
        return None if person is None else person.max_runs

    def person_of(self, browser: Browser) -> Person | None:
        """Return the person of a browser; None if they were removed."""
        return self.people.find(browser.person)

    # --- dependence on other nodes ---

    @property
    def is_current(self) -> bool:
        """True if this node knows who is signed in. One that cannot reach its database soon does not."""
        return self._shared is None or self._shared.is_current()

    def check_current(self) -> None:
        """Check that this node knows who is signed in.

        Raises:
            StoreUnavailable: it cannot reach its database.
        """
        if not self.is_current:
            raise StoreUnavailable(
                "this machine cannot reach its database, and does not know who is signed in",
                help="use another one, or wait until it can",
            )

    @contextlib.contextmanager
    def relied_on(self, is_valid: Callable[[], bool], call: Callable[[], None]) -> Iterator[None]:
        """Run `call` as soon as `is_valid` returns False."""
        if not is_valid():
            call()
        self._relying[call] = is_valid
        try:
            yield
        finally:
            del self._relying[call]

    def _end_what_relies(self) -> None:
        for call, is_valid in [*self._relying.items()]:
            if not is_valid():
                call()

    # --- changes by other nodes ---

    async def read_again(self) -> bool:
        """Read the logins of other nodes; return whether there may be new ones.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if self._shared is None:
            return False
        before = self._reads
        async with self._reading:
            if self._reads < before + 2:  # a read that began after this call serves it as well
                self._tokens = await self.browsers.read_again()
                self._reads += 1
        return True

    async def follow(self) -> None:
        """Read the logins of other nodes and the people again and again, until cancelled.

        End what relies on a login that is over, and sign the browsers of people out who were removed.
        """
        looking = asyncio.create_task(self._look_again())
        try:
            while True:
                await self._read_quietly()
                await asyncio.sleep(FOLLOW_SECONDS)
        finally:
            looking.cancel()

    async def _look_again(self) -> None:
        while True:  # beside the reads: one of a database that does not answer takes some seconds
            await asyncio.sleep(LOOK_SECONDS)
            if self._shared is None and not self.people.are_several:
                continue  # there is nothing that others can end
            self._end_what_relies()
            with contextlib.suppress(StoreUnavailable):  # the next look tries again; no request of theirs is accepted
                await self.sign_out_removed()

    async def sign_out_removed(self) -> None:
        """Sign the browsers of people out who were removed; not where nodes share the browsers.

        Another node may know people that this one does not. This one accepts none of their requests.

        Raises:
            StoreUnavailable: they cannot be signed out.
        """
        if self._shared is not None:
            return
        known = {person.name for person in self.people.all()}
        if gone := [browser for browser in self.browsers.listed() if browser.person not in known]:
            await self.browsers.sign_out(gone)

    async def _read_quietly(self) -> None:
        with contextlib.suppress(StoreFailed):
            await self.read_again()

    # --- one-time codes ---

    def new_code(self, by: Browser | None = None, person: str | None = None) -> str:
        """Return a code that signs one browser of a person in, once, within `CODE_SECONDS`.

        `by`: the browser that requests it. By default, the person is that of `by`, or the owner.
        """
        code = secrets.token_urlsafe(CODE_BYTES)
        name = _of(by, person)
        waiting = [hashed for hashed, it in self._codes.items() if it.person == name]
        for hashed in waiting[: max(len(waiting) - MAX_CODES + 1, 0)]:
            del self._codes[hashed]
        self._codes[_hashed(code)] = Code(self._clock() + CODE_SECONDS, by, name)
        return code

    async def make_code(self, by: Browser | None = None, person: str | None = None) -> str:
        """Return a code, as `new_code`, that is valid at all nodes.

        Raises:
            StoreFailed: it cannot be stored.
        """
        if self._shared is None:
            return self.new_code(by, person)
        code = secrets.token_urlsafe(CODE_BYTES)
        secret = by.secret if by is not None else None
        await self._shared.put_code(_hashed(code), CODE_SECONDS, secret, _of(by, person))
        return code

    async def _take_code(self, code: str | None) -> Code | None:
        """Remove a code and return it, if it is valid."""
        # By its hash: the duration of a look-up among hashes reveals nothing about a code.
        hashed = _hashed(code)
        if self._shared is None:
            found = self._codes.pop(hashed, None)
            return found if found is not None and found.until > self._clock() else None
        taken = await self._shared.take_code(hashed)
        if taken is None:
            return None
        await self.read_again()
        by = self.browsers.with_secret(taken.by) if taken.by else None
        return Code(self._clock() + CODE_SECONDS, by, taken.person)

    async def _give_back(self, code: str | None, found: Code) -> None:
        if self._shared is None:
            self._codes[_hashed(code)] = found
        else:
            with contextlib.suppress(StoreFailed):
                by = found.by.secret if found.by else None
                await self._shared.put_code(_hashed(code), CODE_SECONDS, by, found.person)

    # --- signing in ---

    async def log_in(
        self,
        *,
        code: str | None = None,
        token: str | None = None,
        peer: str = "",
        name: str = "A browser",
        secure: bool = False,
        cookie: str | None = None,
    ) -> str:
        """Return the cookie for a client that has this code or the token: `cookie` if its browser is already signed in.

        A right code or token is accepted, whatever failed before. `peer` is the address that the request came from.

        Raises:
            Unauthorized: the code or the token is wrong.
            RateLimited: it is wrong, and so were too many others from this address.
            StoreUnavailable: the browser cannot be stored; the code is still valid.
        """
        found = None
        if token is not None:
            person = self.with_token(token)
            if person is None and await self.read_again():
                person = self.with_token(token)
        else:
            found = await self._take_code(code)
            person = self.people.find(found.person) if found is not None else None
        made = None
        if person is not None:
            try:
                made = cookie if cookie is not None and self._is_of(cookie, person) else None
                by = found and found.by
                made = made or await self.browsers.sign_in(name, secure=secure, by=by, person=person.name)
            except BaseException:
                if found is not None:
                    await self._give_back(code, found)
                raise
        if made is None:
            raise self._failure(peer, code, token)
        return made

    def _is_of(self, cookie: str, person: Person) -> bool:
        browser = self.browsers.find(cookie)
        return browser is not None and browser.person == person.name

    def _failure(self, peer: str, code: str | None, token: str | None) -> Unauthorized | RateLimited:
        wait = self._failures.add(peer, _hashed(token if code is None else code), self._clock())
        if wait > 0:
            return RateLimited("too many logins from this address failed, and this one did too", wait)
        if code is None:
            return Unauthorized("the token is wrong", expected="the one in the file that penstock serve names")
        return Unauthorized(
            "this link has been used already, or is too old",
            expected=f"a link that is not older than {CODE_SECONDS // 60} minutes, once",
            help="enter the token, or make a new link where you are logged in",
        )


def _of(by: Browser | None, person: str | None) -> str:
    return person or (by.person if by is not None else OWNER)


def _hashed(secret: str | None) -> bytes:
    return hashlib.sha256((secret or "").encode("utf-8", "surrogateescape")).digest()
