"""Turns that programs of other protocols submit: in a chat of their own, once, and followed to their end.

Such a program has its own ids of chats, repeats a request after a failure, and may disconnect before the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.adapter import Allow
from penstock.chat.errors import ChatError, Invalid, NoSuchChat
from penstock.chat.history.entries import FIRST_TURN, Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.people.persons import Person
from penstock.chat.service.first_turn import FirstMessage
from penstock.chat.service.log.chat_log import STORE_ERRORS
from penstock.chat.service.service import Service
from penstock.chat.service.validation import made_title
from penstock.chat.store import permits
from penstock.chat.store.protocol import UnknownChat
from penstock.chat.store.rows import ChatRow
from penstock.chat.web.broadcast import ChatClient, Watch, Watches
from penstock.chat.web.callers import depth_of_caller
from penstock.chat.web.doors.files import GivenFile
from penstock.chat.web.errors import NO_STORE, Forbidden
from penstock.chat.web.security import Security, person_of
from penstock.chat.web.sse import HEADERS, hang_up
from penstock.core.bounded import BoundedDict
from penstock.run import inside

AGAIN_MS = 10 * 60 * 1000
"""Milliseconds during which a repeated request is the same turn."""

MAX_ANSWERS = 1000
"""Number of chats for which the last answer of a program is remembered."""

LEFT_SECONDS = 2.0
"""Seconds after which the turn of a disconnected program is stopped; a program that retries reconnects sooner."""

USAGE_SECONDS = 1.0
"""Seconds to wait for the usage of a turn whose reply is complete."""

PING = b": ping\n\n"
"""Comment that keeps the connection alive; the programs skip it."""


class Mapper(Protocol):
    """Format of another program: it turns the entries of one turn into a response."""

    is_over: bool

    @property
    def is_completed(self) -> bool:
        """Return whether the turn has ended; its usage may follow."""
        ...

    def start(self) -> bytes:
        """Return the beginning of the stream."""
        ...

    def take(self, rows: Sequence[Numbered], /) -> bytes:
        """Return what the next entries add."""
        ...

    def close(self, reason: str, /) -> bytes:
        """Return the end of the stream if no further entry can come, for this reason."""
        ...


Whole = Callable[[], tuple[int, dict[str, str], bytes]]
"""Function that returns the status, headers and body of a response that is not a stream, at the end of the turn."""


class ForeignTurn(NamedTuple):
    """Turn of a chat that a program submitted."""

    chat: str
    turn: int
    since: int = 0
    """Number of the last entry that the program has seen, if the turn goes on with its answer to a question."""


class Caller(NamedTuple):
    """Who sends the request of a program."""

    person: str
    depth: int
    """Number of agents above; 0 for a program that no agent has started."""


class Key(NamedTuple):
    """Name of a request, by which a repeat is recognized: `stem`, or a name that begins with it."""

    stem: str
    is_again: bool
    """True if the request may be a repeat."""
    name: str = ""
    """Beginning of `stem` for all requests with a key that the client chose; "" if it chose none."""

    def new(self) -> str:
        """Return the key of the turn that it submits."""
        return f"{self.stem}-{uuid.uuid4().hex[:8]}"

    def is_of(self, view: TurnView, now: int) -> bool:
        """Return whether this request submitted a turn recently.

        Raises:
            Invalid: another request with the client's key did.
        """
        return self.is_again and now - view.asked_at <= AGAIN_MS and self.names(view.key or "")

    def names(self, known: str) -> bool:
        """Return whether a key, or its stem, is of this request.

        Raises:
            Invalid: it is of another request with the client's key.
        """
        if known == self.stem or known.startswith(f"{self.stem}-"):
            return True
        if self.name and known.startswith(self.name):
            raise Invalid("this Idempotency-Key was sent with another message", expected="a key of its own for each")
        return False


class GivenAnswer(NamedTuple):
    """Last answer of a program to a question in a chat; kept because no entry has the key of its request."""

    stem: str
    at: int
    asked: ForeignTurn


def wants_all(request: Request) -> bool:
    """Return whether a program wants all of a turn (`detail=full`), and not the final text alone.

    Raises:
        Invalid: there is no such detail.
    """
    detail = request.query_params.get("detail") or request.headers.get("x-penstock-detail") or "final"
    if detail not in ("final", "full"):
        raise Invalid("there is no such detail", expected="detail=final or detail=full")
    return detail == "full"


class ForeignTurns:
    """Turns that programs of other protocols submit."""

    def __init__(
        self,
        service: Service,
        watches: Watches,
        security: Security,
        *,
        sees: Callable[[str, Person], bool],
        ping: float,
        patience: float,
    ) -> None:
        """`sees` returns whether a person may see the chat of an id. `ping` and `patience` are as in `TurnResponse`."""
        self.service: Service = service
        self._sees = sees
        self.asking: asyncio.Lock = asyncio.Lock()
        """Lock that a request holds from the search for its chat until its prompt is kept: the next one finds both."""
        self._watches = watches
        self._security = security
        self._ping = ping
        self._patience = patience
        self._answers: BoundedDict[str, GivenAnswer] = BoundedDict(MAX_ANSWERS)
        self._leaving: set[asyncio.Task[None]] = set()

    async def caller(self, request: Request) -> Caller:
        """Return the person whose program asks, and its depth: 0, or the depth of the agent that started the program.

        Raises:
            Forbidden: an agent at this depth may not ask for another one.
        """
        found = await depth_of_caller(request)
        if found >= inside.MAX_DEPTH:
            raise Forbidden(
                f"an agent asks for another one, {found} below the first",
                expected=f"agents that ask for others, {inside.MAX_DEPTH} deep at most",
                help="give the agent another address for its model than this server",
            )
        return Caller(person_of(request).name, found)

    def chats(self, caller: Caller, foreign_id: str) -> list[tuple[ChatRow, TurnView | None]]:
        """Return the chats of a caller, as `ListedChats.foreign`."""
        return self.service.chat_list.foreign(foreign_id, depth=caller.depth, person=caller.person)

    async def begin(
        self,
        prompt: str,
        key: Key,
        *,
        agent: str | None,
        model: str | None,
        cwd: str | None,
        title: str | None,
        foreign_id: str,
        caller: Caller,
        files: Sequence[GivenFile] = (),
    ) -> ForeignTurn:
        """Create a chat at the level of programs with its first turn, and files: all of it in one step, or nothing.

        Raises:
            Forbidden: the agent can neither be made to ask nor to read only.
            ChatError: as `Service.create`.
        """
        name = agent if agent is not None else await asyncio.to_thread(self.service.agents.default)
        made = await self.service.create(
            agent=name,
            model=model,
            cwd=cwd,
            title=title,
            allow=self._level(name),
            foreign_id=foreign_id,
            depth=caller.depth,
            person=caller.person,
            first=FirstMessage(prompt, key.new(), files, self._security.logins.limit_of(caller.person)),
        )
        return ForeignTurn(made.id, FIRST_TURN)

    def _level(self, agent: str) -> Allow:
        self.service.agents.require(agent)
        level = self.service.agents.careful_level(agent)
        if level is None:
            raise Forbidden(
                f"{agent} acts without asking, which a program may not start",
                expected="an agent that asks, or that can be made to read only",
                help="begin the chat on the page",
            )
        return level

    async def ask(
        self, chat: ChatRow, text: str, key: Key, files: Sequence[GivenFile] = (), *, model: str | None = None
    ) -> ForeignTurn:
        """Submit a turn with files, or answer the question of the running one. `model`: the chat's from then on.

        What is rejected changes nothing: the chat keeps its model, and gets no file.

        Raises:
            Invalid: the answer has files.
            Forbidden: a person has given the agent a higher permission than programs may use.
            ChatError: as `Service.prompt` and `Service.answer`.
        """
        self._check(chat)
        timeline = await self.service.log(chat.id).open()
        running = timeline.running
        if running is not None and running.question is not None and running.state != "completed":
            if files:
                raise Invalid("the agent waits for an answer, which has no files", expected="an answer in words")
            asked = await self.answer(chat, running.question.id, text, key)
            if model is not None and model != chat.model:
                await self.service.change(chat.id, model=model)
            return asked
        attachments = self.service.attachments
        ids: list[str] = []
        try:
            for file in files:
                ids.append((await attachments.add(chat.id, file.name, file.content, person=chat.person)).id)
            turn, _ = await self.service.prompt(
                chat.id,
                text,
                key=key.new(),
                person=chat.person,
                most=self._security.logins.limit_of(chat.person),
                attachments=ids,
                model=model,
            )
        except ChatError:  # a client that repeats its request would add its files each time
            for id in ids:
                with contextlib.suppress(ChatError, *STORE_ERRORS):
                    await attachments.remove(chat.id, id)
            raise
        return ForeignTurn(chat.id, turn)

    async def answer(self, chat: ChatRow, question: str, text: str, key: Key) -> ForeignTurn:
        """Answer a question of the agent.

        Raises:
            Forbidden, ChatError: as `ask`.
        """
        self._check(chat)
        turn = await self.service.answer(chat.id, question, text, person=chat.person)
        asked = ForeignTurn(chat.id, turn, (await self.service.log(chat.id).open()).number)
        self._answers[chat.id] = GivenAnswer(key.stem, self.service.now(), asked)
        return asked

    async def stop(self, chat: ChatRow, turn: int) -> None:
        """Stop a turn.

        Raises:
            Forbidden, ChatError: as `ask`.
        """
        self._check(chat)
        await self.service.stop(chat.id, turn, person=chat.person)

    def _check(self, chat: ChatRow) -> None:
        if chat.allow != self._level(chat.agent):
            raise Forbidden(
                "a person has changed the permission of this chat",
                expected="a chat with the lowest permission, for a program",
                help="begin another chat, or change it back on the page",
            )

    def chat_of(self, foreign_id: str, agent: str | None, caller: Caller) -> ChatRow | None:
        """Return the chat that a program knows by this id, with this agent if one is named; None if there is none."""
        found = (row for row, _ in self.chats(caller, foreign_id) if row.foreign_id == foreign_id)
        return next((row for row in found if agent in (None, row.agent)), None)

    async def ask_by_id(
        self,
        request: Request,
        row: ChatRow | None,
        text: str,
        key: Key,
        *,
        foreign_id: str,
        agent: str | None,
        model: str | None,
        caller: Caller,
        files: Sequence[GivenFile],
    ) -> ForeignTurn:
        """Return the turn of a message in a chat, or in a new one if `row` is None; the same message is the same turn.

        Raises:
            Invalid, ChatError: the request cannot be done.
        """
        if row is None:
            return await self.begin(
                text,
                key,
                agent=agent,
                model=model,
                cwd=request.headers.get("x-penstock-cwd"),
                title=made_title(text) if text.strip() else None,
                foreign_id=foreign_id,
                caller=caller,
                files=files,
            )
        return await self.again(row, key) or await self.ask(row, text, key, files, model=model)

    async def again(self, chat: ChatRow, key: Key) -> ForeignTurn | None:
        """Return the turn of a chat that this request submitted before."""
        if key.is_again:
            now = self.service.now()
            answer = self._answers.get(chat.id)
            if answer is not None and now - answer.at <= AGAIN_MS and key.names(answer.stem):
                return answer.asked
            views, _ = await self.service.turns(chat.id)
            for view in reversed(views):
                if key.is_of(view, now):
                    return ForeignTurn(chat.id, view.turn)
        return None

    def respond(
        self,
        request: Request,
        asked: ForeignTurn,
        mapper: Mapper,
        *,
        whole: Whole | None = None,
        stops: bool = True,
        left: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> TurnResponse:
        """Return the response that follows a turn, with these headers; `whole` makes one that is not a stream.

        `stops`: the turn is stopped if the program disconnects, `left` or `LEFT_SECONDS` seconds later.
        """
        leave = partial(self._leave, asked, LEFT_SECONDS if left is None else left) if stops else None
        watched = partial(self._security.watched, request, sees=partial(self._sees, asked.chat))
        return TurnResponse(
            self.service,
            self._watches,
            asked,
            mapper,
            whole=whole,
            headers=headers or {},
            leave=leave,
            watched=watched,
            ping=self._ping,
            patience=self._patience,
        )

    def _leave(self, asked: ForeignTurn, left: float) -> None:
        stopping = self._stop_later(asked, left)
        task = asyncio.create_task(stopping, name="penstock leaving", context=permits.outside())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _stop_later(self, asked: ForeignTurn, left: float) -> None:
        await asyncio.sleep(left)
        if not self._watches.clients(asked.chat):
            with contextlib.suppress(ChatError, *STORE_ERRORS):  # it has ended, or its chat is gone
                await self.service.stop(asked.chat, asked.turn)


class TurnResponse:
    """ASGI response: what a mapper makes of the entries of a turn. The end is written before the stream closes."""

    def __init__(
        self,
        service: Service,
        watches: Watches,
        asked: ForeignTurn,
        mapper: Mapper,
        *,
        whole: Whole | None,
        headers: Mapping[str, str],
        leave: Callable[[], None] | None,
        watched: Callable[[Callable[[], None], Callable[[], None]], AbstractContextManager[None]],
        ping: float,
        patience: float,
    ) -> None:
        """`ping` and `patience` are in seconds: of silence before a ping, and for a client that reads nothing."""
        self._service = service
        self._watches = watches
        self._asked = asked
        self._mapper = mapper
        self._whole = whole
        self._headers = headers
        self._leave = leave
        self._watched = watched
        self._ping = ping
        self._patience = patience
        self._is_disconnected = False
        self._why = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow the turn, and send what the mapper makes of it.

        Raises:
            ShuttingDown, RateLimited: as `Watches.enter`; nothing is sent.
        """
        chat = self._asked.chat
        with self._watches.enter(chat) as (watch, client), self._watched(client.expel, client.dismiss):
            listening = asyncio.create_task(self._listen(receive, client))
            try:
                await self._follow(scope, receive, send, watch, client)
            except TimeoutError:
                self._is_disconnected = True
                await hang_up(scope, listening)
            finally:
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening
        if self._is_disconnected and not self._mapper.is_over and self._leave is not None:
            self._leave()

    async def _follow(self, scope: Scope, receive: Receive, send: Send, watch: Watch, client: ChatClient) -> None:
        mapper = self._mapper
        if self._whole is None:
            headers = [*HEADERS, *((name.encode(), value.encode()) for name, value in self._names().items())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send(send, client, mapper.start())
        async for rows in self._rows(watch, client):
            data = mapper.take(rows) if rows else PING
            if self._whole is None and data and not self._is_disconnected:
                await self._send(send, client, data)
            if mapper.is_over or self._is_disconnected:
                break
        if self._is_disconnected:
            return
        data = mapper.close(self._why)
        if self._whole is None:
            await self._send(send, client, data, more=False)
            return
        status, more, body = self._whole()
        found = Response(body, status, {**NO_STORE, **self._names(), **more}, media_type="application/json")
        await found(scope, receive, send)

    def _names(self) -> dict[str, str]:
        return {**self._headers, "x-penstock-chat": self._asked.chat, "x-penstock-turn": str(self._asked.turn)}

    async def _rows(self, watch: Watch, client: ChatClient) -> AsyncIterator[Sequence[Numbered]]:
        """Yield the entries of the chat from the turn's first one on, and () after each period of silence."""
        cursor = -1
        try:
            log = self._service.log(self._asked.chat)
            while not self._is_disconnected:
                client.wake.clear()
                is_ending = self._watches.ending or client.dismissed or client.gone or watch.failed
                if watch.over:
                    self._why = "the chat was deleted"
                    return
                if watch.ready and not client.dismissed:
                    if cursor < 0:
                        cursor = (await self._first_entry()) - 1
                        continue  # meanwhile it may have become unready
                    if cursor < watch.number:
                        rows = await log.entries(cursor, watch.number)
                        cursor = rows[-1].number
                        yield rows
                        continue
                if is_ending:
                    self._why = _ending(watch, client)
                    return
                if not await self._wait(client):
                    if self._mapper.is_completed:
                        return
                    yield ()
        except (NoSuchChat, UnknownChat):
            self._why = "the chat was deleted"
        except (ChatError, *STORE_ERRORS):
            self._why = "the chat cannot be read"

    async def _first_entry(self) -> int:
        view, _ = await self._service.turn(self._asked.chat, self._asked.turn)
        return view.first

    async def _wait(self, client: ChatClient) -> bool:
        try:
            async with asyncio.timeout(USAGE_SECONDS if self._mapper.is_completed else self._ping):
                await client.wake.wait()
        except TimeoutError:
            return False
        return True

    async def _send(self, send: Send, client: ChatClient, data: bytes, *, more: bool = True) -> None:
        """Send `data`.

        Raises:
            TimeoutError: the client did not read it in time.
        """
        try:
            async with asyncio.timeout_at(self._watches.until(self._patience)) as client.sending:
                await send({"type": "http.response.body", "body": data, "more_body": more})
        finally:
            client.sending = None

    async def _listen(self, receive: Receive, client: ChatClient) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_disconnected = True
        client.leave()


def _ending(watch: Watch, client: ChatClient) -> str:
    """Return the reason why a stream ends before its turn."""
    if watch.failed:
        return "the chat cannot be read"
    if client.gone:
        return "the login is no longer valid"
    return "the server is shutting down"
