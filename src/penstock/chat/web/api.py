"""`Api`: what the handlers of all addresses share."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from penstock.chat.errors import NoSuchChat, NotAllowed
from penstock.chat.people.audit import Audit
from penstock.chat.people.persons import Person
from penstock.chat.people.rights import Right, check, is_owner, may_read, reader_of
from penstock.chat.runs.service import Runs
from penstock.chat.service.service import Service
from penstock.chat.store.permits import Permit
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.search import Reader
from penstock.chat.web.broadcast import Watches
from penstock.chat.web.security import Security, person_of
from penstock.chat.web.sse import PING_SECONDS, SEND_SECONDS
from penstock.config.ownership import Ownership, ownership_in

if TYPE_CHECKING:
    from penstock.chat.web.foreign_turns import ForeignTurns


class Api:
    """Service, documents and loops, streams and logins of one server, and the checks of who may ask."""

    def __init__(
        self,
        service: Service,
        watches: Watches,
        security: Security,
        runs: Runs,
        *,
        audit: Audit | None = None,
        ping: float = PING_SECONDS,
        patience: float = SEND_SECONDS,
    ) -> None:
        """`audit`: record of what persons do; None: none.

        `ping` and `patience` are those of `EventStream`, in seconds.
        """
        self.audit: Audit = audit or Audit(None)
        self.service = service
        self.watches = watches
        self.security = security
        self.runs = runs
        self.openapi = b"{}"
        self.ping = ping
        self.patience = patience

    def check(self, request: Request, right: Right, chat: str | None, run: Ownership | None = None) -> None:
        """Check that the person who sent a request has a right, for a chat or run if the right depends on it.

        Raises:
            NoSuchChat, NoSuchRun: there is no such chat, document or loop, or the person may not see it.
            NotAllowed: the person does not have the right.
        """
        if right != "public":
            check(person_of(request), right, run if chat is None else self.service.row(chat))

    def permit(self, request: Request, right: Right, chat: str | None, folder: Path | None = None) -> Permit | None:
        """Return the permit of a request, for what it reads and changes; None for one that anybody may send.

        It is that of `check`, by what is known when it is called: of the login, the person's role, and the chat, or
        the document or loop of the `folder`.
        """
        if right == "public":
            return None
        asked, row = person_of(request), None if chat is None else self.service.row(chat)

        def permitted() -> Reader:
            self.security.check_still(request.scope)
            person = self.security.logins.people.find(asked.name)
            assert person is not None
            if row is not None:
                check(person, right, self._latest(row))
            else:
                check(person, right, None if folder is None else ownership_in(folder))
            if is_owner(asked) and not is_owner(person) and right == "signed in":
                raise NotAllowed(f"{person.name} is no longer an owner of this server", help="send the request again")
            return reader_of(person)

        return permitted

    def _latest(self, row: ChatRow) -> ChatRow:
        try:
            return self.service.row(row.id)
        except NoSuchChat:
            return row

    async def ownership(self, run: str) -> Ownership:
        """Return to whom a document or loop belongs.

        Raises:
            NoSuchRun: it does not exist.
        """
        return ownership_in(await self.runs.folder(run))

    def sees_chat(self, chat: str, person: Person) -> bool:
        """Return whether a person may still see a chat. The end of one that is deleted is for all who watch it."""
        try:
            return may_read(person, self.service.row(chat))
        except NoSuchChat:
            return True

    @cached_property
    def foreign_turns(self) -> ForeignTurns:
        """Turns that programs of other protocols ask for."""
        from penstock.chat.web.foreign_turns import ForeignTurns

        return ForeignTurns(
            self.service,
            self.watches,
            self.security,
            sees=self.sees_chat,
            ping=self.ping,
            patience=self.patience,
        )
