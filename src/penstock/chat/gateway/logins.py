"""Who is known: the token, one-time codes for browsers, and the cookies that these get.

A cookie is signed with the token, and kept nowhere here: it survives a restart, and dies with the token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from penstock.chat.gateway.refusing import TooManyRequests, UnknownPerson
from penstock.errors import UsageError

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
TOKEN_BYTES = 32
MIN_TOKEN_CHARS = 32
"""A token that somebody chose: shorter ones can be guessed."""
MAX_TOKEN_BYTES = 4096
"""A larger file is no token."""

CODE_BYTES = 16
CODE_SECONDS = 15 * 60
"""How long a link lets somebody in: as long as it takes to walk over to another device."""
MAX_CODES = 20
"""Links that wait to be opened; the oldest go."""

COOKIE_DAYS = 90
RENEWED_DAYS = 1
"""A cookie that is older gets a new one, so that only a browser that stayed away has to log in again."""
DAY = 24 * 60 * 60

FAILURES = 10
FAILURE_SECONDS = 60.0
"""So many logins may fail in that time; nobody mistypes a link more often, and nobody guesses one at that pace."""


def make_token(path: Path) -> str:
    """The token in this file of Penstock's own, which is made where there is none.

    Raises:
        UsageError: others can read it, or it is none.
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
    """The token in a file. `private`: nobody else may be able to read it; else all but strangers.

    Raises:
        UsageError: it cannot be read, others can read it, or it is none.
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
            way_out="delete it, and a new one is made" if private else f"chmod 600 {path}",
        )
    return check_token(raw[: MAX_TOKEN_BYTES + 1].decode("utf-8", "replace").strip(), str(path))


def check_token(token: str, where: str) -> str:
    """The token, if it can be one.

    Raises:
        UsageError: it is too short, or cannot stand in a header.
    """
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"the token of {where} cannot be used",
            expected=f"at least {MIN_TOKEN_CHARS} characters of plain ASCII",
            way_out='python3 -c "import secrets; print(secrets.token_urlsafe())" makes one',
        )
    return token


class Logins:
    """Knows the token, gives out codes and cookies, and says who has one."""

    def __init__(
        self,
        token: str,
        cookie: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`cookie`: its name. `clock` counts seconds; `now` gives those since 1970."""
        self.cookie = cookie
        self._token = token.encode()
        self._key = hmac.digest(self._token, b"penstock cookie " + cookie.encode(), "sha256")
        self._codes: dict[bytes, float] = {}
        self._failures: deque[float] = deque(maxlen=FAILURES)
        self._clock = clock
        self._now = now

    # --- the token ---

    def is_token(self, token: str) -> bool:
        """Whether it is the token; how long that takes says nothing of it."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)

    # --- one-time codes ---

    def new_code(self) -> str:
        """A code that lets one browser in, once, for a while."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes[_hashed(code)] = self._clock() + CODE_SECONDS
        while len(self._codes) > MAX_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def log_in(self, *, code: str | None = None, token: str | None = None) -> str:
        """The value of a cookie, for a code or the token.

        Raises:
            UnknownPerson: it is wrong, was used, or is too old.
            TooManyRequests: too many were wrong.
        """
        now = self._clock()
        if len(self._failures) == FAILURES and now - self._failures[0] < FAILURE_SECONDS:
            what = "too many logins failed"
            raise TooManyRequests(what, self._failures[0] + FAILURE_SECONDS - now)
        if token is not None and self.is_token(token):
            return self.new_cookie()
        # By its hash: a look-up among hashes tells nothing of a code.
        if code is not None and self._codes.pop(_hashed(code), 0.0) > now:
            return self.new_cookie()
        self._failures.append(now)
        if code is None:
            raise UnknownPerson("the token is wrong", expected="the one in the file that penstock serve names")
        raise UnknownPerson(
            "this link has been used already, or is too old",
            expected=f"a link that is not older than {CODE_SECONDS // 60} minutes, once",
            way_out="enter the token, or make a new link where you are logged in",
        )

    # --- cookies ---

    def new_cookie(self) -> str:
        """The value of a new cookie."""
        made = f"{int(self._now()):x}.{secrets.token_hex(8)}"
        return f"{made}.{self._signed(made)}"

    def is_cookie(self, value: str) -> bool:
        """Whether it is one of ours, and not too old."""
        made, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), self._signed(made).encode()):
            return False
        return self._now() - self._made_at(value) < COOKIE_DAYS * DAY

    def is_old(self, value: str) -> bool:
        """Whether a cookie of ours should be replaced."""
        return self._now() - self._made_at(value) >= RENEWED_DAYS * DAY

    def _signed(self, made: str) -> str:
        return hmac.new(self._key, made.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    @staticmethod
    def _made_at(value: str) -> int:
        return int(value.partition(".")[0], 16)


def _hashed(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).digest()
