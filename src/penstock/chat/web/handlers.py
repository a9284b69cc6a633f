"""Request handlers of the gateway, which call the service. `routes` maps paths to them."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from penstock import events as ev
from penstock._version import __version__
from penstock.adapter import Allow
from penstock.chat.errors import Conflicting, Invalid, NoSuchChat, NoSuchRun, NotAllowed
from penstock.chat.history.details import details_of
from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.export import html, markdown
from penstock.chat.history.export.parts import ExportWriter, file_name
from penstock.chat.people.audit import Audit
from penstock.chat.people.persons import Person
from penstock.chat.people.rights import Right, check, is_owner, may_read, reader_of
from penstock.chat.runs.service import Runs
from penstock.chat.service.service import Sees, Service
from penstock.chat.service.share_view import SHARED, MadeShare, view_of
from penstock.chat.service.validation import depth_of
from penstock.chat.store.costs import MAX_DAYS, CostGroup
from penstock.chat.store.database import free_bytes
from penstock.chat.store.logins import Browser
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.search import MAX_KEY
from penstock.chat.web import metrics, push_api, schemas, shares
from penstock.chat.web.broadcast import WatchedLog, Watches
from penstock.chat.web.browsers import name_of
from penstock.chat.web.callers import depth_of_caller
from penstock.chat.web.doors.atif import turn_trajectory
from penstock.chat.web.errors import NO_STORE, NoSuchBrowser
from penstock.chat.web.list_stream import ListLog
from penstock.chat.web.process_figures import process_figures
from penstock.chat.web.security import BROWSER, LOOPBACK, Security, is_https, peer_of, person_of
from penstock.chat.web.sse import HEADERS, PING_SECONDS, SEND_SECONDS, EventStream, FollowedLog
from penstock.config.ownership import Ownership, ownership_in
from penstock.errors import shown

if TYPE_CHECKING:
    from penstock.chat.web.foreign_turns import ForeignTurns

PAGE_TURNS, MAX_PAGE_TURNS = 50, 200
"""Number of turns of one page: the default and the maximum."""

NUMBER = re.compile(r"[0-9]{1,18}")
"""Pattern of the number of an entry or a turn; longer numbers are never assigned."""

KEY = re.compile(r"[!-~]{1,200}")
"""Pattern of an idempotency key: any that every HTTP library can send."""

LIST = "list"

LIST_CURSOR = re.compile(r"([0-9]{1,16})-([A-Za-z0-9_-]{1,64})")
"""Time and id of the last chat of a page."""
"""Name by which a stream follows what changes in the list of chats."""

FOLLOWED = re.compile(r"(?P<name>list|(?:runs/)?[A-Za-z0-9][A-Za-z0-9_-]{0,63})(?::(?P<after>[0-9]{1,18}))?")
"""Pattern of what a stream follows: the list, a chat, a document or a loop; and the last number that is known."""

MAX_FOLLOWED = 100
"""Number of chats of one stream: more than a browser shows. Each that nobody else follows is held in memory."""

COST_DAYS = 30
"""Days of the costs that are returned unless a request names another number."""

NDJSON = "application/x-ndjson"

EXPORTS: dict[str, tuple[str, str, ExportWriter]] = {
    "markdown": ("text/markdown", "md", markdown),
    "html": ("text/html", "html", html),
}
"""Forms of a chat as a file: media type, ending of the name, and the module that writes it."""

DECIDED = ("visibility", "pinned", "archived")
"""Fields of a chat that only those change who decide about the chat itself: all who see it have the same."""


class Api:
    """Request handlers. Each takes a request, authenticated unless its route is public, the path's ids and the body."""

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
        self._ping = ping
        self._patience = patience

    def check(self, request: Request, right: Right, chat: str | None, run: Ownership | None = None) -> None:
        """Check that the person who sent a request has a right, for a chat or run if the right depends on it.

        Raises:
            NoSuchChat, NoSuchRun: there is no such chat, document or loop, or the person may not see it.
            NotAllowed: the person does not have the right.
        """
        if right != "public":
            check(person_of(request), right, run if chat is None else self.service.row(chat))

    async def ownership(self, run: str | None) -> Ownership | None:
        """Return to whom a document or loop belongs; None if none is named.

        Raises:
            NoSuchRun: it does not exist.
        """
        return None if run is None else ownership_in(await self.runs.folder(run))

    # --- the server ---

    async def health(self, request: Request) -> Response:
        """Return whether the server accepts requests."""
        ending = self.watches.ending
        return _json(schemas.HealthStatus("ending" if ending else "ok"), 503 if ending else 200)

    async def ready(self, request: Request) -> Response:
        """Return whether a proxy should send requests here; the log has more about the reason."""
        reason = self._reason()
        return _json(schemas.Readiness("unready" if reason else "ready", reason), 503 if reason else 200)

    def _reason(self) -> str | None:
        if self.watches.ending:
            return "the server is shutting down"
        if not (self.service.this_node.has_lease and self.security.logins.is_current):
            return "this node cannot reach its database"
        return None if self.service.store_state.failure is None else "the store cannot keep anything"

    async def about(self, request: Request) -> Response:
        """Return the description of this server. The browser's cookie is renewed for its full lifetime."""
        limits, person = self.service.limits, person_of(request)
        default = await asyncio.to_thread(self.service.agents.default)
        answer = _json(
            schemas.About(
                __version__,
                default,
                [*get_args(Allow)],
                limits.max_prompt_bytes,
                limits.max_attachment_bytes,
                schemas.PersonView(person.name, person.role),
                self.service.this_node.home,
                len(self.security.logins.people.all()) > 1,
            )
        )
        browser = _browser(request)
        if browser is not None and (cookie := self.security.cookie_of(request)):
            answer.headers["Set-Cookie"] = self.security.set_cookie(cookie, secure=browser.secure)
        return answer

    async def document(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        return Response(self.openapi, media_type="application/json", headers={"Cache-Control": "no-cache"})

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus."""
        folder = self.runs.data
        free = None if folder is None else await asyncio.to_thread(free_bytes, folder)
        text = metrics.text(self.watches.metrics, self.service, free, process_figures(), self.audit.lost)
        return Response(text, headers={**NO_STORE, "Content-Type": metrics.CONTENT_TYPE})

    # --- logins ---

    async def log_in(self, request: Request, body: schemas.Login) -> Response:
        """Sign the browser in and set its cookie."""
        if (body.code is None) == (body.token is None):
            raise Invalid("it takes a code, or a token", expected='{"code"} or {"token"}')
        secure = is_https(request)
        cookie = await self.security.logins.log_in(
            code=body.code,
            token=body.token,
            peer=peer_of(request),
            name=name_of(request.headers.get("user-agent", "")),
            secure=secure,
            cookie=self.security.cookie_of(request),
        )
        return self._with_cookie(cookie, secure=secure)

    async def log_out(self, request: Request, body: schemas.Logout) -> Response:
        """Sign out this browser, or all browsers of the person, and delete the cookie. An owner signs everybody out."""
        browsers, browser, person = self.security.logins.browsers, _browser(request), person_of(request)
        if body.everywhere and is_owner(person):
            await browsers.sign_out_all()
        elif body.everywhere:
            await browsers.read_again()
            await browsers.sign_out([it for it in browsers.listed() if it.person == person.name])
        elif browser is not None:
            await browsers.sign_out([browser])
        return self._with_cookie("", secure=is_https(request))

    async def browsers(self, request: Request) -> Response:
        """Return the browsers of the person that are signed in; to an owner, those of everybody."""
        own = _browser(request)
        views = [
            schemas.BrowserView(it.id, it.name, it.created_at, it.used_at, it is own, it.person)
            for it in self._browsers(request)
        ]
        return _json({"browsers": views})

    async def revoke(self, request: Request, browser: str) -> Response:
        """Sign one browser out."""
        found = next((it for it in self._browsers(request) if it.id == browser), None)
        if found is None:
            raise NoSuchBrowser
        await self.security.logins.browsers.sign_out([found])
        if found is _browser(request):
            return self._with_cookie("", secure=is_https(request))
        return Response(status_code=204, headers=NO_STORE)

    def _browsers(self, request: Request) -> list[Browser]:
        person = person_of(request)
        found = self.security.logins.browsers.listed()
        return [it for it in found if is_owner(person) or it.person == person.name]

    def _with_cookie(self, value: str, *, secure: bool) -> Response:
        cookie = self.security.set_cookie(value, secure=secure)
        return Response(status_code=204, headers={**NO_STORE, "Set-Cookie": cookie})

    async def make_push_key(self, request: Request, body: schemas.NoBody) -> Response:
        """Return the key for calls of this browser."""
        return _json(await push_api.make_key(self.security.logins, request))

    async def subscribe(self, request: Request, body: schemas.NewPush) -> Response:
        """Call this browser from now on."""
        await push_api.subscribe(self.security.logins, self.service.push, request, body)
        return Response(status_code=204, headers=NO_STORE)

    async def unsubscribe(self, request: Request) -> Response:
        """Call this browser no more."""
        await push_api.unsubscribe(self.security.logins, request)
        return Response(status_code=204, headers=NO_STORE)

    async def link(self, request: Request, body: schemas.NewLink) -> Response:
        """Make a one-time link to the address that the request was sent to, for the person or, by an owner, another."""
        person = person_of(request)
        name = body.person if body.person is not None else person.name
        if name != person.name:
            check(person, "operate")
        if self.security.logins.people.find(name) is None:
            raise Invalid("there is no person of this name", help="penstock people lists them")
        by = _browser(request) if name == person.name else None
        code = await self.security.logins.make_code(by, name)
        allowed = sorted({*self.security.hosts} - {*LOOPBACK})
        return _json(schemas.Link(f"{_place(request)}/#code={code}", socket.gethostname(), allowed))

    # --- agents and directories ---

    async def agents(self, request: Request) -> Response:
        """Return all agents."""
        return _json({"agents": await self.service.places.agents()})

    async def workspaces(self, request: Request) -> Response:
        """Return the directories in which agents may work."""
        roots, recent = await self.service.places.workspaces()
        return _json(schemas.WorkspaceList(roots, recent))

    async def trust(self, request: Request, body: schemas.Trust) -> Response:
        """Trust a directory."""
        return _json(await self.service.places.trust(body.path, body.home))

    async def nodes(self, request: Request) -> Response:
        """Return the nodes; none if there is one machine."""
        return _json({"nodes": await self.service.this_node.elsewhere.nodes()})

    async def remove_node(self, request: Request, node: str) -> Response:
        """Remove a node that does not come back."""
        await self.service.this_node.elsewhere.remove(node)
        return Response(status_code=204, headers=NO_STORE)

    # --- chats ---

    async def chats(self, request: Request) -> Response:
        """Return the chats that the person may see: all, or a page of them with the number at which it was made."""
        limit = _number(request, "page", None, 1, schemas.MAX_PAGE_CHATS)
        if limit is None:
            return _json(schemas.ChatPage(self.service.chats(_sees(request))))
        before, number = _cursor_of_list(request), None
        if before is None:
            number = await self.watches.number(*self._list_of(request))  # first: what changes from here on is streamed
        known = request.query_params.get("with", "")
        found, following = self.service.chat_page(_sees(request), before=before, limit=limit, known=known)
        cursor = None if following is None else "{}-{}".format(*following)
        return _json(schemas.ChatPage(found, cursor or UNSET, UNSET if number is None else number))

    async def find(self, request: Request) -> Response:
        """Find turns and titles of chats by their words."""
        query = request.query_params.get("q", "")
        before = _number(request, "cursor", MAX_KEY, 0, MAX_KEY)
        assert before is not None
        return _json(await self.service.find(query, reader_of(person_of(request)), before=before))

    async def costs(self, request: Request) -> Response:
        """Return what turns have cost: those of the person, or all for one who sees all chats."""
        by: CostGroup | None = next(
            (it for it in get_args(CostGroup) if it == request.query_params.get("by", "day")), None
        )
        if by is None:
            raise Invalid("costs cannot be added up by this", expected=", ".join(get_args(CostGroup)))
        days = _number(request, "days", COST_DAYS, 1, MAX_DAYS)
        assert days is not None
        return _json(await self.service.costs(by, days, reader_of(person_of(request)), _sees(request)))

    async def create(self, request: Request, body: schemas.NewChat) -> Response:
        """Create a chat."""
        made = await self.service.create(
            agent=body.agent,
            cwd=body.cwd,
            model=body.model,
            title=body.title,
            allow=body.allow,
            home=body.home,
            id=body.id,
            depth=max(depth_of(body.depth), await depth_of_caller(request)),
            person=person_of(request).name,
            visibility=body.visibility,
            effort=body.effort,
        )
        return _json(made, 201, {"Location": f"/api/chats/{made.id}"})

    async def chat(self, request: Request, chat: str) -> Response:
        """Return one chat."""
        return _json(self.service.chat(chat))

    async def change(self, request: Request, chat: str, body: schemas.Changes) -> Response:
        """Change a chat and return it. Who sees it, and where lists have it, is decided by its person or an owner."""
        if any(getattr(body, name) is not msgspec.UNSET for name in DECIDED):
            self.check(request, "manage", chat)
        return _json(await self.service.change(chat, **body.fields()))

    async def delete(self, request: Request, chat: str) -> Response:
        """Delete a chat."""
        await self.service.delete(chat)
        return Response(status_code=204, headers=NO_STORE)

    # --- shares ---

    async def list_shares(self, request: Request) -> Response:
        """Return the shares of the chats that the person may manage."""
        found = [it for it in await self.service.shares.listed() if self._may_manage(request, it.chat)]
        return _json({"shares": [*map(view_of, found)]})

    def _may_manage(self, request: Request, chat: str) -> bool:
        try:
            self.check(request, "manage", chat)
        except (NoSuchChat, NotAllowed):
            return False
        return True

    async def share(self, request: Request, chat: str, body: schemas.NewShare) -> Response:
        """Make a link that shows a chat."""
        made, code = await self.service.shares.make(
            chat, person=person_of(request).name, until=body.until, details=body.details, days=body.days
        )
        return _json(MadeShare(view_of(made), f"{_place(request)}{SHARED}#{code}"), 201)

    async def revoke_share(self, request: Request, chat: str, share: str) -> Response:
        """Revoke a share."""
        await self.service.shares.revoke(chat, share)
        return Response(status_code=204, headers=NO_STORE)

    async def shared_chat(self, request: Request) -> Response:
        """Return what a share shows of its chat."""
        before = _number(request, "before", None, 1, 2**53)
        after = _number(request, "after", 0, 0, 2**53)
        limit = _number(request, "limit", PAGE_TURNS, 1, MAX_PAGE_TURNS)
        assert after is not None
        assert limit is not None
        share, row = await shares.found(request, self.service, self.security.logins.people)
        return _json(await shares.shown(self.service, share, row, before=before, after=after, limit=limit))

    async def shared_details(self, request: Request) -> Response:
        """Return what the agent did in a turn of a shared chat."""
        turn = _number(request, "turn", 1, 1, 2**53)
        assert turn is not None
        share, _ = await shares.found(request, self.service, self.security.logins.people)
        made = await shares.details(self.service, share, turn)
        return Response(made, headers=NO_STORE, media_type="application/json")

    async def shared_attachment(self, request: Request) -> Response:
        """Return an attachment of a turn of a shared chat."""
        turn = _number(request, "turn", 1, 1, 2**53)
        assert turn is not None
        share, _ = await shares.found(request, self.service, self.security.logins.people)
        id = request.query_params.get("id", "")
        return _file(request, *await shares.attachment(self.service, share, turn, id))

    # --- attachments ---

    async def attach(self, request: Request, chat: str) -> Response:
        """Keep a picture or a file for a message."""
        limit = self.service.limits.max_attachment_bytes
        content = await schemas.read_bytes(request, limit)
        self.security.check_still(request.scope)
        self.check(request, "drive", chat)  # again: a body may take its time
        name = request.query_params.get("name", "")
        made = await self.service.attachments.add(chat, name, content, person=person_of(request).name)
        return _json(made, 201)

    async def attachment(self, request: Request, chat: str, attachment: str) -> Response:
        """Return a picture or a file of a message."""
        return _file(request, *await self.service.attachments.find(chat, attachment))

    async def detach(self, request: Request, chat: str, attachment: str) -> Response:
        """Remove a file whose message was not sent."""
        await self.service.attachments.remove(chat, attachment)
        return Response(status_code=204, headers=NO_STORE)

    # --- turns ---

    async def prompt(self, request: Request, chat: str, body: schemas.Prompt) -> Response:
        """Queue a prompt and return the number of its turn."""
        person = person_of(request)
        turn, is_new = await self.service.prompt(
            chat,
            body.text,
            key=_key(request),
            person=person.name,
            most=person.max_runs,
            attachments=body.attachments,
            now=body.now,
            stops=body.stops,
        )
        return _json(schemas.TurnNumber(turn), 202 if is_new else 200)

    async def branch(self, request: Request, chat: str, turn: int, body: schemas.NewBranch) -> Response:
        """Make a new chat that begins before a message, and send it there if that is wanted."""
        person = person_of(request)
        made = await self.service.branch(
            chat,
            turn,
            agent=body.agent,
            sends=body.send,
            key=_key(request),
            depth=await depth_of_caller(request),
            person=person.name,
            most=person.max_runs,
        )
        return _json(made, 200 if made.repeated else 201, {"Location": f"/api/chats/{made.chat.id}"})

    async def edit(self, request: Request, chat: str, turn: int, body: schemas.EditedMessage) -> Response:
        """Change the text of a message that waits."""
        await self.service.edit(chat, turn, body.text, edits=body.edits, person=person_of(request).name)
        return _json(schemas.TurnNumber(turn), 202)

    async def send_now(self, request: Request, chat: str, turn: int, body: schemas.SendNow) -> Response:
        """Let a message that waits begin before the others."""
        await self.service.send_now(chat, turn, stops=body.stops, person=person_of(request).name)
        return _json(schemas.TurnNumber(turn), 202)

    async def move(self, request: Request, chat: str, body: schemas.Order) -> Response:
        """Put the messages that wait into another order."""
        await self.service.move(chat, body.seen, body.turns, person=person_of(request).name)
        return _json(schemas.TurnNumbers(body.turns), 202)

    async def turns(self, request: Request, chat: str) -> Response:
        """Return a page of turns, in the order of the conversation."""
        before = _number(request, "before", None, 1, 2**53)
        limit = _number(request, "limit", PAGE_TURNS, 1, MAX_PAGE_TURNS)
        assert limit is not None
        found, earlier = await self.service.turns(chat, before=before, limit=limit)
        return _json(schemas.TurnPage(found, earlier))

    async def details(self, request: Request, chat: str, turn: int) -> Response:
        """Return everything that the agent did in a turn, as details for people or as events."""
        form = _format(request)
        view, rows = await self.service.turn(chat, turn)
        if form == "json":
            made = await asyncio.to_thread(lambda: msgspec.json.encode(details_of(view, rows)))
            return Response(made, headers=NO_STORE, media_type="application/json")
        return await _lines([row.what for row in rows if isinstance(row.what, ev.Base)])

    async def activity(self, request: Request, chat: str, turn: int) -> Response:
        """Return what the agent of a turn does now."""
        return _json(await self.service.activity(chat, turn))

    async def trajectory(self, request: Request, chat: str, turn: int) -> Response:
        """Return a turn that has ended as a trajectory for evaluation tools."""
        view, rows = await self.service.turn(chat, turn)
        if not view.finalized:
            raise Conflicting(f"turn {turn} has not ended", help="ask again when it is completed")
        return Response(
            await asyncio.to_thread(turn_trajectory, view, rows), headers=NO_STORE, media_type="application/json"
        )

    async def turn_entries(self, request: Request, chat: str, turn: int) -> ASGIApp:
        """Return the entries of a turn as a stream, which ends with the turn."""
        return await self._entries(request, chat, turn, stops=False)

    async def followed_entries(self, request: Request, chat: str, turn: int, body: schemas.NoBody) -> ASGIApp:
        """Return the entries of a turn as `turn_entries`; the turn is stopped when its last client has left."""
        return await self._entries(request, chat, turn, stops=True)

    async def _entries(self, request: Request, chat: str, turn: int, *, stops: bool) -> ASGIApp:
        from penstock.chat.web.doors.turn_entries import TurnEntries
        from penstock.chat.web.foreign_turns import ForeignTurn

        view, rows = await self.service.turn(chat, turn)
        after = _number(request, "after", 0, 0, 2**53)
        assert after is not None
        mapper = TurnEntries(turn, after)
        if request.method == "HEAD":
            return _Heads()
        if view.finalized:
            whole = await asyncio.to_thread(lambda: mapper.take(rows) + mapper.close(""))
            return Response(whole, headers=NO_STORE, media_type="text/event-stream")
        return self.foreign_turns.respond(request, ForeignTurn(chat, turn), mapper, stops=stops)

    async def file(self, request: Request, chat: str) -> Response:
        """Return lines of a text file in the directory of a chat."""
        line = _number(request, "line", 0, 0, 2**53)
        assert line is not None
        return _json(await self.service.file(chat, request.query_params.get("path", ""), line))

    async def file_names(self, request: Request, chat: str) -> Response:
        """Return files in the directory of a chat, by a part of their paths."""
        return _json(await self.service.file_names(chat, request.query_params.get("q", "")))

    async def picture(self, request: Request, chat: str) -> Response:
        """Return a picture in the directory of a chat. Opened by itself, it is an image and nothing else."""
        data, media = await self.service.picture(chat, request.query_params.get("path", ""))
        return Response(data, headers={**NO_STORE, "Content-Disposition": "inline"}, media_type=media)

    async def export(self, request: Request, chat: str) -> Response:
        """Return a chat as a file for people, as it is read from the store, turn by turn."""
        form = EXPORTS.get(request.query_params.get("form", "markdown"))
        if form is None:
            raise Invalid("a file has no such form", expected="form=markdown or form=html")
        media, suffix, writer = form
        row = self.service.row(chat)
        with_details = _number(request, "details", 0, 0, 1) == 1

        async def written() -> AsyncIterator[str]:
            yield writer.head(row.title, row.agent, row.cwd)
            async for turn in self.service.exported(chat, with_details=with_details):
                yield await asyncio.to_thread(writer.turn, turn, row.agent)
            yield writer.end()

        name = quote(file_name(row.title, suffix))
        headers = {**NO_STORE, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type=media)
        return StreamingResponse(written(), headers=headers, media_type=media)

    async def terminal(self, request: Request, chat: str) -> Response:
        """Return how the conversation of a chat goes on in a terminal."""
        return _json(self.service.terminal(chat))

    async def stop(self, request: Request, chat: str, body: schemas.Stop) -> Response:
        """Stop a turn, or all, and return the numbers of the stopped turns."""
        found = await self.service.stop(chat, body.turn, queued=body.queued, person=person_of(request).name)
        return _json(schemas.TurnNumbers(found), 202)

    async def release(self, request: Request, chat: str, body: schemas.NoBody) -> Response:
        """Release the turns that a stop holds back, and return their numbers."""
        return _json(schemas.TurnNumbers(await self.service.release(chat, person=person_of(request).name)), 202)

    async def answer(self, request: Request, chat: str, body: schemas.AnswerBody) -> Response:
        """Answer a question and return the number of the turn that continues."""
        turn = await self.service.answer(chat, body.id, body.answer, person=person_of(request).name, always=body.always)
        return _json(schemas.TurnNumber(turn), 202)

    async def remove_rule(self, request: Request, chat: str, rule: str) -> Response:
        """Remove a rule of a chat and return the chat."""
        return _json(await self.service.remove_rule(chat, rule))

    async def events(self, request: Request, chat: str) -> ASGIApp:
        """Return the event stream of a chat."""
        self.service.chat(chat)
        return self._stream(request, chat, None, partial(self._sees_chat, chat))

    def _sees_chat(self, chat: str, person: Person) -> bool:
        """Return whether a person may still see a chat. The end of one that is deleted is for all who watch it."""
        try:
            return may_read(person, self.service.row(chat))
        except NoSuchChat:
            return True

    async def all_events(self, request: Request) -> ASGIApp:
        """Return one stream of several chats, documents and loops, and of what changes in the list."""
        if request.method == "HEAD":
            return _Heads()
        given = request.query_params.get("chats", "")
        asked = [FOLLOWED.fullmatch(one) for one in given.split(",")]
        if not given or len(asked) > MAX_FOLLOWED or None in asked:
            raise Invalid(
                "chats cannot be this", expected=f"list, ID or ID:NUMBER, at most {MAX_FOLLOWED}, with commas"
            )
        followed = [await self._followed(request, it["name"], it["after"]) for it in asked if it is not None]
        return EventStream(
            self.watches,
            followed,
            is_named=True,
            deltas=request.query_params.get("delta") == "1",
            ping=self._ping,
            patience=self._patience,
            watched=partial(self.security.watched, request),
            seen=partial(self.security.seen, request),
        )

    async def _followed(self, request: Request, name: str, number: str | None) -> FollowedLog:
        """Return what a stream follows by this name; it is missing if the person may not see it."""
        after = None if number is None else int(number)
        if name == LIST:
            watched, log = self._list_of(request)
            return FollowedLog(watched, after, log, name)
        kind, _, id = name.rpartition("/")
        try:
            if kind:
                self.check(request, "read", None, await self.ownership(id))
                sees_run = _sees_run(await self.runs.folder(id))
                return FollowedLog(f"run {id}", after, partial(self.runs.log, id), name, sees_run)
            await self.service.node.find(id)
            self.check(request, "read", id)
        except (NoSuchChat, NoSuchRun, NotAllowed):
            return FollowedLog(name, after, name=name, is_missing=True)
        return FollowedLog(id, after, name=name, sees=partial(self._sees_chat, id))

    def _list_of(self, request: Request) -> tuple[str, Callable[[], ListLog]]:
        """Return the name of the list that a person sees, and a function that makes its log."""
        person = person_of(request).name
        sees = partial(self._sees_in_list, person)
        return f"list of {person}", lambda: ListLog(self.service, sees)

    def _sees_in_list(self, name: str, chat: ChatRow) -> bool:
        person = self.security.logins.people.find(name)
        return person is not None and may_read(person, chat)

    # --- documents and loops ---

    async def list_runs(self, request: Request) -> Response:
        """Return the documents and loops that the person may see."""
        return _json({"runs": await self.runs.listed(partial(may_read, person_of(request)))})

    async def run(self, request: Request, run: str) -> Response:
        """Return one document or loop."""
        return _json(await self.runs.details(run))

    async def change_run(self, request: Request, run: str, body: schemas.RunChanges) -> Response:
        """Change who sees a document or loop; an owner also decides to whom it belongs."""
        if body.person is not None:
            check(person_of(request), "operate")
            if self.security.logins.people.find(body.person) is None:
                raise Invalid(f"there is no person named {shown(body.person)}", expected="a person of: penstock people")
        return _json(await self.runs.change(run, person=body.person, visibility=body.visibility))

    async def run_events(self, request: Request, run: str) -> ASGIApp:
        """Return the event stream of a document or loop."""
        sees = _sees_run(await self.runs.folder(run))
        return self._stream(request, f"run {run}", partial(self.runs.log, run), sees)

    async def run_details(self, request: Request, run: str, turn: int) -> Response:
        """Return everything that the agent did in a turn of a document or loop."""
        if _format(request) == "json":
            return _json(await self.runs.turn_details(run, turn))
        return await _lines(await self.runs.turn(run, turn))

    async def run_output(self, request: Request, run: str, step: int) -> Response:
        """Return the output of a command of a loop."""
        return _json(await self.runs.output(run, step))

    async def run_changes(self, request: Request, run: str, round: int) -> Response:
        """Return the changes of a round of a loop."""
        return _json(await self.runs.changes(run, round))

    async def run_candidate_changes(self, request: Request, run: str, round: int, candidate: int) -> Response:
        """Return the changes of a candidate in a round of a loop."""
        return _json(await self.runs.changes(run, round, candidate))

    async def stop_run(self, request: Request, run: str, body: schemas.StopRun) -> Response:
        """Ask a loop to end."""
        return _json(await self.runs.stop(run, now=body.now), 202)

    async def land_run(self, request: Request, run: str, body: schemas.LandRun) -> Response:
        """Merge the result of a loop into the branch that is checked out; its directory has to be trusted."""
        self.service.places.check_trusted((await self.runs.details(run)).run.path)
        return _json(await self.runs.land(run, squash=body.squash))

    async def message_run(self, request: Request, run: str, body: schemas.LoopMessage) -> Response:
        """Write to the agents of a loop."""
        return _json(await self.runs.message(run, body.text), 202)

    # --- programs of other protocols: their modules are imported by their first request ---

    async def models(self, request: Request) -> Response:
        """Return the agents as models of OpenAI's interface."""
        from penstock.chat.web import openai_api

        return _json(openai_api.models(await self.service.places.agents()))

    async def complete_chat(self, request: Request, body: schemas.CompletionRequest) -> ASGIApp:
        """Return a turn as a chat completion of OpenAI's interface."""
        from penstock.chat.web import openai_api

        return await openai_api.complete(self.foreign_turns, request, body)

    async def ui_chat(self, request: Request, body: schemas.UiRequest) -> ASGIApp:
        """Return a turn of the default agent as a stream of the AI SDK."""
        return await self.ui_chat_with(request, None, body)

    async def ui_chat_with(self, request: Request, agent: str | None, body: schemas.UiRequest) -> ASGIApp:
        """Return a turn of an agent as a stream of the AI SDK."""
        from penstock.chat.web import ai_sdk_api

        return await ai_sdk_api.chat(self.foreign_turns, request, agent, body)

    async def ui_stream(self, request: Request, foreign: str) -> ASGIApp:
        """Return the turn that runs in a chat of the AI SDK, from its beginning."""
        from penstock.chat.web import ai_sdk_api

        return await ai_sdk_api.stream(self.foreign_turns, request, foreign)

    async def ui_stop(self, request: Request, foreign: str) -> Response:
        """Stop the turns of a chat of the AI SDK, and return their numbers."""
        from penstock.chat.web import ai_sdk_api

        return _json(schemas.TurnNumbers(await ai_sdk_api.stop(self.foreign_turns, request, foreign)), 202)

    async def agui_run(self, request: Request, body: schemas.AgUiRequest) -> ASGIApp:
        """Return a turn of the default agent as a run of AG-UI."""
        return await self.agui_run_with(request, None, body)

    async def agui_run_with(self, request: Request, agent: str | None, body: schemas.AgUiRequest) -> ASGIApp:
        """Return a turn of an agent as a run of AG-UI."""
        from penstock.chat.web import agui_api

        return await agui_api.run(self.foreign_turns, request, agent, body)

    @cached_property
    def foreign_turns(self) -> ForeignTurns:
        """Turns that programs of other protocols ask for."""
        from penstock.chat.web.foreign_turns import ForeignTurns

        return ForeignTurns(
            self.service,
            self.watches,
            self.security,
            sees=self._sees_chat,
            ping=self._ping,
            patience=self._patience,
        )

    def _stream(
        self,
        request: Request,
        name: str,
        log: Callable[[], WatchedLog] | None,
        sees: Callable[[Person], bool],
    ) -> ASGIApp:
        if request.method == "HEAD":
            return _Heads()
        last = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        after = int(last) if NUMBER.fullmatch(last) else None  # a number that was never assigned leads to a snapshot
        return EventStream(
            self.watches,
            [FollowedLog(name, after, log)],
            deltas=request.query_params.get("delta") == "1",
            ping=self._ping,
            patience=self._patience,
            watched=partial(self.security.watched, request, sees=sees),
        )


def _place(request: Request) -> str:
    """Return the beginning of the address that a request was sent to."""
    return f"{'https' if is_https(request) else 'http'}://{request.headers['host']}"


def _sees_run(folder: Path) -> Callable[[Person], bool]:
    """Return a function that returns whether a person may see the document or loop of a folder."""
    return lambda person: may_read(person, ownership_in(folder))


def _sees(request: Request) -> Sees:
    """Return a function that returns whether the person who sent a request may see a chat."""
    return partial(may_read, person_of(request))


def _key(request: Request) -> str | None:
    """Return the key by which a repeated request is recognized.

    Raises:
        Invalid: it is not one.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not KEY.fullmatch(key):
        raise Invalid("the Idempotency-Key cannot be this", expected="1 to 200 visible characters of ASCII")
    return key


def _format(request: Request) -> str:
    form = request.query_params.get("format", "json")
    if form not in ("json", "ndjson"):
        raise Invalid("the details have no such format", expected="format=json or format=ndjson")
    return form


async def _lines(events: Sequence[ev.Event]) -> Response:
    lines = await asyncio.to_thread(lambda: ev.encode(events))
    return Response(lines, headers={**NO_STORE, "Content-Type": NDJSON})


def _browser(request: Request) -> Browser | None:
    """Return the browser that sent the request; None if it was a program."""
    found: Browser | None = request.scope.get(BROWSER)
    return found


def _file(request: Request, file: AttachedFile, content: bytes) -> Response:
    """Return an attachment as a file to download: pages show it as a picture if it is one, and never as a document.

    The policy is for a browser that shows it nevertheless: nothing in it runs, and it has no origin.
    """
    tag = f'"{file.id}"'
    headers = {
        "Cache-Control": "private, no-cache",
        "ETag": tag,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=file.media_type)


class _Heads(Response):
    """Response to HEAD: the headers of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.raw_headers = [*HEADERS]


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, {**NO_STORE, **(headers or {})}, media_type="application/json")


def _cursor_of_list(request: Request) -> tuple[int, str] | None:
    given = request.query_params.get("cursor")
    if given is None:
        return None
    found = LIST_CURSOR.fullmatch(given)
    if found is None:
        raise Invalid("cursor cannot be this", expected="the cursor of a page of chats")
    return int(found[1]), found[2]


def _number(request: Request, name: str, default: int | None, least: int, most: int) -> int | None:
    given = request.query_params.get(name)
    if given is None:
        return default
    if not NUMBER.fullmatch(given) or not least <= int(given) <= most:
        raise Invalid(f"{name} cannot be this", expected=f"a whole number from {least} to {most}")
    return int(given)
