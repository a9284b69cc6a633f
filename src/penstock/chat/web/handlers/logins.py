"""Handlers of logins: sign in and out, browsers, links, and calls of browsers."""

from __future__ import annotations

import socket

from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.errors import Invalid
from penstock.chat.people.rights import check, is_owner
from penstock.chat.store.logins import Browser
from penstock.chat.web import push_api, schemas
from penstock.chat.web.api import Api
from penstock.chat.web.browsers import name_of
from penstock.chat.web.errors import NO_STORE, NoSuchBrowser
from penstock.chat.web.handlers.parts import address_of, browser_of, json_response
from penstock.chat.web.security import LOOPBACK, is_https, peer_of, person_of


async def log_in(api: Api, request: Request, body: schemas.Login) -> Response:
    """Sign the browser in and set its cookie."""
    if (body.code is None) == (body.token is None):
        raise Invalid("it takes a code, or a token", expected='{"code"} or {"token"}')
    secure = is_https(request)
    cookie = await api.security.logins.log_in(
        code=body.code,
        token=body.token,
        peer=peer_of(request),
        name=name_of(request.headers.get("user-agent", "")),
        secure=secure,
        cookie=api.security.cookie_of(request),
    )
    return _with_cookie(api, cookie, secure=secure)


async def log_out(api: Api, request: Request, body: schemas.Logout) -> Response:
    """Sign out this browser, or all browsers of the person, and delete the cookie. An owner signs everybody out."""
    browsers, browser, person = api.security.logins.browsers, browser_of(request), person_of(request)
    if body.everywhere and is_owner(person):
        await browsers.sign_out_all()
    elif body.everywhere:
        await browsers.read_again()
        await browsers.sign_out([it for it in browsers.listed() if it.person == person.name])
    elif browser is not None:
        await browsers.sign_out([browser])
    return _with_cookie(api, "", secure=is_https(request))


async def browsers(api: Api, request: Request) -> Response:
    """Return the browsers of the person that are signed in; to an owner, those of everybody."""
    own = browser_of(request)
    views = [
        schemas.BrowserView(it.id, it.name, it.created_at, it.used_at, it is own, it.person)
        for it in _browsers(api, request)
    ]
    return json_response({"browsers": views})


async def revoke(api: Api, request: Request, browser: str) -> Response:
    """Sign one browser out."""
    found = next((it for it in _browsers(api, request) if it.id == browser), None)
    if found is None:
        raise NoSuchBrowser
    await api.security.logins.browsers.sign_out([found])
    if found is browser_of(request):
        return _with_cookie(api, "", secure=is_https(request))
    return Response(status_code=204, headers=NO_STORE)


def _browsers(api: Api, request: Request) -> list[Browser]:
    person = person_of(request)
    found = api.security.logins.browsers.listed()
    return [it for it in found if is_owner(person) or it.person == person.name]


def _with_cookie(api: Api, value: str, *, secure: bool) -> Response:
    cookie = api.security.set_cookie(value, secure=secure)
    return Response(status_code=204, headers={**NO_STORE, "Set-Cookie": cookie})


async def link(api: Api, request: Request, body: schemas.NewLink) -> Response:
    """Make a one-time link to the address that the request was sent to, for the person or, by an owner, another."""
    person = person_of(request)
    name = body.person if body.person is not None else person.name
    if name != person.name:
        check(person, "operate")
    if api.security.logins.people.find(name) is None:
        raise Invalid("there is no person of this name", help="penstock people lists them")
    by = browser_of(request) if name == person.name else None
    code = await api.security.logins.make_code(by, name)
    allowed = sorted({*api.security.hosts} - {*LOOPBACK})
    return json_response(schemas.Link(f"{address_of(request)}/#code={code}", socket.gethostname(), allowed))


async def make_push_key(api: Api, request: Request, body: schemas.NoBody) -> Response:
    """Return the key for calls of this browser."""
    return json_response(await push_api.make_key(api.security.logins, request))


async def subscribe(api: Api, request: Request, body: schemas.NewPush) -> Response:
    """Subscribe this browser to calls."""
    await push_api.subscribe(api.security.logins, api.service.push, request, body)
    return Response(status_code=204, headers=NO_STORE)


async def unsubscribe(api: Api, request: Request) -> Response:
    """Unsubscribe this browser from calls."""
    await push_api.unsubscribe(api.security.logins, request)
    return Response(status_code=204, headers=NO_STORE)
