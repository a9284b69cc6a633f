"""Checks of a request before anything else: its host, its origin, its authentication.

Also the security headers of every response. `docs/security.md` has the reasons.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from starlette.requests import Request
from starlette.types import Scope

from penstock.chat.people.persons import Person
from penstock.chat.store.logins import Browser
from penstock.chat.web.auth import Logins
from penstock.chat.web.browsers import COOKIE_DAYS, DAY
from penstock.chat.web.errors import AmbiguousLength, Forbidden, HeadersTooLarge, MisdirectedRequest, Unauthorized
from penstock.chat.web.trusted_proxy import TrustedProxy
from penstock.errors import UsageError

BROWSER = "penstock.browser"
"""Key in a scope of the browser that sent the request; its value is None if a program with the token sent it."""

PERSON = "penstock.person"
"""Key in a scope of the person who sent the request."""

PROXIED = "penstock.proxied"
"""Key in a scope: True if a proxy named the person."""

RELIES = "penstock.relies"
"""Key in a scope: True if the request's login can end while this node runs: any but this node's own token."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that are always allowed."""

HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-][a-z0-9._-]{0,252})(:[0-9]{1,5})?")
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-][a-z0-9._-]{0,252})(:[0-9]{1,5})?")

MAX_HEADER_BYTES = 32 * 1024
MAX_HEADERS = 100
"""Maximum number of headers of one request, with at most `MAX_HEADER_BYTES` in all: browsers send about 1 KB, plus
cookies of other servers on this machine."""

READING = ("GET", "HEAD")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify penstock-worker penstock-stream"
)
"""Content security policy of the page; `{scripts}` are the sources of its scripts."""


def headers(inline_scripts: Iterable[str] = ()) -> list[tuple[bytes, bytes]]:
    """Return the headers of every response; `inline_scripts` are the hashes of scripts in the page itself.

    The last one is for browsers that do not support `frame-ancestors`.
    """
    policy = CONTENT_SECURITY_POLICY.format(scripts=" ".join(["'self'", *inline_scripts]))
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"x-frame-options", b"DENY"),
    ]


PART = "penstock.part"
"""Key in a scope of a file that is a part of a page: a script or a style."""

