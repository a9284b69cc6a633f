"""What of a request is recorded: every change, and everything that is refused because of who asks."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import msgspec
from starlette.requests import Request

from penstock.chat.people.audit import Audit
from penstock.chat.people.persons import Person
from penstock.chat.store.logins import Browser
from penstock.chat.web import schemas
from penstock.chat.web.doors import bodies
from penstock.chat.web.routes import Address
from penstock.chat.web.security import BROWSER, PERSON, READING, peer_of

DETAILS: dict[type[schemas.Body], tuple[str, ...]] = {
    schemas.NewLink: ("person",),
    schemas.Logout: ("everywhere",),
    schemas.Trust: ("path", "home"),
    schemas.NewChat: ("agent", "cwd", "allow", "visibility", "tree"),
    schemas.Changes: ("agent", "model", "allow", "visibility", "archived"),
    schemas.NewShare: ("until", "details", "days"),
    schemas.Prompt: ("stops",),
    schemas.NewBranch: ("agent", "send", "tree"),
    schemas.Order: ("turns",),
    schemas.SendNow: ("stops",),
    schemas.UndoTurn: ("redo",),
    schemas.Stop: ("turn", "queued"),
    schemas.StopRun: ("now",),
    schemas.LandRun: ("squash",),
    schemas.LandChat: ("seen",),
    schemas.RunChanges: ("visibility", "person"),
    schemas.AnswerBody: ("id", "answer", "always"),
    bodies.CompletionRequest: ("model",),
    bodies.UiRequest: ("model",),
    bodies.AgUiRequest: (),
}
"""Fields of bodies that are recorded. Messages and codes are not."""


class Audited:
    """Context of one request, which is recorded at its end."""

    def __init__(self, audit: Audit, request: Request, address: Address, arguments: dict[str, Any]) -> None:
        """`arguments`: ids of the path and, once it was read, the body."""
        self._audit = audit
        self._request = request
        self._address = address
        self._arguments = arguments

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Record the request, if it changed something or was refused, before it is answered."""
        status = self._address.status if error is None else getattr(error, "status", 500)
        is_change = self._request.method not in READING and self._address.is_recorded
        if not is_change and status != 403:
            return
        if kind is asyncio.CancelledError:
            return
        person: Person | None = self._request.scope.get(PERSON)
        browser: Browser | None = self._request.scope.get(BROWSER)
        self._audit.write(
            None if person is None else person.name,
            self._address.does,
            status=status,
            browser=None if browser is None else browser.id,
            address=peer_of(self._request),
            chat=self._arguments.get("chat"),
            details=self._details(),
        )
        await self._audit.settle()

    def _details(self) -> dict[str, Any]:
        found = {name: value for name, value in self._arguments.items() if name not in ("chat", "body")}
        body: schemas.Body | None = self._arguments.get("body")
        for name in DETAILS.get(type(body), ()) if body is not None else ():
            value = getattr(body, name, None)
            if value is not None and value is not msgspec.UNSET:
                found[name] = value
        return found