PART_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers of a part of a page. The policy of the page holds for it; its own, for whatever else a browser takes it for,
allows nothing. A first visit loads 80 of them, and the headers of a document are 500 bytes longer.
"""


CORS_METHODS = "GET, HEAD, POST, PATCH, DELETE"
CORS_HEADERS = (
    "authorization, content-type, idempotency-key, last-event-id, x-penstock-chat, x-penstock-cwd, x-penstock-detail"
)
PREFLIGHT_SECONDS = "600"


class Security:
    """Security rules of one server."""

    def __init__(
        self,
        logins: Logins,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        proxy: TrustedProxy | None = None,
    ) -> None:
        """`hosts`: hosts allowed besides the loopback, with a port or for any port; `origins`: other origins allowed.

        `proxy`: the proxy that signs people in; None: there is none.

        Raises:
            UsageError: one of them cannot be a host or an origin.
        """
        self.logins = logins
        self.proxy = proxy
        self.hosts: Collection[str] = {*LOOPBACK, *(check_host(host) for host in hosts)}
        self.origins: Collection[str] = {check_origin(origin) for origin in origins}

    # --- host and origin of a request ---

    def check_headers(self, request: Request) -> None:
        """Check that the headers have the size of a genuine request.

        Raises:
            HeadersTooLarge: there are too many headers, or they are too large.
            AmbiguousLength: they give the length of the body in two ways.
        """
        headers = request.headers.raw
        if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
            raise HeadersTooLarge(MAX_HEADER_BYTES)
        if "content-length" in request.headers and "transfer-encoding" in request.headers:
            raise AmbiguousLength

    def check_host(self, request: Request) -> str:
        """Return the host that the request names.

        Raises:
            MisdirectedRequest: it names none, more than one, or one that is not allowed.
        """
        named = request.headers.getlist("host")
        found = HOST.fullmatch(named[0].lower()) if len(named) == 1 else None
        if found is None or not {found[0], found[1]} & set(self.hosts):
            raise MisdirectedRequest
        return found[0]

    def check_origin(self, request: Request, host: str) -> str | None:
        """Return the request's origin if it is another one that is allowed; None if it is Penstock's own, or absent.

        Raises:
            Forbidden: the request comes from a page of an origin that is not allowed.
        """
        origins = request.headers.getlist("origin")
        if origins and origins[0] in self.origins and len(origins) == 1:
            return origins[0]
        # `same-site` is rejected too: any server on another port of this machine is of the same site.
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise _foreign()
        if not origins:
            return None
        own = {f"https://{host}"}
        if request.headers.get("x-forwarded-proto", "http") == "http":
            own.add(f"http://{host}")
        if len(origins) > 1 or origins[0].lower() not in own:
            raise _foreign()
        return None

    # --- authentication ---

    def check_person(self, request: Request, foreign: str | None) -> tuple[Person, Browser | None]:
        """Return the person and the browser that sent the request; no browser if a program with a token sent it.

        Raises:
            Unauthorized: the request has neither a token nor the cookie of a signed-in browser.
            Forbidden: a browser's request without an `Origin` would change something.
            RejectedProxy: it has the header of a proxy, and is not accepted as one of the proxy.
        """
        named = None if self.proxy is None else self.proxy.person_of(request, self.logins.people)
        if named is not None:  # also beside a token: that of the proxy's own login is none of Penstock's
            if foreign is not None or (request.method not in READING and "origin" not in request.headers):
                raise _foreign()  # the proxy signs in a browser, whatever page in it sends the request
            request.scope[PROXIED] = request.scope[RELIES] = True
            return named, None
        given = request.headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            person = self.logins.with_token(token.strip()) if scheme.lower() == "bearer" else None
            if person is None:
                raise Unauthorized("the token is wrong", expected=_EXPECTED, headers=_CHALLENGE)
            request.scope[RELIES] = not self.logins.is_own_token(token.strip())
            return person, None
        cookie = self.cookie_of(request) if foreign is None and self.logins.is_current else None
        request.scope[RELIES] = True
        browser = self.logins.browsers.find(cookie) if cookie is not None else None
        person = self.logins.person_of(browser) if browser is not None else None
        if browser is None or person is None:
            raise _unknown()
        if request.method not in READING and "origin" not in request.headers:
            raise _foreign()
        self.logins.browsers.note_use(browser)
        return person, browser

    async def identify(self, request: Request, foreign: str | None) -> tuple[Person, Browser | None]:
        """Return who sent the request, as `check_person`, also if the browser signed in at another node just now.

        Raises:
            Unauthorized, Forbidden: as `check_person`.
            StoreUnavailable: this node does not know who is signed in, as it cannot reach its database.
        """
        try:
            return self.check_person(request, foreign)
        except Unauthorized:
            if not self._has_credentials(request):
                raise
            self.logins.check_current()
            if not await self.logins.read_again():
                raise
        return self.check_person(request, foreign)

    def _has_credentials(self, request: Request) -> bool:
        return "authorization" in request.headers or f"{self.logins.cookie}=" in request.headers.get("cookie", "")

    @contextlib.contextmanager
    def watched(
        self,
        request: Request,
        expel: Callable[[], None],
        dismiss: Callable[[], None],
        sees: Callable[[Person], bool] | None = None,
    ) -> Iterator[None]:
        """Call `expel` once the browser of a request is signed out, or its person no longer `sees` what is sent.

        Call `dismiss` once this node no longer knows whether the request's login is valid, or once its token is
        invalid.
        """
        token = _token_of(request)

        def is_valid() -> bool:
            return self.logins.is_current and (token is None or self.logins.with_token(token) is not None)

        with contextlib.ExitStack() as stack:
            stack.enter_context(self.logins.browsers.watched(request.scope.get(BROWSER), expel))
            if request.scope.get(RELIES):
                stack.enter_context(self.logins.relied_on(is_valid, dismiss))
            stack.enter_context(self.seen(request, expel, sees or _everybody))
            yield

    @contextlib.contextmanager
    def seen(self, request: Request, expel: Callable[[], None], sees: Callable[[Person], bool]) -> Iterator[None]:
        """Call `expel` once the person who sent a request no longer `sees` something, or was removed."""
        name = person_of(request).name

        def may_see() -> bool:
            person = self.logins.people.find(name)
            return person is not None and sees(person)

        with contextlib.ExitStack() as stack:
            if request.scope.get(RELIES):
                stack.enter_context(self.logins.relied_on(may_see, expel))
            yield

    def check_still(self, scope: Scope) -> None:
        """Check that a request is still authenticated as it was: that its login has not ended meanwhile.

        Raises:
            Unauthorized: the browser was signed out, the token is no longer valid, or the person was removed.
            StoreUnavailable: this node no longer knows who is signed in.
        """
        if scope.get(RELIES):
            self.logins.check_current()
        browser: Browser | None = scope.get(BROWSER)
        if browser is not None and not self.logins.browsers.has(browser):
            raise _unknown()
        token = _token_of(Request(scope))
        if token is not None and self.logins.with_token(token) is None:
            raise Unauthorized("the token is wrong", expected=_EXPECTED, headers=_CHALLENGE)
        person: Person | None = scope.get(PERSON)
        if person is not None and self.logins.people.find(person.name) is None:
            raise _unknown()

    def cookie_of(self, request: Request) -> str | None:
        """Return the value of Penstock's cookie if the request has one of a signed-in browser."""
        for header in request.headers.getlist("cookie"):
            for cookie in header.split(";"):
                name, _, value = cookie.strip().partition("=")
                if name == self.logins.cookie and self.logins.browsers.find(value) is not None:
                    return value
        return None

    def set_cookie(self, value: str, *, secure: bool) -> str:
        """Return the value of the `Set-Cookie` header; an empty `value` deletes the cookie."""
        age = COOKIE_DAYS * DAY if value else 0
        flag = "; Secure" if secure else ""
        return f"{self.logins.cookie}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{flag}"


_EXPECTED = "Authorization: Bearer TOKEN, or the cookie of a browser that is logged in"
_HELP = "open a link of penstock serve or penstock link; programs use the token in the file that penstock serve names"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _token_of(request: Request) -> str | None:
    """Return the token by which an authenticated request was accepted; None if it was another way."""
    given = None if request.scope.get(PROXIED) else request.headers.get("authorization")
    return None if given is None else given.partition(" ")[2].strip()


def _everybody(person: Person) -> bool:
    """Return True: what is sent is for all who are signed in."""
    return True


def _unknown() -> Unauthorized:
    return Unauthorized("authentication required", expected=_EXPECTED, help=_HELP, headers=_CHALLENGE)


def person_of(request: Request) -> Person:
    """Return the person who sent an authenticated request."""
    found: Person = request.scope[PERSON]
    return found


def peer_of(request: Request) -> str:
    """Return the address that a request comes from, for IPv6 its /64 network; "" for a Unix socket.

    Behind a proxy it is the proxy's address: anybody can send an `X-Forwarded-For`.
    """
    return network_of(request.client.host if request.client is not None else "")


def network_of(host: str) -> str:
    """Return an address as limits count it: one of IPv6 by its /64 network, as a client has all of its addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address.packed, 64), strict=False))


def is_https(request: Request) -> bool:
    """Return whether the client uses https, to Penstock or to a proxy before it."""
    forwarded = request.headers.get("x-forwarded-proto")
    return forwarded == "https" or request.headers.get("origin", "").startswith("https:")


def _foreign() -> Forbidden:
    return Forbidden(
        "the request comes from another page than Penstock's own",
        expected="an Origin that equals the Host, or none and a token",
        help="a proxy has to pass the Host on; a page of yours is allowed by penstock serve --allow-origin",
    )


def preflight(origin: str) -> dict[str, str]:
    """Return the headers of the response to a preflight request from a page of another origin."""
    return {
        **cors(origin),
        "Access-Control-Allow-Methods": CORS_METHODS,
        "Access-Control-Allow-Headers": CORS_HEADERS,
        "Access-Control-Max-Age": PREFLIGHT_SECONDS,
    }


def cors(origin: str) -> dict[str, str]:
    """Return the headers that allow a page of another origin to read a response. It has no cookie: it needs a token."""
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def check_host(host: str) -> str:
    """Return a host of the command line in lower case.

    Raises:
        UsageError: it is not a host.
    """
    if not HOST.fullmatch(host.lower()):
        raise UsageError(
            f"{host!r} is not a host", expected="a name such as penstock.example.org, with or without a port"
        )
    return host.lower()


def check_origin(origin: str) -> str:
    """Return an origin of the command line if it is valid.

    Raises:
        UsageError: it is not an origin.
    """
    if not ORIGIN.fullmatch(origin):
        raise UsageError(
            f"{origin!r} is not an origin", expected="an origin such as https://chat.example.org, in lower case"
        )
    return origin
